//! Pooling and enlargement, each with its backward pass.

use pulp::Arch;

use super::plane::{Planes, Size};
use crate::arch::upsample::axis_weights;

fn pooled(size: Size, window: usize) -> Size {
    Size { h: size.h / window, w: size.w / window, c: size.c }
}

/// Largest of each `window` × `window` block; rows and columns that do not fill one are left out.
pub fn max_pool(x: &Planes, window: usize) -> Planes {
    let (from, to) = (x.size, pooled(x.size, window));
    let mut output = Planes::scratch(x.n, to);
    Arch::new().dispatch(|| {
        for (image, y) in x.data.chunks_exact(from.len()).zip(output.data.chunks_exact_mut(to.len())) {
            for (at, out) in y.chunks_exact_mut(to.c).enumerate() {
                let corner = (at / to.w * from.w + at % to.w) * window;
                out.fill(f32::NEG_INFINITY);
                for tap in 0..window * window {
                    let pixel = corner + tap / window * from.w + tap % window;
                    for (best, value) in out.iter_mut().zip(&image[pixel * from.c..][..from.c]) {
                        *best = if *value > *best { *value } else { *best };
                    }
                }
            }
        }
    });
    output
}

/// The gradient before [`max_pool`], which made `y` of `x`; the first of equals gets it. Where a rectifier of `slope`,
/// not negative, made `x`, the gradient before that: the largest value has the sign of its block's output.
pub fn max_pool_backward(x: &Planes, y: &Planes, gradient: &Planes, window: usize, slope: Option<f32>) -> Planes {
    let (from, to) = (x.size, y.size);
    let whole = (to.h * window, to.w * window) == (from.h, from.w);
    let mut input = if whole { Planes::scratch(x.n, from) } else { Planes::zeros(x.n, from) };
    let slope = slope.unwrap_or(1.0);
    Arch::new().dispatch(|| {
        // What of each channel's gradient is still to be given away.
        let mut left = vec![0.0f32; to.c];
        let samples = x.data.chunks_exact(from.len()).zip(input.data.chunks_exact_mut(from.len()));
        let pooled = y.data.chunks_exact(to.len()).zip(gradient.data.chunks_exact(to.len()));
        for ((x, input), (y, gradient)) in samples.zip(pooled) {
            for (at, (y, g)) in y.chunks_exact(to.c).zip(gradient.chunks_exact(to.c)).enumerate() {
                for ((left, g), y) in left.iter_mut().zip(g).zip(y) {
                    *left = if *y > 0.0 { *g } else { slope * *g };
                }
                let corner = (at / to.w * from.w + at % to.w) * window;
                for tap in 0..window * window {
                    let pixel = (corner + tap / window * from.w + tap % window) * from.c;
                    let values = x[pixel..][..from.c].iter().zip(&mut input[pixel..][..from.c]);
                    for (((x, input), y), left) in values.zip(y).zip(&mut left) {
                        let won = *x == *y;
                        *input = if won { *left } else { 0.0 };
                        *left = if won { 0.0 } else { *left };
                    }
                }
            }
        }
    });
    input
}

/// Mean of each `window` × `window` block; rows and columns that do not fill one are left out.
pub fn average_pool(x: &Planes, window: usize) -> Planes {
    let (from, to) = (x.size, pooled(x.size, window));
    let mut output = Planes::zeros(x.n, to);
    let scale = 1.0 / (window * window) as f32;
    Arch::new().dispatch(|| {
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
    });
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
    Arch::new().dispatch(|| {
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
    });
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
        let (source, target) = (x.size.len(), output.size.len());
        Arch::new().dispatch(|| {
            for (from, to) in x.data.chunks_exact(source).zip(output.data.chunks_exact_mut(target)) {
                for (pixel, taps) in to.chunks_exact_mut(c).zip(&self.taps) {
                    let [p, q, r, s] = taps.map(|(index, _)| &from[index as usize * c..][..c]);
                    let [a, b, d, e] = taps.map(|(_, weight)| weight);
                    for ((((out, p), q), r), s) in pixel.iter_mut().zip(p).zip(q).zip(r).zip(s) {
                        *out = a * p + b * q + d * r + e * s;
                    }
                }
            }
        });
        output
    }

    /// The gradient before the enlargement.
    pub fn backward(&self, gradient: &Planes) -> Planes {
        let c = gradient.size.c;
        let mut input = Planes::zeros(gradient.n, Size { h: self.from[0], w: self.from[1], c });
        let (source, target) = (input.size.len(), gradient.size.len());
        Arch::new().dispatch(|| {
            for (to, from) in gradient.data.chunks_exact(target).zip(input.data.chunks_exact_mut(source)) {
                for (pixel, taps) in to.chunks_exact(c).zip(&self.taps) {
                    for &(index, weight) in taps {
                        for (sum, value) in from[index as usize * c..][..c].iter_mut().zip(pixel) {
                            *sum += weight * value;
                        }
                    }
                }
            }
        });
        input
    }
}
