//! The plain autoencoder (paper, equation 1), and the denoising autoencoder (Vincent et al., ICML 2008), whose input is
//! data with Gaussian noise and whose output is compared with the data without noise.

use std::path::Path;

use burn::module::Module as _;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, add_l2, sharded};
use super::halves::HalvesEngine;
use super::{Decision, Model, UpdateFigures};
use crate::arch::Autoencoder;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::config::Pretraining;
use crate::config::methods::Denoising;
use crate::energy::{distance, energy, mean, mean_squared_norm};
use crate::engine::Engine;
use crate::sample::NoiseSource;
use crate::shard;

/// The mean energy of the batch `x`.
pub fn loss(model: &Autoencoder, x: Tensor<4>) -> Tensor<1> {
    energy(model, x).mean()
}

/// ∂loss/∂E for each of `n` samples.
pub fn coefficient(n: usize) -> f32 {
    1.0 / n as f32
}

/// Trains a plain or a denoising autoencoder.
pub type AutoencoderMethod = GradientMethod<ReconstructionError>;

/// The mean energy of the data, or of their reconstructions from data with noise, plus the penalties. The state kept
/// between updates is the source of that noise, if any.
pub struct ReconstructionError {
    denoising: Denoising,
    encoder_l2: f32,
    latent_norm: f32,
    engine: HalvesEngine,
}

impl AutoencoderMethod {
    /// Starts from the state `model`; denoising if `corruption` is given, with the source of its noise.
    pub fn new(
        model: Autoencoder,
        settings: Pretraining,
        corruption: Option<(Denoising, NoiseSource)>,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let (denoising, source) = corruption.unzip();
        let objective = ReconstructionError {
            denoising: denoising.unwrap_or_default(),
            encoder_l2: settings.encoder_l2,
            latent_norm: settings.latent_norm,
            engine: HalvesEngine::new(engine, device),
        };
        Self::begin(objective, model, source, settings)
    }
}

impl ReconstructionError {
    /// The input of the network for the data `x`.
    fn input(&self, source: &mut Option<NoiseSource>, x: &Tensor<4>) -> Tensor<4> {
        match source {
            Some(source) => x.clone() + source.normal(x.dims(), self.engine.device()).mul_scalar(self.denoising.noise),
            None => x.clone(),
        }
    }

    /// Returns the gradient of the mean energy and the penalties with respect to all weights, and the mean energy.
    pub(super) fn gradients(
        &self,
        source: &mut Option<NoiseSource>,
        model: &Autoencoder,
        x: Tensor<4>,
    ) -> (GradientsParams, UpdateFigures) {
        let input = self.input(source, &x);
        let [n, c, h, w] = x.dims();
        let engine = self.engine.kept();
        let (mut gradients, figures) = match engine.engine() {
            _ if self.latent_norm > 0.0 => self.engine.gradients(model, input, (), |model, _, y, z| {
                let energy = distance(model.energy(), x.clone().autodiff(), y).mean();
                let loss = energy.clone() + mean_squared_norm(z).mul_scalar(self.latent_norm);
                BatchLoss { loss, report: vec![("energy", energy)] }
            }),
            Engine::Burn => {
                let pairs = shard::shards(input).into_iter().zip(shard::shards(x));
                let shards = pairs.map(|pair| (pair.0.dims()[0], pair)).collect();
                sharded(model, shards, |model, (input, x): (Tensor<4>, Tensor<4>)| {
                    let loss = distance(model.energy(), x.autodiff(), model.reconstruct(input.autodiff())).mean();
                    BatchLoss { report: vec![("energy", loss.clone())], loss }
                })
            }
            Engine::Cpu => {
                let engine = engine.autoencoder(model, [c, h, w]);
                let (energies, gradients) = engine.weights_towards(input, x, |_| coefficient(n));
                (engine.register(gradients), UpdateFigures::new([("energy", mean(&energies))]))
            }
        };
        add_l2(&model.encoder, self.encoder_l2, &mut gradients);
        (gradients, figures)
    }
}

impl Objective for ReconstructionError {
    type Model = Autoencoder;
    type Kept = Option<NoiseSource>;

    fn update(
        &self,
        source: &mut Option<NoiseSource>,
        model: Autoencoder,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (Autoencoder, UpdateFigures) {
        let (gradients, figures) = self.gradients(source, &model, x);
        (step.along(gradients, model).power_iteration(), figures)
    }
}

impl Model for Autoencoder {
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        energy(&self.valid(), x)
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        Some(self)
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{LatentSpace, small_conv::small_conv16};
    use crate::energy::squared_l2;
    use crate::methods::Method as _;

