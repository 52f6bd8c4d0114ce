//! The normalized autoencoder: an update draws negative samples, lowers the data's energy and raises theirs, and may
//! change the temperature. [`loss`](loss()) is the quantity that is minimized.

mod balance;
mod loss;

pub use loss::{Loss, loss, negative_coefficient, positive_coefficient};

use std::path::Path;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use self::balance::Balance;
use super::gradients::{BatchLoss, add_l2, sharded};
use super::manifolds::parts;
use super::optimizer::{Optimizer, Rates, ScalarAdam, constant};
use super::state::{self, Kept, StateError};
use super::{Decision, Method, Model, UpdateFigures};
use crate::arch::Autoencoder;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::config::Training;
use crate::config::methods::Regularization;
use crate::energy::{energy, mean};
use crate::engine::Engine;
use crate::engine::cpu::add;
use crate::engine::kept::KeptEngine;
use crate::sample::{Acceptance, NegativeSampler};
use crate::shard;

/// An autoencoder with the density p(x) ∝ exp(−E(x)/T).
#[derive(Module, Debug)]
pub struct NormalizedAutoencoder {
    /// The autoencoder, whose reconstruction error is E.
    pub autoencoder: Autoencoder,
    /// The logarithm of the temperature T, `[1]`.
    pub log_temperature: Param<Tensor<1>>,
}

impl NormalizedAutoencoder {
    /// Combines `autoencoder` with the temperature T.
    pub fn new(autoencoder: Autoencoder, temperature: f32) -> Self {
        let device = autoencoder.devices().remove(0);
        Self { autoencoder, log_temperature: constant(temperature.ln(), &device) }
    }
}

