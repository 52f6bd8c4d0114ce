//! Energies of 8-bit images and reconstructions, from exact integer sums.

use super::{Energy, EnergyError};
use crate::kernels::int8::Sums;
use crate::quantization::Quantization;

/// Greatest ratio of the two scales, as a power of two. The sums below then fit 128 bits for any length an image can
/// have.
pub(crate) const MAX_SCALE_RATIO: i32 = 16;

/// Returns the mean of (s_x(x − z_x) − s_y(y − z_y))², which is the real squared error divided by the number of values.
/// The sum is exact; it is rounded to `f32` once, and once more when divided. Returns 0 for no values. The scales must
/// [be comparable](are_comparable).
fn mean_squared_error(sums: &Sums, x: Quantization, y: Quantization) -> f32 {
    if sums.count == 0 {
        return 0.0;
    }
    let (n, zx, zy) = (sums.count, i64::from(x.zero_point()), i64::from(y.zero_point()));
    // Σ(x − z_x)² and so on.
    let xx = sums.xx - 2 * zx * sums.x + n * zx * zx;
    let yy = sums.yy - 2 * zy * sums.y + n * zy * zy;
    let xy = sums.xy - zy * sums.x - zx * sums.y + n * zx * zy;
    let ([a, b], exponent) = common(x, y);
    let sum = term(a, a, xx) - term(a, b, xy) - term(a, b, xy) + term(b, b, yy);
    // The result is a sum of squares, so it is not negative.
    rounded(sum.unsigned_abs(), 2 * exponent) / sums.count as f32
}

/// Not inlined, since products of 128 bits take much code.
#[inline(never)]
fn term(a: i64, b: i64, sum: i64) -> i128 {
    i128::from(a) * i128::from(b) * i128::from(sum)
}

/// Returns both scales as integers times one common power of two.
fn common(x: Quantization, y: Quantization) -> ([i64; 2], i32) {
    let ((a, a_exponent), (b, b_exponent)) = (x.scale_parts(), y.scale_parts());
    let exponent = a_exponent.min(b_exponent);
    let scaled = |mantissa: u32, e: i32| i64::from(mantissa) << (e - exponent).min(MAX_SCALE_RATIO);
    ([scaled(a, a_exponent), scaled(b, b_exponent)], exponent)
}

/// Whether the energy of an image and a reconstruction with these scales can be computed.
pub(crate) const fn are_comparable(x: Quantization, y: Quantization) -> bool {
    let ((_, a), (_, b)) = (x.scale_parts(), y.scale_parts());
    a - b <= MAX_SCALE_RATIO && b - a <= MAX_SCALE_RATIO
}

/// `value`·2^`exponent`, rounded to nearest, ties to even; for results in the range of normal `f32`.
fn rounded(value: u128, exponent: i32) -> f32 {
    let zeros = value.leading_zeros().min(127);
    let leading = value << zeros;
    // Keeps 32 bits, of which the last is set if any bit below is set: the conversion then rounds to 24 bits as the
    // whole value would be rounded.
    let kept = (leading >> 96) as u32 | u32::from(leading << 32 != 0);
    let exponent = exponent + 96 - zeros as i32;
    // The power of two is applied as two factors, each of them a normal number.
    let power = |e: i32| f32::from_bits(((e.clamp(-126, 127) + 127) as u32) << 23);
    let half = exponent / 2;
    kept as f32 * power(half) * power(exponent - half)
}

impl Energy {
    /// Returns the energy of an 8-bit image `x` and its reconstruction `y`, each with its scale.
    ///
    /// Squared L2 is computed from [`Sums`], L1 from the sum of absolute errors; both are exact and rounded once before
    /// they are divided. Structural similarity is not supported for 8-bit images.
    ///
    /// # Errors
    /// [`EnergyError::Empty`] if the image is empty; [`EnergyError::ReconstructionLength`] if the lengths differ;
    /// [`EnergyError::NonFinite`] if the scales' exponents of two differ by more than 16, the energy is [`Energy::Ssim`], or
    /// the result is not finite.
    pub fn evaluate_i8(
        self,
        (image, x): (&[i8], Quantization),
        (reconstruction, y): (&[i8], Quantization),
    ) -> Result<f32, EnergyError> {
        if image.is_empty() {
            return Err(EnergyError::Empty);
        }
        if image.len() != reconstruction.len() {
            return Err(EnergyError::ReconstructionLength);
        }
        if !are_comparable(x, y) {
            return Err(EnergyError::NonFinite);
        }
        let energy = match self {
            Self::SquaredL2 => mean_squared_error(&Sums::of(image, reconstruction), x, y),
            Self::L1 => mean_absolute_error(image, reconstruction, x, y),
            Self::Ssim => return Err(EnergyError::NonFinite),
        };
        if energy.is_finite() { Ok(energy) } else { Err(EnergyError::NonFinite) }
    }
}

