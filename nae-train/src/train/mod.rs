//! The training loop: pre-training as an autoencoder, then NAE training with periodic evaluations of the model, called
//! looks; or the epochs of another method.
//!
//! `batches` orders the data, `averaging` computes a running mean of the weights, `signals` measures figures that are
//! recorded, `stopping` decides which state is kept, `observer` reports a run's progress, `snapshot` contains everything
//! that is needed to continue a run, [`speed`] measures the time of an update. Updates are in [`methods`](crate::methods), negative samples in
//! [`sample`](crate::sample), and stored weights in [`checkpoint`](crate::arch::checkpoint).

pub(crate) mod averaging;
pub(crate) mod batches;
mod normalizing;
pub(crate) mod observer;
pub(crate) mod signals;
pub(crate) mod snapshot;
pub mod speed;
pub(crate) mod stopping;
pub use batches::BatchOrder;
pub use observer::{Both, Observer, Phase, Progress, Silent};
pub use snapshot::Snapshot;
pub use stopping::{Look, Verdict, Watch};

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::{Device, Tensor};

use crate::arch::{Autoencoder, AutoencoderSpec};
use crate::config::methods::MethodKind;
use crate::config::{Config, Pretraining};
use crate::energy::mean;
use crate::engine::Engine;
use crate::eval::interval;
use crate::eval::metrics::auroc;
use crate::eval::scoring::Scorer;
use crate::methods::autoencoder::AutoencoderMethod;
use crate::methods::dagmm::{DagmmMethod, GaussianMixtureAutoencoder};
use crate::methods::ganomaly::{Ganomaly, GanomalyMethod};
use crate::methods::glow::{Glow, GlowMethod};
use crate::methods::igebm::{self, IgebmMethod};
use crate::methods::manifolds::Manifolds;
use crate::methods::mpdr::{self, MpdrMethod};
use crate::methods::nae::NormalizedAutoencoder;
use crate::methods::pixelcnn::{PixelCnn, PixelCnnMethod};
use crate::methods::state::StateError;
use crate::methods::vae::{VaeMethod, VariationalAutoencoder};
use crate::methods::vqvae::{VectorQuantizedAutoencoder, VqvaeMethod};
use crate::methods::wae::WaeMethod;
use crate::methods::{Decision, EpochMethod, Model, UpdateFigures};
use crate::methods::{knn, mahalanobis};
use crate::sample::NoiseSource;
use crate::seed::Stream;
use nae_data::{ImageSet, Split, outliers};
use normalizing::Normalizing;
use snapshot::{EpochsState, Stage};

/// The largest number of images of the selection set that a look uses.
const SELECTION_IMAGES: usize = 300;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All updates or epochs were completed.
    Finished,
    /// NAE training diverged: the negative energy exceeded its limit, or an energy was not finite.
    Diverged {
        /// The update after which a look found the divergence.
        update: usize,
    },
    /// The run was stopped on request.
    Interrupted {
        /// The number of completed updates of NAE training, or of completed epochs of another method.
        update: usize,
    },
}

/// An error that prevents a run from continuing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A state cannot be stored or restored.
    #[error("the state of the run: {0}")]
    State(#[from] StateError),
    /// A figure of a batch was NaN or infinite during training in epochs.
    #[error(
        "{} diverged in epoch {epoch}: the {figure} of a batch was {value}, not a number that a model can learn from. \
         Lower pretraining.learning_rate, or limit gradients by pretraining.max_gradient_norm",
        phase.name()
    )]
    NotANumber {
        /// The phase of the run.
        phase: Phase,
        /// The epoch, from 1.
        epoch: usize,
        /// The name of the figure.
        figure: String,
        /// The value of the figure.
        value: f64,
    },
}

