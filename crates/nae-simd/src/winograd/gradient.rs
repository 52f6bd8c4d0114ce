//! The gradient of the weights of a convolution of three by three taps, computed on transformed tiles: the values that
//! the forward pass multiplies at each of the 36 places are summed here over the tiles. Gᵀ·(Σ (Bᵀ·d·B)(A·g·Aᵀ))·G,
//! with d a tile of the input and g the sixteen gradients of its output.

use pulp::{Simd, WithSimd};

use super::{
    APART, FAR, NEAR, OUTPUTS, PLACES, SIDE, TILES, column_of, is_quicker, pixels_of_column, place, row_of, rows_from,
    stride, tiles_of_one, times, transform,
};
use crate::geometry::KernelWindow;
use crate::instructions::{lanes, on_vectors_of};
use crate::plane::Planes;
use crate::sums::VECTORS;

/// Adds to `gradient` `[row][column · wide channel][narrow channel]` the products of `wide` with `narrow`, as
/// [`weight_gradient`](crate::gradient::weight_gradient) does, if this method is faster; else does nothing and returns
/// false. Windows lie within `wide`, which includes the padding.
pub fn add_to(wide: &Planes, narrow: &Planes, window: KernelWindow, gradient: &mut [f32]) -> bool {
    let lanes = lanes(narrow.size.c);
    let applies = is_quicker(window, [wide.size, narrow.size], lanes);
    if applies {
        on_vectors_of(lanes, Sums { wide, narrow, gradient });
    }
    applies
}

struct Sums<'a> {
    wide: &'a Planes,
    narrow: &'a Planes,
    gradient: &'a mut [f32],
}

// Everything below is inlined into the function that pulp compiles for each instruction set: see `correlate`.

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (from, to) = (self.wide.size.c, self.narrow.size.c);
        let workspace = self.wide.workspace().clone();
        let mut inputs = workspace.take(PLACES * stride(from));
        let mut outputs = workspace.take(PLACES * stride(to));
        let mut sums = workspace.take(PLACES * (from * to + APART));
        let mut zeros = workspace.take((self.wide.size.w * from).max(self.narrow.size.w * to));
        zeros.fill(0.0);
        sums.fill(0.0);
        let total = self.narrow.n * tiles_of_one(self.narrow.size);
        for first in (0..total).step_by(TILES) {
            let count = TILES.min(total - first);
            for tile in 0..count {
                let at = place(self.narrow.size, first + tile);
                transform(simd, self.wide, at, 0, &zeros, tile, &mut inputs);
                spread(simd, self.narrow, at, &zeros, tile, &mut outputs);
            }
            for place in 0..PLACES {
                let inputs = &inputs[place * stride(from)..][..count * from];
                let outputs = &outputs[place * stride(to)..][..count * to];
                let sums = &mut sums[place * (from * to + APART)..][..from * to];
                let step = VECTORS * S::F32_LANES;
                for start in (0..to).step_by(step) {
                    // As many sums as fit the registers.
                    match (to - start >= step, S::F32_LANES == 8) {
                        (true, true) => blocks::<S, 4, 2>(simd, [from, to, start], inputs, outputs, sums),
                        (true, false) => blocks::<S, 8, 2>(simd, [from, to, start], inputs, outputs, sums),
                        (false, _) => blocks::<S, 8, 1>(simd, [from, to, start], inputs, outputs, sums),
                    }
                }
            }
        }
        self.transform_back(simd, &sums);
        for buffer in [inputs, outputs, sums, zeros] {
            workspace.give(buffer);
        }
    }
}

