//! The training loop: pre-training as an autoencoder, then NAE training, with a look at the model now and then.
//!
//! [`batches`] orders the data, [`stopping`] decides which state to keep, [`observer`] is how a run is watched,
//! [`checkpoint`] stores weights. Losses are in [`methods`](crate::methods), negative samples in
//! [`sample`](crate::sample).

pub mod batches;
pub mod checkpoint;
pub mod observer;
pub mod stopping;
pub mod update;

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;

use crate::arch::Autoencoder;
use crate::config::Config;
use crate::data::{ImageSet, Split, outliers};
use crate::engine::CpuEngine;
use crate::eval::metrics::auroc;
use crate::eval::scoring::energies;
use crate::sample::{BurnFrozen, FrozenEnergy, NegativeSampler, NoiseSource};
use batches::Batches;
use observer::{Observer, Phase, Progress};
use stopping::{Look, Verdict, Watch};
use update::Updater;

/// The independent uses of a run's seed.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// Division of the data.
    Split = 0,
    /// Initial weights.
    Weights = 1,
    /// Order of the data.
    Batches = 2,
    /// The chains.
    Chains = 3,
    /// Synthetic outliers looked at during training.
    Selection = 4,
    /// Synthetic outliers of the evaluation.
    Evaluation = 5,
}

impl Stream {
    /// This stream of `seed`.
    pub fn of(self, seed: u64) -> NoiseSource {
        NoiseSource::new(seed, self as u64)
    }
}

/// What computes gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The engine of this crate, for the processor.
    #[default]
    Cpu,
    /// burn's automatic differentiation, for any device.
    Burn,
}

impl Engine {
    /// `model` as the chains see it, for images of `size` (rows, columns).
    fn freeze(self, model: &Autoencoder, size: [usize; 2], device: &Device) -> Box<dyn FrozenEnergy> {
        match self {
            Self::Cpu => Box::new(CpuEngine::new(model, size, device)),
            Self::Burn => Box::new(BurnFrozen::new(model)),
        }
    }
}

/// ConstantGray images looked at during training.
const SELECTION_IMAGES: usize = 300;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All updates done.
    Finished,
    /// Negative energies ran away at this update.
    Diverged {
        /// Where it was noticed.
        update: usize,
    },
    /// Asked to stop.
    Interrupted {
        /// Updates done.
        update: usize,
    },
}

/// What a run leaves.
pub struct Outcome {
    /// The plain autoencoder, after pre-training.
    pub autoencoder: Autoencoder,
    /// The normalised autoencoder: the best state seen.
    pub nae: Autoencoder,
    /// The update the kept state is from; 0 is the pre-trained autoencoder.
    pub kept_update: usize,
    /// How the run ended.
    pub ending: Ending,
}

