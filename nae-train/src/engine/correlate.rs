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
    match &kernel.weights {
        Weights::Wide(blocks) => {
            on_vectors_of(blocks.lanes, Wide { input, kernel, blocks, pad, output: &mut output });
        }
        Weights::Narrow(weights, bias) => {
            Arch::new().dispatch(Narrow { input, kernel, weights, bias, pad, output: &mut output });
        }
    }
    output
}

/// Adds to `gradient` `[row][column · input channel][output channel]` the products of every input value with every
/// output gradient it contributes to, for a kernel of `rows` rows that stays within the input.
pub fn weight_gradient(input: &Planes, output: &Planes, rows: usize, gradient: &mut [f32]) {
    Arch::new().dispatch(WeightGradient { input, output, rows, gradient });
}

/// Channels that are computed together where there are `channels` of them: sixteen fill one AVX-512 register, eight one
/// of AVX2. Half-empty vectors of sixteen are no quicker than full ones of eight.
pub fn lanes(channels: usize) -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) -> usize {
            S::F32_LANES
        }
    }
    let longest = Arch::new().dispatch(Lanes);
    if longest == 16 && !channels.is_multiple_of(16) && channels <= 32 { 8 } else { longest }
}

/// Runs `op` with vectors of `lanes` values, one of those [`lanes`] gives.
fn on_vectors_of<Op: WithSimd>(lanes: usize, op: Op) -> Op::Output {
    #[cfg(target_arch = "x86_64")]
    if lanes == 8
        && let Some(simd) = pulp::x86::V3::try_new()
    {
        struct Call<Op>(pulp::x86::V3, Op);
        impl<Op: WithSimd> pulp::NullaryFnOnce for Call<Op> {
            type Output = Op::Output;
            #[inline(always)]
            fn call(self) -> Op::Output {
                self.1.with_simd(self.0)
            }
        }
        return simd.vectorize(Call(simd, op));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = lanes;
    Arch::new().dispatch(op)
}

// Everything below is inlined into the function that pulp compiles for each instruction set; what is not inlined
// would be compiled for the oldest processor.

/// Correlation with many output channels: a vector of them at a time, [`TILE`] pixels side by side.
struct Wide<'a> {
    input: &'a Planes,
    kernel: &'a Kernel,
    blocks: &'a Blocks,
    pad: usize,
    output: &'a mut Planes,
}

impl WithSimd for Wide<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { input, kernel, blocks, pad, output } = self;
        let (row_len, span) = (input.w * input.c, kernel.span);
        let pixels = output.n * output.w;
        let (weights, _) = S::as_simd_f32s(&blocks.weights);
        let (biases, _) = S::as_simd_f32s(&blocks.bias);
        for ((block, weights), bias) in weights.chunks_exact(kernel.rows * span).enumerate().zip(biases) {
            let first = block * S::F32_LANES;
            let channels = S::F32_LANES.min(kernel.channels - first);
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
                        sums = accumulate(simd, sums, windows, &weights[row * span..][..span]);
                    }
                    for ((image, ox), sum) in at.into_iter().zip(sums) {
                        let start = ((image * output.h + oy) * output.w + ox) * output.c + first;
                        simd.partial_store_f32s(&mut output.data[start..start + channels], sum);
                    }
                }
            }
        }
    }
}

/// `sums` and the products of each window with the weights. The chain of `zip`s compares lengths once, where indices
/// would be checked at every step.
#[inline(always)]
fn accumulate<S: Simd>(
    simd: S,
    mut sums: [S::f32s; TILE],
    windows: [&[f32]; TILE],
    weights: &[S::f32s],
) -> [S::f32s; TILE] {
    let [a, b, c, d, e, f, g, h] = windows;
    let values = a.iter().zip(b).zip(c).zip(d).zip(e).zip(f).zip(g).zip(h);
    for (weight, (((((((a, b), c), d), e), f), g), h)) in weights.iter().zip(values) {
        for (sum, value) in sums.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *sum = simd.mul_add_f32s(simd.splat_f32s(*value), *weight, *sum);
        }
    }
    sums
}

/// Correlation with few output channels: the vectors run along the window instead.
struct Narrow<'a> {
    input: &'a Planes,
    kernel: &'a Kernel,
    weights: &'a [f32],
    bias: &'a [f32],
    pad: usize,
    output: &'a mut Planes,
}

impl WithSimd for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { input, kernel, weights, bias, pad, output } = self;
        let (row_len, span, channels) = (input.w * input.c, kernel.span, kernel.channels);
        for image in 0..output.n {
            for oy in 0..output.h {
                let (low, high) = (pad.saturating_sub(oy), kernel.rows.min(input.h + pad - oy));
                for ox in 0..output.w {
                    let start = ((image * output.h + oy) * output.w + ox) * channels;
                    let pixel = &mut output.data[start..][..channels];
                    for ((value, bias), weights) in
                        pixel.iter_mut().zip(bias).zip(weights.chunks_exact(kernel.rows * span))
                    {
                        let mut sum = simd.splat_f32s(0.0);
                        for row in low..high {
                            let iy = oy + row - pad;
                            let window = &input.data[(image * input.h + iy) * row_len + ox * input.c..][..span];
                            let weights = &weights[row * span..][..span];
                            for (a, b) in window.chunks(S::F32_LANES).zip(weights.chunks(S::F32_LANES)) {
                                sum = simd.mul_add_f32s(simd.partial_load_f32s(a), simd.partial_load_f32s(b), sum);
                            }
                        }
                        *value = bias + simd.reduce_sum_f32s(sum);
                    }
                }
            }
        }
    }
}

struct WeightGradient<'a> {
    input: &'a Planes,
    output: &'a Planes,
    rows: usize,
    gradient: &'a mut [f32],
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        products(simd, self.input, self.output, self.rows, self.gradient);
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
