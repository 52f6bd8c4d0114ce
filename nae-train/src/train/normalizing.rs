//! The state of NAE training between two updates: the method, the best state so far, and sums since the last look.

use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::averaging::Average;
use super::stopping::{Look, Verdict, Watch};
use crate::arch::{Autoencoder, checkpoint};
use crate::config::{Config, Training};
use crate::engine::Engine;
use crate::methods::nae::{NaeMethod, NormalizedAutoencoder};
use crate::methods::state::{self, StateError};
use crate::methods::{Method as _, UpdateFigures};
use crate::sample::{NegativeSampler, NoiseSource};
use crate::seed::Stream;

/// NAE training in progress.
pub(super) struct Normalizing {
    /// The number of completed updates.
    pub(super) update: usize,
    /// The plain autoencoder that training started from.
    pub(super) autoencoder: Autoencoder,
    /// Further autoencoders on whose manifolds negative samples start.
    manifolds: Vec<Autoencoder>,
    /// The training settings, including γ.
    pub(super) training: Training,
    method: NaeMethod,
    average: Option<Average<NormalizedAutoencoder>>,
    watch: Watch<NormalizedAutoencoder>,
    sums: Sums,
    /// The mean energy of the validation images before the first update; it may determine γ.
    normal_energy: f64,
}

/// The stored form of [`Normalizing`].
#[derive(Serialize, Deserialize)]
pub(super) struct NormalizingState {
    pub(super) update: usize,
    autoencoder: ByteBuf,
    method: ByteBuf,
    average: Option<ByteBuf>,
    best: Look,
    kept: ByteBuf,
    sums: Sums,
    normal_energy: f64,
    /// States of earlier versions have none.
    #[serde(default)]
    manifolds: Vec<ByteBuf>,
}

impl Normalizing {
    /// Starts before the first update of `start`, for which the look is `first`; with `manifolds`, further autoencoders
    /// that are not trained.
    pub(super) fn new(
        config: &Config,
        start: NormalizedAutoencoder,
        manifolds: Vec<Autoencoder>,
        first: Look,
        seed: u64,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let normal_energy = first.validation_energy;
        let training = config.training().bounded(normal_energy);
        let chains = match training.reference_energy {
            Some(reference) => config.sampler().adapted(reference, normal_energy),
            None => config.sampler(),
        };
        let sampler = NegativeSampler::new(chains, config.architecture().latent_dim(), Stream::Chains.of(seed));
        let (average, watch) = (
            training.average.map(|decay| Average::new(decay, &start)),
            Watch::new(config.stopping(), first, start.clone()),
        );
        let autoencoder = start.autoencoder.clone();
        let mut method = NaeMethod::new(start, &training, sampler, engine, device);
        if training.fixed_manifold {
            method = method.on_manifold_of(autoencoder.clone());
        }
        let mut noise = Stream::ManifoldChains.of(seed);
        for manifold in &manifolds {
            let noise = NoiseSource::new(noise.rng().random(), 0);
            let sampler = NegativeSampler::new(chains, manifold.latent_dim(), noise);
            method = method.and_on_manifold_of(manifold.clone(), sampler);
        }
        if let Some(bound) = training.positive_bound {
            method = method.with_limit(bound * normal_energy);
        }
        let sums = Sums::default();
        Self { update: 0, autoencoder, manifolds, training, average, watch, method, sums, normal_energy }
    }

    /// Continues from `state`. `config`, `seed` and `engine` must be those of the run that stored it.
    pub(super) fn restore(
        state: NormalizingState,
        config: &Config,
        seed: u64,
        engine: Engine,
        device: &Device,
    ) -> Result<Self, StateError> {
        let blank = || checkpoint::blank(config.architecture(), device);
        let nae = || NormalizedAutoencoder::new(blank(), config.sampler().temperature);
        let first = Look { update: 0, validation_energy: state.normal_energy, ..state.best };
        if state.manifolds.len() != config.manifolds().len() {
            return Err(StateError::OtherRun("manifolds"));
        }
        let manifolds = config.manifolds().iter().zip(state.manifolds);
        let manifolds = manifolds.map(|(spec, weights)| state::with_weights(checkpoint::blank(spec, device), weights));
        let mut new = Self::new(config, nae(), manifolds.collect::<Result<_, _>>()?, first, seed, engine, device);
        new.update = state.update;
        new.autoencoder = state::with_weights(blank(), state.autoencoder)?;
        if new.training.fixed_manifold {
            new.method = new.method.on_manifold_of(new.autoencoder.clone());
        }
        new.method.restore(&state.method, config.architecture().image())?;
        match (&mut new.average, state.average) {
            (Some(average), Some(weights)) => average.restore(state::with_weights(nae().valid(), weights)?),
            (None, None) => {}
            _ => return Err(StateError::OtherRun("running mean")),
        }
        if state.sums.updates > state.update {
            return Err(StateError::OtherRun("count of updates"));
        }
        new.watch = Watch::new(config.stopping(), state.best, state::with_weights(nae(), state.kept)?);
        new.sums = state.sums;
        Ok(new)
    }

    pub(super) fn state(&self) -> Result<NormalizingState, StateError> {
        Ok(NormalizingState {
            update: self.update,
            autoencoder: state::weights(&self.autoencoder)?,
            manifolds: self.manifolds.iter().map(state::weights).collect::<Result<_, _>>()?,
            method: self.method.state()?,
            average: self.average.as_ref().map(|average| state::weights(average.model())).transpose()?,
            best: *self.watch.best(),
            kept: state::weights(self.watch.model())?,
            sums: self.sums,
            normal_energy: self.normal_energy,
        })
    }

