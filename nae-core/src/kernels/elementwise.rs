//! Functions of every value, sums of tensors, and division by the norm.

/// max(x, 0) in place. NaN stays NaN: an overflow must not look like a result.
pub(crate) fn relu(values: &mut [f32]) {
    for value in values {
        *value = if *value < 0.0 { 0.0 } else { *value };
    }
}

/// x where x ≥ 0, else `slope`·x, in place.
pub(crate) fn leaky_relu(slope: f32, values: &mut [f32]) {
    for value in values {
        *value = if *value >= 0.0 { *value } else { slope * *value };
    }
}

/// x where x ≥ 0, else `alpha`·(exp(x) − 1), in place.
pub(crate) fn elu(alpha: f32, values: &mut [f32]) {
    for value in values {
        *value = if *value >= 0.0 { *value } else { alpha * libm::expm1f(*value) };
    }
}

/// 1/(1 + exp(−x)) in place.
pub(crate) fn sigmoid(values: &mut [f32]) {
    for value in values {
        *value = 1.0 / (1.0 + libm::expf(-*value));
    }
}

/// tanh x in place.
pub(crate) fn tanh(values: &mut [f32]) {
    for value in values {
        *value = libm::tanhf(*value);
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
