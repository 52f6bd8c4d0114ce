//! GANomaly (Akcay et al., ACCV 2018): an autoencoder trained against a discriminator, and a second encoder for the
//! reconstruction. The score of a sample is the distance of both latents.
//!
//! All three encoders have the autoencoder's architecture, as in the paper's comparison. The discriminator's has one
//! output value, and its features are the input of its last layer. The weights of the terms, Adam's first constant and
//! the restart of a discriminator that has won are those of the authors' code. So is the mean of squares in the score,
//! where their paper has absolute values.

use std::collections::VecDeque;
use std::path::Path;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::activation::softplus;
use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use rand::Rng;
use serde_bytes::ByteBuf;

use super::gradients::{BatchLoss, add_l2, figures, take};
use super::optimizer::Optimizer;
use super::state::{self, StateError};
use super::{Decision, EpochMethod, Method, Model, Networks, UpdateFigures};
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::layer::Sequential;
use crate::arch::spec::fc;
use crate::arch::{Autoencoder, AutoencoderSpec};
use crate::config::Pretraining;
use crate::config::methods::Adversarial;
use crate::engine::Engine;
use crate::engine::kept::KeptEngine;
use crate::sample::NoiseSource;

/// Adam's β₁ in the authors' code.
const BETA_1: f64 = 0.5;
/// A discriminator whose loss is below this has won and is restarted.
const WON: f64 = 1e-5;

/// Distinguishes data from reconstructions.
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

    /// The log odds that each sample with these feature maps is data: `[N]`.
    fn log_odds(&self, features: Tensor<4>) -> Tensor<1> {
        let n = features.dims()[0];
        self.head.forward(features).reshape([n])
    }

    /// Returns the discriminator with newly drawn weights. The optimizer keeps its moments of them, as in the authors'
    /// code.
    fn begun_again(self, spec: &AutoencoderSpec, rng: &mut impl Rng, device: &Device) -> Self {
        let mut drawn = Values::default();
        Self::new(spec, rng, device).visit(&mut drawn);
        self.map(&mut drawn)
    }

    fn power_iteration(self) -> Self {
        Self { features: self.features.power_iteration(), head: self.head.power_iteration() }
    }
}

/// The values of a module in the order in which they are visited: read from one module, written to another with the
/// same layers.
#[derive(Default)]
struct Values(VecDeque<TensorData>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push_back(param.val().into_data());
    }
}

impl ModuleMapper for Values {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let tracked = param.is_require_grad();
        let Some(values) = self.0.pop_front() else { return param };
        param.map(|old| Tensor::from_data(values, &old.device()).set_require_grad(tracked))
    }
}

/// The generator and the discriminator.
#[derive(Module, Debug)]
pub struct Ganomaly {
    /// The first encoder and the decoder.
    pub autoencoder: Autoencoder,
    /// The second encoder.
    second: Sequential,
    discriminator: Discriminator,
}

impl Ganomaly {
    /// Combines `autoencoder` of `spec`, whose latent space must be Euclidean, with other parts drawn from `rng`.
    pub fn new(autoencoder: Autoencoder, spec: &AutoencoderSpec, rng: &mut impl Rng, device: &Device) -> Self {
        let second = Sequential::new(spec.encoder(), spec.image(), rng, device);
        Self { autoencoder, second, discriminator: Discriminator::new(spec, rng, device) }
    }

    /// A model to load weights into, on the autodiff form of `device`.
    pub(super) fn blank(spec: &AutoencoderSpec, device: &Device) -> Self {
        // All drawn weights are replaced, so the seed does not matter.
        let start = checkpoint::blank(spec, device);
        Self::new(start, spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
    }

    /// The mean squared distance of the latents of image and reconstruction: `[N]`.
    fn latent_distances(&self, x: Tensor<4>) -> Tensor<1> {
        let z = self.autoencoder.encode(x);
        let second = self.second.forward(self.autoencoder.decode(z.clone()));
        let [n, dim, _, _] = z.dims();
        (z - second).reshape([n, dim]).square().mean_dim(1).reshape([n])
    }

    /// Half the cross-entropy of data and reconstructions, given their features.
    fn discriminator_loss(&self, real: Tensor<4>, fake: Tensor<4>) -> Tensor<1> {
        let [real, fake] = [real, fake].map(|features| self.discriminator.log_odds(features));
        (softplus(real.neg(), 1.0).mean() + softplus(fake, 1.0).mean()).mul_scalar(0.5)
    }
}

impl Model for Ganomaly {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::LatentDistance]
    }

    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().latent_distances(x)
    }

    /// `None`, since the decision does not use the reconstruction error.
    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn networks(&self) -> Option<Networks<'_>> {
        Some(Networks::Latents { autoencoder: &self.autoencoder, second: &self.second })
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// The inputs of the generator's loss: a batch, its latents, its reconstructions, their latents from the second
/// encoder, and the discriminator's features of both.
struct Views {
    x: Tensor<4>,
    z: Tensor<4>,
    y: Tensor<4>,
    second: Tensor<4>,
    real: Tensor<4>,
    fake: Tensor<4>,
}

