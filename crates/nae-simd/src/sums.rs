//! Sums of products in registers, and their last operation before they are written: the code that the loops over
//! windows share.

use pulp::Simd;

use crate::pointwise::{clamped, rectified};
use crate::vector::load;

/// Number of vectors of output channels that are computed together.
pub const VECTORS: usize = 2;

/// The largest number of multiply-adds of one row of a window in one chain. Longer rows are summed in pieces, which are
/// then added, since the rounding error of a chain grows with its length.
const CHAIN: usize = 256;
/// The operation on a sum before it is written.
#[derive(Clone, Copy, Debug)]
pub enum Finish<'a> {
    /// The sum is written unchanged.
    Keep,
    /// `slope`·x if x is zero or negative, else x: ReLU if `slope` is 0.
    Rectify {
        /// The slope.
        slope: f32,
    },
    /// Clamped to `[min, max]`. Forward only.
    Clamp {
        /// The least value.
        min: f32,
        /// The greatest value.
        max: f32,
    },
    /// The rectifier by the sign of another value at the same place: its backward pass, given its output.
    Gate {
        /// The output of the rectifier.
        output: &'a [f32],
        /// Its slope.
        slope: f32,
    },
}

// Everything below is inlined into the function that pulp compiles for each instruction set: see `vector`.

/// Returns the final value of `sum`, of `channels` channels from `place` of the output on.
#[inline(always)]
pub(crate) fn finished<S: Simd>(simd: S, finish: Finish<'_>, sum: S::f32s, place: usize, channels: usize) -> S::f32s {
    match finish {
        Finish::Keep => sum,
        Finish::Rectify { slope } => rectified(simd, sum, sum, slope),
        Finish::Clamp { min, max } => clamped(simd, sum, min, max),
        Finish::Gate { output, slope } => rectified(simd, sum, load(simd, &output[place..place + channels]), slope),
    }
}

/// Adds to `sums` the products of each window with the weights; long windows in pieces.
#[inline(always)]
pub(crate) fn sum_of_products<S: Simd, const P: usize, const V: usize>(
    simd: S,
    sums: [[S::f32s; V]; P],
    windows: [&[f32]; P],
    weights: &[[S::f32s; V]],
) -> [[S::f32s; V]; P] {
    if weights.len() <= CHAIN {
        accumulate::<S, P, V>(simd, sums, windows, weights)
    } else {
        accumulate_pieces::<S, P, V>(simd, sums, windows, weights)
    }
}

/// Adds to `sums` the products of each window with the weights.
#[inline(always)]
fn accumulate<S: Simd, const P: usize, const V: usize>(
    simd: S,
    sums: [[S::f32s; V]; P],
    windows: [&[f32]; P],
    weights: &[[S::f32s; V]],
) -> [[S::f32s; V]; P] {
    // All have the same length, which is visible to the compiler: no index is checked in the loop.
    let len = weights.len();
    let mut trimmed = windows;
    for window in &mut trimmed {
        *window = &window[..len];
    }
    // Fifteen of AVX2's sixteen registers are in use. If the sums arrive here in registers, the compiler keeps some of
    // them on the stack during the whole loop, which then takes twice as long; from memory, it loads all of them first.
    let mut sums = if S::F32_LANES == 8 { *std::hint::black_box(&sums) } else { sums };
    for (k, weight) in weights.iter().enumerate() {
        for (sums, window) in sums.iter_mut().zip(trimmed) {
            let value = simd.splat_f32s(window[k]);
            for (sum, weight) in sums.iter_mut().zip(weight) {
                *sum = simd.mul_add_f32s(value, *weight, *sum);
            }
        }
    }
    sums
}

/// As [`accumulate`], for long windows, in pieces.
#[inline(always)]
fn accumulate_pieces<S: Simd, const P: usize, const V: usize>(
    simd: S,
    mut sums: [[S::f32s; V]; P],
    windows: [&[f32]; P],
    weights: &[[S::f32s; V]],
) -> [[S::f32s; V]; P] {
    for (k, weights) in weights.chunks(CHAIN).enumerate() {
        let mut pieces = windows;
        for piece in &mut pieces {
            *piece = &piece[k * CHAIN..][..weights.len()];
        }
        let part = accumulate::<S, P, V>(simd, [[simd.splat_f32s(0.0); V]; P], pieces, weights);
        for (sums, part) in sums.iter_mut().zip(part) {
            for (sum, part) in sums.iter_mut().zip(part) {
                *sum = simd.add_f32s(*sum, part);
            }
        }
    }
    sums
}