/// The result of a run.
pub struct Outcome {
    /// The plain autoencoder from the pre-training of an NAE; `None` for other methods.
    pub autoencoder: Option<Autoencoder>,
    /// The trained model; for an NAE, the state that was kept.
    pub model: Box<dyn Model>,
    /// The update of an NAE's kept state, where 0 is the pre-trained autoencoder; for other methods, the number of
    /// epochs.
    pub kept_update: usize,
    /// γ of an NAE's training, the weight of the negative samples' mean squared energy; `None` if there was no NAE
    /// training.
    pub negative_weight: Option<f32>,
    /// How the run ended.
    pub ending: Ending,
}

/// A run that is ready to start.
pub struct Trainer<'a> {
    /// The settings of the run.
    pub config: &'a Config,
    /// The data, divided into parts.
    pub split: &'a Split,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The engine that computes gradients.
    pub engine: Engine,
    /// The device of all tensors, without autodiff.
    pub device: &'a Device,
    /// Receives reports on the run.
    pub observer: &'a mut dyn Observer,
    /// Once set to true, the run ends early and returns its current state.
    pub stop: &'a AtomicBool,
}

impl Trainer<'_> {
    /// Trains the whole run with the configuration's method, or continues it from `resume`.
    ///
    /// # Errors
    /// [`TrainError::State`] if `resume` is from another run, or if a state for the observer cannot be written;
    /// [`TrainError::NotANumber`] if a figure of training in epochs was not finite.
    pub fn train(mut self, resume: Option<Snapshot>) -> Result<Outcome, TrainError> {
        let beginning = self.beginning();
        let Snapshot { mut order, stage } = match resume {
            Some(resume) if !resume.order.goes_on_from(&beginning.order) => {
                return Err(StateError::OtherRun("order of the data").into());
            }
            resume => resume.unwrap_or(beginning),
        };
        match stage {
            Stage::Epochs(from) if self.config.method() == MethodKind::Nae => {
                let (autoencoder, manifolds) = self.pretrain(&mut order, from)?;
                let start = NormalizedAutoencoder::new(autoencoder.clone(), self.config.sampler().temperature);
                self.observer.checkpoint(&start);
                if self.stopped() {
                    let ending = Ending::Interrupted { update: 0 };
                    let (autoencoder, model) = (Some(autoencoder), Box::new(start));
                    return Ok(Outcome { autoencoder, model, kept_update: 0, negative_weight: None, ending });
                }
                let first = self.look(&start, 0, None);
                self.observer.look(&first, &start);
                let begun = Normalizing::new(self.config, start, manifolds, first, self.seed, self.engine, self.device);
                self.normalize(begun, order)
            }
            Stage::Epochs(_) if self.config.method().is_fitted() => Ok(self.fit()),
            Stage::Epochs(from) => self.train_baseline(&mut order, from),
            Stage::Normalizing(state) if self.config.method() == MethodKind::Nae => {
                let begun = Normalizing::restore(*state, self.config, self.seed, self.engine, self.device)?;
                self.normalize(begun, order)
            }
            Stage::Normalizing(_) => Err(StateError::OtherRun("method").into()),
        }
    }

    /// Trains only the plain autoencoder: the pre-training of an NAE.
    ///
    /// # Errors
    /// The same as for [`train`](Self::train).
    pub fn train_autoencoder(mut self) -> Result<Autoencoder, TrainError> {
        let mut order = self.beginning().order;
        Ok(self.pretrain(&mut order, EpochsState::default())?.0)
    }

    fn beginning(&self) -> Snapshot {
        let order = BatchOrder::new(self.split.train.len(), Stream::Batches.of(self.seed));
        Snapshot { order, stage: Stage::Epochs(EpochsState::default()) }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn fresh_autoencoder(&self) -> Autoencoder {
        self.fresh(self.config.architecture(), &mut Stream::Weights.of(self.seed))
    }

    fn fresh(&self, architecture: &AutoencoderSpec, weights: &mut NoiseSource) -> Autoencoder {
        let fresh = Autoencoder::new(architecture, weights.rng(), &self.device.clone().autodiff());
        if self.config.pretraining().output_at_mean { fresh.with_output_at(&self.split.train.mean()) } else { fresh }
    }

    /// Trains the autoencoder that NAE training starts from, and the further ones of its manifolds.
    fn pretrain(
        &mut self,
        order: &mut BatchOrder,
        from: EpochsState,
    ) -> Result<(Autoencoder, Vec<Autoencoder>), TrainError> {
        let (settings, mut weights) = (self.config.pretraining(), Stream::Weights.of(self.seed));
        let first = self.fresh(self.config.architecture(), &mut weights);
        let further: Vec<_> = self.config.manifolds().iter().map(|spec| self.fresh(spec, &mut weights)).collect();
        // A state of one autoencoder is in the form that earlier versions wrote.
        if further.is_empty() {
            let mut method = AutoencoderMethod::new(first, settings, None, self.engine, self.device);
            self.epochs(Phase::Pretraining, settings, &mut method, order, from)?;
            return Ok((method.into_trained(), Vec::new()));
        }
        let all = std::iter::once(first).chain(further);
        let mut method = Manifolds::new(all, settings, self.engine, self.device);
        self.epochs(Phase::Pretraining, settings, &mut method, order, from)?;
        let mut trained = method.into_trained();
        Ok((trained.remove(0), trained))
    }

    /// Fits a model by one pass over the data; a request to stop does not interrupt it.
    fn fit(mut self) -> Outcome {
        let begun = self.begin(Phase::Training, 0, 1);
        let (train, spec) = (&self.split.train, self.config.architecture());
        let model = match self.config.method() {
            MethodKind::Knn => knn::fit(train, spec, self.config.baselines().knn, self.device),
            _ => mahalanobis::fit(train, spec, self.device),
        };
        self.observer.progress(&Progress { phase: Phase::Training, step: 1, figures: UpdateFigures::default() });
        self.end(Phase::Training, 1, begun);
        self.observer.checkpoint(&model);
        let model = Box::new(model);
        Outcome { autoencoder: None, model, kept_update: 1, negative_weight: None, ending: Ending::Finished }
    }

    fn train_baseline(mut self, order: &mut BatchOrder, from: EpochsState) -> Result<Outcome, TrainError> {
        let settings = self.config.pretraining();
        let baselines = self.config.baselines();
        let noise = Stream::Baseline.of(self.seed);
        let mut method: Box<dyn EpochMethod> = match self.config.method() {
            MethodKind::Nae | MethodKind::Mahalanobis | MethodKind::Knn | MethodKind::Ae | MethodKind::Dae => {
                let corruption = (self.config.method() == MethodKind::Dae).then_some((baselines.dae, noise));
                let start = self.fresh_autoencoder();
                Box::new(AutoencoderMethod::new(start, settings, corruption, self.engine, self.device))
            }
            MethodKind::Vae => {
                let (autodiff, mut weights) = (self.device.clone().autodiff(), Stream::Weights.of(self.seed));
                let spec = self.config.architecture();
                let start = VariationalAutoencoder::new(spec, baselines.vae, weights.rng(), &autodiff);
                Box::new(VaeMethod::new(start, settings, baselines.vae, noise, self.engine, self.device))
            }
            MethodKind::Wae => {
                let start = self.fresh_autoencoder();
                Box::new(WaeMethod::new(start, settings, baselines.wae, noise, self.engine, self.device))
            }
            MethodKind::Vqvae => {
                let autodiff = self.device.clone().autodiff();
                let start = VectorQuantizedAutoencoder::new(self.fresh_autoencoder(), baselines.vqvae, &autodiff);
                Box::new(VqvaeMethod::new(start, settings, baselines.vqvae, noise, self.engine, self.device))
            }
            MethodKind::Dagmm => {
                let (autodiff, mut weights) = (self.device.clone().autodiff(), Stream::BaselineWeights.of(self.seed));
                let start = self.fresh_autoencoder();
                let start = GaussianMixtureAutoencoder::new(start, baselines.dagmm, weights.rng(), &autodiff);
                Box::new(DagmmMethod::new(start, settings, baselines.dagmm, noise, self.engine, self.device))
            }
            MethodKind::Ganomaly => {
                let (autodiff, mut weights) = (self.device.clone().autodiff(), Stream::BaselineWeights.of(self.seed));
                let spec = self.config.architecture().clone();
                let start = Ganomaly::new(self.fresh_autoencoder(), &spec, weights.rng(), &autodiff);
                let (ganomaly, engine) = (baselines.ganomaly, self.engine);
                Box::new(GanomalyMethod::new(start, spec, settings, ganomaly, noise, engine, self.device))
            }
            MethodKind::Igebm => {
                let (autodiff, mut weights) = (self.device.clone().autodiff(), Stream::Weights.of(self.seed));
                let image = self.config.architecture().image();
                let start = igebm::network(image, baselines.igebm, weights.rng(), &autodiff);
                Box::new(IgebmMethod::new(start, settings, baselines.igebm, noise, self.engine, self.device))
            }
            MethodKind::Mpdr => {
                let (spec, mut weights) = (self.config.architecture(), Stream::Weights.of(self.seed));
                let manifolds = self.config.manifolds().iter().map(|spec| self.fresh(spec, &mut weights)).collect();
                let mut weights = Stream::BaselineWeights.of(self.seed);
                let start = mpdr::network(spec, weights.rng(), &self.device.clone().autodiff());
                let first = baselines.mpdr.manifold_epochs(settings.epochs) * self.split.train.len();
                let (engine, device) = (self.engine, self.device);
                let begun = MpdrMethod::new(start, manifolds, first, settings, &baselines.mpdr, noise, engine, device);
                Box::new(begun)
            }
            MethodKind::Pixelcnn => {
                let (autodiff, mut weights) = (self.device.clone().autodiff(), Stream::Weights.of(self.seed));
                let image = self.config.architecture().image();
                let start = PixelCnn::new(image, baselines.pixelcnn, weights.rng(), &autodiff);
                Box::new(PixelCnnMethod::new(start, settings, noise))
            }
            MethodKind::Glow => {
                let (autodiff, mut weights) = (self.device.clone().autodiff(), Stream::Weights.of(self.seed));
                let start = Glow::new(self.config.architecture().image(), baselines.glow, weights.rng(), &autodiff);
                Box::new(GlowMethod::new(start, settings, noise, self.device))
            }
        };
        let epochs = self.epochs(Phase::Training, settings, &mut *method, order, from)?;
        self.observer.checkpoint(method.model());
        let ending = if epochs < settings.epochs { Ending::Interrupted { update: epochs } } else { Ending::Finished };
        let model = method.into_model();
        Ok(Outcome { autoencoder: None, model, kept_update: epochs, negative_weight: None, ending })
    }

    /// Passes over the training data until all epochs are completed or the run is stopped; returns the number of
    /// completed epochs.
    fn epochs(
        &mut self,
        phase: Phase,
        settings: Pretraining,
        method: &mut dyn EpochMethod,
        order: &mut BatchOrder,
        from: EpochsState,
    ) -> Result<usize, TrainError> {
        let images = &self.split.train;
        let EpochsState { mut done, mut means, method: state } = from;
        if let Some(state) = state {
            method.restore(&state, images.shape())?;
        }
        let begun = self.begin(phase, done, settings.epochs);
        // Where nothing is left to do here, no state is stored below, and a run that is killed before its next state would look
        // as if it had ended.
        if done >= settings.epochs && self.observer.wants_snapshot(true) {
            let state = EpochsState { done, means: means.clone(), method: Some(method.state()?) };
            self.observer.snapshot(&Snapshot { order: order.clone(), stage: Stage::Epochs(state) });
        }
        while done < settings.epochs {
            let indices = order.next_of_epoch(settings.batch_size);
            let batch = order.images(images, &indices, self.config.augmentation(), self.device);
            if settings.final_learning_rate.is_some() {
                let epoch = (order.position() - indices.len()) as f64 / images.len() as f64;
                method.set_learning_rate(settings.learning_rate_at((done as f64 + epoch) / settings.epochs as f64));
            }
            let figures = method.update(batch);
            if let Some((figure, value)) = figures.not_finite() {
                return Err(TrainError::NotANumber { phase, epoch: done + 1, figure: figure.replace('_', " "), value });
            }
            means.add(&figures, indices.len() as f64 / images.len() as f64);
            if order.epoch_is_over() {
                done += 1;
                let figures = std::mem::take(&mut means);
                self.observer.progress(&Progress { phase, step: done, figures });
            }
            let stopped = self.stopped();
            // After the last batch, a stop may come before the next phase has a state of its own to store.
            if self.observer.wants_snapshot(stopped || done == settings.epochs) {
                let state = EpochsState { done, means: means.clone(), method: Some(method.state()?) };
                self.observer.snapshot(&Snapshot { order: order.clone(), stage: Stage::Epochs(state) });
            }
            if stopped {
                break;
            }
        }
        self.end(phase, done, begun);
        Ok(done)
    }

    fn normalize(mut self, mut run: Normalizing, mut order: BatchOrder) -> Result<Outcome, TrainError> {
        let (stopping, settings) = (self.config.stopping(), run.training);
        let mut ending = Ending::Finished;
        let begun = self.begin(Phase::Normalizing, run.update, settings.updates);
        while run.update < settings.updates {
            let indices = order.next(settings.batch_size);
            let x = order.images(&self.split.train, &indices, self.config.augmentation(), self.device);
            let figures = run.update(x.clone());
            let update = run.update;
            self.observer.progress(&Progress { phase: Phase::Normalizing, step: update, figures });

            let due = update.is_multiple_of(stopping.every) || update == settings.updates;
            if due && self.look_and_judge(&mut run, &x) == Verdict::Diverged {
                ending = Ending::Diverged { update };
                break;
            }
            let stopped = self.stopped() && update < settings.updates;
            if self.observer.wants_snapshot(stopped) {
                let stage = Stage::Normalizing(Box::new(run.state()?));
                self.observer.snapshot(&Snapshot { order: order.clone(), stage });
            }
            if stopped {
                // A look at the final state, for users who export the model of an interrupted run. A resumed run does
                // not repeat it.
                if !due {
                    self.look_and_judge(&mut run, &x);
                }
                ending = Ending::Interrupted { update };
                break;
            }
        }
        self.end(Phase::Normalizing, run.update, begun);
        let negative_weight = Some(settings.regularization.negative_energy);
        let (model, kept_update, autoencoder) = run.finish();
        Ok(Outcome { autoencoder: Some(autoencoder), model: Box::new(model), kept_update, negative_weight, ending })
    }

    fn begin(&mut self, phase: Phase, done: usize, total: usize) -> Instant {
        tracing::debug!(?phase, done, total, engine = ?self.engine, "begins");
        self.observer.begin(phase, done, total);
        Instant::now()
    }

    fn end(&mut self, phase: Phase, done: usize, begun: Instant) {
        self.observer.end(phase);
        tracing::debug!(?phase, done, seconds = begun.elapsed().as_secs_f64(), "ends");
    }

    /// Evaluates the state reached after an update on the batch `x`, and keeps it if it is the best.
    fn look_and_judge(&mut self, run: &mut Normalizing, x: &Tensor<4>) -> Verdict {
        let (positive_energy, negative_energy) = run.take_energies();
        let since = run.negatives().map(|negatives| Since { positive_energy, negative_energy, data: x, negatives });
        let look = self.look(run.reached(), run.update, since);
        self.observer.look(&look, run.reached());
        let (update, selection_auroc, validation_energy) = (look.update, look.selection_auroc, look.validation_energy);
        let verdict = run.judge(look);
        tracing::debug!(update, selection_auroc, validation_energy, positive_energy, negative_energy, ?verdict, "look");
        // Also after a divergence: the stored checkpoint may be from a look at an interrupted state, which a resumed
        // run does not have.
        self.observer.checkpoint(run.kept());
        verdict
    }

    fn look(&self, model: &dyn Model, update: usize, since: Option<Since<'_>>) -> Look {
        let validation = &self.split.validation;
        let scorer = Scorer::new(model, Decision::Reconstruction, validation.shape(), self.engine, self.device);
        let normal = scorer.scores(validation);
        let (apart, selection) = against_selection(&scorer, self.split, &normal, self.seed);
        let below = |negatives: &Tensor<4>| {
            let energies = scorer.batch(negatives.clone());
            signals::share_below_threshold(&energies, &normal, self.config.false_positive_rate())
        };
        let selection_auroc = auroc(&apart, &selection).unwrap_or(f64::NAN);
        Look {
            update,
            validation_energy: mean(&normal),
            selection_auroc,
            selection_low: interval::of_auroc(selection_auroc, apart.len(), selection.len()).low,
            positive_energy: since.map(|since| since.positive_energy),
            negative_energy: since.map(|since| since.negative_energy),
            earth_movers_distance: since.and_then(|since| signals::earth_movers_distance(since.data, since.negatives)),
            negatives_below_threshold: since.and_then(|since| below(since.negatives)),
        }
    }
}

