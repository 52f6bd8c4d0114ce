//! Convolutions of three by three taps with fewer multiplications: F(4×4, 3×3) of Lavin and Gray (CVPR 2016), after
//! Winograd (Arithmetic Complexity of Computations, 1980).
//!
//! Sixteen output pixels in a square are made from 36 products instead of 144. Input tiles of 6×6 pixels and the kernels
//! are transformed, multiplied at each of the 36 places as matrices over the channels, and transformed back. In addition
//! to the multiplications, this takes a few additions per value; it is faster if there are many channels. Every tile is
//! computed separately, so results do not depend on the batch. [`gradient`] applies the same method to the gradient of
//! the weights.
//!
//! A row of a tile is evaluated at the points 0, ±√½, ±√2 and ∞. With the points 0, ±1, ±2 and ∞ of Lavin and Gray,
//! rounding errors are twice as large, and the largest of them four times; with these they are twice those of the direct
//! sum.

pub mod gradient;

use pulp::{Simd, WithSimd};

use crate::geometry::{KernelWindow, Reading, taps};
use crate::plane::{Planes, Size};
use crate::sums::{Finish, VECTORS, finished, sum_of_products};
use crate::vector::store;

/// Side of the square of output pixels that are computed from one tile.
const OUTPUTS: usize = 4;
/// Side of a tile of the input, and of a transformed tile.
const SIDE: usize = OUTPUTS + 2;
/// Number of places of a transformed tile.
const PLACES: usize = SIDE * SIDE;
/// The points other than 0 and ∞ are ±[`NEAR`] and ±[`FAR`]. Their squares are one half and two.
const NEAR: f32 = std::f32::consts::FRAC_1_SQRT_2;
const FAR: f32 = std::f32::consts::SQRT_2;
/// Number of tiles that are processed together: their values at one place, and the weights there, share the first-level
/// cache. A multiple of the number of tiles that are summed in registers together, which is six for AVX2 and eight for
/// AVX-512.
const TILES: usize = 24;
/// Number of tiles that are summed together if there are no more: a single image may have few.
const FEW: usize = 4;
/// Additional values between the tiles of one place and those of the next. A tile is written to all places at once: if
/// these were a power of two apart, they would share a few lines of the cache.
const APART: usize = 16;
/// The smallest number of channels, in and out, for which this method is faster.
const CHANNELS: usize = 16;
/// The smallest number of output pixels for which this method is faster.
const PIXELS: usize = 16;

/// A transformed kernel.
#[derive(Clone, Debug)]
pub struct Winograd {
    /// `[place][block][input channel][lanes of the block]`; all blocks but the last have [`VECTORS`] vectors.
    weights: Vec<f32>,
    /// Number of zeros around the input.
    border: usize,
}

impl Winograd {
    /// Transforms the kernel given by `weight(out channel, in channel, row, column)`; `None` if this method is not
    /// faster. A vector has `lanes` values.
    pub fn new(
        reading: Reading,
        window: KernelWindow,
        [from, to]: [Size; 2],
        lanes: usize,
        weight: impl Fn(usize, usize, usize, usize) -> f32,
    ) -> Option<Self> {
        let [padding, other] = window.padding;
        if !is_quicker(window, [from, to], lanes) || padding > 2 || padding != other {
            return None;
        }
        let border = match reading {
            Reading::Convolution => padding,
            Reading::Transposed => 2 - padding,
        };
        let order = &taps(reading, 3, 1)[0];
        let step = VECTORS * lanes;
        let mut weights = vec![0.0; PLACES * from.c * to.c];
        for o in 0..to.c {
            let start = o - o % step;
            let (block, width) = (start * from.c, step.min(to.c - start));
            for i in 0..from.c {
                let kernel = [0, 1, 2].map(|r| [0, 1, 2].map(|c| f64::from(weight(o, i, order[r], order[c]))));
                for (place, value) in transformed_kernel(kernel).into_iter().enumerate() {
                    weights[place * from.c * to.c + block + i * width + o % step] = value as f32;
                }
            }
        }
        Some(Self { weights, border })
    }
}