/// The gradients of an update, and its figures.
struct Gradients {
    /// The gradients of the autoencoder and the second encoder.
    generator: GradientsParams,
    /// The gradients of the discriminator.
    discriminator: GradientsParams,
    figures: UpdateFigures,
}

/// Trains generator and discriminator alternately.
pub(crate) struct GanomalyMethod {
    model: Ganomaly,
    spec: AutoencoderSpec,
    engine: KeptEngine,
    optimizer: Optimizer,
    rate: f64,
    encoder_l2: f32,
    settings: Adversarial,
    draws: NoiseSource,
}

impl GanomalyMethod {
    /// Starts from the state `model` of `spec`; the weights of a restarted discriminator are drawn from `draws`.
    pub(crate) fn new(
        model: Ganomaly,
        spec: AutoencoderSpec,
        pretraining: Pretraining,
        settings: Adversarial,
        draws: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        Self {
            model,
            spec,
            engine: KeptEngine::new(engine, device),
            optimizer: Optimizer::new(pretraining.max_gradient_norm).with_beta_1(BETA_1),
            rate: pretraining.learning_rate,
            encoder_l2: pretraining.encoder_l2,
            settings,
            draws,
        }
    }

    /// The weighted terms of section 3.3: the distance of the discriminator's features, the absolute error of the
    /// reconstruction, and the distance of the latents, each a mean over samples and values.
    fn generator_loss(&self, views: Views) -> BatchLoss {
        let Views { x, z, y, second, real, fake } = views;
        let features = (real - fake).square().mean();
        let pixels = (x - y).abs().mean();
        let latents = (z - second).square().mean();
        let Adversarial { adversarial, contextual, encoder } = self.settings;
        let loss = features.clone().mul_scalar(adversarial)
            + pixels.clone().mul_scalar(contextual)
            + latents.clone().mul_scalar(encoder);
        BatchLoss { loss, report: vec![("features", features), ("absolute_error", pixels), ("latents", latents)] }
    }

    /// Returns both gradients, computed with the networks before the update, as in the authors' code.
    fn gradients(&self, x: Tensor<4>) -> Gradients {
        let mut gradients = match self.engine.engine() {
            Engine::Cpu => self.by_layers(x),
            Engine::Burn => self.by_burn(x),
        };
        add_l2(&self.model.autoencoder.encoder, self.encoder_l2, &mut gradients.generator);
        gradients
    }

    fn by_layers(&self, x: Tensor<4>) -> Gradients {
        let Ganomaly { autoencoder, second, discriminator } = &self.model;
        let image = self.spec.image();
        let layers = |layers, input| self.engine.layers(layers, input, false);
        let (encoder, second) = (layers(&autoencoder.encoder, image), layers(second, image));
        let decoder = layers(&autoencoder.decoder, Shape::vector(autoencoder.latent_dim()));
        let judge = layers(&discriminator.features, image);
        let (z, to_z) = encoder.forward(x.clone());
        let (y, to_y) = decoder.forward(z.clone());
        let (again, to_second) = second.forward(y.clone());
        let (real, to_real) = judge.forward(x.clone());
        let (fake, to_fake) = judge.forward(y.clone());

        // burn differentiates the losses with respect to the networks' outputs; the engine continues the backward pass
        // from there.
        let leaf = |value: &Tensor<4>| value.clone().autodiff().require_grad();
        let [at_z, at_y, at_second, at_fake] = [&z, &y, &again, &fake].map(leaf);
        let BatchLoss { loss, report } = self.generator_loss(Views {
            x: x.autodiff(),
            z: at_z.clone(),
            y: at_y.clone(),
            second: at_second.clone(),
            real: real.clone().autodiff(),
            fake: at_fake.clone(),
        });
        let mut figures = figures(report);
        let slopes = loss.backward();
        let slope = |leaf: Tensor<4>| leaf.grad(&slopes).expect("the loss depends on it");
        let (by_second, of_second) = second.backward(to_second, slope(at_second));
        let by_features = judge.inputs(&to_fake, slope(at_fake));
        let (by_y, of_decoder) = decoder.backward(to_y, slope(at_y) + by_second + by_features);
        let of_encoder = encoder.weights([(to_z, slope(at_z) + by_y)]);
        let mut generator = GradientsParams::new();
        self.engine.register([of_encoder, of_decoder, of_second], &mut generator);

        let [at_real, at_fake] = [&real, &fake].map(leaf);
        let loss = self.model.discriminator_loss(at_real.clone(), at_fake.clone());
        figures.add(&self::figures(vec![("discriminator", loss.clone())]), 1.0);
        let slopes = loss.backward();
        let of_features = [(to_real, at_real), (to_fake, at_fake)]
            .map(|(to, at)| (to, at.grad(&slopes).expect("the loss depends on it")));
        let of_features = judge.weights(of_features);
        let mut discriminator = GradientsParams::from_grads(slopes, &discriminator.head);
        self.engine.register([of_features], &mut discriminator);
        Gradients { generator, discriminator, figures }
    }

