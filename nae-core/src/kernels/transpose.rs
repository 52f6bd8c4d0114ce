//! Transposed convolution, gathered: each output collects the inputs that reach it, so nothing is zeroed or read back.
//! With stride 1 the writer converts it to a convolution instead.

use super::conv::accumulate;
use super::{BLOCK, Parameters, Windows, part, part_mut};

/// Transposed convolution. Only `padding.top` and `padding.left` matter here; the rest is in the
/// output's shape.
pub(crate) fn conv_transpose2d(windows: &Windows, parameters: Parameters<'_>, input: &[f32], output: &mut [f32]) {
    let taps = windows.kernel[0] * windows.kernel[1] * windows.input.channels;
    let (blocks, rest) = parameters.bias.as_chunks::<BLOCK>();
    let (block_weights, rest_weights) =
        parameters.weights.split_at_checked(blocks.len() * BLOCK * taps).unwrap_or_default();
    let weights = block_weights.chunks_exact((BLOCK * taps).max(1));
    for (index, (bias, weights)) in blocks.iter().zip(weights).enumerate() {
        block(windows, bias, weights, index * BLOCK, input, output);
    }
    let done = blocks.len() * BLOCK;
    for (index, (bias, weights)) in rest.iter().zip(rest_weights.chunks_exact(taps.max(1))).enumerate() {
        block(windows, &[*bias], weights, done + index, input, output);
    }
}

/// `B` output channels from `channel` on.
fn block<const B: usize>(
    windows: &Windows,
    bias: &[f32; B],
    weights: &[f32],
    channel: usize,
    input: &[f32],
    output: &mut [f32],
) {
    let Windows { input: shape, output: out, kernel, stride, padding } = *windows;
    let run = shape.channels;
    for y in 0..out.height {
        for x in 0..out.width {
            let mut sums = *bias;
            let across = taps(x + padding.left, kernel[1], stride[1], shape.width);
            // If no column meets the input, no row is visited, so that the time goes with the number of products.
            let rows = if across.clone().next().is_none() { 0 } else { usize::MAX };
            for (ky, iy) in taps(y + padding.top, kernel[0], stride[0], shape.height).take(rows) {
                for (kx, ix) in across.clone() {
                    let values = part(input, (iy * shape.width + ix) * run, run);
                    let tap = (ky * kernel[1] + kx) * run * B;
                    let (weights, _) = part(weights, tap, run * B).as_chunks();
                    accumulate(&mut sums, values, weights);
                }
            }
            let start = (y * out.width + x) * out.channels + channel;
            for (value, sum) in part_mut(output, start, B).iter_mut().zip(&sums) {
                *value = *sum;
            }
        }
    }
}

/// Kernel and input indices along one axis whose product lands on `at`: kernel + input·stride = at.
fn taps(at: usize, kernel: usize, stride: usize, size: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    // No stride is zero, but the compiler cannot derive this.
    let stride = stride.max(1);
    // The kernel index that meets the last input, or the residue, if that input lies behind `at`.
    let first = at.saturating_sub(size.saturating_sub(1) * stride).max(at % stride);
    (first..kernel.min(at + 1)).step_by(stride).map(move |k| (k, (at - k) / stride))
}
