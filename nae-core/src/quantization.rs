//! The map between 8-bit values and real numbers. [`crate::model`] contains which tensors are 8-bit, and their scales;
//! [`crate::kernels::int8`] contains the arithmetic on them.

use core::fmt;

/// An affine map between `i8` and real values: real = `scale`·(q − `zero_point`), as in TFLite.
///
/// ```
/// use nae_core::quantization::Quantization;
/// let image = Quantization::new(1.0 / 255.0, -128)?;
/// assert_eq!((image.quantize(1.0), image.quantize(2.0), image.quantize(0.0)), (127, 127, -128));
/// assert_eq!(Quantization::new(0.5, 3)?.dequantize(-1), -2.0);
/// # Ok::<(), nae_core::quantization::QuantizationError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Quantization {
    scale: f32,
    zero_point: i8,
}

/// The scale is not between 2⁻⁶⁰ and 2⁶⁰.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QuantizationError;

impl fmt::Display for QuantizationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the scale of a quantized tensor is not between 2^-60 and 2^60")
    }
}

impl core::error::Error for QuantizationError {}

/// 2⁻⁶⁰ and 2⁶⁰: no product of two scales leaves the range of normal `f32`.
const SCALES: (f32, f32) = (f32::from_bits((127 - 60) << 23), f32::from_bits((127 + 60) << 23));

impl Quantization {
    /// Returns the map with this real value of one step and this `i8` for the real value 0.
    ///
    /// # Errors
    /// [`QuantizationError`] if the scale is not from 2⁻⁶⁰ to 2⁶⁰.
    pub const fn new(scale: f32, zero_point: i8) -> Result<Self, QuantizationError> {
        // Also refuses NaN.
        if scale >= SCALES.0 && scale <= SCALES.1 { Ok(Self { scale, zero_point }) } else { Err(QuantizationError) }
    }

    /// Returns the map of values that [`Quantization::new`] has accepted before.
    pub(crate) const fn from_checked(scale: f32, zero_point: i8) -> Self {
        Self { scale, zero_point }
    }

    /// The real value of one step.
    pub const fn scale(self) -> f32 {
        self.scale
    }

    /// The `i8` that represents 0.
    pub const fn zero_point(self) -> i8 {
        self.zero_point
    }

    /// Returns the nearest `i8`, with halves rounded away from zero, clipped to the range of `i8`; the zero point for
    /// NaN. As in TFLite's reference: round(`value` / `scale`) + `zero_point`.
    pub fn quantize(self, value: f32) -> i8 {
        // Casts from float saturate, and give 0 for NaN.
        let steps = libm::roundf(value / self.scale) as i32;
        steps.saturating_add(self.zero_point as i32).clamp(-128, 127) as i8
    }

    /// The real value that `quantized` represents.
    pub fn dequantize(self, quantized: i8) -> f32 {
        self.scale * (i16::from(quantized) - i16::from(self.zero_point)) as f32
    }

    /// The scale as mantissa·2^exponent, with a mantissa of 24 bits.
    pub(crate) const fn scale_parts(self) -> (u32, i32) {
        let bits = self.scale.to_bits();
        ((bits & 0x7F_FFFF) | 0x80_0000, (bits >> 23) as i32 - 150)
    }

    /// Whether both are the same map.
    pub(crate) const fn is(self, other: Self) -> bool {
        self.scale.to_bits() == other.scale.to_bits() && self.zero_point == other.zero_point
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_beyond_the_range_are_refused() {
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-20, 1e20, f32::MIN_POSITIVE] {
            assert_eq!(Quantization::new(scale, 0), Err(QuantizationError), "{scale}");
        }
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn parts_of_a_scale_give_the_scale() {
        for scale in [1.0f32, 0.1, 3.7e-9, 123_456.0, SCALES.0, SCALES.1] {
            let (mantissa, exponent) = Quantization::new(scale, 0).unwrap().scale_parts();
            assert_eq!(f64::from(mantissa) * 2f64.powi(exponent), f64::from(scale));
        }
    }

    #[test]
    fn values_beyond_i8_are_clipped() {
        let q = Quantization { scale: 0.5, zero_point: 100 };
        assert_eq!(q.quantize(f32::INFINITY), 127);
        assert_eq!(q.quantize(f32::NEG_INFINITY), -128);
        assert_eq!(q.quantize(f32::NAN), 100);
        assert_eq!([0.25, -0.25, 0.24].map(|v| q.quantize(v)), [101, 99, 100]);
    }
}
