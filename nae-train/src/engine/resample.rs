//! Pooling and enlargement, each with its backward pass.

use pulp::{Simd, WithSimd};

use super::instructions::{lanes, on_vectors_of};
use super::plane::{Planes, Size};
use super::pointwise::rectified;
use super::vector::{load, store};
use crate::arch::upsample::axis_weights;

fn pooled(size: Size, window: usize) -> Size {
    Size { h: size.h / window, w: size.w / window, c: size.c }
}

/// Largest of each `window` × `window` block; rows and columns that do not fill one are left out.
pub fn max_pool(x: &Planes, window: usize) -> Planes {
    let mut output = Planes::scratch(x.n, pooled(x.size, window));
    on_vectors_of(lanes(x.size.c), MaxPool { x, window, output: &mut output });
    output
}

struct MaxPool<'a> {
    x: &'a Planes,
    window: usize,
    output: &'a mut Planes,
}

impl WithSimd for MaxPool<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, window, output } = self;
        let (from, to) = (x.size, output.size);
        for (image, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
            for (at, out) in y.chunks_exact_mut(to.c).enumerate() {
                let corner = (at / to.w * from.w + at % to.w) * window;
                for (k, out) in out.chunks_mut(S::F32_LANES).enumerate() {
                    let mut best = simd.splat_f32s(f32::NEG_INFINITY);
                    for tap in 0..window * window {
                        let pixel = (corner + tap / window * from.w + tap % window) * from.c;
                        let value = load(simd, &image[pixel + k * S::F32_LANES..][..out.len()]);
                        best = simd.select_f32s(simd.greater_than_f32s(value, best), value, best);
                    }
                    store(simd, out, best);
                }
            }
        }
    }
}

/// The gradient before [`max_pool`], which made `y` of `x`; the first of equals gets it. Where a rectifier of `slope`,
/// not negative, made `x`, the gradient before that: the largest value has the sign of its block's output.
pub fn max_pool_backward(x: &Planes, y: &Planes, gradient: &Planes, window: usize, slope: Option<f32>) -> Planes {
    let (from, to) = (x.size, y.size);
    let whole = (to.h * window, to.w * window) == (from.h, from.w);
    let mut input = if whole { Planes::scratch(x.n, from) } else { Planes::zeros(x.n, from) };
    on_vectors_of(lanes(from.c), MaxPoolBackward { x, y, gradient, window, slope, input: &mut input });
    input
}

struct MaxPoolBackward<'a> {
    x: &'a Planes,
    y: &'a Planes,
    gradient: &'a Planes,
    window: usize,
    slope: Option<f32>,
    input: &'a mut Planes,
}

impl WithSimd for MaxPoolBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, y, gradient, window, slope, input } = self;
        let (from, to) = (x.size, y.size);
        let zero = simd.splat_f32s(0.0);
        let samples = x.data.chunks_exact(from.len()).zip(input.data.chunks_exact_mut(from.len()));
        let pooled = y.data.chunks_exact(to.len()).zip(gradient.data.chunks_exact(to.len()));
        for ((x, input), (y, gradient)) in samples.zip(pooled) {
            for (at, (y, g)) in y.chunks_exact(to.c).zip(gradient.chunks_exact(to.c)).enumerate() {
                let corner = (at / to.w * from.w + at % to.w) * window;
                for (k, (y, g)) in y.chunks(S::F32_LANES).zip(g.chunks(S::F32_LANES)).enumerate() {
                    let (channels, y) = (y.len(), load(simd, y));
                    // What is still to be given away.
                    let mut left = load(simd, g);
                    if let Some(slope) = slope {
                        left = rectified(simd, left, y, slope);
                    }
                    for tap in 0..window * window {
                        let pixel = (corner + tap / window * from.w + tap % window) * from.c + k * S::F32_LANES;
                        let won = simd.equal_f32s(load(simd, &x[pixel..][..channels]), y);
                        store(simd, &mut input[pixel..][..channels], simd.select_f32s(won, left, zero));
                        left = simd.select_f32s(won, zero, left);
                    }
                }
            }
        }
    }
}

/// Mean of each `window` × `window` block; rows and columns that do not fill one are left out.
pub fn average_pool(x: &Planes, window: usize) -> Planes {
    let (from, to) = (x.size, pooled(x.size, window));
    let mut output = Planes::zeros(x.n, to);
    let scale = 1.0 / (window * window) as f32;
    for (image, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
        for (at, out) in y.chunks_exact_mut(to.c).enumerate() {
            let corner = (at / to.w * from.w + at % to.w) * window;
            for tap in 0..window * window {
                let pixel = corner + tap / window * from.w + tap % window;
                for (sum, value) in out.iter_mut().zip(&image[pixel * from.c..][..from.c]) {
                    *sum += value;
                }
            }
            out.iter_mut().for_each(|sum| *sum *= scale);
        }
    }
    output
}

/// The gradient before [`average_pool`] of samples of size `from`.
pub fn average_pool_backward(gradient: &Planes, from: Size, window: usize) -> Planes {
    spread(gradient, from, window, 1.0 / (window * window) as f32)
}

