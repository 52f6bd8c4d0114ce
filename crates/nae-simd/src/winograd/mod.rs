//! Convolutions of three by three taps with fewer multiplications: F(2×2, 3×3) of Lavin and Gray (CVPR 2016), after
//! Winograd (Arithmetic Complexity of Computations, 1980).
//!
//! Four output pixels in a square are made from sixteen products instead of thirty-six. Input tiles of 4×4 pixels and
//! the kernels are transformed, multiplied at each of the sixteen places as matrices over the channels, and transformed
//! back. In addition to the multiplications, this takes a few additions per value; it is faster if there are many
//! channels. Every tile is computed separately, so results do not depend on the batch. [`gradient`] applies the same
//! method to the gradient of the weights.

pub mod gradient;

use pulp::{Simd, WithSimd};

use crate::geometry::{KernelWindow, Reading, taps};
use crate::plane::{Planes, Size};
use crate::sums::{Finish, VECTORS, finished, sum_of_products};
use crate::vector::store;

/// Number of places of a transformed tile.
const PLACES: usize = 16;
/// Number of tiles that are processed together: their values at one place, and the weights there, share the first-level
/// cache. A multiple of the number of tiles that are summed in registers together, which is six for AVX2 and eight for
/// AVX-512.
const TILES: usize = 48;
/// Additional values between the tiles of one place and those of the next. A tile is written to all places at once: if
/// these were a power of two apart, they would share a few lines of the cache.
const APART: usize = 16;
/// The smallest number of channels, in and out, for which this method is faster.
const CHANNELS: usize = 32;
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
    let along = |[a, b, c]: [f64; 3]| [a, (a + b + c) / 2.0, (a - b + c) / 2.0, c];
    let columns = [0, 1, 2].map(|c| along([kernel[0][c], kernel[1][c], kernel[2][c]]));
    let mut places = [0.0; PLACES];
    for (r, row) in places.chunks_exact_mut(4).enumerate() {
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
        let mut zeros = workspace.take(from);
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
            let mut rows = [[*bias; 4]; 2];
            for column in 0..4 {
                let at = |row: usize| sums[(4 * row + column) * between + tile * vectors + v];
                let [first, second] = ends(simd, [at(0), at(1), at(2), at(3)]);
                (rows[0][column], rows[1][column]) = (first, second);
            }
            for (dy, row) in rows.into_iter().enumerate() {
                for (dx, sum) in ends(simd, row).into_iter().enumerate() {
                    if y + dy < h && x + dx < w {
                        let place = ((image * h + y + dy) * w + x + dx) * c + v * S::F32_LANES;
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
    size.h.div_ceil(2) * size.w.div_ceil(2)
}

/// Image, row and column of the first output pixel of tile `index` in a batch.
#[inline(always)]
fn place(size: Size, index: usize) -> [usize; 3] {
    let columns = size.w.div_ceil(2);
    let (image, tile) = (index / tiles_of_one(size), index % tiles_of_one(size));
    [image, 2 * (tile / columns), 2 * (tile % columns)]
}

/// Computes Bᵀ·d·B of the input tile for the output pixels at `[image, y, x]` and writes it to the values of `tile`;
/// `zeros` are the channels of a pixel outside the image.
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
    let Size { h, w, c } = input.size;
    let image = &input.data[image * h * w * c..][..h * w * c];
    let vectors = c / S::F32_LANES;
    let mut pixels = [&S::as_simd_f32s(zeros).0[..vectors]; PLACES];
    for (k, pixel) in pixels.iter_mut().enumerate() {
        // Before the first row or column, this wraps around to a value past the last.
        let (y, x) = ((y + k / 4).wrapping_sub(border), (x + k % 4).wrapping_sub(border));
        if y < h && x < w {
            *pixel = S::as_simd_f32s(&image[(y * w + x) * c..][..c]).0;
        }
    }
    let (values, _) = S::as_mut_simd_f32s(values);
    let between = stride(c) / S::F32_LANES;
    for v in 0..vectors {
        let mut d = [simd.splat_f32s(0.0); PLACES];
        for (d, pixel) in d.iter_mut().zip(pixels) {
            *d = pixel[v];
        }
        for k in 0..4 {
            // Down the columns, then along the rows.
            let [a, b, c, e] = along(simd, [d[k], d[4 + k], d[8 + k], d[12 + k]]);
            (d[k], d[4 + k], d[8 + k], d[12 + k]) = (a, b, c, e);
        }
        for (row, d) in d.chunks_exact(4).enumerate() {
            for (column, value) in along(simd, [d[0], d[1], d[2], d[3]]).into_iter().enumerate() {
                values[(4 * row + column) * between + tile * vectors + v] = value;
            }
        }
    }
}

/// Bᵀ times a column.
#[inline(always)]
fn along<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 4] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// Aᵀ times a column.
#[inline(always)]
fn ends<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 2] {
    [simd.add_f32s(a, simd.add_f32s(b, c)), simd.sub_f32s(simd.sub_f32s(b, c), d)]
}

/// Computes the sums of `V` vectors of output channels from `start` on, for `count` tiles at one place, `P` at a time.
#[inline(always)]
fn block<S: Simd, const P: usize, const V: usize>(
    simd: S,
    [from, to, start]: [usize; 3],
    count: usize,
    values: &[f32],
    weights: &[f32],
    sums: &mut [f32],
) {
    let (weights, _) = S::as_simd_f32s(weights).0.as_chunks::<V>();
    let weights = &weights[..from];
    for tile in (0..count).step_by(P) {
        let mut windows = [&values[..0]; P];
        for (p, window) in windows.iter_mut().enumerate() {
            // The last group repeats its last tile: the same sums are written more than once.
            *window = &values[(tile + p).min(count - 1) * from..][..from];
        }
        let group = sum_of_products::<S, P, V>(simd, [[simd.splat_f32s(0.0); V]; P], windows, weights);
        for (p, group) in group.into_iter().enumerate() {
            let at = (tile + p).min(count - 1) * to + start;
            let (to, _) = S::as_mut_simd_f32s(&mut sums[at..at + V * S::F32_LANES]);
            to.copy_from_slice(&group);
        }
    }
}