/// Whether this method is faster than the direct one, for vectors of `lanes` values.
fn is_quicker(window: KernelWindow, [from, to]: [Size; 2], lanes: usize) -> bool {
    let whole = from.c.is_multiple_of(lanes) && to.c.is_multiple_of(lanes);
    let worth = from.c.min(to.c) >= CHANNELS && to.h * to.w >= PIXELS;
    window.kernel == [3, 3] && window.stride == 1 && whole && worth
}

/// G·g·Gᵀ.
fn transformed_kernel(kernel: [[f64; 3]; 3]) -> [f64; PLACES] {
    let [near, far] = [f64::from(NEAR), f64::from(FAR)];
    let along = |[a, b, c]: [f64; 3]| {
        let at_near = |sign: f64| -(a + sign * near * b + c / 2.0) / 1.5;
        let at_far = |sign: f64| (a + sign * far * b + 2.0 * c) / 6.0;
        [a, at_near(1.0), at_near(-1.0), at_far(1.0), at_far(-1.0), c]
    };
    let columns = [0, 1, 2].map(|c| along([kernel[0][c], kernel[1][c], kernel[2][c]]));
    let mut places = [0.0; PLACES];
    for (r, row) in places.chunks_exact_mut(SIDE).enumerate() {
        row.copy_from_slice(&along([columns[0][r], columns[1][r], columns[2][r]]));
    }
    places
}

/// The pass of a layer with a transformed kernel.
pub struct Pass<'a> {
    /// The kernel.
    pub winograd: &'a Winograd,
    /// The bias of the kernel.
    pub bias: &'a [f32],
    /// The input of the layer.
    pub input: &'a Planes,
    /// The operation on a sum before it is written.
    pub finish: Finish<'a>,
    /// The output of the layer.
    pub output: &'a mut Planes,
}

// Everything below is inlined into the function that pulp compiles for each instruction set: see `correlate`.

impl WithSimd for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (from, to) = (self.input.size.c, self.output.size.c);
        let workspace = self.input.workspace().clone();
        let mut values = workspace.take(PLACES * stride(from));
        let mut sums = workspace.take(PLACES * stride(to));
        let mut zeros = workspace.take(self.input.size.w * from);
        zeros.fill(0.0);
        let total = self.input.n * tiles_of_one(self.output.size);
        for first in (0..total).step_by(TILES) {
            let count = TILES.min(total - first);
            for tile in 0..count {
                let at = place(self.output.size, first + tile);
                transform(simd, self.input, at, self.winograd.border, &zeros, tile, &mut values);
            }
            self.multiply(simd, count, &values, &mut sums);
            for tile in 0..count {
                self.transform_back(simd, first + tile, tile, &sums);
            }
        }
        for buffer in [values, sums, zeros] {
            workspace.give(buffer);
        }
    }
}

impl Pass<'_> {
    /// Multiplies, at each place, the values of `count` tiles with the weights.
    #[inline(always)]
    fn multiply<S: Simd>(&self, simd: S, count: usize, values: &[f32], sums: &mut [f32]) {
        let (from, to) = (self.input.size.c, self.output.size.c);
        let step = VECTORS * S::F32_LANES;
        for place in 0..PLACES {
            let weights = &self.winograd.weights[place * from * to..][..from * to];
            let values = &values[place * stride(from)..][..TILES * from];
            let sums = &mut sums[place * stride(to)..][..TILES * to];
            for start in (0..to).step_by(step) {
                let weights = &weights[start * from..];
                // As many sums as fit the registers, as in `correlate`.
                match (to - start >= step, S::F32_LANES == 8) {
                    (true, false) => block::<S, 8, 2>(simd, [from, to, start], count, values, weights, sums),
                    (true, true) => block::<S, 6, 2>(simd, [from, to, start], count, values, weights, sums),
                    (false, _) => block::<S, 8, 1>(simd, [from, to, start], count, values, weights, sums),
                }
            }
        }
    }

    /// Computes Aᵀ·m·A of the sums of `tile`, applies the final operation, and writes it to output tile `index`.
    #[inline(always)]
    fn transform_back<S: Simd>(&mut self, simd: S, index: usize, tile: usize, sums: &[f32]) {
        let Size { h, w, c } = self.output.size;
        let [image, y, x] = place(self.output.size, index);
        let vectors = c / S::F32_LANES;
        let (sums, _) = S::as_simd_f32s(sums);
        let (bias, _) = S::as_simd_f32s(self.bias);
        let between = stride(c) / S::F32_LANES;
        for (v, bias) in bias.iter().enumerate().take(vectors) {
            let at = tile * vectors + v;
            // Written out, here and below: an array that a loop fills is written to memory twice.
            let columns = [
                outputs(simd, column_of(sums, between, at, 0)),
                outputs(simd, column_of(sums, between, at, 1)),
                outputs(simd, column_of(sums, between, at, 2)),
                outputs(simd, column_of(sums, between, at, 3)),
                outputs(simd, column_of(sums, between, at, 4)),
                outputs(simd, column_of(sums, between, at, 5)),
            ];
            for dy in 0..OUTPUTS.min(h - y) {
                let first = ((image * h + y + dy) * w + x) * c + v * S::F32_LANES;
                for (dx, sum) in outputs(simd, row_of(&columns, dy)).into_iter().enumerate() {
                    if dx < w - x {
                        let place = first + dx * c;
                        let sum = finished(simd, self.finish, simd.add_f32s(sum, *bias), place, S::F32_LANES);
                        store(simd, &mut self.output.data[place..place + S::F32_LANES], sum);
                    }
                }
            }
        }
    }
}

