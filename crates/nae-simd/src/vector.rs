//! Loads, stores and loops over values that need not fill whole vectors.
//!
//! pulp compiles [`WithSimd::with_simd`] for each instruction set, with all code inlined into it; a closure passed to
//! it may not be inlined, and then runs as code for the oldest processor. Therefore time-critical code is written as a
//! type.

use pulp::{Simd, WithSimd};

use crate::instructions::dispatch;

/// Loads a vector of `values`, of which there are at most as many as lanes; the other lanes are zero.
#[inline(always)]
pub fn load<S: Simd>(simd: S, values: &[f32]) -> S::f32s {
    match S::as_simd_f32s(values) {
        ([vector], []) => *vector,
        _ => simd.partial_load_f32s(values),
    }
}

/// Writes as many lanes as `values` has elements.
#[inline(always)]
pub fn store<S: Simd>(simd: S, values: &mut [f32], vector: S::f32s) {
    if values.len() == S::F32_LANES {
        S::as_mut_simd_f32s(values).0[0] = vector;
    } else {
        simd.partial_store_f32s(values, vector);
    }
}

/// Loads the first of `values` into vectors, with the number of values of each in `counts`; all vectors except the last
/// are full.
#[inline(always)]
pub fn load_all<S: Simd, const V: usize>(simd: S, values: &[f32], counts: [usize; V]) -> [S::f32s; V] {
    let mut vectors = [simd.splat_f32s(0.0); V];
    if counts[V - 1] == S::F32_LANES {
        for (vector, value) in vectors.iter_mut().zip(S::as_simd_f32s(&values[..V * S::F32_LANES]).0) {
            *vector = *value;
        }
    } else {
        for (v, vector) in vectors.iter_mut().enumerate() {
            *vector = simd.partial_load_f32s(&values[v * S::F32_LANES..][..counts[v]]);
        }
    }
    vectors
}

/// An operation on two values.
pub trait Pair: Copy {
    /// Returns the new value in place of `a`.
    fn of<S: Simd>(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s;
}

/// Replaces each value of `a` by the result of `op` for it and the value of `b`.
pub fn each(op: impl Pair, a: &mut [f32], b: &[f32]) {
    struct Each<'a, P>(P, &'a mut [f32], &'a [f32]);
    impl<P: Pair> WithSimd for Each<'_, P> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Self(op, a, b) = self;
            let ((a, a_rest), (b, b_rest)) = (S::as_mut_simd_f32s(a), S::as_simd_f32s(b));
            for (a, b) in a.iter_mut().zip(b) {
                *a = op.of(simd, *a, *b);
            }
            let rest = op.of(simd, simd.partial_load_f32s(a_rest), simd.partial_load_f32s(b_rest));
            simd.partial_store_f32s(a_rest, rest);
        }
    }
    debug_assert_eq!(a.len(), b.len());
    dispatch(Each(op, a, b));
}
