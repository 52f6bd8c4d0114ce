//! Loads, stores and loops over values that need not fill whole vectors.
//!
//! pulp compiles [`WithSimd::with_simd`] for each instruction set, and what is inlined into it; a closure it is given
//! may not be, and then runs as code for the oldest processor. So what takes time is written as a type.

use pulp::{Simd, WithSimd};

use crate::instructions::dispatch;

/// A vector of `values`, of which there are at most as many as lanes; zero in the other lanes.
#[inline(always)]
pub fn load<S: Simd>(simd: S, values: &[f32]) -> S::f32s {
    match S::as_simd_f32s(values) {
        ([vector], []) => *vector,
        _ => simd.partial_load_f32s(values),
    }
}

/// Writes as many lanes as there are `values`.
#[inline(always)]
pub fn store<S: Simd>(simd: S, values: &mut [f32], vector: S::f32s) {
    if values.len() == S::F32_LANES {
        S::as_mut_simd_f32s(values).0[0] = vector;
    } else {
        simd.partial_store_f32s(values, vector);
    }
}

/// The first of `values`: as many as `counts` says in each vector, all but the last of which are whole.
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

/// What is made of two values.
pub trait Pair: Copy {
    /// The new value in place of `a`.
    fn of<S: Simd>(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s;
}

/// Replaces each value of `a` by what `op` makes of it and of the one of `b`.
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
