//! Functions of every value, sums of tensors, and division by the norm.

use crate::layer::Activation;

/// Applies an activation in place. Inlined, so that a constant activation links no other.
#[inline(always)]
pub(crate) fn activate(activation: Activation, values: &mut [f32]) {
    for value in values {
        *value = activation.apply(*value);
    }
}

/// `output = a + b`.
pub(crate) fn add(a: &[f32], b: &[f32], output: &mut [f32]) {
    for ((value, a), b) in output.iter_mut().zip(a).zip(b) {
        *value = a + b;
    }
}

/// `a += b`.
pub(crate) fn add_in_place(a: &mut [f32], b: &[f32]) {
    for (value, b) in a.iter_mut().zip(b) {
        *value += b;
    }
}

/// `output = a · b`.
pub(crate) fn multiply(a: &[f32], b: &[f32], output: &mut [f32]) {
    for ((value, a), b) in output.iter_mut().zip(a).zip(b) {
        *value = a * b;
    }
}

/// `a *= b`.
pub(crate) fn multiply_in_place(a: &mut [f32], b: &[f32]) {
    for (value, b) in a.iter_mut().zip(b) {
        *value *= b;
    }
}

/// Divides by the Euclidean norm, or by `epsilon` if that is greater.
///
/// Values are first scaled by the greatest, so that no square overflows or underflows.
pub(crate) fn l2_normalize(epsilon: f32, values: &mut [f32]) {
    let greatest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let scale = if greatest > 0.0 { greatest } else { 1.0 };
    let mut sum = 0.0;
    for value in values.iter() {
        let scaled = value / scale;
        sum += scaled * scaled;
    }
    let root = libm::sqrtf(sum);
    let norm = scale * root;
    // The norm can exceed `f32` although the values do not: then the division takes two steps.
    if norm == f32::INFINITY {
        for value in values {
            *value = *value / scale / root;
        }
        return;
    }
    let divisor = if norm < epsilon { epsilon } else { norm };
    for value in values {
        *value /= divisor;
    }
}
