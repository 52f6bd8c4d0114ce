//! GANomaly (Akcay et al., ACCV 2018): an autoencoder that is trained against a discriminator, and a second encoder, of
//! the reconstruction. A sample is judged by the distance of both latents.
//!
//! All three encoders have the autoencoder's architecture, as in the paper's comparison; the discriminator's ends in one
//! value, and what its last layer is given are its features. Weights of the terms, Adam's first constant and a
//! discriminator that begins again when it has won are those of the authors' code, and so is the mean of squares in the
//! score, where their paper has absolute values.

use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::activation::softplus;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use rand::Rng;
use serde_bytes::ByteBuf;

use super::gradients::{BatchLoss, add_l2, sharded, take};
use super::optimizer::Optimizer;
use super::state::{self, StateError};
use super::{Decision, EpochMethod, Method, Model, UpdateFigures};
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::layer::Sequential;
use crate::arch::spec::fc;
use crate::arch::{Autoencoder, AutoencoderSpec};
use crate::config::Pretraining;
use crate::config::methods::Adversarial;
use crate::sample::NoiseSource;
use crate::shard;

/// Adam's β₁ in the authors' code.
const BETA_1: f64 = 0.5;
/// A discriminator whose loss is below has won, and begins again.
const WON: f64 = 1e-5;

/// Tells data from reconstructions.
#[derive(Module, Debug)]
struct Discriminator {
    features: Sequential,
    head: Sequential,
}

impl Discriminator {
    fn new(spec: &AutoencoderSpec, rng: &mut impl Rng, device: &Device) -> Self {
        let (trunk, input) = spec.encoder_head();
        let features = Sequential::new(&spec.encoder()[..trunk], spec.image(), rng, device);
        Self { features, head: Sequential::new(&[fc(1)], input, rng, device) }
    }

    /// The logarithm of the odds that each feature map is of data: `[N]`.
    fn log_odds(&self, features: Tensor<4>) -> Tensor<1> {
        let n = features.dims()[0];
        self.head.forward(features).reshape([n])
    }

    fn power_iteration(self) -> Self {
        Self { features: self.features.power_iteration(), head: self.head.power_iteration() }
    }
}

/// Generator and discriminator.
#[derive(Module, Debug)]
pub struct Ganomaly {
    /// First encoder and decoder.
    pub autoencoder: Autoencoder,
    /// Second encoder.
    second: Sequential,
    discriminator: Discriminator,
}

impl Ganomaly {
    /// `autoencoder` of `spec`, whose latent space is Euclidean, with everything else drawn from `rng`.
    pub fn new(autoencoder: Autoencoder, spec: &AutoencoderSpec, rng: &mut impl Rng, device: &Device) -> Self {
        let second = Sequential::new(spec.encoder(), spec.image(), rng, device);
        Self { autoencoder, second, discriminator: Discriminator::new(spec, rng, device) }
    }

    /// A model to read weights into, on the autodiff form of `device`.
    pub(super) fn blank(spec: &AutoencoderSpec, device: &Device) -> Self {
        // The drawn weights are all replaced; the seed does not matter.
        let start = checkpoint::blank(spec, device);
        Self::new(start, spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
    }

    /// Mean squared distance of the latents of image and reconstruction: `[N]`.
    pub fn latent_distances(&self, x: Tensor<4>) -> Tensor<1> {
        let z = self.autoencoder.encode(x);
        let second = self.second.forward(self.autoencoder.decode(z.clone()));
        let [n, dim, _, _] = z.dims();
        (z - second).reshape([n, dim]).square().mean_dim(1).reshape([n])
    }

    /// Section 3.3: the distance of the discriminator's features, the absolute error of the reconstruction, and the
    /// distance of the latents; means over samples and values.
    fn generator_terms(&self, x: Tensor<4>) -> [Tensor<1>; 3] {
        let z = self.autoencoder.encode(x.clone());
        let y = self.autoencoder.decode(z.clone());
        let features = |x: Tensor<4>| self.discriminator.features.forward(x);
        let adversarial = (features(x.clone()) - features(y.clone())).square().mean();
        let contextual = (x - y.clone()).abs().mean();
        let encoder = (z - self.second.forward(y)).square().mean();
        [adversarial, contextual, encoder]
    }

    /// Cross-entropy of data and of reconstructions, halved.
    fn discriminator_loss(&self, x: Tensor<4>, reconstructions: Tensor<4>) -> Tensor<1> {
        let log_odds = |x| self.discriminator.log_odds(self.discriminator.features.forward(x));
        let (real, fake) = (log_odds(x).neg(), log_odds(reconstructions));
        (softplus(real, 1.0).mean() + softplus(fake, 1.0).mean()).mul_scalar(0.5)
    }
}

impl Model for Ganomaly {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::LatentDistance]
    }

    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().latent_distances(x)
    }

    /// None: its reconstruction error is not what is decided by, and the networks that are exported have no second encoder.
    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// Trains generator and discriminator in turn; burn computes the gradients.
