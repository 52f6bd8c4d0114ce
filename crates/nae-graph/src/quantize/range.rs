//! Chooses the scale and zero point of a tensor from its values.

use nae_core::quantization::Quantization;

use super::activations::Seen;

/// The method by which the range of a tensor is chosen. Values outside are clipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ranges {
    /// From the least to the greatest value seen.
    MinMax,
    /// From the quantile 1 − p to the quantile p of the values, for this p: 0.999 clips one value in a thousand on
    /// either side.
    Percentile(f64),
    /// The range for which rounding and clipping together have the least mean squared error.
    MeanSquaredError,
}

/// Chooses the scale and zero point of a tensor. 0 is always exact.
pub(super) fn choose(seen: &Seen, ranges: Ranges) -> Quantization {
    let whole = (seen.least, seen.greatest);
    let (least, greatest) = match ranges {
        Ranges::MinMax => whole,
        Ranges::Percentile(share) => percentile(&seen.sample, share).unwrap_or(whole),
        Ranges::MeanSquaredError => least_error(&seen.sample, whole),
    };
    affine(least, greatest)
}

/// Returns the scale and zero point of a range, which is widened to contain 0: 255 steps, with 0 on one of them.
pub(super) fn affine(least: f32, greatest: f32) -> Quantization {
    let (least, greatest) = (f64::from(least.min(0.0)), f64::from(greatest.max(0.0)));
    let scale = (greatest - least) / 255.0;
    let zero_point = (-128.0 - least / scale).round().clamp(-128.0, 127.0);
    // A tensor of zeros has no range, so any scale is valid.
    Quantization::new(scale as f32, zero_point as i8).unwrap_or(UNIT)
}

/// Scale 1/255, from 0 to 1.
const UNIT: Quantization = match Quantization::new(1.0 / 255.0, -128) {
    Ok(quantization) => quantization,
    Err(_) => panic!("the scale 1/255 is finite and above zero"),
};

fn percentile(sample: &[f32], share: f64) -> Option<(f32, f32)> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f32::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = |share: f64| sorted[((last as f64 * share).round() as usize).min(last)];
    Some((at(1.0 - share), at(share)))
}

/// The part of the whole range with the least mean squared error. Each end is moved in steps of a fiftieth of the
/// range: the upper first, then the lower, then both again.
fn least_error(sample: &[f32], (least, greatest): (f32, f32)) -> (f32, f32) {
    const STEPS: u8 = 40;
    let mut best = (least, greatest);
    let mut best_error = error(sample, best);
    for _ in 0..2 {
        for upper in [true, false] {
            for step in 0..STEPS {
                let part = 1.0 - 0.02 * f32::from(step);
                let range = if upper { (best.0, greatest * part) } else { (least * part, best.1) };
                let error = error(sample, range);
                if error < best_error {
                    (best, best_error) = (range, error);
                }
            }
        }
    }
    best
}

/// Sum of the squared errors of quantization.
fn error(sample: &[f32], (least, greatest): (f32, f32)) -> f64 {
    let quantization = affine(least, greatest);
    let (scale, zero_point) = (quantization.scale(), f32::from(quantization.zero_point()));
    let (low, high) = (-128.0 - zero_point, 127.0 - zero_point);
    let inverse = 1.0 / scale;
    sample
        .iter()
        .map(|&value| {
            let lost = value - scale * (value * inverse).round().clamp(low, high);
            f64::from(lost * lost)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sample: Vec<f32>) -> Seen {
        let least = sample.iter().copied().fold(0.0, f32::min);
        let greatest = sample.iter().copied().fold(0.0, f32::max);
        Seen { least, greatest, sample, channels: Vec::new() }
    }

    #[test]
    fn zero_is_exact_and_the_ends_are_held() {
        for (least, greatest) in [(-1.0, 3.0), (0.5, 2.0), (-2.0, -0.5), (0.0, 1e-3)] {
            let q = affine(least, greatest);
            assert_eq!(q.dequantize(q.quantize(0.0)), 0.0);
            for end in [least, greatest] {
                assert!((q.dequantize(q.quantize(end)) - end).abs() <= 0.5001 * q.scale() + 1e-6, "{end}");
            }
        }
        assert_eq!(affine(0.0, 0.0), UNIT);
    }

    #[test]
    fn a_stray_value_is_clipped_where_that_is_better() {
        // Two thousand values spread over [0, 1], and one far away.
        let mut sample: Vec<f32> = (0..2000).map(|i| i as f32 / 2000.0).collect();
        sample.push(2.0);
        let seen = seen(sample);
        let scale = |ranges| choose(&seen, ranges).scale() * 255.0;
        assert_eq!(scale(Ranges::MinMax), 2.0);
        assert!(scale(Ranges::Percentile(0.999)) < 1.01);
        let errors = [Ranges::MinMax, Ranges::MeanSquaredError].map(|ranges| error(&seen.sample, (0.0, scale(ranges))));
        assert!(errors[1] <= errors[0]);
    }
}