    /// Makes one update on the batch `x`.
    pub(super) fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        self.method.set_rate_factor(self.training.rate_factor(self.update));
        let figures = self.method.update(x);
        self.sums.add(&figures);
        if let Some(average) = &mut self.average {
            average.update(self.method.normalized());
        }
        self.update += 1;
        figures
    }

    /// The state that is evaluated and kept: the current weights, or their running mean.
    pub(super) fn reached(&self) -> &NormalizedAutoencoder {
        self.average.as_ref().map_or(self.method.normalized(), Average::model)
    }

    /// The negative samples of the last update.
    pub(super) fn negatives(&self) -> Option<&Tensor<4>> {
        self.method.negatives()
    }

    /// Returns the mean energies of data and negative samples since the last look, and resets their sums.
    pub(super) fn take_energies(&mut self) -> (f64, f64) {
        self.sums.take()
    }

    /// Keeps the state of `look` if it is better than the one kept before.
    pub(super) fn judge(&mut self, look: Look) -> Verdict {
        let reached = self.average.as_ref().map_or(self.method.normalized(), Average::model);
        self.watch.judge(look, reached)
    }

    /// The state kept so far.
    pub(super) fn kept(&self) -> &NormalizedAutoencoder {
        self.watch.model()
    }

    /// Returns the kept state, its update, and the plain autoencoder from pre-training.
    pub(super) fn finish(self) -> (NormalizedAutoencoder, usize, Autoencoder) {
        let (update, model) = self.watch.finish();
        (model, update, self.autoencoder)
    }
}

/// Sums of the energies since the last look.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Sums {
    positive: f64,
    negative: f64,
    updates: usize,
}

impl Sums {
    fn add(&mut self, figures: &UpdateFigures) {
        self.positive += figures.get("positive_energy").unwrap_or(f64::NAN);
        self.negative += figures.get("negative_energy").unwrap_or(f64::NAN);
        self.updates += 1;
    }

    /// Returns the means for data and negative samples, and resets the sums.
    fn take(&mut self) -> (f64, f64) {
        let Self { positive, negative, updates } = std::mem::take(self);
        (positive / updates as f64, negative / updates as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::small_conv::small_conv16;
    use crate::arch::{LatentSpace, graph::floats, layer::Layer};
    use crate::config::preset;

    const FIRST: Look = Look {
        update: 0,
        validation_energy: 0.01,
        selection_auroc: 0.5,
        selection_low: 0.4,
        positive_energy: None,
        negative_energy: None,
        earth_movers_distance: None,
        negatives_below_threshold: None,
    };

    #[test]
    fn chains_are_adapted_to_the_energy_after_pre_training() {
        let device = Device::flex();
        let raw = preset::load("digits").expect("comes with the program").raw().clone();
        let negatives = |reference_energy| {
            let mut raw = raw.clone();
            raw.training.reference_energy = reference_energy;
            let config = Config::new(raw).expect("valid");
            let spec = small_conv16(1, 8, config.architecture().latent_dim(), LatentSpace::Sphere).expect("valid");
            let start = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
            let nae = NormalizedAutoencoder::new(start, 1.0);
            let mut run = Normalizing::new(&config, nae, Vec::new(), FIRST, 0, Engine::Cpu, &device);
            run.update(NoiseSource::new(1, 0).uniform([8, 1, 16, 16], &device));
            run.negatives().expect("drawn").clone().into_data().try_into_vec::<f32>().expect("floats")
        };
        let plain = negatives(None);
        assert_eq!(negatives(Some(FIRST.validation_energy)), plain);
        assert_ne!(negatives(Some(4.0 * FIRST.validation_energy)), plain);
    }

    #[test]
    fn an_update_steps_at_the_rate_of_its_place() {
        let device = Device::flex();
        let mut raw = preset::load("digits").expect("comes with the program").raw().clone();
        raw.training.final_learning_rate = Some(1e-3 * raw.training.learning_rate);
        let config = Config::new(raw).expect("valid");
        let spec = small_conv16(1, 8, config.architecture().latent_dim(), LatentSpace::Sphere).expect("valid");
        let start = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let x = NoiseSource::new(1, 0).uniform([8, 1, 16, 16], &device);
        let first = |model: &NormalizedAutoencoder| match &model.autoencoder.encoder.layers()[0] {
            Layer::Conv(conv) => floats(&conv.weight),
            _ => panic!("a convolution comes first"),
        };
        let moved = |update| {
            let nae = NormalizedAutoencoder::new(start.clone(), 1.0);
            let before = first(&nae);
            let mut run = Normalizing::new(&config, nae, Vec::new(), FIRST, 0, Engine::Cpu, &device);
            run.update = update;
            run.update(x.clone());
            let after = first(run.method.normalized());
            before.iter().zip(after).map(|(before, after)| (before - after).abs()).fold(0.0f32, f32::max)
        };
        // Adam's first step has the size of the learning rate.
        let rate = config.training().learning_rate as f32;
        assert!((moved(0) / rate - 1.0).abs() < 0.05, "{}", moved(0));
        assert!((moved(config.training().updates) / rate - 1e-3).abs() < 1e-3, "{}", moved(config.training().updates));
    }
}
