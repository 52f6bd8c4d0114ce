//! The loss of NAE training (paper, equation 12, with the regularizers of section 6.1 and the appendix), and its
//! derivative with respect to each energy, for the CPU engine.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::arch::Autoencoder;
use crate::config::methods::Regularization;
use crate::energy::{distance, mean_squared_norm};
use crate::methods::autoencoder::coefficient;

/// The loss and the two energies in it.
pub struct Loss {
    /// The quantity that is minimized, `[1]`.
    pub total: Tensor<1>,
    /// The mean energy of the data.
    pub positive_energy: Tensor<1>,
    /// The mean energy of the negative samples.
    pub negative_energy: Tensor<1>,
}

/// mean E(x) − k·(mean E(x′) − γ·mean E(x′)²), plus the other regularizers, for data `x` and negatives `x′`, images
/// `[N, C, H, W]` and `[N′, C, H, W]` on the model's device with autodiff. k is `weight`; the paper has k = 1, which is also
/// used if the data's energy has no bound. A regularizer of weight 0 is not computed.
///
/// The loss is not divided by T, as in the authors' code: Adam compensates a constant factor, and the regularizers then
/// have the same weight at every T.
pub fn loss(
    model: &Autoencoder,
    x: Tensor<4>,
    negatives: Tensor<4>,
    weight: f32,
    regularization: Regularization,
) -> Loss {
    let (z, z_negative) = (model.encode(x.clone()), model.encode(negatives.clone()));
    let positive = distance(model.energy(), x, model.decode(z.clone()));
    let negative = distance(model.energy(), negatives, model.decode(z_negative.clone()));
    let (positive_energy, negative_energy) = (positive.clone().mean(), negative.clone().mean());
    let mut total = positive_energy.clone() - negative_energy.clone().mul_scalar(weight);
    let mut penalize = |weight: f32, penalty: &dyn Fn() -> Option<Tensor<1>>| {
        if weight > 0.0
            && let Some(penalty) = penalty()
        {
            total = total.clone() + penalty.mul_scalar(weight);
        }
    };
    let mean_square = |values: Tensor<1>| Some((values.clone() * values).mean());
    penalize(weight * regularization.negative_energy, &|| mean_square(negative.clone()));
    penalize(regularization.positive_energy, &|| mean_square(positive.clone()));
    penalize(regularization.encoder_l2, &|| sum_of_squares(&model.encoder));
    penalize(regularization.decoder_l2, &|| sum_of_squares(&model.decoder));
    penalize(regularization.latent_norm, &|| {
        Some(mean_squared_norm(Tensor::cat(vec![z.clone(), z_negative.clone()], 0)))
    });
    Loss { total, positive_energy, negative_energy }
}

/// ∂loss/∂E for a data sample of energy `energy`, one of `n`: (1 + 2cE)/n.
pub fn positive_coefficient(energy: f32, n: usize, regularization: Regularization) -> f32 {
    coefficient(n) * (1.0 + 2.0 * regularization.positive_energy * energy)
}

/// ∂loss/∂E for a negative sample of energy `energy`, one of `n`: k·(−1 + 2γE)/n, where k is `weight`.
pub fn negative_coefficient(energy: f32, n: usize, weight: f32, regularization: Regularization) -> f32 {
    weight * coefficient(n) * (2.0 * regularization.negative_energy * energy - 1.0)
}

/// Σ w² over all weights and biases of `module`; `None` if there are none.
fn sum_of_squares(module: &impl Module) -> Option<Tensor<1>> {
    #[derive(Default)]
    struct Sum(Option<Tensor<1>>);
    impl ModuleVisitor for Sum {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let weights = param.val();
            let squares = (weights.clone() * weights).sum();
            self.0 = Some(match self.0.take() {
                Some(sum) => sum + squares,
                None => squares,
            });
        }
    }
    let mut sum = Sum::default();
    module.visit(&mut sum);
    sum.0
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::arch::LatentSpace;
    use crate::arch::small_conv::small_conv16;
    use crate::sample::NoiseSource;

    /// The test is in ℝ^D, where norms differ; a mean over one batch only gives another value.
    #[test]
    fn the_latent_norm_is_a_mean_over_both_batches() {
        let [x, negatives] = [1, 2].map(|seed| NoiseSource::new(seed, 0).uniform([40, 1, 16, 16], &Device::flex()));
        let negatives: Tensor<4> = negatives.mul_scalar(3.0);
        let spec = small_conv16(1, 8, 16, LatentSpace::Euclidean).expect("valid");
        let model = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff());
        let value = |latent_norm| {
            let regularization = Regularization {
                negative_energy: 0.0,
                positive_energy: 0.0,
                encoder_l2: 0.0,
                decoder_l2: 0.0,
                latent_norm,
            };
            let loss = loss(&model, x.clone().autodiff(), negatives.clone().autodiff(), 1.0, regularization);
            f64::from(loss.total.into_scalar::<f32>())
        };
        let norm = |x: &Tensor<4>| {
            let latents = model.valid().encode(x.clone()).into_data();
            latents.iter::<f32>().map(|z| f64::from(z).powi(2)).sum::<f64>() / 40.0
        };
        let (positive, negative) = (norm(&x), norm(&negatives));
        let weight = 0.5 / positive;
        let expected = weight * 0.5 * (positive + negative);
        let found = value(weight as f32) - value(0.0);
        assert!((found - expected).abs() < 1e-5 * expected, "{found} against {expected}");
        assert!((positive / negative - 1.0).abs() > 0.1, "{positive} and {negative} are told apart");
    }
}