    /// Computes everything with burn. The batch is not divided: on the CPU the engine is used instead, and on another
    /// device the whole batch is computed at once.
    fn by_burn(&self, x: Tensor<4>) -> Gradients {
        let Ganomaly { autoencoder, second, discriminator } = &self.model;
        let features = |x: Tensor<4>| discriminator.features.forward(x);
        let x = x.autodiff();
        let z = autoencoder.encode(x.clone());
        let y = autoencoder.decode(z.clone());
        let plain = y.clone().inner().autodiff();
        let (real, fake) = (features(x.clone()), features(y.clone()));
        let views = Views { x: x.clone(), z, second: second.forward(y.clone()), y, real, fake };
        let BatchLoss { loss, report } = self.generator_loss(views);
        let mut figures = figures(report);
        let mut generator = GradientsParams::from_grads(loss.backward(), &self.model);
        // The generator's loss does not change the discriminator.
        take(discriminator, &mut generator);

        let loss = self.model.discriminator_loss(features(x), features(plain));
        figures.add(&self::figures(vec![("discriminator", loss.clone())]), 1.0);
        Gradients { generator, discriminator: GradientsParams::from_grads(loss.backward(), discriminator), figures }
    }
}

impl Method for GanomalyMethod {
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        let Gradients { generator, discriminator, figures } = self.gradients(x);
        let model = self.optimizer.step(self.rate, self.model.clone(), generator);
        let model = self.optimizer.step(self.rate, model, discriminator);
        let Ganomaly { autoencoder, second, discriminator } = model;
        let won = figures.get("discriminator").is_some_and(|loss| loss < WON);
        let discriminator = if won {
            let device = self.model.devices().remove(0);
            discriminator.begun_again(&self.spec, self.draws.rng(), &device)
        } else {
            discriminator.power_iteration()
        };
        let (autoencoder, second) = (autoencoder.power_iteration(), second.power_iteration());
        self.model = Ganomaly { autoencoder, second, discriminator };
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
    use crate::methods::finite_differences::{
        SAMPLES, changed, images, moved, network, numbers, slopes_agree, smooth, wide,
    };

    const SETTINGS: Adversarial = Adversarial { adversarial: 0.5, contextual: 3.0, encoder: 2.0 };

    fn method(engine: Engine) -> GanomalyMethod {
        let (device, spec) = (Device::flex().autodiff(), smooth(LatentSpace::Euclidean));
        let start = network(LatentSpace::Euclidean);
        let model = Ganomaly::new(start, &spec, NoiseSource::new(2, 0).rng(), &device);
        let settings = Pretraining { encoder_l2: 0.02, ..Pretraining::new(1, SAMPLES, 1e-2) };
        GanomalyMethod::new(model, spec, settings, SETTINGS, NoiseSource::new(4, 0), engine, &Device::flex())
    }

    fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let n = values.len() as f64;
        values.sum::<f64>() / n
    }

    /// Features, reconstructions and latents are computed in float64, and the three terms from them.
    #[test]
    fn the_generator_steps_by_the_gradient_of_its_loss() {
        for engine in [Engine::Cpu, Engine::Burn] {
            let (x, method) = (images(1), method(engine));
            let mut gradients = method.gradients(x.clone()).generator;
            assert!(take(&method.model.discriminator, &mut gradients).is_empty(), "the discriminator is not moved");
            let x = x.cast(FloatDType::F64);
            // The generator's loss uses the discriminator before the step, which it does not change.
            let judge = moved(&method.model, usize::MAX, &[], 0.0).discriminator;
            let right = [0.5, 3.0, 2.0, 0.02];
            let name = format!("generator by {engine:?}");
            slopes_agree(&name, &method.model, &gradients, &right, &changed(right), |model, terms: &[f64; 4]| {
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
    }

    /// −½(mean ln D(x) + mean ln(1 − D(x̂))), where D is the logistic function of the last layer; the generator is not
    /// changed.
    #[test]
    fn the_discriminator_steps_by_the_gradient_of_its_loss() {
        for engine in [Engine::Cpu, Engine::Burn] {
            let (x, method) = (images(1), method(engine));
            let Gradients { discriminator: mut gradients, figures, .. } = method.gradients(x.clone());
            let generator =
                [take(&method.model.autoencoder, &mut gradients), take(&method.model.second, &mut gradients)];
            assert!(generator.iter().all(GradientsParams::is_empty), "the generator is not moved");
            let x = x.cast(FloatDType::F64);
            let unmoved = moved(&method.model, usize::MAX, &[], 0.0);
            let fake = unmoved.autoencoder.reconstruct(x.clone());
            let loss = |model: &Ganomaly, terms: &[f64; 2]| {
                let Discriminator { features, head } = &model.discriminator;
                let odds = |x: &Tensor<4>| wide(head.forward(features.forward(x.clone())));
                let share = |odds: &f64| 1.0 / (1.0 + (-odds).exp());
                let (real, fake) = (odds(&x), odds(&fake));
                -terms[0] * mean(real.iter().map(|odds| share(odds).ln()))
                    - terms[1] * mean(fake.iter().map(|odds| (1.0 - share(odds)).ln()))
            };
            let (found, expected) = (figures.get("discriminator").expect("reported"), loss(&unmoved, &[0.5, 0.5]));
            assert!((found / expected - 1.0).abs() < 1e-5, "{found} against {expected}");
            let name = format!("discriminator by {engine:?}");
            slopes_agree(&name, &method.model, &gradients, &[0.5, 0.5], &changed([0.5, 0.5]), loss);
        }
    }

    #[test]
    fn it_decides_by_the_distance_of_both_latents() {
        let x = images(1);
        let model = method(Engine::Cpu).model.valid();
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

    /// Black images and their reconstructions differ by odds of e^40: the discriminator has won.
    #[test]
    fn a_discriminator_that_has_won_begins_again() {
        let mut method = method(Engine::Cpu);
        let x = images(1).zeros_like();
        let before = numbers(&method.model.discriminator);
        method.update(x.clone());
        let after = numbers(&method.model.discriminator);
        let largest = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // Adam's first step has the size of the learning rate.
        assert!(largest(&before, &after) < 1.1e-2);
        struct Scale(f64);
        impl ModuleMapper for Scale {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                param.map(|weights| Tensor::from_inner(weights.inner().mul_scalar(self.0)).require_grad())
            }
        }
        let plain = method.model.valid();
        let odds = |x: &Tensor<4>| {
            let judge = &plain.discriminator;
            wide(judge.head.forward(judge.features.forward(x.clone())))[0]
        };
        let apart = odds(&x) - odds(&plain.autoencoder.reconstruct(x.clone()));
        // Only the weights of the head are scaled, so that the log odds of both are far from the centre.
        let centre = 0.5 * (odds(&x) + odds(&plain.autoencoder.reconstruct(x.clone())));
        let factor = 80.0 / apart;
        let head = method.model.discriminator.head.clone().map(&mut Scale(factor));
        let head = shifted(head, -factor * centre);
        method.model.discriminator.head = head;
        let scaled = numbers(&method.model.discriminator);
        let loss = method.gradients(x.clone()).figures.get("discriminator").expect("reported");
        assert!(loss < WON, "{loss}");
        method.update(x.clone());
        let fresh = numbers(&method.model.discriminator);
        assert!(largest(&fresh, &scaled) > 1.0 && largest(&fresh, &before) < 2.0);

        // A run can also be resumed from this state.
        let mut resumed = self::method(Engine::Cpu);
        resumed.restore(&method.state().expect("a state"), method.spec.image()).expect("of this run");
        for method in [&mut method, &mut resumed] {
            method.update(x.clone());
        }
        assert_eq!(numbers(&resumed.model), numbers(&method.model));
    }

    /// The dense layer with `shift` added to its bias.
    fn shifted(head: Sequential, shift: f64) -> Sequential {
        struct Shift(f64);
        impl ModuleMapper for Shift {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                // The bias has one value, the weights have more.
                let shift = if param.shape().num_elements() == 1 { self.0 } else { 0.0 };
                param.map(|weights| Tensor::from_inner(weights.inner().add_scalar(shift)).require_grad())
            }
        }
        head.map(&mut Shift(shift))
    }
}
