//! The loops the time goes into: correlation with a kernel, and the gradient of its weights.
//!
//! Channels last, a kernel row covers `columns · channels` contiguous values of the input, and the next pixel's lie
//! `channels` further on: no copy of the image in columns is needed. A convolution is a correlation; a transposed
//! convolution, and the gradient of a convolution, are correlations with the flipped kernel on an input widened by
//! zeros, whose rows above and below the image are skipped.

use pulp::{Arch, Simd, WithSimd};

use super::kernel::{Blocks, Kernel, Weights};
use super::plane::Planes;

/// Pixels, or values of a window, computed together: as many sums as the registers hold.
const TILE: usize = 8;

/// Correlates `input`, already widened, with `kernel`; `pad` rows of zeros are taken to lie above and below.
pub fn correlate(input: &Planes, kernel: &Kernel, pad: usize) -> Planes {
    let columns = kernel.span / input.c;
    let (h, w) = (input.h + 2 * pad + 1 - kernel.rows, input.w + 1 - columns);
    let mut output = Planes::zeros(input.n, h, w, kernel.channels);
    Arch::new().dispatch(Correlate { input, kernel, pad, output: &mut output });
    output
}

/// Adds to `gradient` `[row][column · input channel][output channel]` the products of every input value with every
/// output gradient it contributes to, for a kernel of `rows` rows that stays within the input.
pub fn weight_gradient(input: &Planes, output: &Planes, rows: usize, gradient: &mut [f32]) {
    Arch::new().dispatch(WeightGradient { input, output, rows, gradient });
}

struct Correlate<'a> {
    input: &'a Planes,
    kernel: &'a Kernel,
    pad: usize,
    output: &'a mut Planes,
}

struct WeightGradient<'a> {
    input: &'a Planes,
    output: &'a Planes,
    rows: usize,
    gradient: &'a mut [f32],
}

// Everything below is inlined into the function that pulp compiles for each instruction set; what is not inlined
// would be compiled for the oldest processor. `mul_add` is one instruction where vectors are, and a slow call where
// they are not.
impl WithSimd for Correlate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        if S::F32_LANES > 1 {
            correlate_into::<true>(self.input, self.kernel, self.pad, self.output);
        } else {
            correlate_into::<false>(self.input, self.kernel, self.pad, self.output);
        }
    }
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        products(simd, self.input, self.output, self.rows, self.gradient);
    }
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn correlate_into<const FUSED: bool>(input: &Planes, kernel: &Kernel, pad: usize, output: &mut Planes) {
    match &kernel.weights {
        Weights::Sixteen(blocks) => wide::<FUSED, 16>(input, kernel, blocks, pad, output),
        Weights::Eight(blocks) => wide::<FUSED, 8>(input, kernel, blocks, pad, output),
        Weights::Narrow(weights, bias) => narrow::<FUSED>(input, kernel, (weights, bias), pad, output),
    }
}

#[inline(always)]
fn wide<const FUSED: bool, const L: usize>(
    input: &Planes,
    kernel: &Kernel,
    blocks: &Blocks<L>,
    pad: usize,
    output: &mut Planes,
) {
    let (row_len, span) = (input.w * input.c, kernel.span);
    let pixels = output.n * output.w;
    let block_len = kernel.rows * span;
    for ((block, weights), bias) in blocks.weights.chunks_exact(block_len).enumerate().zip(&blocks.bias) {
        let first = block * L;
        let lanes = L.min(kernel.channels - first);
        for oy in 0..output.h {
            let low = pad.saturating_sub(oy);
            let high = kernel.rows.min(input.h + pad - oy);
            for tile in (0..pixels).step_by(TILE) {
                let mut at = [(0, 0); TILE];
                let (mut image, mut ox) = (tile / output.w, tile % output.w);
                for (p, at) in at.iter_mut().enumerate() {
                    *at = (image, ox);
                    // The last tile repeats its last pixel: the same value is written more than once.
                    if tile + p + 1 < pixels {
                        ox += 1;
                        if ox == output.w {
                            (image, ox) = (image + 1, 0);
                        }
                    }
                }
                let mut sums = [*bias; TILE];
                for row in low..high {
                    let iy = oy + row - pad;
                    let mut windows = [&input.data[..0]; TILE];
                    for (window, (image, ox)) in windows.iter_mut().zip(at) {
                        *window = &input.data[(image * input.h + iy) * row_len + ox * input.c..][..span];
                    }
                    accumulate::<FUSED, L>(&mut sums, windows, &weights[row * span..][..span]);
                }
                for ((image, ox), sum) in at.into_iter().zip(&sums) {
                    let start = ((image * output.h + oy) * output.w + ox) * output.c + first;
                    let pixel = &mut output.data[start..][..lanes];
                    match pixel.first_chunk_mut::<L>() {
                        Some(pixel) => *pixel = *sum,
                        None => pixel.copy_from_slice(&sum[..lanes]),
                    }
                }
            }
        }
    }
}

