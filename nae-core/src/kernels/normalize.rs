//! Group normalization (Wu and He, "Group Normalization", ECCV 2018). Division by the norm is in `elementwise`.

use super::{Parameters, part, part_mut};

/// Normalizes each of `groups` groups of channels to mean 0 and variance 1, with `epsilon` added to the variance, then
/// scales each channel by its weight and adds its bias, in place. `values` are HWC with `channels`, a multiple of
/// `groups`. If the variance is beyond `f32`, the values of the group become NaN.
pub(crate) fn group_normalize(
    groups: usize,
    epsilon: f32,
    parameters: Parameters<'_>,
    channels: usize,
    values: &mut [f32],
) {
    let Some(width) = channels.checked_div(groups) else { return };
    for group in 0..groups {
        let from = group * width;
        let scales = part(parameters.weights, from, width);
        let shifts = part(parameters.bias, from, width);
        let mean = mean(values, channels, from, width, |value| value);
        let variance = self::mean(values, channels, from, width, |value| (value - mean) * (value - mean));
        // The square of a large difference overflows. Divided by an infinite variance, all values would become equal:
        // an overflow must not look like a result.
        let inverse = if variance.is_finite() { 1.0 / libm::sqrtf(variance + epsilon) } else { f32::NAN };
        for pixel in values.chunks_exact_mut(channels.max(1)) {
            for ((value, scale), shift) in part_mut(pixel, from, width).iter_mut().zip(scales).zip(shifts) {
                *value = (*value - mean) * inverse * scale + shift;
            }
        }
    }
}

/// The mean of `of` over all pixels and `width` channels from `from` on. A map can have many pixels, so they are summed
/// in double precision.
fn mean(values: &[f32], channels: usize, from: usize, width: usize, of: impl Fn(f32) -> f32) -> f32 {
    let mut total = 0.0f64;
    let mut count = 0usize;
    for pixel in values.chunks_exact(channels.max(1)) {
        total += f64::from(part(pixel, from, width).iter().fold(0.0f32, |sum, value| sum + of(*value)));
        count += width;
    }
    (total / count as f64) as f32
}