pub(crate) struct GanomalyMethod {
    model: Ganomaly,
    spec: AutoencoderSpec,
    optimizer: Optimizer,
    rate: f64,
    encoder_l2: f32,
    settings: Adversarial,
    draws: NoiseSource,
}

impl GanomalyMethod {
    /// From the state `model` of `spec`; a discriminator that begins again is drawn from `draws`.
    pub(crate) fn new(
        model: Ganomaly,
        spec: AutoencoderSpec,
        pretraining: Pretraining,
        settings: Adversarial,
        draws: NoiseSource,
    ) -> Self {
        Self {
            model,
            spec,
            optimizer: Optimizer::new(pretraining.max_gradient_norm).with_beta_1(BETA_1),
            rate: pretraining.learning_rate,
            encoder_l2: pretraining.encoder_l2,
            settings,
            draws,
        }
    }

    /// The gradient of the generator's loss with respect to the weights of autoencoder and second encoder, and its parts.
    fn generator_gradients(&self, x: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        let Adversarial { adversarial, contextual, encoder } = self.settings;
        let shards = shard::shards(x).into_iter().map(|x| (x.dims()[0], x)).collect();
        let (mut gradients, figures) = sharded(&self.model, shards, |model, x: Tensor<4>| {
            let [features, pixels, latents] = model.generator_terms(x.autodiff());
            let loss = features.clone().mul_scalar(adversarial)
                + pixels.clone().mul_scalar(contextual)
                + latents.clone().mul_scalar(encoder);
            BatchLoss { loss, report: vec![("features", features), ("absolute_error", pixels), ("latents", latents)] }
        });
        // The generator does not move its judge.
        take(&self.model.discriminator, &mut gradients);
        add_l2(&self.model.autoencoder.encoder, self.encoder_l2, &mut gradients);
        (gradients, figures)
    }

    /// The gradient of the discriminator's loss with respect to its weights, and the loss.
    fn discriminator_gradients(&self, x: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        let shards = shard::shards(x).into_iter().map(|x| (x.dims()[0], x)).collect();
        let plain = self.model.valid();
        sharded(&self.model, shards, |model, x: Tensor<4>| {
            let reconstructions = plain.autoencoder.reconstruct(x.clone());
            let loss = model.discriminator_loss(x.autodiff(), reconstructions.autodiff());
            BatchLoss { loss: loss.clone(), report: vec![("discriminator", loss)] }
        })
    }
}

