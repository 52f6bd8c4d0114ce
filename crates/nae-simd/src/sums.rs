//! Sums of products in registers, and what is done with them before they are written: what the loops over windows share.

use pulp::Simd;

use crate::pointwise::{clamped, rectified};
use crate::vector::load;

/// Vectors of output channels computed together.
pub const VECTORS: usize = 2;

/// Most multiply-adds of one row of a window in one chain. Longer rows are summed in pieces, which are then added: the
/// rounding of a chain grows with its length.
const CHAIN: usize = 256;
/// What is done with a sum before it is written.
#[derive(Clone, Copy, Debug)]
pub enum Finish<'a> {
    /// The sum as it is.
    Keep,
    /// x where positive, `slope`·x elsewhere: ReLU where `slope` is 0.
    Rectify {
        /// The slope.
        slope: f32,
    },
    /// Brought into `[min, max]`. Forward alone.
    Clamp {
        /// The least.
        min: f32,
        /// The greatest.
        max: f32,
    },
    /// The rectifier by the sign of another value at the same place: the way back through it, given its output.
    Gate {
        /// The output of the rectifier.
        output: &'a [f32],
        /// Its slope.
        slope: f32,
    },
}

// Everything below is inlined into the function that pulp compiles for each instruction set: see `vector`.

/// `sum`, of `channels` channels from `place` of the output on, as it is to be written.
#[inline(always)]
pub(crate) fn finished<S: Simd>(simd: S, finish: Finish<'_>, sum: S::f32s, place: usize, channels: usize) -> S::f32s {
    match finish {
        Finish::Keep => sum,
        Finish::Rectify { slope } => rectified(simd, sum, sum, slope),
        Finish::Clamp { min, max } => clamped(simd, sum, min, max),
        Finish::Gate { output, slope } => rectified(simd, sum, load(simd, &output[place..place + channels]), slope),
    }
}

/// `sums` and the products of each window with the weights; long windows in pieces.
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

/// `sums` and the products of each window with the weights.
#[inline(always)]
fn accumulate<S: Simd, const P: usize, const V: usize>(
    simd: S,
    sums: [[S::f32s; V]; P],
    windows: [&[f32]; P],
    weights: &[[S::f32s; V]],
) -> [[S::f32s; V]; P] {
    // One length for all, which the compiler sees: no index is checked in the loop.
    let len = weights.len();
    let mut trimmed = windows;
    for window in &mut trimmed {
        *window = &window[..len];
    }
    // Of AVX2's sixteen registers fifteen are in use. Where sums come here in registers, the compiler keeps some of
    // them on the stack all through the loop, which then takes twice as long; from memory, it loads all of them first.
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

/// The same for long windows, in pieces.
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