/// The measurements of NAE training since the last look.
#[derive(Clone, Copy)]
struct Since<'a> {
    /// The mean energy of the data over the updates.
    positive_energy: f64,
    /// The mean energy of the negative samples over the updates.
    negative_energy: f64,
    /// The batch of the last update.
    data: &'a Tensor<4>,
    /// The negative samples of the last update.
    negatives: &'a Tensor<4>,
}

/// The AUROC of the selection set against the validation images with `decision`; NaN if it is undefined.
pub fn selection_auroc(
    model: &dyn Model,
    decision: Decision,
    split: &Split,
    seed: u64,
    engine: Engine,
    device: &Device,
) -> f64 {
    let scorer = Scorer::new(model, decision, split.validation.shape(), engine, device);
    let (normal, selection) = against_selection(&scorer, split, &scorer.scores(&split.validation), seed);
    auroc(&normal, &selection).unwrap_or(f64::NAN)
}

/// The values that the AUROC of the selection set compares: of validation images, whose samples have the scores
/// `normal`, and of the selection set. They are scores of whole images if the selection set has tiles, otherwise of
/// samples.
fn against_selection(scorer: &Scorer<'_>, split: &Split, normal: &[f32], seed: u64) -> (Vec<f32>, Vec<f32>) {
    let selection = selection_images(split, seed);
    let normal = normal.to_vec();
    let normal = if selection.are_tiles() { split.validation.decide(normal) } else { normal };
    (normal, scorer.decided(&selection))
}

