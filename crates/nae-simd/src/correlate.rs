//! The loop that takes most of the time: sums over windows of the input, for a convolution or a transposed one.
//!
//! A tile of output pixels times two vectors of output channels is summed in registers, over the rows of the window,
//! each of which is contiguous in the input. Every output is summed in a fixed order, so results depend neither on the
//! tiles nor on the batch.

use pulp::{Simd, WithSimd};

use crate::geometry::Class;
use crate::instructions::{dispatch, on_vectors_of};
use crate::kernel::{Kernel, Phase, Weights, Windows};
use crate::plane::Planes;
use crate::pointwise::rectified_value;
use crate::sums::{Finish, VECTORS, finished, sum_of_products};
use crate::vector::store;
use crate::winograd;

/// Number of values of the input that are processed with one block of weights before the next: as many as fit the
/// second-level cache beside the weights.
const CACHED: usize = 1 << 16;
/// The smallest number of pixels for which a block of weights is read.
const WORTHWHILE: usize = 64;

/// Returns the output of `kernel` for `input`, with `finish` applied to each value.
pub fn correlate(input: &Planes, kernel: &Kernel, finish: Finish<'_>) -> Planes {
    debug_assert_eq!(input.size, kernel.from);
    let mut output = Planes::scratch(input.workspace(), input.n, kernel.to);
    match &kernel.weights {
        Weights::Narrow(windows) => dispatch(Narrow { input, kernel, windows, finish, output: &mut output }),
        Weights::Wide(lanes, windows) => {
            on_vectors_of(*lanes, Wide { input, kernel, windows, finish, output: &mut output });
        }
        Weights::Winograd(lanes, winograd) => {
            let pass = winograd::Pass { winograd, bias: &kernel.bias, input, finish, output: &mut output };
            on_vectors_of(*lanes, pass);
        }
    }
    output
}

// Everything below is inlined into the function that pulp compiles for each instruction set; what is not inlined
// would be compiled for the oldest processor. That includes closures, and `map` of an array.

/// Many output channels: vectors run along them.
struct Wide<'a> {
    input: &'a Planes,
    kernel: &'a Kernel,
    windows: &'a Windows,
    finish: Finish<'a>,
    output: &'a mut Planes,
}

impl WithSimd for Wide<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let kernel = self.kernel;
        let step = VECTORS * S::F32_LANES;
        let in_cache = (CACHED / kernel.from.len().max(1)).max(1);
        let windows = self.windows;
        for class in &windows.classes {
            let phase = &windows.phases[class.rows.phase][class.columns.phase];
            let images = in_cache.max(WORTHWHILE / class.pixels.len());
            for first in (0..self.input.n).step_by(images) {
                let images = first..(first + images).min(self.input.n);
                for start in (0..kernel.bias.len()).step_by(step) {
                    let weights = &phase.weights[start * phase.taps..];
                    let block = Block { class, phase, weights, channel: start, images: images.clone() };
                    // As many sums as fit the registers: thirty-two of AVX-512 and NEON, sixteen of AVX2. A single
                    // pixel, as for a dense layer and one sample, is not repeated to fill them.
                    match (kernel.bias.len() - start >= step, S::F32_LANES == 8) {
                        (true, _) if images.len() * class.pixels.len() == 1 => self.block::<S, 1, 2>(simd, block),
                        (true, false) => self.block::<S, 8, 2>(simd, block),
                        (true, true) => self.block::<S, 6, 2>(simd, block),
                        (false, _) => self.block::<S, 8, 1>(simd, block),
                    }
                }
            }
        }
    }
}

/// Output pixels of one class and output channels from `channel` on.
struct Block<'a> {
    class: &'a Class,
    phase: &'a Phase,
    weights: &'a [f32],
    channel: usize,
    images: std::ops::Range<usize>,
}

