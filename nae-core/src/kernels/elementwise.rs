//! Functions of every value, sums of tensors, and division by the norm.

use crate::model::Operators;
use crate::model::layer::Activation;

/// Applies `activation` in place; what is not among `OPERATORS` is not compiled in.
pub(crate) fn activate<const OPERATORS: u64>(activation: Activation, values: &mut [f32]) {
    let built = Operators::from_bits(OPERATORS);
    match activation {
        Activation::Relu if built.contains(Operators::activation(Activation::Relu)) => {
            for value in values {
                // NaN stays NaN: an overflow must not look like a result.
                *value = if *value < 0.0 { 0.0 } else { *value };
            }
        }
        Activation::LeakyRelu { slope }
            if built.contains(Operators::activation(Activation::LeakyRelu { slope: 0.0 })) =>
        {
            for value in values {
                *value = if *value >= 0.0 { *value } else { slope * *value };
            }
        }
        Activation::Sigmoid if built.contains(Operators::activation(Activation::Sigmoid)) => {
            for value in values {
                *value = 1.0 / (1.0 + libm::expf(-*value));
            }
        }
        Activation::Tanh if built.contains(Operators::activation(Activation::Tanh)) => {
            for value in values {
                *value = libm::tanhf(*value);
            }
        }
        _ => {}
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

/// Divides by the Euclidean norm, or by `epsilon` where that is greater.
///
/// Values are scaled by the greatest first, so that no square overflows or vanishes.
pub(crate) fn l2_normalize(epsilon: f32, values: &mut [f32]) {
    let greatest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let scale = if greatest > 0.0 { greatest } else { 1.0 };
    let mut sum = 0.0;
    for value in values.iter() {
        let scaled = value / scale;
        sum += scaled * scaled;
    }
    let norm = scale * libm::sqrtf(sum);
    let divisor = if norm < epsilon { epsilon } else { norm };
    for value in values {
        *value /= divisor;
    }
}
