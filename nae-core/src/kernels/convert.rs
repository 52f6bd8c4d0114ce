//! Conversion between `f32` and `i8`.

use crate::quantization::Quantization;

/// Converts every value to the nearest `i8`.
///
/// Returns false if a value is NaN or infinite, which no integer can represent.
pub(crate) fn quantize(quantization: Quantization, input: &[f32], output: &mut [i8]) -> bool {
    let mut finite = true;
    for (value, x) in output.iter_mut().zip(input) {
        finite &= x.is_finite();
        *value = quantization.quantize(*x);
    }
    finite
}

/// Converts every value to the real number it represents.
pub(crate) fn dequantize(quantization: Quantization, input: &[i8], output: &mut [f32]) {
    for (value, x) in output.iter_mut().zip(input) {
        *value = quantization.dequantize(*x);
    }
}
