//! Convolution and dense layers. Blocks of 8 outputs at 2 places (or 1 output at 4 places) share
//! their loads and keep their sums in registers: 16 of a Cortex-M4F's 32.

use super::BLOCK;
use super::{Parameters, Reach, Windows, part, part_mut};

/// Convolution with zero padding.
pub(crate) fn conv2d(windows: &Windows, parameters: Parameters<'_>, input: &[f32], output: &mut [f32]) {
    let taps = windows.kernel[0] * windows.kernel[1] * windows.input.channels;
    let (blocks, rest) = parameters.bias.as_chunks::<BLOCK>();
    let (block_weights, rest_weights) =
        parameters.weights.split_at_checked(blocks.len() * BLOCK * taps).unwrap_or_default();
    let weights = block_weights.chunks_exact((BLOCK * taps).max(1));
    for (index, (bias, weights)) in blocks.iter().zip(weights).enumerate() {
        let (weights, _) = weights.as_chunks();
        let block = Block { windows, weights, bias, channel: index * BLOCK };
        block.rows(input, output, Block::two_places);
    }
    for (index, (bias, weights)) in rest.iter().zip(rest_weights.chunks_exact(taps.max(1))).enumerate() {
        let (weights, _) = weights.as_chunks();
        let block = Block { windows, weights, bias: &[*bias], channel: blocks.len() * BLOCK + index };
        block.rows(input, output, Block::four_places);
    }
}

/// Computes `y = Wx + b`.
pub(crate) fn dense(parameters: Parameters<'_>, input: &[f32], output: &mut [f32]) {
    let (blocks, rest) = parameters.bias.as_chunks::<BLOCK>();
    let (block_weights, rest_weights) =
        parameters.weights.split_at_checked(blocks.len() * BLOCK * input.len()).unwrap_or_default();
    let (outputs, rest_outputs) = output.as_chunks_mut::<BLOCK>();
    let (rows, _) = block_weights.as_chunks::<BLOCK>();
    let weights = rows.chunks_exact(input.len().max(1));
    for ((output, bias), weights) in outputs.iter_mut().zip(blocks).zip(weights) {
        *output = *bias;
        accumulate(output, input, weights);
    }
    let weights = rest_weights.chunks_exact(input.len().max(1));
    for ((output, bias), weights) in rest_outputs.iter_mut().zip(rest).zip(weights) {
        let (weights, _) = weights.as_chunks();
        let mut sum = [*bias];
        accumulate(&mut sum, input, weights);
        [*output] = sum;
    }
}

/// `B` output channels from `channel` on.
struct Block<'a, const B: usize> {
    windows: &'a Windows,
    weights: &'a [[f32; B]],
    bias: &'a [f32; B],
    channel: usize,
}

