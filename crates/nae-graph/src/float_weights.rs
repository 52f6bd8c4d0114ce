//! `f32` weights in the order in which the kernels read them: blocks of 8 outputs.

use nae_core::format::BLOCK;
use nae_core::layer::Padding;

use crate::layers::{Conv2d, ConvTranspose2d, Dense};

/// Packs `[outputs][taps]` in blocks: `[taps][8]` for each 8 outputs, then `[taps]` for each remaining output.
/// `at(output, tap)` is the weight.
fn pack(outputs: usize, taps: usize, at: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let mut packed = Vec::with_capacity(outputs * taps);
    let mut first = 0;
    while first < outputs {
        let width = if outputs - first >= BLOCK { BLOCK } else { 1 };
        for tap in 0..taps {
            for output in first..first + width {
                packed.push(at(output, tap));
            }
        }
        first += width;
    }
    packed
}

pub(crate) fn conv(layer: &Conv2d) -> Vec<f32> {
    let taps = layer.kernel[0] * layer.kernel[1] * layer.in_channels;
    pack(layer.out_channels, taps, |o, t| layer.weights[o * taps + t])
}

pub(crate) fn conv_transpose(layer: &ConvTranspose2d) -> Vec<f32> {
    let taps = layer.kernel[0] * layer.kernel[1] * layer.in_channels;
    pack(layer.out_channels, taps, |o, t| layer.weights[o * taps + t])
}

pub(crate) fn dense(layer: &Dense) -> Vec<f32> {
    let taps = layer.inputs;
    pack(layer.output.len(), taps, |o, t| layer.weights[o * taps + t])
}

/// Converts a transposed convolution with stride 1 to a convolution with the kernel turned by 180° and the
/// complementary padding; `None` for other strides.
pub(crate) fn as_conv<W: Copy, B: Clone>(layer: &ConvTranspose2d<W, B>) -> Option<Conv2d<W, B>> {
    if layer.stride != [1, 1] {
        return None;
    }
    let [height, width] = layer.kernel;
    let channels = layer.in_channels;
    let row = width * channels;
    let kernel = height * row;
    let mut weights = Vec::with_capacity(layer.weights.len());
    for output in layer.weights.chunks_exact(kernel) {
        for taps in output.chunks_exact(channels).rev() {
            weights.extend_from_slice(taps);
        }
    }
    Some(Conv2d {
        in_channels: channels,
        out_channels: layer.out_channels,
        kernel: layer.kernel,
        stride: [1, 1],
        padding: Padding {
            top: height - 1 - layer.padding.top,
            left: width - 1 - layer.padding.left,
            bottom: height - 1 - layer.padding.bottom,
            right: width - 1 - layer.padding.right,
        },
        weights,
        bias: layer.bias.clone(),
        activation: layer.activation,
    })
}