impl Sums<'_> {
    /// Gᵀ·m·G of the sums of each pair of channels, added to the gradient.
    #[inline(always)]
    fn transform_back<S: Simd>(&mut self, simd: S, sums: &[f32]) {
        let (from, to) = (self.wide.size.c, self.narrow.size.c);
        let (sums, _) = S::as_simd_f32s(sums);
        let (gradient, _) = S::as_mut_simd_f32s(self.gradient);
        let vectors = to / S::F32_LANES;
        let (pairs, between) = (from * vectors, (from * to + APART) / S::F32_LANES);
        for pair in 0..pairs {
            let columns = [
                taps(simd, column_of(sums, between, pair, 0)),
                taps(simd, column_of(sums, between, pair, 1)),
                taps(simd, column_of(sums, between, pair, 2)),
                taps(simd, column_of(sums, between, pair, 3)),
                taps(simd, column_of(sums, between, pair, 4)),
                taps(simd, column_of(sums, between, pair, 5)),
            ];
            for row in 0..3 {
                for (column, tap) in taps(simd, row_of(&columns, row)).into_iter().enumerate() {
                    let gradient = &mut gradient[(3 * row + column) * pairs + pair];
                    *gradient = simd.add_f32s(*gradient, tap);
                }
            }
        }
    }
}

/// Computes A·g·Aᵀ of the sixteen gradients from `[image, y, x]` on and writes it to the values of `tile`; `zeros` are a
/// row past the last one.
#[inline(always)]
fn spread<S: Simd>(
    simd: S,
    narrow: &Planes,
    [image, y, x]: [usize; 3],
    zeros: &[f32],
    tile: usize,
    values: &mut [f32],
) {
    let rows = rows_from::<S, OUTPUTS>(narrow, image, y, zeros);
    let (values, _) = S::as_mut_simd_f32s(values);
    let (vectors, between) = (narrow.size.c / S::F32_LANES, stride(narrow.size.c) / S::F32_LANES);
    for v in 0..vectors {
        let column = |k: usize| pixels_of_column(simd, &rows, x + k, [vectors, v]);
        let columns = [
            at_points(simd, column(0)),
            at_points(simd, column(1)),
            at_points(simd, column(2)),
            at_points(simd, column(3)),
        ];
        for row in 0..SIDE {
            let [a, b, c, d] = &columns;
            let values = &mut values[SIDE * row * between + tile * vectors + v..][..5 * between + 1];
            for (column, value) in at_points(simd, [a[row], b[row], c[row], d[row]]).into_iter().enumerate() {
                values[column * between] = value;
            }
        }
    }
}

/// A times a column.
#[inline(always)]
fn at_points<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; OUTPUTS]) -> [S::f32s; SIDE] {
    let ([even_near, odd_near], [even_far, odd_far]) =
        ([times(simd, 0.5, c, a), times(simd, 0.5, d, b)], [times(simd, 2.0, c, a), times(simd, 2.0, d, b)]);
    [
        a,
        times(simd, NEAR, odd_near, even_near),
        times(simd, -NEAR, odd_near, even_near),
        times(simd, FAR, odd_far, even_far),
        times(simd, -FAR, odd_far, even_far),
        d,
    ]
}

/// Gᵀ times a column.
#[inline(always)]
fn taps<S: Simd>(simd: S, [a, b, c, d, e, f]: [S::f32s; SIDE]) -> [S::f32s; 3] {
    let (even_near, even_far) = (simd.add_f32s(b, c), simd.add_f32s(d, e));
    let (odd_near, odd_far) = (simd.sub_f32s(b, c), simd.sub_f32s(d, e));
    [
        times(simd, -1.0 / 1.5, even_near, times(simd, 1.0 / 6.0, even_far, a)),
        times(simd, -NEAR / 1.5, odd_near, simd.mul_f32s(simd.splat_f32s(FAR / 6.0), odd_far)),
        times(simd, 1.0 / 3.0, simd.sub_f32s(even_far, even_near), f),
    ]
}