fn mean_absolute_error(image: &[i8], reconstruction: &[i8], x: Quantization, y: Quantization) -> f32 {
    let ([a, b], exponent) = common(x, y);
    let (zx, zy) = (i64::from(x.zero_point()), i64::from(y.zero_point()));
    let mut sum = 0u128;
    for (&x, &y) in image.iter().zip(reconstruction) {
        // Each term has at most 24 + 16 + 8 bits.
        sum += u128::from((a * (i64::from(x) - zx)).abs_diff(b * (i64::from(y) - zy)));
    }
    rounded(sum, exponent) / image.len() as f32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    fn q(scale: f32, zero_point: i8) -> Quantization {
        Quantization::new(scale, zero_point).unwrap()
    }

    #[test]
    fn rounding_is_that_of_the_processor() {
        for value in [0u64, 1, 3, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, (1 << 25) + 3, (1 << 25) - 1, u64::MAX] {
            assert_eq!(rounded(value.into(), 0), value as f32, "{value}");
        }
        // Just above a tie, by the last of 32 bits and by one below them.
        for value in [0x80_0000_8000_u64, 0x80_0000_8100, 0x80_0000_8101, 0x80_0000_8001] {
            assert_eq!(rounded(value.into(), 0), value as f32, "{value:x}");
        }
        // Powers of two beyond the range of one normal factor.
        assert_eq!(rounded(1, -100), 2f32.powi(-100));
        assert_eq!(rounded(1, 100), 2f32.powi(100));
        assert_eq!(rounded(u128::MAX, -120), 256.0);
        assert_eq!(rounded(3, -40), 3.0 * 2f32.powi(-40));
        assert_eq!(rounded(5 << 100, -150), 5.0 * 2f32.powi(-50));
    }

    #[test]
    fn what_has_no_energy_is_refused() {
        let one = q(1.0, 0);
        assert_eq!(Energy::SquaredL2.evaluate_i8((&[], one), (&[], one)), Err(EnergyError::Empty));
        assert_eq!(Energy::SquaredL2.evaluate_i8((&[1], one), (&[], one)), Err(EnergyError::ReconstructionLength));
        assert_eq!(Energy::Ssim.evaluate_i8((&[1], one), (&[1], one)), Err(EnergyError::NonFinite));
        // Scales up to a factor of 2¹⁶ apart, with either one larger.
        let (near, far) = (q(65_536.0, 0), q(131_072.0, 0));
        assert_eq!(Energy::L1.evaluate_i8((&[1], one), (&[1], near)), Ok(65_535.0));
        assert_eq!(Energy::L1.evaluate_i8((&[1], near), (&[1], one)), Ok(65_535.0));
        assert_eq!(Energy::L1.evaluate_i8((&[1], one), (&[1], far)), Err(EnergyError::NonFinite));
        assert_eq!(Energy::L1.evaluate_i8((&[1], far), (&[1], one)), Err(EnergyError::NonFinite));
    }

    proptest! {
        #[test]
        fn energies_equal_those_of_the_real_values(
            pairs in prop::collection::vec((any::<i8>(), any::<i8>()), 1..300),
            (sx, sy) in (1e-4f32..10.0, 1e-4f32..10.0),
            (zx, zy) in (any::<i8>(), any::<i8>()),
        ) {
            let (x, y): (std::vec::Vec<i8>, std::vec::Vec<i8>) = pairs.into_iter().unzip();
            let error = |x: i8, y: i8| {
                f64::from(sx) * (f64::from(x) - f64::from(zx)) - f64::from(sy) * (f64::from(y) - f64::from(zy))
            };
            let n = x.len() as f64;
            let errors = || x.iter().zip(&y).map(|(&x, &y)| error(x, y));
            let squared: f64 = errors().map(|e| e * e).sum::<f64>() / n;
            let absolute: f64 = errors().map(f64::abs).sum::<f64>() / n;
            for (energy, expected) in [(Energy::SquaredL2, squared), (Energy::L1, absolute)] {
                let found = f64::from(energy.evaluate_i8((&x, q(sx, zx)), (&y, q(sy, zy))).unwrap());
                prop_assert!((found - expected).abs() <= 2e-7 * expected, "{found} {expected}");
            }
        }

        #[test]
        fn an_image_equal_to_its_reconstruction_has_no_energy(
            x in prop::collection::vec(any::<i8>(), 1..300), scale in 1e-9f32..1e9, zero in any::<i8>(),
        ) {
            for energy in [Energy::SquaredL2, Energy::L1] {
                prop_assert_eq!(energy.evaluate_i8((&x, q(scale, zero)), (&x, q(scale, zero))), Ok(0.0));
            }
        }
    }
}