impl Method for GanomalyMethod {
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        // Both by the networks before the update, as in the authors' code.
        let (generator, mut figures) = self.generator_gradients(x.clone());
        let (discriminator, loss) = self.discriminator_gradients(x);
        let model = self.optimizer.step(self.rate, self.model.clone(), generator);
        let model = self.optimizer.step(self.rate, model, discriminator);
        let Ganomaly { autoencoder, second, discriminator } = model;
        let won = loss.get("discriminator").is_some_and(|loss| loss < WON);
        let discriminator = if won {
            Discriminator::new(&self.spec, self.draws.rng(), &self.model.devices().remove(0))
        } else {
            discriminator.power_iteration()
        };
        let (autoencoder, second) = (autoencoder.power_iteration(), second.power_iteration());
        self.model = Ganomaly { autoencoder, second, discriminator };
        figures.add(&loss, 1.0);
        figures
    }

    fn model(&self) -> &dyn Model {
        &self.model
    }

    fn state(&self) -> Result<ByteBuf, StateError> {
        state::save(&self.model, &self.optimizer, &self.draws)
    }

    fn restore(&mut self, state: &[u8], image: Shape) -> Result<(), StateError> {
        state::restore(state, image, &mut self.model, &mut self.optimizer, &mut self.draws)
    }

    fn into_model(self: Box<Self>) -> Box<dyn Model> {
        Box::new(self.model)
    }
}

impl EpochMethod for GanomalyMethod {
    fn set_learning_rate(&mut self, rate: f64) {
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::*;
    use crate::arch::LatentSpace;
    use crate::methods::finite_differences::{SAMPLES, changed, images, network, numbers, slopes_agree, smooth, wide};

    const SETTINGS: Adversarial = Adversarial { adversarial: 0.5, contextual: 3.0, encoder: 2.0 };

    fn method() -> GanomalyMethod {
        let (device, spec) = (Device::flex().autodiff(), smooth(LatentSpace::Euclidean));
        let start = network(LatentSpace::Euclidean);
        let model = Ganomaly::new(start, &spec, NoiseSource::new(2, 0).rng(), &device);
        let settings = Pretraining { encoder_l2: 0.02, ..Pretraining::new(1, SAMPLES, 1e-2) };
        GanomalyMethod::new(model, spec, settings, SETTINGS, NoiseSource::new(4, 0))
    }

    fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let n = values.len() as f64;
        values.sum::<f64>() / n
    }

