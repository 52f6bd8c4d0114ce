//! Structural similarity (Wang, Bovik, Sheikh and Simoncelli, IEEE TIP 13(4), 2004), equation 13,
//! without a buffer: each window is visited in two passes, means first, then central moments, which
//! loses less to cancellation than E[x²] − E[x]².

use super::Sum;
use crate::Shape;

const SIDE: usize = 11;
const SIGMA: f32 = 1.5;
const C1: f32 = 0.01 * 0.01;
const C2: f32 = 0.03 * 0.03;

/// Normalized Gaussian weights of a window of `side` ≤ [`SIDE`]; the rest are zero.
fn gaussian(side: usize) -> [f32; SIDE] {
    let mut weights = [0.0; SIDE];
    let middle = (side as f32 - 1.0) / 2.0;
    let mut total = 0.0;
    for (i, weight) in weights.iter_mut().take(side).enumerate() {
        let d = (i as f32 - middle) / SIGMA;
        *weight = libm::expf(-0.5 * d * d);
        total += *weight;
    }
    for weight in &mut weights {
        *weight /= total;
    }
    weights
}

/// Number of values read: each window is read once for each of its two means, its two variances and its covariance.
pub(super) const fn operations(shape: Shape) -> u64 {
    let (rows, columns) = (window_side(shape.height), window_side(shape.width));
    let places = ((shape.height - rows + 1) as u64).saturating_mul((shape.width - columns + 1) as u64);
    places.saturating_mul(shape.channels as u64).saturating_mul((5 * rows * columns) as u64)
}

/// The side of a window along an axis of this length.
const fn window_side(side: usize) -> usize {
    if side < SIDE { side } else { SIDE }
}

/// Mean SSIM over windows and channels. The lengths must have been checked against `shape`.
pub(super) fn mean_ssim(x: &[f32], y: &[f32], shape: Shape) -> f32 {
    let (rows, columns) = (window_side(shape.height), window_side(shape.width));
    let (down, across) = (gaussian(rows), gaussian(columns));
    let (down, across) = (&down[..rows], &across[..columns]);
    let mut sum = Sum::default();
    let mut count = 0u32;
    for top in 0..=shape.height - rows {
        for left in 0..=shape.width - columns {
            for channel in 0..shape.channels {
                let window =
                    Window { down, across, start: (top * shape.width + left) * shape.channels + channel, shape };
                sum.add(window.ssim(x, y));
                count += 1;
            }
        }
    }
    sum.total / count as f32
}

struct Window<'a> {
    down: &'a [f32],
    across: &'a [f32],
    start: usize,
    shape: Shape,
}

impl Window<'_> {
    /// Weighted sum of `f(x, y)` over the window.
    fn sum(&self, x: &[f32], y: &[f32], mut f: impl FnMut(f32, f32) -> f32) -> f32 {
        let mut total = 0.0;
        for (i, down) in self.down.iter().enumerate() {
            let start = self.start + i * self.shape.width * self.shape.channels;
            let row = x.iter().skip(start).step_by(self.shape.channels);
            let row = row.zip(y.iter().skip(start).step_by(self.shape.channels));
            for (across, (x, y)) in self.across.iter().zip(row) {
                total += down * across * f(*x, *y);
            }
        }
        total
    }

    fn ssim(&self, x: &[f32], y: &[f32]) -> f32 {
        let mean_x = self.sum(x, y, |x, _| x);
        let mean_y = self.sum(x, y, |_, y| y);
        let var_x = self.sum(x, y, |x, _| (x - mean_x) * (x - mean_x));
        let var_y = self.sum(x, y, |_, y| (y - mean_y) * (y - mean_y));
        let covariance = self.sum(x, y, |x, y| (x - mean_x) * (y - mean_y));
        let luminance = (2.0 * mean_x * mean_y + C1) / (mean_x * mean_x + mean_y * mean_y + C1);
        luminance * (2.0 * covariance + C2) / (var_x + var_y + C2)
    }
}
