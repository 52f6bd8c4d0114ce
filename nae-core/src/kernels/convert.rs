//! Between `f32` and `i8`.

use crate::quantization::Quantization;

/// Every value as the nearest `i8`.
pub(crate) fn quantize(quantization: Quantization, input: &[f32], output: &mut [i8]) {
    for (value, x) in output.iter_mut().zip(input) {
        *value = quantization.quantize(*x);
    }
}

/// Every value as the real number it stands for.
pub(crate) fn dequantize(quantization: Quantization, input: &[i8], output: &mut [f32]) {
    for (value, x) in output.iter_mut().zip(input) {
        *value = quantization.dequantize(*x);
    }
}
