//! The gradient of a kernel's weights: sums over all windows of a batch.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::geometry::KernelWindow;
use crate::instructions::{lanes, on_vectors_of};
use crate::plane::Planes;
use crate::sums::VECTORS;
use crate::vector::{load_all, store};
use crate::winograd;

/// Number of values of the two planes that are processed for all weights before the next: with vectors of sixteen, as
/// many as fit the second-level cache.
const CACHED: usize = 3 << 15;
/// With vectors of eight, as many as fit the first-level cache, which is a tenth faster.
const CACHED_OF_EIGHT: usize = 1 << 13;

/// Adds to `gradient` `[row][column · wide channel][narrow channel]` the products of every value of `wide` with every
/// value of `narrow` whose window it is in.
///
/// Each sum is a chain of multiply-adds, or, if [`winograd`] is faster, a sum of chains that start at zero: a batch may
/// be given in pieces, but is then rounded differently.
pub fn weight_gradient(wide: &Planes, narrow: &Planes, window: KernelWindow, gradient: &mut [f32]) {
    debug_assert_eq!(gradient.len(), window.kernel[0] * window.kernel[1] * wide.size.c * narrow.size.c);
    let bordered = (window.padding != [0; 2]).then(|| wide.bordered(window.padding));
    let wide = bordered.as_ref().unwrap_or(wide);
    if !winograd::gradient::add_to(wide, narrow, window, gradient) {
        on_vectors_of(lanes(narrow.size.c), Sums { wide, narrow, window, gradient });
    }
}

struct Sums<'a> {
    wide: &'a Planes,
    narrow: &'a Planes,
    window: KernelWindow,
    gradient: &'a mut [f32],
}

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (wide, narrow) = (self.wide.size, self.narrow.size);
        let cached = if S::F32_LANES == 8 { CACHED_OF_EIGHT } else { CACHED };
        // A part consists of whole images, or of rows of one image.
        let row = self.window.stride * wide.w * wide.c + narrow.w * narrow.c;
        let rows = (cached / row.max(1)).clamp(1, narrow.h.max(1));
        let images = if rows < narrow.h { 1 } else { (cached / (wide.len() + narrow.len()).max(1)).max(1) };
        let channels = narrow.c;
        let step = VECTORS * S::F32_LANES;
        for start in (0..self.narrow.n).step_by(images) {
            for top in (0..narrow.h).step_by(rows) {
                let images = start..(start + images).min(self.narrow.n);
                let part = Part { images, rows: top..(top + rows).min(narrow.h) };
                for first in (0..channels).step_by(step) {
                    // As many sums as fit the registers, and not more values at once than there are.
                    let few = self.window.kernel[1] * wide.c <= 4;
                    match (channels - first > S::F32_LANES, few, S::F32_LANES == 8) {
                        (true, true, _) => self.block::<S, 4, 2>(simd, &part, first),
                        (true, false, true) => self.block::<S, 6, 2>(simd, &part, first),
                        (true, false, false) => self.block::<S, 8, 2>(simd, &part, first),
                        (false, ..) => self.block::<S, 8, 1>(simd, &part, first),
                    }
                }
            }
        }
    }
}

/// The part of the narrow plane that is processed for all weights before the next.
struct Part {
    images: Range<usize>,
    rows: Range<usize>,
}

impl Sums<'_> {
    /// Processes the narrow channels from `first` on, `V` vectors of them, and `T` values of the window at a time.
    #[inline(always)]
    fn block<S: Simd, const T: usize, const V: usize>(&mut self, simd: S, part: &Part, first: usize) {
        let (wide, narrow) = (self.wide.size, self.narrow.size);
        let KernelWindow { kernel: [rows, columns], stride, .. } = self.window;
        let (span, width) = (columns * wide.c, narrow.c);
        let (wide_row, narrow_row, step) = (wide.w * wide.c, narrow.w * narrow.c, stride * wide.c);
        let mut counts = [S::F32_LANES; V];
        counts[V - 1] = (width - first - (V - 1) * S::F32_LANES).min(S::F32_LANES);
        for row in 0..rows {
            for start in (0..span).step_by(T) {
                let count = T.min(span - start);
                let mut sums = [[simd.splat_f32s(0.0); V]; T];
                for (tap, sums) in sums.iter_mut().enumerate().take(count) {
                    *sums = load_all(simd, &self.gradient[(row * span + start + tap) * width + first..], counts);
                }
                for image in part.images.clone() {
                    for oy in part.rows.clone() {
                        let at = (image * wide.h + oy * stride + row) * wide_row + start;
                        let windows = &self.wide.data[at..][..wide_row - start];
                        let pixels = &self.narrow.data[(image * narrow.h + oy) * narrow_row..][..narrow_row];
                        let mut done = 0;
                        // This holds for most pixels of most layers: only products are computed.
                        if counts[V - 1] == S::F32_LANES && step >= T {
                            // A copy, each sum of which is found at compile time: it stays in registers, while `sums`
                            // is in memory.
                            let mut whole = sums;
                            for (pixel, window) in pixels.chunks_exact(narrow.c).zip(windows.chunks_exact(step)) {
                                let delta = load_all(simd, &pixel[first..], [S::F32_LANES; V]);
                                add_products::<S, T, V>(simd, &mut whole, &window[..T], delta);
                            }
                            sums = whole;
                            done = narrow.w.min(windows.len() / step);
                        }
                        for (ox, pixel) in pixels.chunks_exact(narrow.c).enumerate().skip(done) {
                            let delta = load_all(simd, &pixel[first..], counts);
                            let window = &windows[ox * step..];
                            // At the end of the row, where sums beyond the span are not kept; and for few channels.
                            let mut rest = [0.0; T];
                            let window = match window.first_chunk::<T>() {
                                Some(window) => window,
                                None => {
                                    rest[..window.len()].copy_from_slice(window);
                                    &rest
                                }
                            };
                            add_products::<S, T, V>(simd, &mut sums, window, delta);
                        }
                    }
                }
                for (tap, sums) in sums.into_iter().enumerate().take(count) {
                    let at = (row * span + start + tap) * width + first;
                    for (v, sum) in sums.into_iter().enumerate() {
                        let at = at + v * S::F32_LANES;
                        store(simd, &mut self.gradient[at..at + counts[v]], sum);
                    }
                }
            }
        }
    }
}

/// Adds to `sums` the products of each value of `window` with `delta`.
#[inline(always)]
fn add_products<S: Simd, const T: usize, const V: usize>(
    simd: S,
    sums: &mut [[S::f32s; V]; T],
    window: &[f32],
    delta: [S::f32s; V],
) {
    for (sums, value) in sums.iter_mut().zip(window) {
        let value = simd.splat_f32s(*value);
        for (sum, delta) in sums.iter_mut().zip(delta) {
            *sum = simd.mul_add_f32s(value, delta, *sum);
        }
    }
}