/// Adds to `sums`, `[wide channel][narrow channel]`, the products of `inputs` and `outputs` over the tiles at one
/// place: for the narrow channels of `V` vectors from `start` on, `P` wide channels at a time.
#[inline(always)]
fn blocks<S: Simd, const P: usize, const V: usize>(
    simd: S,
    [from, to, start]: [usize; 3],
    inputs: &[f32],
    outputs: &[f32],
    sums: &mut [f32],
) {
    let whole = from - from % P;
    let (sums, rest) = sums.split_at_mut(whole * to);
    for (k, sums) in sums.chunks_exact_mut(P * to).enumerate() {
        block::<S, P, V>(simd, [from, k * P], [to, start], inputs, outputs, sums);
    }
    for (k, sums) in rest.chunks_exact_mut(to).enumerate() {
        block::<S, 1, V>(simd, [from, whole + k], [to, start], inputs, outputs, sums);
    }
}

/// As [`blocks`], for the `P` wide channels from `first` on.
#[inline(always)]
fn block<S: Simd, const P: usize, const V: usize>(
    simd: S,
    [from, first]: [usize; 2],
    [to, start]: [usize; 2],
    inputs: &[f32],
    outputs: &[f32],
    sums: &mut [f32],
) {
    let mut products = [[simd.splat_f32s(0.0); V]; P];
    for (products, sums) in products.iter_mut().zip(sums.chunks_exact(to)) {
        products.copy_from_slice(&S::as_simd_f32s(&sums[start..]).0[..V]);
    }
    for (input, output) in inputs.chunks_exact(from).zip(outputs.chunks_exact(to)) {
        let (output, _) = S::as_simd_f32s(&output[start..][..V * S::F32_LANES]);
        for (products, value) in products.iter_mut().zip(&input[first..][..P]) {
            let value = simd.splat_f32s(*value);
            for (product, output) in products.iter_mut().zip(output) {
                *product = simd.mul_add_f32s(value, *output, *product);
            }
        }
    }
    for (products, sums) in products.into_iter().zip(sums.chunks_exact_mut(to)) {
        S::as_mut_simd_f32s(&mut sums[start..]).0[..V].copy_from_slice(&products);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradient::weight_gradient;
    use crate::plane::Size;

    /// Compares with sums over all windows in float64; with rows and columns where tiles exceed the plane, and
    /// with several batches of tiles.
    #[test]
    fn gradients_are_those_of_the_definition() {
        for [n, h, w, from, to, padding] in [[2, 4, 4, 16, 32, 0], [1, 7, 5, 64, 32, 0], [9, 5, 8, 32, 48, 1]] {
            let [wide, narrow] =
                [Size { h: h + 2 - 2 * padding, w: w + 2 - 2 * padding, c: from }, Size { h, w, c: to }];
            let planes = |size: Size, factor: f32| {
                let values: Vec<f32> = (0..n * size.len()).map(|i| (i as f32 * factor).sin()).collect();
                Planes::from_channels_first(&crate::Workspace::default(), n, size, &values)
            };
            let (x, g) = (planes(wide, 0.7), planes(narrow, 0.3));
            let mut gradient = vec![1.0; 9 * from * to];
            weight_gradient(&x, &g, KernelWindow { kernel: [3, 3], stride: 1, padding: [padding; 2] }, &mut gradient);
            for (at, value) in gradient.into_iter().enumerate() {
                let (tap, a, b) = (at / (from * to), at / to % from, at % to);
                let mut sum = 1.0;
                for (image, y, x_) in (0..n * h * w).map(|k| (k / (h * w), k / w % h, k % w)) {
                    let (row, column) = ((y + tap / 3).wrapping_sub(padding), (x_ + tap % 3).wrapping_sub(padding));
                    if row < wide.h && column < wide.w {
                        let value = x.data[image * wide.len() + (row * wide.w + column) * from + a];
                        sum += f64::from(value) * f64::from(g.data[image * narrow.len() + (y * w + x_) * to + b]);
                    }
                }
                assert!((f64::from(value) - sum).abs() < 1e-4, "{at} of {n}×{h}×{w}: {value}, not {sum}");
            }
        }
    }
}