/// Adds the products of each window with the weights to its sums. The chain of `zip`s compares lengths once, where
/// indices would be checked at every step.
#[inline(always)]
fn accumulate<const FUSED: bool, const L: usize>(
    sums: &mut [[f32; L]; TILE],
    windows: [&[f32]; TILE],
    weights: &[[f32; L]],
) {
    let mut held = *sums;
    let [a, b, c, d, e, f, g, h] = windows;
    let values = a.iter().zip(b).zip(c).zip(d).zip(e).zip(f).zip(g).zip(h);
    for (weight, (((((((a, b), c), d), e), f), g), h)) in weights.iter().zip(values) {
        for (sum, value) in held.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            for (lane, w) in sum.iter_mut().zip(weight) {
                *lane = multiply_add::<FUSED>(*value, *w, *lane);
            }
        }
    }
    *sums = held;
}

/// Few output channels: the lanes run along the window instead.
#[inline(always)]
fn narrow<const FUSED: bool>(
    input: &Planes,
    kernel: &Kernel,
    (weights, bias): (&[f32], &[f32]),
    pad: usize,
    output: &mut Planes,
) {
    let (row_len, span, channels) = (input.w * input.c, kernel.span, kernel.channels);
    for image in 0..output.n {
        for oy in 0..output.h {
            let (low, high) = (pad.saturating_sub(oy), kernel.rows.min(input.h + pad - oy));
            for ox in 0..output.w {
                let start = ((image * output.h + oy) * output.w + ox) * channels;
                let pixel = &mut output.data[start..][..channels];
                for ((value, bias), weights) in pixel.iter_mut().zip(bias).zip(weights.chunks_exact(kernel.rows * span))
                {
                    let mut sums = [0.0; TILE];
                    let mut rest = *bias;
                    for row in low..high {
                        let iy = oy + row - pad;
                        let window = &input.data[(image * input.h + iy) * row_len + ox * input.c..][..span];
                        let (windows, window_rest) = window.as_chunks::<TILE>();
                        let (lanes, lanes_rest) = weights[row * span..][..span].as_chunks::<TILE>();
                        for (window, lanes) in windows.iter().zip(lanes) {
                            for ((sum, a), b) in sums.iter_mut().zip(window).zip(lanes) {
                                *sum = multiply_add::<FUSED>(*a, *b, *sum);
                            }
                        }
                        for (a, b) in window_rest.iter().zip(lanes_rest) {
                            rest = multiply_add::<FUSED>(*a, *b, rest);
                        }
                    }
                    *value = rest + sums.iter().sum::<f32>();
                }
            }
        }
    }
}

#[inline(always)]
fn products<S: Simd>(simd: S, input: &Planes, output: &Planes, rows: usize, gradient: &mut [f32]) {
    let channels = output.c;
    let span = gradient.len() / (rows * channels);
    let (row_len, out_row_len) = (input.w * input.c, output.w * channels);
    for first in (0..channels).step_by(S::F32_LANES) {
        let lanes = S::F32_LANES.min(channels - first);
        for row in 0..rows {
            for start in (0..span).step_by(TILE) {
                let mut sums = [simd.splat_f32s(0.0); TILE];
                for image in 0..output.n {
                    for oy in 0..output.h {
                        let in_row = &input.data[(image * input.h + oy + row) * row_len..][..row_len];
                        let out_row = &output.data[(image * output.h + oy) * out_row_len..][..out_row_len];
                        for (ox, pixel) in out_row.chunks_exact(channels).enumerate() {
                            let delta = simd.partial_load_f32s(&pixel[first..first + lanes]);
                            let window = &in_row[ox * input.c + start..];
                            let window = match window.first_chunk::<TILE>() {
                                Some(window) => *window,
                                // The end of the row; what lies beyond the span is not read again.
                                None => std::array::from_fn(|t| window.get(t).copied().unwrap_or(0.0)),
                            };
                            for (sum, value) in sums.iter_mut().zip(window) {
                                *sum = simd.mul_add_f32s(simd.splat_f32s(value), delta, *sum);
                            }
                        }
                    }
                }
                for (tap, sum) in sums.iter().take(TILE.min(span - start)).enumerate() {
                    let at = (row * span + start + tap) * channels + first;
                    let total = &mut gradient[at..at + lanes];
                    let updated = simd.add_f32s(simd.partial_load_f32s(total), *sum);
                    simd.partial_store_f32s(total, updated);
                }
            }
        }
    }
}
