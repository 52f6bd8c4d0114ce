//! Convolution of each channel with its own kernel, forward only.

use nae_graph::DepthwiseConv2d;
use pulp::{Simd, WithSimd};

use crate::instructions::dispatch;
use crate::plane::{Planes, Size};
use crate::pointwise::clamped;
use crate::vector::{load, store};

/// Number of vectors of channels computed together.
const VECTORS: usize = 4;

/// The layer, with its weights in the order in which they are read.
#[derive(Debug)]
pub struct Depthwise {
    kernel: [usize; 2],
    stride: [usize; 2],
    /// Rows above and columns to the left of the input.
    padding: [usize; 2],
    /// Kernel row, kernel column, channel.
    weights: Vec<f32>,
    bias: Vec<f32>,
    to: Size,
    /// The range that each value is clamped to.
    range: Option<[f32; 2]>,
}

impl Depthwise {
    /// Lays out the weights of `layer`, whose output has size `to`.
    pub fn new(layer: &DepthwiseConv2d, to: Size) -> Self {
        let taps = layer.kernel[0] * layer.kernel[1];
        let weights = (0..taps).flat_map(|tap| (0..layer.channels).map(move |c| (c, tap)));
        Self {
            kernel: layer.kernel,
            stride: layer.stride,
            padding: [layer.padding.top, layer.padding.left],
            weights: weights.map(|(c, tap)| layer.weights[c * taps + tap]).collect(),
            bias: layer.bias.clone(),
            to,
            range: None,
        }
    }

    /// Clamps each value to this range.
    pub const fn clamp_to(&mut self, range: [f32; 2]) {
        self.range = Some(range);
    }

    /// Returns the output for `x`.
    pub fn forward(&self, x: &Planes) -> Planes {
        let mut output = Planes::scratch(x.workspace(), x.n, self.to);
        let images = x.data.chunks_exact(x.size.len()).zip(output.data.chunks_exact_mut(self.to.len()));
        for (image, output) in images {
            dispatch(Image { layer: self, size: x.size, image, output });
        }
        output
    }
}

struct Image<'a> {
    layer: &'a Depthwise,
    size: Size,
    image: &'a [f32],
    output: &'a mut [f32],
}

impl WithSimd for Image<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { layer, size, image, output } = self;
        let channels = size.c;
        let block = VECTORS * S::F32_LANES;
        for (place, pixel) in output.chunks_exact_mut(channels).enumerate() {
            let (row, column) = (place / layer.to.w, place % layer.to.w);
            let rows = meeting(row * layer.stride[0], layer.padding[0], layer.kernel[0], size.h);
            let columns = meeting(column * layer.stride[1], layer.padding[1], layer.kernel[1], size.w);
            let window = Window { rows, columns };
            let mut start = 0;
            while start + block <= channels {
                window.sum::<S, VECTORS>(simd, layer, size, image, pixel, start, S::F32_LANES);
                start += block;
            }
            // For the few channels of first layers, and for remaining channels.
            while start + 2 * S::F32_LANES <= channels {
                window.sum::<S, 2>(simd, layer, size, image, pixel, start, S::F32_LANES);
                start += 2 * S::F32_LANES;
            }
            while start < channels {
                let count = S::F32_LANES.min(channels - start);
                window.sum::<S, 1>(simd, layer, size, image, pixel, start, count);
                start += count;
            }
        }
    }
}

/// The taps of a window that overlap the input: the first tap, the row or column of the input under it, and the number
/// of taps.
#[derive(Clone, Copy)]
struct Meeting {
    tap: usize,
    at: usize,
    count: usize,
}

/// The taps of a window that begins at `start` of the input with `padding` before it.
#[inline(always)]
fn meeting(start: usize, padding: usize, kernel: usize, side: usize) -> Meeting {
    let tap = padding.saturating_sub(start).min(kernel);
    let at = (start + tap).saturating_sub(padding);
    Meeting { tap, at, count: (kernel - tap).min(side.saturating_sub(at)) }
}

#[derive(Clone, Copy)]
struct Window {
    rows: Meeting,
    columns: Meeting,
}