/// Number of values from one place to the next, for `channels` channels.
#[inline(always)]
const fn stride(channels: usize) -> usize {
    TILES * channels + APART
}

/// Number of tiles of an image of `size` output pixels.
#[inline(always)]
fn tiles_of_one(size: Size) -> usize {
    size.h.div_ceil(OUTPUTS) * size.w.div_ceil(OUTPUTS)
}

/// Image, row and column of the first output pixel of tile `index` in a batch.
#[inline(always)]
fn place(size: Size, index: usize) -> [usize; 3] {
    let columns = size.w.div_ceil(OUTPUTS);
    let (image, tile) = (index / tiles_of_one(size), index % tiles_of_one(size));
    [image, OUTPUTS * (tile / columns), OUTPUTS * (tile % columns)]
}

/// Computes Bᵀ·d·B of the input tile for the output pixels at `[image, y, x]` and writes it to the values of `tile`.
/// `zeros` are a row of the image outside of it.
#[inline(always)]
fn transform<S: Simd>(
    simd: S,
    input: &Planes,
    [image, y, x]: [usize; 3],
    border: usize,
    zeros: &[f32],
    tile: usize,
    values: &mut [f32],
) {
    let rows = rows_from::<S, SIDE>(input, image, y.wrapping_sub(border), zeros);
    let x = x.wrapping_sub(border);
    let (values, _) = S::as_mut_simd_f32s(values);
    let (vectors, between) = (input.size.c / S::F32_LANES, stride(input.size.c) / S::F32_LANES);
    for v in 0..vectors {
        let column = |k: usize| pixels_of_column(simd, &rows, x.wrapping_add(k), [vectors, v]);
        let columns = [
            along(simd, column(0)),
            along(simd, column(1)),
            along(simd, column(2)),
            along(simd, column(3)),
            along(simd, column(4)),
            along(simd, column(5)),
        ];
        for row in 0..SIDE {
            let values = &mut values[SIDE * row * between + tile * vectors + v..][..5 * between + 1];
            for (column, value) in along(simd, row_of(&columns, row)).into_iter().enumerate() {
                values[column * between] = value;
            }
        }
    }
}

/// `N` rows of an image from row `y` on, which may be before the first one: a number that has wrapped around. A row
/// outside the image is `zeros`.
#[inline(always)]
fn rows_from<'a, S: Simd, const N: usize>(
    planes: &'a Planes,
    image: usize,
    y: usize,
    zeros: &'a [f32],
) -> [&'a [S::f32s]; N] {
    let Size { h, w, c } = planes.size;
    let mut rows = [S::as_simd_f32s(zeros).0; N];
    for (k, row) in rows.iter_mut().enumerate() {
        let y = y.wrapping_add(k);
        if y < h {
            *row = S::as_simd_f32s(&planes.data[(image * h + y) * w * c..]).0;
        }
        // All have the same length, which is visible to the compiler: it is compared with an index only once.
        *row = &row[..w * c / S::F32_LANES];
    }
    rows
}