/// Images of the split's selection outliers, or ConstantGray if it has none.
fn selection_images(split: &Split, seed: u64) -> ImageSet {
    match &split.selection {
        Some(images) => images.some_units(SELECTION_IMAGES),
        None => outliers::constant_gray(split.validation.shape(), SELECTION_IMAGES, Stream::Selection.of(seed).rng()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{LatentSpace, small_conv16};
    use crate::config::{Variational, preset};
    use crate::run::Prepared;
    use crate::tensors::Batches as _;
    use nae_data::own::Corrupt;

    /// A VAE's two decisions order images differently.
    #[test]
    fn the_selection_set_is_told_by_the_decision_that_is_asked_for() {
        let device = Device::flex();
        let config = preset::load("digits").expect("valid");
        let split = Prepared::new(config, 0, None, Corrupt::Refuse).expect("comes with the program").split;
        let spec = small_conv16(1, 2, 8, LatentSpace::Euclidean).expect("valid");
        let mut weights = Stream::Weights.of(0);
        // With such a large σ the divergence determines the decision, and not the error.
        let vae = Variational { sigma: 16.0, ..Variational::default() };
        let model = VariationalAutoencoder::new(&spec, vae, weights.rng(), &device.clone().autodiff());
        let gray = outliers::constant_gray(split.validation.shape(), SELECTION_IMAGES, Stream::Selection.of(7).rng());
        let found = model.decisions().iter().map(|&decision| {
            let scores = |images: &ImageSet| -> Vec<f32> {
                let all: Vec<usize> = (0..images.len()).collect();
                model.decide(decision, images.batch(&all, &device)).into_data().iter::<f32>().collect()
            };
            let (normal, gray) = (scores(&split.validation), scores(&gray));
            let above = gray.iter().map(|gray| normal.iter().filter(|normal| gray > normal).count()).sum::<usize>();
            let expected = above as f64 / (normal.len() * gray.len()) as f64;
            let found = selection_auroc(&model, decision, &split, 7, Engine::Burn, &device);
            assert!((found - expected).abs() < 1e-3, "{decision:?}: {found} {expected}");
            found
        });
        let found: Vec<f64> = found.collect();
        assert!(found.len() == 2 && (found[0] - found[1]).abs() > 0.01, "{found:?}");
    }

    /// Counts the reports of looks and of kept states.
    #[derive(Default)]
    struct Told {
        looks: usize,
        checkpoints: usize,
    }

    impl Observer for Told {
        fn look(&mut self, look: &Look, _: &dyn Model) {
            self.looks += usize::from(look.update > 0);
        }

        fn checkpoint(&mut self, _: &dyn Model) {
            self.checkpoints += 1;
        }
    }

    /// Also at a divergence: an interrupted run has stored the state of a look that the resumed run does not have.
    #[test]
    fn every_look_hands_over_the_state_that_is_kept() {
        let device = Device::flex();
        let mut raw = preset::load("digits").expect("valid").raw().clone();
        raw.pretraining.epochs = 1;
        raw.training.updates = 6;
        // With so much noise, negative samples have a higher energy than the data from the first look on.
        raw.sampler.visible_chain.noise = 5.0;
        raw.stopping.every = 2;
        raw.stopping.max_energy_ratio = Some(1.001);
        let prepared =
            Prepared::new(Config::new(raw).expect("valid"), 0, None, Corrupt::Refuse).expect("comes with it");
        let mut told = Told::default();
        let outcome = prepared.train(Engine::Cpu, &device, &mut told, &AtomicBool::new(false), None).expect("trains");
        assert!(matches!(outcome.ending, Ending::Diverged { .. }), "{:?}", outcome.ending);
        // One more checkpoint is reported after pre-training.
        assert_eq!(told.checkpoints, told.looks + 1);
    }

    /// Writes down what is stored, in order.
    #[derive(Default)]
    struct Stored(Vec<&'static str>);

    impl Observer for Stored {
        fn checkpoint(&mut self, _: &dyn Model) {
            self.0.push("weights");
        }

        fn wants_snapshot(&mut self, last: bool) -> bool {
            last
        }

        fn snapshot(&mut self, _: &Snapshot) {
            self.0.push("state");
        }
    }

    /// A folder with weights and no state is that of a run that has ended.
    #[test]
    fn no_weights_are_stored_before_a_state_to_continue_from() {
        let device = Device::flex();
        for epochs in [0, 1] {
            let mut raw = preset::load("digits").expect("valid").raw().clone();
            raw.pretraining.epochs = epochs;
            raw.training.updates = 1;
            let config = Config::new(raw).expect("valid");
            let prepared = Prepared::new(config, 0, None, Corrupt::Refuse).expect("comes with the program");
            let mut stored = Stored::default();
            prepared.train(Engine::Cpu, &device, &mut stored, &AtomicBool::new(false), None).expect("trains");
            assert_eq!(stored.0[..2], ["state", "weights"], "{epochs} epochs");
        }
    }
}