impl Window {
    /// Computes `V` vectors of `lanes` channels each, from channel `start` on, of one pixel of the output.
    #[allow(clippy::too_many_arguments, reason = "what a loop keeps in registers")]
    #[inline(always)]
    fn sum<S: Simd, const V: usize>(
        self,
        simd: S,
        layer: &Depthwise,
        size: Size,
        image: &[f32],
        pixel: &mut [f32],
        start: usize,
        lanes: usize,
    ) {
        let channels = size.c;
        let mut sums = [simd.splat_f32s(0.0); V];
        for (v, sum) in sums.iter_mut().enumerate() {
            *sum = load(simd, &layer.bias[start + v * lanes..][..lanes]);
        }
        for row in 0..self.rows.count {
            let weights = (self.rows.tap + row) * layer.kernel[1] + self.columns.tap;
            let values = (self.rows.at + row) * size.w + self.columns.at;
            for column in 0..self.columns.count {
                let weights = &layer.weights[(weights + column) * channels + start..][..V * lanes];
                let values = &image[(values + column) * channels + start..][..V * lanes];
                for (v, sum) in sums.iter_mut().enumerate() {
                    let (weight, value) = (&weights[v * lanes..][..lanes], &values[v * lanes..][..lanes]);
                    *sum = simd.mul_add_f32s(load(simd, weight), load(simd, value), *sum);
                }
            }
        }
        if let Some([min, max]) = layer.range {
            for sum in &mut sums {
                *sum = clamped(simd, *sum, min, max);
            }
        }
        for (v, sum) in sums.into_iter().enumerate() {
            store(simd, &mut pixel[start + v * lanes..][..lanes], sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use nae_core::layer::Padding;

    use super::*;
    use crate::workspace::Workspace;

    /// Pseudo-random numbers.
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    /// Compares with the definition, in f64, with windows that exceed every edge, and channels that do not fill a
    /// vector.
    #[test]
    fn every_channel_has_its_own_kernel() {
        let cases = [
            ([3, 3], [1, 1], Padding::all(1), 5),
            ([3, 3], [2, 2], Padding { top: 0, left: 0, bottom: 1, right: 1 }, 32),
            ([5, 5], [2, 1], Padding::all(2), 19),
            ([1, 4], [1, 3], Padding { top: 0, left: 3, bottom: 0, right: 2 }, 96),
            ([5, 3], [1, 1], Padding::all(2), 64),
        ];
        for (kernel, stride, padding, channels) in cases {
            let from = Size { h: 6, w: 7, c: channels };
            let side = |side: usize, axis: usize, around: usize| (side + around - kernel[axis]) / stride[axis] + 1;
            let to = Size {
                h: side(from.h, 0, padding.top + padding.bottom),
                w: side(from.w, 1, padding.left + padding.right),
                c: channels,
            };
            let (weights, bias) = (numbers(channels * kernel[0] * kernel[1], 1), numbers(channels, 2));
            let layer = DepthwiseConv2d { channels, kernel, stride, padding, weights, bias };
            let mut x = Planes::scratch(&Workspace::default(), 2, from);
            x.data.copy_from_slice(&numbers(2 * from.len(), 3));
            let output = Depthwise::new(&layer, to).forward(&x);
            for (n, (image, output)) in x.data.chunks(from.len()).zip(output.data.chunks(to.len())).enumerate() {
                for (place, found) in output.iter().enumerate() {
                    let (pixel, c) = (place / channels, place % channels);
                    let (row, column) = (pixel / to.w, pixel % to.w);
                    let mut sum = f64::from(layer.bias[c]);
                    for r in 0..kernel[0] {
                        for k in 0..kernel[1] {
                            let y = (row * stride[0] + r).checked_sub(padding.top).filter(|y| *y < from.h);
                            let x = (column * stride[1] + k).checked_sub(padding.left).filter(|x| *x < from.w);
                            if let (Some(y), Some(x)) = (y, x) {
                                let weight = layer.weights[(c * kernel[0] + r) * kernel[1] + k];
                                sum += f64::from(weight) * f64::from(image[(y * from.w + x) * channels + c]);
                            }
                        }
                    }
                    assert!(
                        (f64::from(*found) - sum).abs() < 1e-5,
                        "{kernel:?} image {n} place {place}: {found} {sum}"
                    );
                }
            }
        }
    }
}
