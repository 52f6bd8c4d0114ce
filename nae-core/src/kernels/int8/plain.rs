//! Convolution and dense layers over [`Layout::Plain`](super::Layout): the reference that defines the results. Small
//! and slow.

use super::super::{part, part_mut};
use super::Layer;
use super::geometry::Convolution;
use super::quantize::{Multiplier, Rounding};

/// Runs one convolution.
pub(super) fn convolve(convolution: &Convolution, layer: &Layer<'_, i8>, input: &[i8], output: &mut [i8]) {
    let taps = convolution.taps();
    for y in 0..convolution.places[0] {
        for x in 0..convolution.places[1] {
            let target = part_mut(output, convolution.place(y, x), layer.channels.len());
            for (index, (value, channel)) in target.iter_mut().zip(layer.channels).enumerate() {
                let weights = part(layer.weights, index * taps, taps);
                let sum = channel[0].wrapping_add(sum(convolution, [y, x], layer.input_zero_point, weights, input));
                let [_, factor, shift] = *channel;
                // Not `finish`: biases here can be as large as sums can.
                *value = layer.range.hold(Multiplier { value: factor, shift }.apply_twice(sum));
            }
        }
    }
}

/// Runs a dense layer.
pub(super) fn dense(layer: &Layer<'_, i8>, input: &[i8], output: &mut [i8]) {
    let weights = layer.weights.chunks_exact(input.len().max(1));
    for ((value, channel), weights) in output.iter_mut().zip(layer.channels).zip(weights) {
        let sum = channel[0].wrapping_add(dot(layer.input_zero_point, input, weights));
        *value = layer.range.finish(Rounding::Once, sum, *channel);
    }
}

/// The sum of the products of one window with one channel's weights, for the part of the window inside the image.
fn sum(convolution: &Convolution, [y, x]: [usize; 2], zero_point: i8, weights: &[i8], input: &[i8]) -> i32 {
    let (down, across) = (convolution.down(y), convolution.across(x));
    let (width, channels) = (convolution.input.width, convolution.input.channels);
    let row_len = convolution.kernel[1] * channels;
    let mut sum = 0i32;
    for row in 0..down.len {
        let pixels = part(input, ((down.at + row) * width + across.at) * channels, across.len * channels);
        let weights = part(weights, (down.from + row) * row_len + across.from * channels, across.len * channels);
        sum = sum.wrapping_add(dot(zero_point, pixels, weights));
    }
    sum
}

/// Computes Σ(value − zero point) · weight as Σ value · weight − zero point · Σ weight: sums of 8-bit values, which
/// compilers vectorize (VMLADAV and VADDV on a Cortex-M55).
fn dot(zero_point: i8, values: &[i8], weights: &[i8]) -> i32 {
    let (mut products, mut sum) = (0i32, 0i32);
    for (value, weight) in values.iter().zip(weights) {
        products = products.wrapping_add(i32::from(*value) * i32::from(*weight));
        sum = sum.wrapping_add(i32::from(*weight));
    }
    products.wrapping_sub(i32::from(zero_point).wrapping_mul(sum))
}
