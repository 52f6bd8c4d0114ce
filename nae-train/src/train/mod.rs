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
use crate::engine::Engine;
use crate::eval::metrics::auroc;
use crate::eval::scoring::{energies, mean};
use crate::sample::NegativeSampler;
use crate::seed::Stream;
use batches::Batches;
use observer::{Observer, Phase, Progress};
use stopping::{Look, Verdict, Watch};
use update::Updater;

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

/// A run about to start.
pub struct Trainer<'a> {
    /// Settings.
    pub config: &'a Config,
    /// Data.
    pub split: &'a Split,
    /// Where every random number comes from.
    pub seed: u64,
    /// What computes gradients.
    pub engine: Engine,
    /// Where tensors live, without autodiff.
    pub device: &'a Device,
    /// Watches the run.
    pub observer: &'a mut dyn Observer,
    /// Once set, the run ends early with what is there.
    pub stop: &'a AtomicBool,
}

impl Trainer<'_> {
    /// Pre-training, then NAE training.
    pub fn train(mut self) -> Outcome {
        let mut order = self.order();
        let autoencoder = self.pretrain(&mut order);
        self.observer.checkpoint(&autoencoder);
        if self.stopped() {
            let ending = Ending::Interrupted { update: 0 };
            return Outcome { autoencoder: autoencoder.clone(), nae: autoencoder, kept_update: 0, ending };
        }
        self.normalize(autoencoder, order)
    }

    /// The plain autoencoder only: the pre-training of [`train`](Self::train).
    pub fn train_autoencoder(mut self) -> Autoencoder {
        let mut order = self.order();
        self.pretrain(&mut order)
    }

    fn order(&self) -> Batches {
        Batches::new(self.split.train.len(), Stream::Batches.of(self.seed))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn pretrain(&mut self, order: &mut Batches) -> Autoencoder {
        let settings = self.config.pretraining();
        let images = &self.split.train;
        let autodiff = self.device.clone().autodiff();
        let mut model = Autoencoder::new(self.config.architecture(), Stream::Weights.of(self.seed).rng(), &autodiff);
        let mut updater = Updater::new(settings.learning_rate, self.engine, self.device);
        self.observer.begin(Phase::Pretraining, settings.epochs);
        for epoch in 1..=settings.epochs {
            let mut sum = 0.0;
            for indices in order.epoch(settings.batch_size) {
                let energy;
                (model, energy) = updater.autoencoder(model, images.batch(&indices, self.device));
                sum += energy * indices.len() as f64;
            }
            self.observer.progress(&Progress::Pretraining { epoch, energy: sum / images.len() as f64 });
            if self.stopped() {
                break;
            }
        }
        self.observer.end(Phase::Pretraining);
        model
    }

    fn normalize(self, autoencoder: Autoencoder, mut order: Batches) -> Outcome {
        let (settings, stopping) = (self.config.training(), self.config.stopping());
        let spec = self.config.architecture();
        let (size, latent_dim) = ([spec.image().height, spec.image().width], spec.latent_dim());
        let mut sampler = NegativeSampler::new(self.config.sampler(), latent_dim, Stream::Chains.of(self.seed));
        let mut updater = Updater::new(settings.learning_rate, self.engine, self.device);
        let gray = selection_images(self.split, self.seed);

        let mut model = autoencoder.clone();
        let mut watch = Watch::new(stopping, self.look(&model, &gray, 0, None), model.clone());
        let mut ending = Ending::Finished;
        let mut sums = Sums::default();
        self.observer.begin(Phase::Normalizing, settings.updates);
        for update in 1..=settings.updates {
            let x = self.split.train.batch(&order.next(settings.batch_size), self.device);
            let frozen = self.engine.freeze(&model, size, self.device);
            let negatives = sampler.sample(&*frozen, x.clone(), self.config.sampler().temperature);
            let (positive_energy, negative_energy);
            (model, [positive_energy, negative_energy]) = updater.nae(model, x, negatives, settings.regularization);
            sums.add(positive_energy, negative_energy);
            self.observer.progress(&Progress::Normalizing { update, positive_energy, negative_energy });

            let interrupted = self.stopped();
            if update % stopping.every == 0 || update == settings.updates || interrupted {
                let look = self.look(&model, &gray, update, Some(sums.take()));
                self.observer.look(&look);
                if watch.judge(look, &model) == Verdict::Diverged {
                    ending = Ending::Diverged { update };
                    break;
                }
                self.observer.checkpoint(watch.model());
            }
            if interrupted {
                ending = Ending::Interrupted { update };
                break;
            }
        }
        self.observer.end(Phase::Normalizing);
        let (kept_update, nae) = watch.finish();
        Outcome { autoencoder, nae, kept_update, ending }
    }

    fn look(&self, model: &Autoencoder, gray: &ImageSet, update: usize, since: Option<(f64, f64)>) -> Look {
        let normal = energies(model, &self.split.validation, self.device);
        Look {
            update,
            validation_energy: mean(&normal),
            selection_auroc: auroc(&normal, &energies(model, gray, self.device)).unwrap_or(f64::NAN),
            positive_energy: since.map(|(positive, _)| positive),
            negative_energy: since.map(|(_, negative)| negative),
        }
    }
}

/// AUROC of ConstantGray, the paper's selection set, against the validation images.
pub fn selection_auroc(model: &Autoencoder, split: &Split, seed: u64, device: &Device) -> f64 {
    let normal = energies(model, &split.validation, device);
    auroc(&normal, &energies(model, &selection_images(split, seed), device)).unwrap_or(f64::NAN)
}

fn selection_images(split: &Split, seed: u64) -> ImageSet {
    outliers::constant_gray(split.validation.shape(), SELECTION_IMAGES, Stream::Selection.of(seed).rng())
}

/// Energies since the last look.
#[derive(Default)]
struct Sums {
    positive: f64,
    negative: f64,
    updates: usize,
}

impl Sums {
    fn add(&mut self, positive: f64, negative: f64) {
        self.positive += positive;
        self.negative += negative;
        self.updates += 1;
    }

    /// Means of data and negative samples; starts anew.
    fn take(&mut self) -> (f64, f64) {
        let Self { positive, negative, updates } = std::mem::take(self);
        (positive / updates as f64, negative / updates as f64)
    }
}
