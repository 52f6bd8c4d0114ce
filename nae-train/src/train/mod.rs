//! The training loop: pre-training as an autoencoder, then NAE training with a look at the model now and then; or the
//! epochs of another method.
//!
//! [`batches`] orders the data, [`averaging`] steadies the weights, [`stopping`] decides which state to keep, [`observer`] is how a run is watched,
//! [`checkpoint`] stores weights, [`speed`] measures what an update takes. Updates are in [`methods`](crate::methods), negative samples in
//! [`sample`](crate::sample).

pub mod averaging;
pub mod batches;
pub mod checkpoint;
pub mod observer;
pub mod speed;
pub mod stopping;

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;

use crate::arch::Autoencoder;
use crate::config::{Config, Pretraining};
use crate::data::{ImageSet, Split, outliers};
use crate::engine::Engine;
use crate::eval::metrics::auroc;
use crate::eval::scoring::{energies, mean};
use crate::methods::autoencoder::AutoencoderMethod;
use crate::methods::nae::{NaeMethod, NormalizedAutoencoder};
use crate::methods::vae::{VaeMethod, VariationalAutoencoder};
use crate::methods::wae::WaeMethod;
use crate::methods::{Figures, Method, MethodKind, Model};
use crate::sample::NegativeSampler;
use crate::seed::Stream;
use averaging::Average;
use batches::Batches;
use observer::{Observer, Phase, Progress};
use stopping::{Look, Verdict, Watch};

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
    /// The plain autoencoder an NAE was pre-trained as; `None` for other methods.
    pub autoencoder: Option<Autoencoder>,
    /// The trained model: of an NAE, the best state seen.
    pub model: Box<dyn Model>,
    /// The update the kept state of an NAE is from; 0 is the pre-trained autoencoder. The last epoch of other methods.
    pub kept_update: usize,
    /// γ of an NAE's training, the weight of the negative samples' mean squared energy; `None` where there was none.
    pub negative_weight: Option<f32>,
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
    /// The whole run, by the configuration's method.
    pub fn train(mut self) -> Outcome {
        let mut order = self.order();
        if self.config.method() != MethodKind::Nae {
            return self.train_baseline(&mut order);
        }
        let autoencoder = self.pretrain(&mut order);
        let start = NormalizedAutoencoder::new(autoencoder.clone(), self.config.sampler().temperature);
        self.observer.checkpoint(&start);
        if self.stopped() {
            let ending = Ending::Interrupted { update: 0 };
            let (autoencoder, model) = (Some(autoencoder), Box::new(start));
            return Outcome { autoencoder, model, kept_update: 0, negative_weight: None, ending };
        }
        self.normalize(start, order)
    }

    /// The plain autoencoder only: the pre-training of an NAE.
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

    fn fresh_autoencoder(&self) -> Autoencoder {
        let autodiff = self.device.clone().autodiff();
        Autoencoder::new(self.config.architecture(), Stream::Weights.of(self.seed).rng(), &autodiff)
    }

    fn pretrain(&mut self, order: &mut Batches) -> Autoencoder {
        let settings = self.config.pretraining();
        let mut method = AutoencoderMethod::new(self.fresh_autoencoder(), settings, None, self.engine, self.device);
        self.epochs(Phase::Pretraining, settings, &mut method, order);
        method.into_autoencoder()
    }

    fn train_baseline(mut self, order: &mut Batches) -> Outcome {
        let settings = self.config.pretraining();
        let baselines = self.config.baselines();
        let noise = Stream::Baseline.of(self.seed);
        let mut method: Box<dyn Method> = match self.config.method() {
            MethodKind::Nae | MethodKind::Ae | MethodKind::Dae => {
                let corruption = (self.config.method() == MethodKind::Dae).then_some((baselines.dae, noise));
                let start = self.fresh_autoencoder();
                Box::new(AutoencoderMethod::new(start, settings, corruption, self.engine, self.device))
            }
            MethodKind::Vae => {
                let (autodiff, mut weights) = (self.device.clone().autodiff(), Stream::Weights.of(self.seed));
                let spec = self.config.architecture();
                let start = VariationalAutoencoder::new(spec, baselines.vae, weights.rng(), &autodiff);
                Box::new(VaeMethod::new(start, settings, baselines.vae, noise, self.device))
            }
            MethodKind::Wae => {
                Box::new(WaeMethod::new(self.fresh_autoencoder(), settings, baselines.wae, noise, self.device))
            }
        };
        let epochs = self.epochs(Phase::Training, settings, &mut *method, order);
        self.observer.checkpoint(method.model());
        let ending = if epochs < settings.epochs { Ending::Interrupted { update: epochs } } else { Ending::Finished };
        let model = method.into_model();
        Outcome { autoencoder: None, model, kept_update: epochs, negative_weight: None, ending }
    }

    /// Passes over the training data until all are done or the run is to stop; returns how many were.
    fn epochs(&mut self, phase: Phase, settings: Pretraining, method: &mut dyn Method, order: &mut Batches) -> usize {
        let images = &self.split.train;
        let mut done = 0;
        self.observer.begin(phase, settings.epochs);
        while done < settings.epochs {
            let mut means = Figures::default();
            for indices in order.epoch(settings.batch_size) {
                let figures = method.update(images.batch(&indices, self.device));
                means.add(&figures, indices.len() as f64 / images.len() as f64);
            }
            done += 1;
            self.observer.progress(&Progress { phase, step: done, figures: means });
            if self.stopped() {
                break;
            }
        }
        self.observer.end(phase);
        done
    }

    fn normalize(self, start: NormalizedAutoencoder, mut order: Batches) -> Outcome {
        let stopping = self.config.stopping();
        let latent_dim = self.config.architecture().latent_dim();
        let sampler = NegativeSampler::new(self.config.sampler(), latent_dim, Stream::Chains.of(self.seed));
        let gray = selection_images(self.split, self.seed);

        let first = self.look(&start, &gray, 0, None);
        let settings = self.config.training().bounded(first.validation_energy);
        let mut watch = Watch::new(stopping, first, start.clone());
        let autoencoder = Some(start.autoencoder.clone());
        let mut average = settings.average.map(|decay| Average::new(decay, &start));
        let mut method = NaeMethod::new(start, &settings, sampler, self.engine, self.device);
        let mut ending = Ending::Finished;
        let mut sums = Sums::default();
        self.observer.begin(Phase::Normalizing, settings.updates);
        for update in 1..=settings.updates {
            let figures = method.update(self.split.train.batch(&order.next(settings.batch_size), self.device));
            sums.add(&figures);
            if let Some(average) = &mut average {
                average.update(method.normalized());
            }
            self.observer.progress(&Progress { phase: Phase::Normalizing, step: update, figures });

            let interrupted = self.stopped();
            if update % stopping.every == 0 || update == settings.updates || interrupted {
                let reached = average.as_ref().map_or(method.normalized(), Average::model);
                let look = self.look(reached, &gray, update, Some(sums.take()));
                self.observer.look(&look);
                if watch.judge(look, reached) == Verdict::Diverged {
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
        let (kept_update, model) = watch.finish();
        let negative_weight = Some(settings.regularization.negative_energy);
        Outcome { autoencoder, model: Box::new(model), kept_update, negative_weight, ending }
    }

    fn look(&self, model: &dyn Model, gray: &ImageSet, update: usize, since: Option<(f64, f64)>) -> Look {
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
pub fn selection_auroc(model: &dyn Model, split: &Split, seed: u64, device: &Device) -> f64 {
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
    fn add(&mut self, figures: &Figures) {
        self.positive += figures.get("positive_energy").unwrap_or(f64::NAN);
        self.negative += figures.get("negative_energy").unwrap_or(f64::NAN);
        self.updates += 1;
    }

    /// Means of data and negative samples; starts anew.
    fn take(&mut self) -> (f64, f64) {
        let Self { positive, negative, updates } = std::mem::take(self);
        (positive / updates as f64, negative / updates as f64)
    }
}
