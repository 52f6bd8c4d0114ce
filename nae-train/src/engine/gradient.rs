//! The gradient of a kernel's weights: sums over all windows of a batch.

use pulp::{Simd, WithSimd};

use super::correlate::{VECTORS, lanes, on_vectors_of};
use super::plane::Planes;

/// Values of the two planes that are gone through for all weights before the next: what the second-level cache holds.
const CACHED: usize = 3 << 15;

/// Adds to `gradient` `[row][column · wide channel][narrow channel]` the products of every value of `wide` with every
/// value of `narrow` whose window it is in. Windows are `stride` apart, have as many rows as `rows` says, and lie within
/// `wide`.
///
/// Each sum is one chain of multiply-adds that starts at the value found, so a batch may be given in pieces.
pub fn weight_gradient(wide: &Planes, narrow: &Planes, rows: usize, stride: usize, gradient: &mut [f32]) {
    on_vectors_of(lanes(narrow.size.c), Products { wide, narrow, rows, stride, gradient });
}

struct Products<'a> {
    wide: &'a Planes,
    narrow: &'a Planes,
    rows: usize,
    stride: usize,
    gradient: &'a mut [f32],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let images = (CACHED / (self.wide.size.len() + self.narrow.size.len()).max(1)).max(1);
        let channels = self.narrow.size.c;
        let step = VECTORS * S::F32_LANES;
        for start in (0..self.narrow.n).step_by(images) {
            let images = start..(start + images).min(self.narrow.n);
            for first in (0..channels).step_by(step) {
                match (channels - first > S::F32_LANES, S::F32_LANES == 8) {
                    (true, false) => self.block::<S, 8, 2>(simd, images.clone(), first),
                    (true, true) => self.block::<S, 6, 2>(simd, images.clone(), first),
                    (false, _) => self.block::<S, 8, 1>(simd, images.clone(), first),
                }
            }
        }
    }
}

impl Products<'_> {
    /// Narrow channels from `first` on, `V` vectors of them, `T` values of the window at a time.
    #[inline(always)]
    fn block<S: Simd, const T: usize, const V: usize>(
        &mut self,
        simd: S,
        images: std::ops::Range<usize>,
        first: usize,
    ) {
        let (wide, narrow) = (self.wide.size, self.narrow.size);
        let span = self.gradient.len() / (self.rows * narrow.c);
        let (wide_row, narrow_row, step) = (wide.w * wide.c, narrow.w * narrow.c, self.stride * wide.c);
        let counts: [usize; V] =
            std::array::from_fn(|v| S::F32_LANES.min(narrow.c.saturating_sub(first + v * S::F32_LANES)));
        let whole = counts[V - 1] == S::F32_LANES;
        let load = |pixel: &[f32]| -> [S::f32s; V] {
            let values = &pixel[first..];
            if whole {
                let (vectors, _) = S::as_simd_f32s(values).0.as_chunks::<V>();
                vectors[0]
            } else {
                std::array::from_fn(|v| simd.partial_load_f32s(&values[v * S::F32_LANES..][..counts[v]]))
            }
        };
        for row in 0..self.rows {
            for start in (0..span).step_by(T) {
                let taps = T.min(span - start);
                let mut sums = [[simd.splat_f32s(0.0); V]; T];
                for (tap, sums) in sums.iter_mut().enumerate().take(taps) {
                    *sums = load(&self.gradient[((row * span) + start + tap) * narrow.c..][..narrow.c]);
                }
                for image in images.clone() {
                    for oy in 0..narrow.h {
                        let at = (image * wide.h + oy * self.stride + row) * wide_row;
                        let windows = &self.wide.data[at..at + wide_row];
                        let pixels = &self.narrow.data[(image * narrow.h + oy) * narrow_row..][..narrow_row];
                        for (ox, pixel) in pixels.chunks_exact(narrow.c).enumerate() {
                            let delta = load(pixel);
                            let window = &windows[ox * step + start..];
                            let window = match window.first_chunk::<T>() {
                                Some(window) => *window,
                                // The end of the row; what lies beyond the span is not kept.
                                None => std::array::from_fn(|t| window.get(t).copied().unwrap_or(0.0)),
                            };
                            for (sums, value) in sums.iter_mut().zip(window) {
                                let value = simd.splat_f32s(value);
                                for (sum, delta) in sums.iter_mut().zip(delta) {
                                    *sum = simd.mul_add_f32s(value, delta, *sum);
                                }
                            }
                        }
                    }
                }
                for (tap, sums) in sums.into_iter().enumerate().take(taps) {
                    let at = ((row * span) + start + tap) * narrow.c + first;
                    for (v, sum) in sums.into_iter().enumerate() {
                        let at = at + v * S::F32_LANES;
                        simd.partial_store_f32s(&mut self.gradient[at..at + counts[v]], sum);
                    }
                }
            }
        }
    }
}