/// Vector `v` of `vectors` of the pixels at `x`, which are zeros outside the image.
#[inline(always)]
fn pixels_of_column<S: Simd, const N: usize>(
    simd: S,
    rows: &[&[S::f32s]; N],
    x: usize,
    [vectors, v]: [usize; 2],
) -> [S::f32s; N] {
    let mut pixels = [simd.splat_f32s(0.0); N];
    let at = x.wrapping_mul(vectors).wrapping_add(v);
    for (pixel, row) in pixels.iter_mut().zip(rows) {
        if at < row.len() {
            *pixel = row[at];
        }
    }
    pixels
}

/// The values of six columns in one row.
#[inline(always)]
const fn row_of<V: Copy, const N: usize>([a, b, c, d, e, f]: &[[V; N]; SIDE], row: usize) -> [V; SIDE] {
    [a[row], b[row], c[row], d[row], e[row], f[row]]
}

/// Bᵀ times a column.
#[inline(always)]
fn along<S: Simd>(simd: S, [a, b, c, d, e, f]: [S::f32s; SIDE]) -> [S::f32s; SIDE] {
    let ([even_near, odd_near], [even_far, odd_far]) =
        ([times(simd, -2.0, c, e), times(simd, -2.0, b, d)], [times(simd, -0.5, c, e), times(simd, -0.5, b, d)]);
    [
        times(simd, -2.5, c, simd.add_f32s(a, e)),
        times(simd, NEAR, odd_near, even_near),
        times(simd, -NEAR, odd_near, even_near),
        times(simd, FAR, odd_far, even_far),
        times(simd, -FAR, odd_far, even_far),
        times(simd, -2.5, d, simd.add_f32s(b, f)),
    ]
}

/// `factor`·value + sum.
#[inline(always)]
fn times<S: Simd>(simd: S, factor: f32, value: S::f32s, sum: S::f32s) -> S::f32s {
    simd.mul_add_f32s(simd.splat_f32s(factor), value, sum)
}

/// The values at the places of one column of a transformed tile, for the vector `at` of a place.
#[inline(always)]
fn column_of<V: Copy>(values: &[V], between: usize, at: usize, column: usize) -> [V; SIDE] {
    let row = SIDE * between;
    let values = &values[column * between + at..][..5 * row + 1];
    [values[0], values[row], values[2 * row], values[3 * row], values[4 * row], values[5 * row]]
}

/// Aᵀ times a column.
#[inline(always)]
fn outputs<S: Simd>(simd: S, [a, b, c, d, e, f]: [S::f32s; SIDE]) -> [S::f32s; OUTPUTS] {
    let half = simd.splat_f32s(0.5);
    let (even_near, even_far) = (simd.add_f32s(b, c), simd.add_f32s(d, e));
    // The odd parts, times their points.
    let odd_near = simd.mul_f32s(simd.splat_f32s(NEAR), simd.sub_f32s(b, c));
    let odd_far = simd.mul_f32s(simd.splat_f32s(FAR), simd.sub_f32s(d, e));
    [
        simd.add_f32s(a, simd.add_f32s(even_near, even_far)),
        simd.add_f32s(odd_near, odd_far),
        times(simd, 2.0, even_far, simd.mul_f32s(half, even_near)),
        times(simd, 2.0, odd_far, times(simd, 0.5, odd_near, f)),
    ]
}

/// Computes the sums of `V` vectors of output channels from `start` on, for `count` tiles at one place, `P` at a time;
/// the last ones [`FEW`] at a time if there are no more.
#[inline(always)]
fn block<S: Simd, const P: usize, const V: usize>(
    simd: S,
    channels: [usize; 3],
    count: usize,
    values: &[f32],
    weights: &[f32],
    sums: &mut [f32],
) {
    for tile in (0..count).step_by(P) {
        let tiles = [tile, count - 1];
        if count - tile <= FEW {
            group::<S, FEW, V>(simd, channels, tiles, values, weights, sums);
        } else {
            group::<S, P, V>(simd, channels, tiles, values, weights, sums);
        }
    }
}