impl Wide<'_> {
    #[inline(always)]
    fn block<S: Simd, const P: usize, const V: usize>(&mut self, simd: S, block: Block<'_>) {
        let Block { class, phase, weights, channel, images } = block;
        let (from, to) = (self.kernel.from, self.kernel.to);
        let (weights, _) = S::as_simd_f32s(weights).0.as_chunks::<V>();
        let (bias, _) = S::as_simd_f32s(&self.kernel.bias[channel..]).0.as_chunks::<V>();
        let Some(bias) = bias.first() else { return };
        let (skip, len) = (class.columns.first * from.c, class.columns.len * from.c);
        let pixels = &class.pixels[..];
        let row_len = from.w * from.c;
        let (mut image, mut pixel) = (images.start, 0);
        let total = images.len() * pixels.len();
        for tile in (0..total).step_by(P) {
            let mut starts = [0; P];
            let mut places = [0; P];
            for (p, (start, place)) in starts.iter_mut().zip(&mut places).enumerate() {
                let [input, output] = pixels[pixel];
                *start = image * from.len() + input;
                *place = image * to.len() + output * to.c + channel;
                // The last tile repeats its last pixel: the same value is written more than once.
                if tile + p + 1 < total {
                    pixel += 1;
                    if pixel == pixels.len() {
                        (image, pixel) = (image + 1, 0);
                    }
                }
            }
            let mut sums = [*bias; P];
            for row in 0..class.rows.len {
                let at = (class.rows.first + row) * phase.span + skip;
                let weights = &weights[at..at + len];
                let mut windows = [&self.input.data[..0]; P];
                for (window, start) in windows.iter_mut().zip(starts) {
                    *window = &self.input.data[start + row * row_len..][..len];
                }
                sums = sum_of_products::<S, P, V>(simd, sums, windows, weights);
            }
            for (place, sums) in places.into_iter().zip(sums) {
                for (v, sum) in sums.into_iter().enumerate() {
                    let place = place + v * S::F32_LANES;
                    let channels = S::F32_LANES.min(to.c - channel - v * S::F32_LANES);
                    let sum = finished(simd, self.finish, sum, place, channels);
                    store(simd, &mut self.output.data[place..place + channels], sum);
                }
            }
        }
    }
}

/// Few output channels: vectors run along the window.
struct Narrow<'a> {
    input: &'a Planes,
    kernel: &'a Kernel,
    windows: &'a Windows,
    finish: Finish<'a>,
    output: &'a mut Planes,
}

/// Number of adjacent pixels that are summed together, so that the sum of one does not wait for that of another.
const SIDE_BY_SIDE: usize = 4;

impl WithSimd for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { input, kernel, windows, finish, output } = self;
        let (from, to) = (kernel.from, kernel.to);
        let row_len = from.w * from.c;
        for class in &windows.classes {
            let phase = &windows.phases[class.rows.phase][class.columns.phase];
            // The lanes of a value are those that it has in a whole window, wherever the window is cut off.
            let (skip, len) = (class.columns.first * from.c, class.columns.len * from.c);
            let lead = skip % S::F32_LANES;
            for image in 0..input.n {
                for pixels in class.pixels.chunks(SIDE_BY_SIDE) {
                    for channel in 0..to.c {
                        let weights = &phase.weights[channel * phase.taps..][..phase.taps];
                        let mut sums = [simd.splat_f32s(0.0); SIDE_BY_SIDE];
                        for row in 0..class.rows.len {
                            let weights = &weights[(class.rows.first + row) * phase.span + skip..][..len];
                            for (sum, [start, _]) in sums.iter_mut().zip(pixels) {
                                let window = &input.data[image * from.len() + start + row * row_len..][..len];
                                *sum = along(simd, *sum, window, weights, lead);
                            }
                        }
                        for (sum, [_, place]) in sums.into_iter().zip(pixels) {
                            let place = image * to.len() + place * to.c + channel;
                            let value = kernel.bias[channel] + simd.reduce_sum_f32s(sum);
                            output.data[place] = match finish {
                                Finish::Keep => value,
                                Finish::Rectify { slope } => rectified_value(value, value, slope),
                                Finish::Clamp { min, max } => value.clamp(min, max),
                                Finish::Gate { output, slope } => rectified_value(value, output[place], slope),
                            };
                        }
                    }
                }
            }
        }
    }
}

/// Adds to `sum` the products of `window` and `weights`, the first of which is in lane `lead`.
#[inline(always)]
fn along<S: Simd>(simd: S, mut sum: S::f32s, window: &[f32], weights: &[f32], lead: usize) -> S::f32s {
    let (mut a, mut b) = (window, weights);
    if lead > 0 {
        let head = (S::F32_LANES - lead).min(a.len());
        let shifted = |values: &[f32]| {
            let mut lanes = [0.0; 16];
            lanes[lead..lead + head].copy_from_slice(&values[..head]);
            simd.partial_load_f32s(&lanes[..S::F32_LANES.min(16)])
        };
        sum = simd.mul_add_f32s(shifted(a), shifted(b), sum);
        (a, b) = (&a[head..], &b[head..]);
    }
    let ((a, a_rest), (b, b_rest)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    for (a, b) in a.iter().zip(b) {
        sum = simd.mul_add_f32s(*a, *b, sum);
    }
    if !a_rest.is_empty() {
        sum = simd.mul_add_f32s(simd.partial_load_f32s(a_rest), simd.partial_load_f32s(b_rest), sum);
    }
    sum
}