/// Each pixel as a block of `factor` × `factor` equal ones.
pub fn nearest(x: &Planes, factor: usize) -> Planes {
    spread(x, Size { h: x.size.h * factor, w: x.size.w * factor, c: x.size.c }, factor, 1.0)
}

/// The gradient before [`nearest`]: the sum of each block.
pub fn nearest_backward(gradient: &Planes, factor: usize) -> Planes {
    let mut input = average_pool(gradient, factor);
    let scale = (factor * factor) as f32;
    input.data.iter_mut().for_each(|g| *g *= scale);
    input
}

/// Each value of `x`, scaled, in a block of `window` × `window` of planes of size `to`; zero where there is no block.
fn spread(x: &Planes, to: Size, window: usize, scale: f32) -> Planes {
    let from = x.size;
    let mut output = Planes::zeros(x.n, to);
    for (x, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
        for (at, pixel) in x.chunks_exact(from.c).enumerate() {
            let corner = (at / from.w * to.w + at % from.w) * window;
            for tap in 0..window * window {
                let target = corner + tap / window * to.w + tap % window;
                for (y, x) in y[target * to.c..][..to.c].iter_mut().zip(pixel) {
                    *y = scale * x;
                }
            }
        }
    }
    output
}

/// A bilinear enlargement with corners aligned: for each target pixel its sources and their weights.
#[derive(Clone, Debug)]
pub struct Enlargement {
    from: [usize; 2],
    to: [usize; 2],
    taps: Vec<[(u32, f32); 4]>,
}

impl Enlargement {
    /// From `from` to `to` rows and columns.
    pub fn new(from: [usize; 2], to: [usize; 2]) -> Self {
        let pairs = |from: usize, to: usize| -> Vec<[(usize, f32); 2]> {
            axis_weights(from, to)
                .chunks_exact(from)
                .map(|row| {
                    let mut taps = row.iter().copied().enumerate().filter(|(_, weight)| *weight != 0.0);
                    let first = taps.next().unwrap_or((0, 0.0));
                    [first, taps.next().unwrap_or((first.0, 0.0))]
                })
                .collect()
        };
        let (rows, columns) = (pairs(from[0], to[0]), pairs(from[1], to[1]));
        let mut taps = Vec::with_capacity(to[0] * to[1]);
        for row in &rows {
            for column in &columns {
                taps.push(std::array::from_fn(|k| {
                    let ((y, a), (x, b)) = (row[k / 2], column[k % 2]);
                    ((y * from[1] + x) as u32, a * b)
                }));
            }
        }
        Self { from, to, taps }
    }

    /// The enlarged planes.
    pub fn forward(&self, x: &Planes) -> Planes {
        let c = x.size.c;
        let mut output = Planes::scratch(x.n, Size { h: self.to[0], w: self.to[1], c });
        on_vectors_of(lanes(c), Enlarge { taps: &self.taps, x, output: &mut output });
        output
    }

    /// The gradient before the enlargement.
    pub fn backward(&self, gradient: &Planes) -> Planes {
        let c = gradient.size.c;
        let mut input = Planes::zeros(gradient.n, Size { h: self.from[0], w: self.from[1], c });
        on_vectors_of(lanes(c), EnlargeBackward { taps: &self.taps, gradient, input: &mut input });
        input
    }
}

struct Enlarge<'a> {
    taps: &'a [[(u32, f32); 4]],
    x: &'a Planes,
    output: &'a mut Planes,
}

impl WithSimd for Enlarge<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (c, source, target) = (self.x.size.c, self.x.size.len(), self.output.size.len());
        for (from, to) in self.x.data.chunks_exact(source).zip(self.output.data.chunks_exact_mut(target)) {
            for (pixel, taps) in to.chunks_exact_mut(c).zip(self.taps) {
                for (k, out) in pixel.chunks_mut(S::F32_LANES).enumerate() {
                    let mut sum = simd.splat_f32s(0.0);
                    for (index, weight) in taps {
                        let value = load(simd, &from[*index as usize * c + k * S::F32_LANES..][..out.len()]);
                        sum = simd.add_f32s(sum, simd.mul_f32s(value, simd.splat_f32s(*weight)));
                    }
                    store(simd, out, sum);
                }
            }
        }
    }
}

struct EnlargeBackward<'a> {
    taps: &'a [[(u32, f32); 4]],
    gradient: &'a Planes,
    input: &'a mut Planes,
}

impl WithSimd for EnlargeBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (c, source, target) = (self.input.size.c, self.input.size.len(), self.gradient.size.len());
        for (to, from) in self.gradient.data.chunks_exact(target).zip(self.input.data.chunks_exact_mut(source)) {
            for (pixel, taps) in to.chunks_exact(c).zip(self.taps) {
                for &(index, weight) in taps {
                    let weight = simd.splat_f32s(weight);
                    let sums = from[index as usize * c..][..c].chunks_mut(S::F32_LANES);
                    for (sum, value) in sums.zip(pixel.chunks(S::F32_LANES)) {
                        let total = simd.add_f32s(load(simd, sum), simd.mul_f32s(load(simd, value), weight));
                        store(simd, sum, total);
                    }
                }
            }
        }
    }
}
