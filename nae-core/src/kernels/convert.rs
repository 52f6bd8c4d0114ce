//! Between `f32` and `i8`.

use crate::quantization::Quantization;

/// Every value as the nearest `i8`.
///
/// False where a value is NaN or infinite, which no integer stands for.
pub(crate) fn quantize(quantization: Quantization, input: &[f32], output: &mut [i8]) -> bool {
    let mut finite = true;
    for (value, x) in output.iter_mut().zip(input) {
        finite &= x.is_finite();
        *value = quantization.quantize(*x);
    }
    finite
}

/// Every value as the real number it stands for.
pub(crate) fn dequantize(quantization: Quantization, input: &[i8], output: &mut [f32]) {
    for (value, x) in output.iter_mut().zip(input) {
        *value = quantization.dequantize(*x);
    }
}
