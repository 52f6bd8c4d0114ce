//! The gradient of the weights of a kernel that is applied only once to a sample: of a dense layer, or of a convolution
//! to a single pixel. It is a sum of outer products, one per sample, and thus has more values than the vectors it is
//! computed from.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::instructions::{lanes, on_vectors_of};
use crate::sums::VECTORS;
use crate::vector::{load_all, store};

/// Number of inputs that are multiplied with the same outputs together.
const TILE: usize = 8;

/// The two vectors of each sample.
#[derive(Debug)]
pub struct Outer {
    samples: usize,
    right: usize,
    /// `[tile of left][sample][TILE]`: neighbouring values of all samples are read together.
    lefts: Vec<f32>,
    /// `[sample][right]`.
    rights: Vec<f32>,
}

impl Outer {
    /// Stores vectors of `left` and `right` values, one sample after the other.
    pub fn new([left, right]: [usize; 2], lefts: &[f32], rights: &[f32]) -> Self {
        let samples = lefts.len() / left;
        let mut tiles = vec![0.0; left.div_ceil(TILE) * samples * TILE];
        for (sample, values) in lefts.chunks_exact(left).enumerate() {
            for (tile, values) in values.chunks(TILE).enumerate() {
                tiles[(tile * samples + sample) * TILE..][..values.len()].copy_from_slice(values);
            }
        }
        Self { samples, right, lefts: tiles, rights: rights.to_vec() }
    }

    /// Adds Σ left·right to `sums` `[left][right]`, for the left values from `first` on, a multiple of [`Outer::TILE`],
    /// and the right ones in `rights`. Each is first summed separately, and then added.
    pub fn add_to(&self, first: usize, rights: Range<usize>, sums: &mut [f32]) {
        let width = rights.len();
        let packed: Vec<f32> =
            self.rights.chunks_exact(self.right).flat_map(|values| &values[rights.clone()]).copied().collect();
        let tiles = &self.lefts[first / TILE * self.samples * TILE..];
        on_vectors_of(lanes(width), Sum { samples: self.samples, tiles, rights: &packed, width, sums });
    }

    /// Number of left values that are summed together.
    pub const TILE: usize = TILE;
}

struct Sum<'a> {
    samples: usize,
    tiles: &'a [f32],
    rights: &'a [f32],
    width: usize,
    sums: &'a mut [f32],
}

impl WithSimd for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // For eight left values, two vectors of sums each would exceed AVX2's registers.
        let step = if S::F32_LANES == 8 { S::F32_LANES } else { VECTORS * S::F32_LANES };
        for first in (0..self.width).step_by(step) {
            if self.width - first > S::F32_LANES && step > S::F32_LANES {
                self.block::<S, 2>(simd, first);
            } else {
                self.block::<S, 1>(simd, first);
            }
        }
    }
}

impl Sum<'_> {
    #[inline(always)]
    fn block<S: Simd, const V: usize>(&mut self, simd: S, first: usize) {
        let mut counts = [S::F32_LANES; V];
        counts[V - 1] = (self.width - first - (V - 1) * S::F32_LANES).min(S::F32_LANES);
        let tiles = self.tiles.chunks_exact(self.samples * TILE);
        for (sums, tile) in self.sums.chunks_mut(TILE * self.width).zip(tiles) {
            let mut products = [[simd.splat_f32s(0.0); V]; TILE];
            for (left, right) in tile.as_chunks::<TILE>().0.iter().zip(self.rights.chunks_exact(self.width)) {
                let right = load_all(simd, &right[first..], counts);
                for (products, value) in products.iter_mut().zip(left) {
                    let value = simd.splat_f32s(*value);
                    for (product, right) in products.iter_mut().zip(right) {
                        *product = simd.mul_add_f32s(value, right, *product);
                    }
                }
            }
            for (sums, products) in sums.chunks_exact_mut(self.width).zip(products) {
                let mut before = load_all(simd, &sums[first..], counts);
                for (before, product) in before.iter_mut().zip(products) {
                    *before = simd.add_f32s(*before, product);
                }
                for (v, value) in before.into_iter().enumerate() {
                    store(simd, &mut sums[first + v * S::F32_LANES..][..counts[v]], value);
                }
            }
        }
    }
}