/// Trains on `split` from `seed`; returns early, with what is there, once `stop` is set.
pub fn train(
    config: &Config,
    split: &Split,
    seed: u64,
    engine: Engine,
    device: &Device,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Outcome {
    let autodiff = device.clone().autodiff();
    let model = Autoencoder::new(config.architecture(), Stream::Weights.of(seed).rng(), &autodiff);
    let mut order = Batches::new(split.train.len(), Stream::Batches.of(seed));
    let Pretrained { model, interrupted } =
        pretrain(config, model, &split.train, &mut order, engine, device, observer, stop);
    observer.checkpoint(&model);
    if interrupted {
        let ending = Ending::Interrupted { update: 0 };
        return Outcome { autoencoder: model.clone(), nae: model, kept_update: 0, ending };
    }
    normalize(config, model, split, order, seed, engine, device, observer, stop)
}

/// Trains a plain autoencoder only: the pre-training of [`train`].
pub fn train_autoencoder(
    config: &Config,
    split: &Split,
    seed: u64,
    engine: Engine,
    device: &Device,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Autoencoder {
    let model = Autoencoder::new(config.architecture(), Stream::Weights.of(seed).rng(), &device.clone().autodiff());
    let mut order = Batches::new(split.train.len(), Stream::Batches.of(seed));
    pretrain(config, model, &split.train, &mut order, engine, device, observer, stop).model
}

/// AUROC of ConstantGray, the paper's selection set, against the validation images.
pub fn selection_auroc(model: &Autoencoder, split: &Split, seed: u64, device: &Device) -> f64 {
    let gray = outliers::constant_gray(split.validation.shape(), SELECTION_IMAGES, Stream::Selection.of(seed).rng());
    auroc(&energies(model, &split.validation, device), &energies(model, &gray, device)).unwrap_or(f64::NAN)
}

struct Pretrained {
    model: Autoencoder,
    interrupted: bool,
}

#[allow(clippy::too_many_arguments, reason = "the state handed over by `train`, used once")]
fn pretrain(
    config: &Config,
    mut model: Autoencoder,
    images: &ImageSet,
    order: &mut Batches,
    engine: Engine,
    device: &Device,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Pretrained {
    let settings = config.pretraining();
    let mut updater = Updater::new(settings.learning_rate, engine, device);
    observer.begin(Phase::Pretraining, settings.epochs);
    for epoch in 1..=settings.epochs {
        let mut sum = 0.0;
        for indices in order.epoch(settings.batch_size) {
            let (updated, energy) = updater.autoencoder(model, images.batch(&indices, device));
            model = updated;
            sum += energy * indices.len() as f64;
        }
        let energy = sum / images.len() as f64;
        observer.progress(&Progress::Pretraining { epoch, energy });
        if stop.load(Ordering::Relaxed) {
            return Pretrained { model, interrupted: true };
        }
    }
    observer.end(Phase::Pretraining);
    Pretrained { model, interrupted: false }
}

#[allow(clippy::too_many_arguments, reason = "the state handed over by `train`, used once")]
fn normalize(
    config: &Config,
    pretrained: Autoencoder,
    split: &Split,
    mut order: Batches,
    seed: u64,
    engine: Engine,
    device: &Device,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Outcome {
    let (settings, stopping) = (config.training(), config.stopping());
    let shape = config.architecture().image();
    let gray = outliers::constant_gray(shape, SELECTION_IMAGES, Stream::Selection.of(seed).rng());
    let mut sampler =
        NegativeSampler::new(config.sampler(), config.architecture().latent_dim(), Stream::Chains.of(seed));
    let mut updater = Updater::new(settings.learning_rate, engine, device);
    let look = |model: &Autoencoder, update, energies_since: Option<(f64, f64)>| {
        let normal = energies(model, &split.validation, device);
        Look {
            update,
            validation_energy: mean(&normal),
            selection_auroc: auroc(&normal, &energies(model, &gray, device)).unwrap_or(f64::NAN),
            positive_energy: energies_since.map(|e| e.0),
            negative_energy: energies_since.map(|e| e.1),
        }
    };

    let mut model = pretrained.clone();
    let mut watch = Watch::new(stopping, look(&model, 0, None), model.clone());
    let mut ending = Ending::Finished;
    let (mut positive, mut negative, mut count) = (0.0, 0.0, 0.0);
    observer.begin(Phase::Normalizing, settings.updates);
    for update in 1..=settings.updates {
        let x = split.train.batch(&order.next(settings.batch_size), device);
        let negatives = sampler.sample(&*engine.freeze(&model, [shape.height, shape.width], device), x.clone());
        let (updated, [e, e_negative]) = updater.nae(model, x, negatives, settings.regularization);
        model = updated;
        (positive, negative, count) = (positive + e, negative + e_negative, count + 1.0);
        observer.progress(&Progress::Normalizing { update, positive_energy: e, negative_energy: e_negative });

        let interrupted = stop.load(Ordering::Relaxed);
        if update % stopping.every == 0 || update == settings.updates || interrupted {
            let look = look(&model, update, Some((positive / count, negative / count)));
            (positive, negative, count) = (0.0, 0.0, 0.0);
            observer.look(&look);
            let verdict = watch.judge(look, &model);
            if verdict == Verdict::Diverged {
                ending = Ending::Diverged { update };
                break;
            }
            observer.checkpoint(watch.model());
        }
        if interrupted {
            ending = Ending::Interrupted { update };
            break;
        }
    }
    observer.end(Phase::Normalizing);
    let (kept_update, nae) = watch.finish();
    Outcome { autoencoder: pretrained, nae, kept_update, ending }
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64
}