    /// The reported energy is the loss: the noisy input's reconstruction compared with the data, on both engines.
    #[test]
    fn a_denoiser_is_compared_with_the_data_without_noise() {
        let device = Device::flex();
        let spec = small_conv16(1, 2, 4, LatentSpace::Sphere).expect("valid");
        let model = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let x = NoiseSource::new(1, 0).uniform::<4>([40, 1, 16, 16], &device);
        let noisy = x.clone() + NoiseSource::new(2, 0).normal::<4>(x.dims(), &device).mul_scalar(0.3);
        let expected = f64::from(squared_l2(x.clone(), model.valid().reconstruct(noisy)).mean().into_scalar::<f32>());
        for engine in [Engine::Cpu, Engine::Burn] {
            let settings = Pretraining::new(1, 40, 1e-3);
            let corruption = Some((Denoising::default(), NoiseSource::new(2, 0)));
            let mut method = AutoencoderMethod::new(model.clone(), settings, corruption, engine, &device);
            let energy = method.update(x.clone()).get("energy").expect("reported");
            assert!((energy - expected).abs() < 1e-5 * expected, "{engine:?}: {energy} {expected}");
        }
    }

    /// With a penalty that outweighs the data, the encoder's weights shrink, with every engine and method of
    /// pre-training.
    #[test]
    fn the_penalty_shrinks_the_encoder() {
        use super::super::EpochMethod;
        use super::super::vae::{VaeMethod, VariationalAutoencoder};
        use super::super::wae::WaeMethod;
        use crate::arch::graph::floats;
        use crate::arch::layer::Layer;
        use crate::config::methods::{Variational, Wasserstein};

        let device = Device::flex();
        let spec = small_conv16(1, 2, 4, LatentSpace::Euclidean).expect("valid");
        let autodiff = device.clone().autodiff();
        let noise = || NoiseSource::new(2, 0);
        let squares = |model: &Autoencoder| -> f32 {
            let Some(Layer::Conv(first)) = model.encoder.layers().first() else {
                panic!("it begins with a convolution")
            };
            floats(&first.weight).iter().map(|w| w * w).sum()
        };
        let x = NoiseSource::new(1, 0).uniform::<4>([8, 1, 16, 16], &device);
        for which in ["cpu", "burn", "vae", "vae by burn", "wae", "wae by burn"] {
            let reached = |c: f32| {
                let settings = Pretraining { encoder_l2: c, ..Pretraining::new(1, 8, 1e-3) };
                let start = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &autodiff);
                let engine = if which.ends_with("burn") { Engine::Burn } else { Engine::Cpu };
                let mut method: Box<dyn EpochMethod> = match which {
                    "cpu" | "burn" => Box::new(AutoencoderMethod::new(start, settings, None, engine, &device)),
                    "vae" | "vae by burn" => {
                        let settings_vae = Variational::default();
                        let mut rng = NoiseSource::new(0, 0);
                        let start = VariationalAutoencoder::new(&spec, settings_vae, rng.rng(), &autodiff);
                        Box::new(VaeMethod::new(start, settings, settings_vae, noise(), engine, &device))
                    }
                    _ => Box::new(WaeMethod::new(start, settings, Wasserstein::default(), noise(), engine, &device)),
                };
                for _ in 0..20 {
                    method.update(x.clone());
                }
                squares(method.model().autoencoder().expect("it has one"))
            };
            let (without, with) = (reached(0.0), reached(1e3));
            assert!(with < 0.9 * without, "{which}: {with} {without}");
        }
    }

    /// A rate applies from the next update on.
    #[test]
    fn the_rate_can_be_set() {
        use super::super::EpochMethod as _;

        let device = Device::flex();
        let spec = small_conv16(1, 2, 4, LatentSpace::Sphere).expect("valid");
        let start = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let x = NoiseSource::new(1, 0).uniform::<4>([8, 1, 16, 16], &device);
        let before = crate::energy::energy(&start.valid(), x.clone()).into_data();
        let mut method = AutoencoderMethod::new(start, Pretraining::new(1, 8, 1e-2), None, Engine::Cpu, &device);
        method.set_learning_rate(0.0);
        method.update(x.clone());
        assert_eq!(crate::energy::energy(&method.model.valid(), x.clone()).into_data(), before);
        method.set_learning_rate(1e-2);
        method.update(x.clone());
        assert_ne!(crate::energy::energy(&method.model.valid(), x).into_data(), before);
    }
}