impl<const B: usize> Block<'_, B> {
    /// Computes all rows of the output: by `interior` for windows that lie inside the input across, and place by place
    /// for all others and for the places that `interior` leaves.
    fn rows(
        &self,
        input: &[f32],
        output: &mut [f32],
        interior: impl Fn(&Self, Reach, usize, usize, &[f32], &mut [f32]) -> usize,
    ) {
        let Windows { input: shape, output: out, kernel, stride, padding } = *self.windows;
        // Places whose windows need no clipping across. No stride is zero, but the compiler cannot derive this.
        let step = stride[1].max(1);
        let first = padding.left.div_ceil(step);
        let last = (shape.width + padding.left + 1).saturating_sub(kernel[1]).div_ceil(step);
        let last = last.clamp(first.min(out.width), out.width);
        let out_row = out.width * out.channels;
        for y in 0..out.height {
            let down = Reach::new(y, stride[0], kernel[0], padding.top, shape.height);
            let output = part_mut(output, y * out_row, out_row);
            let mut x = 0;
            while x < out.width {
                if x >= first {
                    x = interior(self, down, x, last, input, output);
                }
                if x < out.width {
                    self.one_place(down, x, input, output);
                    x += 1;
                }
            }
        }
    }

    fn one_place(&self, down: Reach, x: usize, input: &[f32], output: &mut [f32]) {
        let w = self.windows;
        let channels = w.input.channels;
        let across = Reach::new(x, w.stride[1], w.kernel[1], w.padding.left, w.input.width);
        let run = across.len() * channels;
        let mut sums = *self.bias;
        for row in 0..down.len() {
            let start = ((down.at + row) * w.input.width + across.at) * channels;
            let tap = ((down.from + row) * w.kernel[1] + across.from) * channels;
            accumulate(&mut sums, part(input, start, run), self.weights(tap, run));
        }
        self.store(&sums, x, output);
    }

    /// Computes places `x`, `x + 1`, … below `last`, two at a time; returns the next place.
    fn two_places(&self, down: Reach, mut x: usize, last: usize, input: &[f32], output: &mut [f32]) -> usize {
        let w = self.windows;
        let channels = w.input.channels;
        let run = w.kernel[1] * channels;
        while x + 2 <= last {
            let mut sums = [*self.bias; 2];
            for row in 0..down.len() {
                let start = self.start(down.at + row, x);
                let weights = self.weights((down.from + row) * run, run);
                let second = start + w.stride[1] * channels;
                let (a, b) = (part(input, start, run), part(input, second, run));
                let [sums_a, sums_b] = &mut sums;
                for ((weights, a), b) in weights.iter().zip(a).zip(b) {
                    for ((sum_a, sum_b), weight) in sums_a.iter_mut().zip(sums_b.iter_mut()).zip(weights) {
                        *sum_a += a * weight;
                        *sum_b += b * weight;
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                self.store(sums, x + i, output);
            }
            x += 2;
        }
        x
    }

    /// As [`Block::two_places`], four at a time.
    fn four_places(&self, down: Reach, mut x: usize, last: usize, input: &[f32], output: &mut [f32]) -> usize {
        let w = self.windows;
        let channels = w.input.channels;
        let run = w.kernel[1] * channels;
        // It wraps where there is no next window.
        let step = w.stride[1].wrapping_mul(channels);
        while x + 4 <= last {
            let mut sums = [*self.bias; 4];
            for row in 0..down.len() {
                let start = self.start(down.at + row, x);
                let weights = self.weights((down.from + row) * run, run);
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| part(input, start + i * step, run));
                for ((((weights, a), b), c), d) in weights.iter().zip(a).zip(b).zip(c).zip(d) {
                    for (sums, x) in sums.iter_mut().zip([a, b, c, d]) {
                        for (sum, weight) in sums.iter_mut().zip(weights) {
                            *sum += x * weight;
                        }
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                self.store(sums, x + i, output);
            }
            x += 4;
        }
        x
    }

    /// Start of the unclipped window of place `x` in input row `row`.
    fn start(&self, row: usize, x: usize) -> usize {
        let w = self.windows;
        (row * w.input.width + x * w.stride[1] - w.padding.left) * w.input.channels
    }

    fn weights(&self, start: usize, len: usize) -> &[[f32; B]] {
        self.weights.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
    }

    fn store(&self, sums: &[f32; B], x: usize, row: &mut [f32]) {
        let start = x * self.windows.output.channels + self.channel;
        for (value, sum) in part_mut(row, start, B).iter_mut().zip(sums) {
            *value = *sum;
        }
    }
}

/// Adds the products of `x` with each of `B` columns of weights.
#[inline(always)]
pub(super) fn accumulate<const B: usize>(sums: &mut [f32; B], x: &[f32], weights: &[[f32; B]]) {
    let mut local = *sums;
    for (x, weights) in x.iter().zip(weights) {
        for (sum, weight) in local.iter_mut().zip(weights) {
            *sum += x * weight;
        }
    }
    *sums = local;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    /// On a 32-bit target, stride times channels of a file may not fit.
    #[test]
    fn a_distance_that_is_never_gone_may_not_fit() {
        let (input, output) = (Shape::new(4, 1, 1), Shape::new(1, 1, 1));
        let windows =
            Windows { input, output, kernel: [1, 1], stride: [1, usize::MAX / 3], padding: Default::default() };
        let mut sum = [0.0];
        conv2d(&windows, Parameters { weights: &[1.0; 4], bias: &[0.5] }, &[1.0, 2.0, 3.0, 4.0], &mut sum);
        assert_eq!(sum, [10.5]);
    }
}