/// Computes the sums of `P` tiles, the first and the last possible of which are given.
#[inline(always)]
fn group<S: Simd, const P: usize, const V: usize>(
    simd: S,
    [from, to, start]: [usize; 3],
    [first, last]: [usize; 2],
    values: &[f32],
    weights: &[f32],
    sums: &mut [f32],
) {
    let (weights, _) = S::as_simd_f32s(weights).0.as_chunks::<V>();
    let mut windows = [&values[..0]; P];
    for (p, window) in windows.iter_mut().enumerate() {
        // A group that is not full repeats its last tile: the same sums are written more than once.
        *window = &values[(first + p).min(last) * from..][..from];
    }
    let group = sum_of_products::<S, P, V>(simd, [[simd.splat_f32s(0.0); V]; P], windows, &weights[..from]);
    for (p, group) in group.into_iter().enumerate() {
        let at = (first + p).min(last) * to + start;
        let (to, _) = S::as_mut_simd_f32s(&mut sums[at..at + V * S::F32_LANES]);
        to.copy_from_slice(&group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correlate::correlate;
    use crate::kernel::{Kernel, Negligible, Weights};

    /// Compares with sums over all taps in float64, relative to the size of the sums: of planes that tiles fill and that
    /// they exceed, with and without borders, and of several batches of tiles.
    #[test]
    fn outputs_are_those_of_the_definition() {
        use Reading::{Convolution, Transposed};
        for (reading, [n, h, w], [from, to], padding) in [
            (Convolution, [2, 10, 6], [16, 32], 0),
            (Convolution, [5, 9, 11], [64, 16], 1),
            (Transposed, [3, 6, 8], [128, 32], 0),
            (Transposed, [1, 7, 5], [32, 48], 1),
        ] {
            let grown = |side: usize| match reading {
                Convolution => side + 2 * padding - 2,
                Transposed => side + 2 - 2 * padding,
            };
            let [input, output] = [Size { h, w, c: from }, Size { h: grown(h), w: grown(w), c: to }];
            let wave = |k: usize| ((k * k % 9973) as f32 * 0.37).sin();
            let x: Vec<f32> = (0..n * input.len()).map(|k| wave(k).max(0.0)).collect();
            let weight = |o: usize, i: usize, r: usize, c: usize| wave(o + to * (i + from * (3 * r + c)) + 7);
            let window = KernelWindow { kernel: [3, 3], stride: 1, padding: [padding; 2] };
            let kernel = Kernel::new(reading, window, [input, output], Negligible::scored(), &[], weight);
            assert!(matches!(kernel.weights, Weights::Winograd(..)));
            let planes = Planes::from_channels_first(&crate::Workspace::default(), n, input, &x);
            let result = correlate(&planes, &kernel, Finish::Keep);
            let (mut errors, mut squares) = (0.0, 0.0);
            for (at, value) in result.data.iter().enumerate() {
                let (image, o) = (at / output.len(), at % to);
                let (y, x) = (at % output.len() / (output.w * to), at / to % output.w);
                let mut sum = 0.0;
                for (r, c) in (0..9).map(|k| (k / 3, k % 3)) {
                    let (row, column) = match reading {
                        Convolution => ((y + r).wrapping_sub(padding), (x + c).wrapping_sub(padding)),
                        Transposed => ((y + padding).wrapping_sub(r), (x + padding).wrapping_sub(c)),
                    };
                    if row < h && column < w {
                        for i in 0..from {
                            let value = planes.data[image * input.len() + (row * w + column) * from + i];
                            sum += f64::from(value) * f64::from(weight(o, i, r, c));
                        }
                    }
                }
                errors += (f64::from(*value) - sum).powi(2);
                squares += sum * sum;
            }
            // The direct sum in f32 has 3e-7; the points 0, ±1, ±2 and ∞ would have 2e-6.
            let error = (errors / squares).sqrt();
            assert!(error < 1.2e-6, "{n}×{h}×{w}, {from} to {to}: {error:e}");
        }
    }
}