impl Model for NormalizedAutoencoder {
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        energy(&self.autoencoder.valid(), x)
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        Some(&self.autoencoder)
    }

    fn temperature(&self) -> f32 {
        self.log_temperature.val().into_scalar::<f32>().exp()
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// Chains on a manifold.
struct Chains {
    /// The autoencoder on whose manifold the negative samples are; `None` for the model's own.
    manifold: Option<Autoencoder>,
    sampler: NegativeSampler,
}

/// Trains a normalized autoencoder.
pub struct NaeMethod {
    model: NormalizedAutoencoder,
    /// Each draws an equal part of the negative samples.
    chains: Vec<Chains>,
    optimizer: Optimizer,
    rates: Rates,
    /// The factor of all learning rates.
    rate_factor: f64,
    temperature: Option<ScalarAdam>,
    balance: Option<Balance>,
    regularization: Regularization,
    engine: KeptEngine,
    negatives: Option<Tensor<4>>,
}

impl NaeMethod {
    /// Starts from the state `model`; negative samples are drawn by `sampler`.
    pub fn new(
        model: NormalizedAutoencoder,
        training: &Training,
        sampler: NegativeSampler,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let rates = Rates {
            encoder: Some(training.encoder_learning_rate.unwrap_or(training.learning_rate)),
            decoder: (!training.fixed_decoder)
                .then(|| training.decoder_learning_rate.unwrap_or(training.learning_rate)),
        };
        Self {
            model,
            chains: vec![Chains { manifold: None, sampler }],
            optimizer: Optimizer::new(None),
            rates,
            rate_factor: 1.0,
            temperature: training.temperature_learning_rate.map(ScalarAdam::new),
            balance: None,
            regularization: training.regularization,
            engine: KeptEngine::new(engine, device),
            negatives: None,
        }
    }

    /// Reduces the weight of the negative samples if the data's mean energy is above `limit`.
    #[must_use]
    pub fn with_limit(mut self, limit: f64) -> Self {
        self.balance = Some(Balance::new(limit));
        self
    }

    /// Uses the manifold of `manifold`, which is not trained, for negative samples: for latents, their chain, and the
    /// start of the visible chain (Yoon et al., NeurIPS 2023, whose energy starts as a copy of the manifold's
    /// autoencoder).
    #[must_use]
    pub fn on_manifold_of(mut self, manifold: Autoencoder) -> Self {
        self.chains[0].manifold = Some(manifold);
        self
    }

    /// Draws an equal part of the negative samples on the manifold of `manifold`, which is not trained and may have
    /// another D_z, by `sampler`.
    #[must_use]
    pub fn and_on_manifold_of(mut self, manifold: Autoencoder, sampler: NegativeSampler) -> Self {
        self.chains.push(Chains { manifold: Some(manifold), sampler });
        self
    }

    /// Draws as many negative samples as `x` has images.
    fn draw(&mut self, x: &Tensor<4>) -> Tensor<4> {
        let [n, c, h, w] = x.dims();
        let (model, temperature, count) = (&self.model.autoencoder, self.model.temperature(), self.chains.len());
        let drawn = parts(n, count).map(|(k, part)| {
            let Chains { manifold, sampler } = &mut self.chains[k];
            let frozen = self.engine.freeze(model, manifold.as_ref(), [c, h, w], sampler.precision());
            sampler.sample(&*frozen, x.clone().narrow(0, part.start, part.len()), temperature)
        });
        Tensor::cat(drawn.collect(), 0)
    }

    /// The shares of accepted steps, of those chains that are corrected; means over all manifolds.
    fn acceptance(&self) -> Acceptance {
        let mean = |share: fn(Acceptance) -> Option<f64>| {
            let shares: Vec<f64> = self.chains.iter().filter_map(|chains| share(chains.sampler.acceptance())).collect();
            (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
        };
        Acceptance { latent: mean(|acceptance| acceptance.latent), visible: mean(|acceptance| acceptance.visible) }
    }

    /// Sets the weight of the negative samples as after an update on data of this mean energy, if there is a limit.
    #[cfg(test)]
    pub(super) fn follow(&mut self, energy: f64) {
        if let Some(balance) = &mut self.balance {
            balance.follow(energy);
        }
    }

    /// Sets the factor of all learning rates from the next update on.
    pub fn set_rate_factor(&mut self, factor: f64) {
        self.rate_factor = factor;
    }

    /// The negative samples `[N, C, H, W]` that the last update drew; `None` before the first.
    pub fn negatives(&self) -> Option<&Tensor<4>> {
        self.negatives.as_ref()
    }

    /// The current state.
    pub fn normalized(&self) -> &NormalizedAutoencoder {
        &self.model
    }

    /// Makes one update with given negative samples; data `x` and `negatives` are both images `[N, C, H, W]`, equally many,
    /// on the device without autodiff. Returns the mean energies before it, `positive_energy` of the data and `negative_energy`. The
    /// temperature and the weight of the negative samples are not changed.
    pub fn update_against(&mut self, x: Tensor<4>, negatives: Tensor<4>) -> UpdateFigures {
        let (gradients, figures) = self.gradients(x, negatives);
        let (model, rates) = (self.model.autoencoder.clone(), self.rates.times(self.rate_factor));
        self.model.autoencoder = self.optimizer.step_halves(rates, model, gradients).power_iteration();
        figures
    }

    /// Returns the gradient of the loss with respect to all weights, and both mean energies.
    pub(super) fn gradients(&self, x: Tensor<4>, negatives: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        let (regularization, model) = (self.regularization, &self.model.autoencoder);
        let weight = self.balance.as_ref().map_or(1.0, Balance::weight);
        match self.engine.engine() {
            // The CPU engine cannot compute the gradient of a function of the latents.
            Engine::Cpu if regularization.latent_norm == 0.0 => {
                let [n, c, h, w] = x.dims();
                let engine = self.engine.autoencoder(model, [c, h, w]);
                let (positive, mut total) = engine.weights(x, |energy| positive_coefficient(energy, n, regularization));
                let (negative, part) =
                    engine.weights(negatives, |energy| negative_coefficient(energy, n, weight, regularization));
                add(&mut total, part);
                let mut gradients = engine.register(total);
                add_l2(&model.encoder, regularization.encoder_l2, &mut gradients);
                add_l2(&model.decoder, regularization.decoder_l2, &mut gradients);
                let figures = [("positive_energy", mean(&positive)), ("negative_energy", mean(&negative))];
                (gradients, UpdateFigures::new(figures))
            }
            _ => {
                let pairs = shard::shards(x).into_iter().zip(shard::shards(negatives));
                let shards = pairs.map(|pair| (pair.0.dims()[0], pair)).collect();
                sharded(model, shards, |model, (x, negatives): (Tensor<4>, Tensor<4>)| {
                    let Loss { total, positive_energy, negative_energy } =
                        loss(model, x.autodiff(), negatives.autodiff(), weight, regularization);
                    let report = vec![("positive_energy", positive_energy), ("negative_energy", negative_energy)];
                    BatchLoss { loss: total, report }
                })
            }
        }
    }

    /// The state besides weights and moments.
    fn rest(&self) -> Rest {
        let mut samplers = self.chains.iter().map(|chains| chains.sampler.clone());
        let first = samplers.next().expect("there is at least one manifold");
        Rest(self.temperature.clone(), first, self.balance, samplers.collect())
    }

    /// T is learned from (mean E(x) − mean E(x′))/T with constant energies; Adam changes log T, so that T stays
    /// positive.
    fn learn_temperature(&mut self, figures: &UpdateFigures) {
        let (Some(adam), Some(positive), Some(negative)) =
            (&mut self.temperature, figures.get("positive_energy"), figures.get("negative_energy"))
        else {
            return;
        };
        let gradient = (negative - positive) / f64::from(self.model.temperature());
        adam.update(&mut self.model.log_temperature, gradient, self.rate_factor);
    }
}

impl Method for NaeMethod {
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        let negatives = self.draw(&x);
        self.negatives = Some(negatives.clone());
        let mut figures = self.update_against(x, negatives);
        if let (Some(balance), Some(energy)) = (&mut self.balance, figures.get("positive_energy")) {
            figures.add(&UpdateFigures::new([("negative_weight", f64::from(balance.weight()))]), 1.0);
            balance.follow(energy);
        }
        if self.temperature.is_some() {
            figures.add(&UpdateFigures::new([("temperature", f64::from(self.model.temperature()))]), 1.0);
            self.learn_temperature(&figures);
        }
        let acceptance = self.acceptance();
        for (name, share) in [("latent_acceptance", acceptance.latent), ("acceptance", acceptance.visible)] {
            figures.add(&UpdateFigures::new(share.map(|share| (name, share))), 1.0);
        }
        figures
    }

    fn model(&self) -> &dyn Model {
        &self.model
    }

    fn state(&self) -> Result<ByteBuf, StateError> {
        state::save(&self.model, &self.optimizer, self.rest())
    }

    fn restore(&mut self, state: &[u8], image: Shape) -> Result<(), StateError> {
        let mut rest = self.rest();
        state::restore(state, image, &mut self.model, &mut self.optimizer, &mut rest)?;
        let Rest(temperature, first, balance, further) = rest;
        (self.temperature, self.balance) = (temperature, balance);
        for (chains, sampler) in self.chains.iter_mut().zip(std::iter::once(first).chain(further)) {
            chains.sampler = sampler;
        }
        Ok(())
    }

    fn into_model(self: Box<Self>) -> Box<dyn Model> {
        Box::new(self.model)
    }
}

/// The state of a method kept besides weights and moments.
#[derive(Serialize, Deserialize)]
struct Rest(
    Option<ScalarAdam>,
    NegativeSampler,
    // States of earlier versions end before this,
    #[serde(default)] Option<Balance>,
    // or before this: the samplers of further manifolds.
    #[serde(default)] Vec<NegativeSampler>,
);

impl Kept for Rest {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        let Self(temperature, sampler, balance, further) = self;
        if temperature.is_some() != begun.0.is_some() || balance.is_some() != begun.2.is_some() {
            return Some("settings");
        }
        if further.len() != begun.3.len() {
            return Some("manifolds");
        }
        let differ = |(kept, begun): (&NegativeSampler, &NegativeSampler)| kept.difference(begun, image);
        sampler.difference(&begun.1, image).or_else(|| further.iter().zip(&begun.3).find_map(differ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::LatentSpace;
    use crate::arch::graph::floats;
    use crate::arch::layer::{Layer, Sequential};
    use crate::arch::small_conv::small_conv16;
    use crate::config::{Config, preset};
    use crate::sample::{NoiseSource, SamplerConfig, Start};

    fn config() -> Config {
        preset::load("digits").expect("comes with the program")
    }

    fn start(latent_dim: usize) -> Autoencoder {
        let spec = small_conv16(1, 8, latent_dim, LatentSpace::Sphere).expect("valid");
        Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff())
    }

    fn method(autoencoder: Autoencoder, training: &Training, engine: Engine) -> NaeMethod {
        let model = NormalizedAutoencoder::new(autoencoder, 1.0);
        let sampler = NegativeSampler::new(config().sampler(), 16, NoiseSource::new(3, 0));
        NaeMethod::new(model, training, sampler, engine, &Device::flex())
    }

    /// Chains without steps: a negative sample is the manifold's image of a latent.
    fn standing() -> SamplerConfig {
        let mut sampling = config().sampler();
        sampling.start = Start::OnManifold { replay_buffer: None };
        (sampling.visible_chain.steps, sampling.visible_chain.bounds) = (0, None);
        if let Some(chain) = &mut sampling.latent_chain {
            chain.steps = 0;
        }
        sampling
    }

    fn batches() -> [Tensor<4>; 2] {
        [1, 2].map(|seed| NoiseSource::new(seed, 0).uniform([40, 1, 16, 16], &Device::flex()))
    }

    fn weights(layers: &Sequential) -> Vec<f32> {
        let of = |layer: &Layer| match layer {
            Layer::Conv(conv) => floats(&conv.weight),
            Layer::ConvTranspose(conv) => floats(&conv.weight),
            _ => Vec::new(),
        };
        layers.layers().iter().flat_map(of).collect()
    }

    #[test]
    fn updates_steer_the_weight_of_the_negatives() {
        let [x, _] = batches();
        let mut nae = method(start(16), &config().training(), Engine::Cpu).with_limit(1e-3);
        let weights = [(); 2].map(|()| nae.update(x.clone()).get("negative_weight"));
        assert_eq!(weights[0], Some(1.0));
        // The first energies are about 0.08, far above the limit.
        assert_eq!(weights[1], Some(f64::from(0.01f32)));
        let regularization = Regularization { negative_energy: 2.0, ..config().training().regularization };
        assert_eq!(negative_coefficient(0.125, 4, 0.5, regularization), -0.5 * (1.0 - 2.0 * 2.0 * 0.125) / 4.0);
    }

    /// States written before limits were introduced do not have this part.
    #[test]
    fn a_state_without_a_limit_is_read() {
        let nae = method(start(16), &config().training(), Engine::Cpu);
        let before =
            state::save(&nae.model, &nae.optimizer, (&nae.temperature, &nae.chains[0].sampler)).expect("written");
        let mut other = method(start(16), &config().training(), Engine::Cpu);
        let image = Shape::new(1, 16, 16);
        other.restore(&before, image).expect("read");
        let mut limited = method(start(16), &config().training(), Engine::Cpu).with_limit(0.5);
        limited.balance.as_mut().expect("there is a limit").follow(0.75);
        let mut other = method(start(16), &config().training(), Engine::Cpu).with_limit(0.5);
        other.restore(&limited.state().expect("written"), image).expect("read");
        assert_eq!(other.balance, limited.balance);
    }

    /// Whether T is learned and whether the data's energy has a limit are settings of the run.
    #[test]
    fn a_state_of_other_settings_is_refused() {
        let fixed = config().training();
        let learned = Training { temperature_learning_rate: Some(0.5), ..config().training() };
        let of = |training: &Training| method(start(16), training, Engine::Cpu);
        for (written, other) in [(of(&learned), of(&fixed)), (of(&fixed).with_limit(0.5), of(&fixed))] {
            let state = written.state().expect("written");
            for (mut method, is_its_own) in [(written, true), (other, false)] {
                match method.restore(&state, Shape::new(1, 16, 16)) {
                    Ok(()) => assert!(is_its_own),
                    Err(StateError::OtherRun("settings")) => assert!(!is_its_own),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// H(z) is the energy of the manifold's image under the model; its gradient is compared with finite differences in
    /// float64.
    #[test]
    fn chains_go_along_the_manifold_of_another_autoencoder() {
        use crate::methods::finite_differences::{close, images, latent_energies_agree, moved, network, scaled, wide};
        use crate::sample::Precision;

        let (model, device) = (network(LatentSpace::Euclidean), Device::flex());
        let manifold = scaled(&model, 0.8);
        let [exact, exact_manifold] = [&model, &manifold].map(|model| moved(model, usize::MAX, &[], 0.0));
        let z = NoiseSource::new(6, 0).normal::<4>([5, 4, 1, 1], &device);
        for engine in [Engine::Cpu, Engine::Burn] {
            let kept = KeptEngine::new(engine, &device);
            let frozen = kept.freeze(&model, Some(&manifold), [1, 6, 6], Precision::F32);
            latent_energies_agree(engine, &*frozen, |z| wide(energy(&exact, exact_manifold.decode(z))));
            let x = images(1);
            assert!(close(&wide(frozen.encode(x.clone())), &wide(manifold.valid().encode(x.clone()))));
            assert!(close(&wide(frozen.decode(z.clone())), &wide(manifold.valid().decode(z.clone()))));
            assert!(close(&wide(frozen.visible(x.clone()).energy), &wide(energy(&model.valid(), x))));
        }
    }

    /// Without steps, a negative sample is the manifold's image of a latent, no matter how far the model has changed.
    #[test]
    fn negative_samples_are_of_the_manifold_that_is_given() {
        use crate::methods::finite_differences::scaled;

        let (model, [x, _]) = (start(16), batches());
        let manifold = scaled(&model, 0.9);
        let sampler = NegativeSampler::new(standing(), 16, NoiseSource::new(3, 0));
        let training = config().training();
        let model = NormalizedAutoencoder::new(model, 1.0);
        let mut nae =
            NaeMethod::new(model, &training, sampler, Engine::Cpu, &Device::flex()).on_manifold_of(manifold.clone());
        let mut drawn = NoiseSource::new(3, 0);
        for update in 0..3 {
            nae.update(x.clone());
            let z = drawn.latents(LatentSpace::Sphere, 40, 16, &Device::flex());
            // Each chain takes a key from the source, with or without steps.
            for _ in 0..2 {
                drawn.chain();
            }
            let expected = manifold.valid().decode(z).into_data();
            let found = nae.negatives().expect("after an update").clone().into_data();
            let apart = found.iter::<f32>().zip(expected.iter::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart < 1e-5, "update {update}: {apart}");
        }
    }

    /// The first half of a batch is on the manifold of the one autoencoder, the second half on that of another D_z, whose
    /// latents are drawn from other random numbers.
    #[test]
    fn every_manifold_has_its_part_of_the_negative_samples() {
        let (model, other, [x, _]) = (start(16), start(4), batches());
        let sampler = |dim, seed| NegativeSampler::new(standing(), dim, NoiseSource::new(seed, 0));
        let of = |training: &Training| {
            let nae = NormalizedAutoencoder::new(model.clone(), 1.0);
            NaeMethod::new(nae, training, sampler(16, 3), Engine::Cpu, &Device::flex())
                .on_manifold_of(model.clone())
                .and_on_manifold_of(other.clone(), sampler(4, 5))
        };
        let mut nae = of(&config().training());
        nae.update(x.clone());
        let image = |manifold: &Autoencoder, dim: usize, seed: u64| {
            let z = NoiseSource::new(seed, 0).latents(LatentSpace::Sphere, 20, dim, &Device::flex());
            manifold.valid().decode(z)
        };
        let expected = Tensor::cat(vec![image(&model, 16, 3), image(&other, 4, 5)], 0).into_data();
        let found = nae.negatives().expect("after an update").clone().into_data();
        let apart = found.iter::<f32>().zip(expected.iter::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{apart}");
        // A batch with a single image is on the last manifold.
        nae.update(x.narrow(0, 0, 1));
        assert_eq!(nae.negatives().expect("after an update").dims()[0], 1);
        let (state, shape) = (nae.state().expect("written"), Shape::new(1, 16, 16));
        of(&config().training()).restore(&state, shape).expect("its own");
        let refused = method(start(16), &config().training(), Engine::Cpu).restore(&state, shape);
        assert!(matches!(refused, Err(StateError::OtherRun("manifolds"))));
    }

    #[test]
    fn a_fixed_decoder_stays_and_rates_differ() {
        let [x, negatives] = batches();
        let before = start(16);
        let after_by = |training: &Training, factor: f64| {
            let mut nae = method(before.clone(), training, Engine::Cpu);
            nae.set_rate_factor(factor);
            nae.update_against(x.clone(), negatives.clone());
            nae.model.autoencoder
        };
        let after = |training: &Training| after_by(training, 1.0);
        let moved = |a: &Sequential, b: &Sequential| {
            weights(a).iter().zip(weights(b)).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max)
        };
        let fixed = after(&Training { fixed_decoder: true, ..config().training() });
        assert_eq!(moved(&before.decoder, &fixed.decoder), 0.0);
        assert!(moved(&before.encoder, &fixed.encoder) > 5e-5);
        // Adam's first step has the size of the learning rate.
        let rates = Training { learning_rate: 1e-4, decoder_learning_rate: Some(1e-2), ..config().training() };
        let both = after(&rates);
        assert!((moved(&before.decoder, &both.decoder) - 1e-2).abs() < 1e-3);
        assert!((moved(&before.encoder, &both.encoder) - 1e-4).abs() < 1e-5);
        let slower = after_by(&rates, 0.25);
        assert!((moved(&before.decoder, &slower.decoder) - 2.5e-3).abs() < 2.5e-4);
        assert!((moved(&before.encoder, &slower.encoder) - 2.5e-5).abs() < 2.5e-6);
    }

    #[test]
    fn what_is_saved_and_what_is_exported_decide_as_the_model() {
        use crate::methods::finite_differences::scaled;

        let [x, _] = batches();
        let model = NormalizedAutoencoder::new(scaled(&start(16), 0.9), 0.25);
        let decided = |model: &dyn Model| model.decide(Decision::Reconstruction, x.clone()).into_data();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("checkpoint.safetensors");
        model.save(&path).expect("written");
        let spec = small_conv16(1, 8, 16, LatentSpace::Sphere).expect("valid");
        let blank = NormalizedAutoencoder::new(checkpoint::blank(&spec, &Device::flex()), 1.0);
        assert_ne!(decided(&blank), decided(&model), "the weights are others");
        let read = checkpoint::load(blank, "small_conv16", &path).expect("read");
        assert_eq!(decided(&read), decided(&model));
        assert_eq!(read.temperature(), model.temperature());
        assert!((read.temperature() - 0.25).abs() < 1e-6);
        let exported = model.autoencoder().expect("it is exported");
        assert_eq!(energy(&exported.valid(), x.clone()).into_data(), decided(&model));
    }

    /// Adam (algorithm 1 of its paper) on log T with (E⁻ − E⁺)/T, the slope of mean E⁺/T + log Ω: negative samples of
    /// higher energy than the data lower the temperature. The rate is so large that T differs at every step.
    #[test]
    fn temperature_learns_from_the_difference_of_energies() {
        let training = Training { temperature_learning_rate: Some(0.5), ..config().training() };
        let mut nae = method(start(16), &training, Engine::Cpu);
        let (mut log, mut mean, mut variance) = (0f64, 0.0, 0.0);
        for (t, (positive, negative)) in (1..).zip([(0.1, 0.3), (0.1, 0.15), (0.4, 0.1), (0.2, 0.1)]) {
            nae.learn_temperature(&UpdateFigures::new([("positive_energy", positive), ("negative_energy", negative)]));
            let gradient = (negative - positive) / log.exp();
            mean = 0.9 * mean + 0.1 * gradient;
            variance = 0.999 * variance + 0.001 * gradient * gradient;
            let corrected = (mean / (1.0 - 0.9f64.powi(t)), variance / (1.0 - 0.999f64.powi(t)));
            log -= 0.5 * corrected.0 / (corrected.1.sqrt() + 1e-8);
            let found = f64::from(nae.model.temperature());
            assert!((found / log.exp() - 1.0).abs() < 1e-5, "step {t}: {found} against {}", log.exp());
        }
    }
}