    /// Features, reconstructions and latents in float64, and the three terms of them.
    #[test]
    fn the_generator_steps_by_the_gradient_of_its_loss() {
        let (x, method) = (images(1), method());
        let (mut gradients, _) = method.generator_gradients(x.clone());
        assert!(take(&method.model.discriminator, &mut gradients).is_empty(), "the discriminator is not moved");
        let x = x.cast(FloatDType::F64);
        // What the generator does not move does not count: its discriminator is the one before the step.
        let judge = crate::methods::finite_differences::moved(&method.model, usize::MAX, &[], 0.0).discriminator;
        let right = [0.5, 3.0, 2.0, 0.02];
        slopes_agree("generator", &method.model, &gradients, &right, &changed(right), |model, terms: &[f64; 4]| {
            let z = model.autoencoder.encode(x.clone());
            let y = model.autoencoder.decode(z.clone());
            let second = wide(model.second.forward(y.clone()));
            let (real, fake) = (wide(judge.features.forward(x.clone())), wide(judge.features.forward(y.clone())));
            let squares = |a: &[f64], b: &[f64]| mean(a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)));
            let absolute = mean(wide(x.clone()).iter().zip(&wide(y)).map(|(a, b)| (a - b).abs()));
            let penalty: f64 = numbers(&model.autoencoder.encoder).iter().map(|w| w * w).sum();
            terms[0] * squares(&real, &fake)
                + terms[1] * absolute
                + terms[2] * squares(&wide(z), &second)
                + terms[3] * penalty
        });
    }

    /// −½(mean ln D(x) + mean ln(1 − D(x̂))), D the logistic function of the last layer; the generator is not moved.
    #[test]
    fn the_discriminator_steps_by_the_gradient_of_its_loss() {
        let (x, method) = (images(1), method());
        let (mut gradients, figures) = method.discriminator_gradients(x.clone());
        assert!(take(&method.model.autoencoder, &mut gradients).is_empty(), "the generator is not moved");
        let x = x.cast(FloatDType::F64);
        let unmoved = crate::methods::finite_differences::moved(&method.model, usize::MAX, &[], 0.0);
        let fake = unmoved.autoencoder.reconstruct(x.clone());
        let loss = |model: &Ganomaly, terms: &[f64; 2]| {
            let odds =
                |x: &Tensor<4>| wide(model.discriminator.head.forward(model.discriminator.features.forward(x.clone())));
            let share = |odds: &f64| 1.0 / (1.0 + (-odds).exp());
            let (real, fake) = (odds(&x), odds(&fake));
            -terms[0] * mean(real.iter().map(|odds| share(odds).ln()))
                - terms[1] * mean(fake.iter().map(|odds| (1.0 - share(odds)).ln()))
        };
        let (found, expected) = (figures.get("discriminator").expect("reported"), loss(&unmoved, &[0.5, 0.5]));
        assert!((found / expected - 1.0).abs() < 1e-5, "{found} against {expected}");
        slopes_agree("discriminator", &method.model, &gradients, &[0.5, 0.5], &changed([0.5, 0.5]), loss);
    }

    #[test]
    fn it_decides_by_the_distance_of_both_latents() {
        let x = images(1);
        let model = method().model.valid();
        let z = model.autoencoder.encode(x.clone());
        let second = wide(model.second.forward(model.autoencoder.decode(z.clone())));
        let expected = wide(z);
        let found = wide(model.decide(Decision::Reconstruction, x));
        for (k, found) in found.iter().enumerate() {
            let at = |v: &[f64], d: usize| v[4 * k + d];
            let expected = (0..4).map(|d| (at(&expected, d) - at(&second, d)).powi(2)).sum::<f64>() / 4.0;
            assert!((found / expected - 1.0).abs() < 1e-5, "{found} against {expected}");
        }
    }

    /// Black images and their reconstructions are told apart at once by odds of e^40: the discriminator has won.
    #[test]
    fn a_discriminator_that_has_won_begins_again() {
        let mut method = method();
        let x = images(1).zeros_like();
        let before = numbers(&method.model.discriminator);
        method.update(x.clone());
        let moved = numbers(&method.model.discriminator);
        let largest = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // Adam's first step is the learning rate.
        assert!(largest(&before, &moved) < 1.1e-2);
        struct Scale(f64);
        impl burn::module::ModuleMapper for Scale {
            fn map_float<const D: usize>(
                &mut self,
                param: burn::module::Param<Tensor<D>>,
            ) -> burn::module::Param<Tensor<D>> {
                param.map(|weights| Tensor::from_inner(weights.inner().mul_scalar(self.0)).require_grad())
            }
        }
        let plain = method.model.valid();
        let odds = |x: &Tensor<4>| {
            let judge = &plain.discriminator;
            wide(judge.head.forward(judge.features.forward(x.clone())))[0]
        };
        let apart = odds(&x) - odds(&plain.autoencoder.reconstruct(x.clone()));
        // Weights of the head alone are scaled, so that both sides of the middle are far from it.
        let centre = 0.5 * (odds(&x) + odds(&plain.autoencoder.reconstruct(x.clone())));
        let factor = 80.0 / apart;
        let head = method.model.discriminator.head.clone().map(&mut Scale(factor));
        let head = shifted(head, -factor * centre);
        method.model.discriminator.head = head;
        let scaled = numbers(&method.model.discriminator);
        let loss = method.discriminator_gradients(x.clone()).1.get("discriminator").expect("reported");
        assert!(loss < WON, "{loss}");
        method.update(x);
        let fresh = numbers(&method.model.discriminator);
        assert!(largest(&fresh, &scaled) > 1.0 && largest(&fresh, &before) < 2.0);
    }

    /// The dense layer with `shift` added to its bias.
    fn shifted(head: Sequential, shift: f64) -> Sequential {
        struct Shift(f64);
        impl burn::module::ModuleMapper for Shift {
            fn map_float<const D: usize>(
                &mut self,
                param: burn::module::Param<Tensor<D>>,
            ) -> burn::module::Param<Tensor<D>> {
                // The bias has one value, the weights more.
                let shift = if param.shape().num_elements() == 1 { self.0 } else { 0.0 };
                param.map(|weights| Tensor::from_inner(weights.inner().add_scalar(shift)).require_grad())
            }
        }
        head.map(&mut Shift(shift))
    }
}
