//! Mixtures of discretized logistic distributions (Salimans et al., ICLR 2017, section 2.1): the probability of a
//! pixel's byte is the mixture's probability within half a level of it; for 0 and 255, of everything beyond.

use burn::tensor::Tensor;
use burn::tensor::activation::{log_softmax, sigmoid, softplus};

use super::super::log_sum_exp::log_sum_exp;

/// The number of logistic distributions in a mixture.
pub(super) const COMPONENTS: usize = 10;
/// The smallest logarithm of a scale.
const LEAST_LOG_SCALE: f32 = -7.0;
/// Half of a level, with bytes scaled to [−1, 1].
const HALF: f32 = 1.0 / 255.0;

/// The number of parameters of a pixel's mixture: weights, and for each channel means and scales; with three channels,
/// each further mean also depends on the channels before, with one coefficient for each.
pub(super) const fn parameters(channels: usize) -> usize {
    COMPONENTS * (1 + 2 * channels + channels * (channels - 1) / 2)
}

/// log p for each pixel of `x` `[N, C, H, W]`, levels on [−1, 1], under mixtures of `parameters` `[N, P, H, W]`: `[N,
/// H·W]`.
pub(super) fn log_probabilities(x: Tensor<4>, parameters: Tensor<4>) -> Tensor<2> {
    let [n, channels, height, width] = x.dims();
    let part = |index: usize| parameters.clone().narrow(1, index * COMPONENTS, COMPONENTS);
    let weights = log_softmax(part(0), 1);
    let (means, scales, coefficients) = (1, 1 + channels, 1 + 2 * channels);
    let channel = |c: usize| x.clone().narrow(1, c, 1);
    let mut next = coefficients;
    let terms = (0..channels).fold(weights, |sum, c| {
        let mean = (0..c).fold(part(means + c), |mean, before| {
            next += 1;
            mean + part(next - 1).tanh() * channel(before)
        });
        sum + log_probability(channel(c), mean, part(scales + c).clamp_min(LEAST_LOG_SCALE))
    });
    log_sum_exp(terms, 1).reshape([n, height * width])
}

/// log p for values under logistic distributions, each within half a level.
fn log_probability(x: Tensor<4>, mean: Tensor<4>, log_scale: Tensor<4>) -> Tensor<4> {
    let inverse = log_scale.clone().neg().exp();
    let apart = x.clone() - mean;
    let above = apart.clone().add_scalar(HALF) * inverse.clone();
    let below = apart.clone().sub_scalar(HALF) * inverse.clone();
    let within = sigmoid(above.clone()) - sigmoid(below.clone());
    // Far from the mean both are equal in f32; the density at the centre times the level's width is used there.
    let middle = apart * inverse;
    let density = middle.clone() - log_scale - softplus(middle, 1.0).mul_scalar(2.0);
    let far = within.clone().lower_elem(1e-5);
    let inner = within.clamp_min(1e-12).log().mask_where(far, density.add_scalar((2.0 * HALF).ln()));
    let lowest = above.clone() - softplus(above, 1.0);
    let highest = softplus(below, 1.0).neg();
    let x = x.expand(inner.dims());
    inner.mask_where(x.clone().lower_elem(-0.999), lowest).mask_where(x.greater_elem(0.999), highest)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::methods::finite_differences::wide;
    use crate::sample::NoiseSource;

    fn levels() -> Vec<f32> {
        (0..256).map(|k| k as f32 / 127.5 - 1.0).collect()
    }

    fn drawn(channels: usize, spread: f32) -> Vec<f32> {
        let drawn = NoiseSource::new(5, 0).normal::<1>([parameters(channels)], &Device::flex()).mul_scalar(spread);
        drawn.into_data().iter::<f32>().collect()
    }

    fn repeated(parameters: &[f32], n: usize) -> Tensor<4> {
        let data = TensorData::new(parameters.to_vec(), [1, parameters.len(), 1, 1]);
        Tensor::from_data(data, &Device::flex()).repeat_dim(0, n)
    }

    /// Tests narrow and wide mixtures, at the ends of the range and between.
    #[test]
    fn the_levels_of_a_pixel_sum_to_one() {
        for spread in [0.5, 1.0, 3.0] {
            let x = Tensor::<4>::from_data(TensorData::new(levels(), [256, 1, 1, 1]), &Device::flex());
            let logs = wide(log_probabilities(x, repeated(&drawn(1, spread), 256)));
            let sum: f64 = logs.iter().map(|log| log.exp()).sum();
            assert!((sum - 1.0).abs() < 2e-3, "{spread}: {sum}");
        }
    }

    /// Compares three channels with the definition in float64.
    #[test]
    fn channels_follow_those_before() {
        let (parameters, pixel) =
            (drawn(3, 0.7), [-1.0, 0.2 * 5.0 / 5.0, 1.0].map(|v: f32| (v * 127.5).round() / 127.5));
        let x = Tensor::<4>::from_data(TensorData::new(pixel.to_vec(), [1, 3, 1, 1]), &Device::flex());
        let found = wide(log_probabilities(x, repeated(&parameters, 1)))[0];
        let at = |part: usize, k: usize| f64::from(parameters[part * COMPONENTS + k]);
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let total: f64 = (0..COMPONENTS).map(|k| at(0, k).exp()).sum();
        let pixel = pixel.map(f64::from);
        let p: f64 = (0..COMPONENTS)
            .map(|k| {
                let means = [
                    at(1, k),
                    at(2, k) + at(7, k).tanh() * pixel[0],
                    at(3, k) + at(8, k).tanh() * pixel[0] + at(9, k).tanh() * pixel[1],
                ];
                (0..3).fold(at(0, k).exp() / total, |p, c| {
                    let scale = at(4 + c, k).max(-7.0).exp();
                    let below =
                        if pixel[c] < -0.999 { 0.0 } else { sigmoid((pixel[c] - 1.0 / 255.0 - means[c]) / scale) };
                    let above =
                        if pixel[c] > 0.999 { 1.0 } else { sigmoid((pixel[c] + 1.0 / 255.0 - means[c]) / scale) };
                    p * (above - below)
                })
            })
            .sum();
        assert!((found - p.ln()).abs() < 1e-4, "{found} against {}", p.ln());
    }
}
