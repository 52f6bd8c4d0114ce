//! A whole run without the command line: data, training, calibration, evaluation.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use burn::tensor::{Device, Tensor};
use nae_core::calibration::{CalibrationError, count_for_confidence, count_for_rate};
use nae_onnx::metadata::ModelMetadata;

use crate::arch::Autoencoder;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::config::Config;
use crate::config::methods::MethodKind;
use crate::engine::Engine;
use crate::eval::evaluation::Evaluation;
use crate::eval::scoring::{decided, share_above};
use crate::eval::table::{Column, OutlierKind, OutlierSet, neighbours_column, outlier_sets};
use crate::eval::trace::Trace;
use crate::export::{self, ExportError};
use crate::features::{self, Features, FeaturesError};
use crate::methods::reference::NearestNeighbours;
use crate::methods::{Decision, Model};
use crate::sample::{NewImages, Precision};
use crate::seed::Stream;
use crate::train::observer::{Observer, Silent};
use crate::train::snapshot::Snapshot;
use crate::train::{Outcome, TrainError, Trainer};
use nae_data::own::{self, Corrupt};
use nae_data::{DataError, ImageSet, Loaded};
use nae_data::{Source, Split};

/// An error that prevents a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The result cannot be calibrated or exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The weights to start from cannot be read.
    #[error(transparent)]
    Weights(#[from] CheckpointError),
    /// The frozen network that computes features cannot be read or run.
    #[error(transparent)]
    Features(#[from] FeaturesError),
    /// There are no training data, or too few calibration data.
    #[error(
        "{training} images, rows or windows to train on, and {calibration} decisions to calibrate a false-positive rate of \
         {rate} on, which takes {needed}: give more data, or a higher calibration.false_positive_rate"
    )]
    TooFew {
        /// The number of training samples.
        training: usize,
        /// The number of decisions for calibration.
        calibration: usize,
        /// The target false-positive rate.
        rate: f64,
        /// The least number of decisions that gives a threshold.
        needed: usize,
    },
    /// The requested confidence needs more calibration images.
    #[error(
        "a confidence of {confidence} in a false-positive rate of {rate} takes {needed} normal images or rows (or stretches \
         of a time series) for the calibration, and there are {found}: give more data, a higher rate or a lower confidence"
    )]
    Confidence {
        /// The requested confidence.
        confidence: f64,
        /// The target false-positive rate.
        rate: f64,
        /// The least number that is sufficient.
        needed: usize,
        /// The number found.
        found: usize,
    },
    /// Training cannot continue.
    #[error(transparent)]
    Train(#[from] TrainError),
}

/// A run's settings and data, ready for training.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The settings of the run.
    pub config: Config,
    /// The seed of the data's division.
    pub seed: u64,
    /// The parts of the data.
    pub split: Split,
    /// The SHA-256 of the data, in hexadecimal.
    pub data_sha256: String,
    /// Warnings about the data that affect how far a model can be trusted.
    pub warnings: Vec<String>,
    /// Outliers from files, for evaluation. Training, stopping and calibration do not use them, except those of the
    /// selection set.
    pub outliers: Vec<OutlierSet>,
    /// For a run on features: computes them from images.
    features: Option<Arc<Features>>,
    /// For a run on a table: the reference that its model is compared with.
    neighbours: Option<NearestNeighbours>,
}

impl Prepared {
    /// Loads the data of `config`, from `folder` if they are not embedded, and divides them. `corrupt` applies to a
    /// user's own images.
    ///
    /// # Errors
    /// [`RunError::Data`] if the data cannot be read, and the errors of [`of`](Self::of).
    pub fn new(config: Config, seed: u64, folder: Option<&Path>, corrupt: Corrupt) -> Result<Self, RunError> {
        let loaded = config.source().load(folder, &config.form(), corrupt)?;
        Self::of(config, seed, loaded)
    }

    /// Checks before training that there are enough data to train and to calibrate.
    ///
    /// # Errors
    /// [`RunError::TooFew`] if there are too few.
    pub fn check_counts(&self) -> Result<(), RunError> {
        let (training, calibration) = (self.split.train.len(), self.split.calibration.decisions());
        let rate = self.config.false_positive_rate();
        let needed = count_for_rate(rate as f32).unwrap_or(usize::MAX);
        if training > 0 && calibration >= needed {
            return Ok(());
        }
        Err(RunError::TooFew { training, calibration, rate, needed })
    }

    /// Divides data that have been read for `config`; if it uses features, these replace the images.
    ///
    /// # Errors
    /// [`RunError::Confidence`] if there are too few calibration data for the requested confidence;
    /// [`RunError::Features`] if the frozen network cannot be read or run.
    pub fn of(config: Config, seed: u64, loaded: Loaded) -> Result<Self, RunError> {
        let mut rng = Stream::Split.of(seed);
        let mut split = Split::new(&loaded, config.held_out(), config.split(), rng.rng());
        let Loaded { sha256, warnings, .. } = loaded;
        check_confidence(&config, independent(&split.calibration))?;
        let [training, validation, calibration, test] =
            [&split.train, &split.validation, &split.calibration, &split.test].map(ImageSet::len);
        tracing::debug!(training, validation, calibration, test, sha256 = %sha256, "data divided");
        // Whitening is fitted on the training data only, so that calibration and test data stay unused.
        let features = match config.features() {
            Some(settings) => {
                features::same_data(settings, &sha256)?;
                let mut rng = Stream::Selection.of(seed);
                Some(Arc::new(Features::new(settings, &mut split, rng.rng())?))
            }
            None => None,
        };
        let neighbours =
            matches!(config.source(), Source::Table(_)).then(|| NearestNeighbours::standardized(&split.train));
        let config = config.with_data_of_features(&sha256);
        Ok(Self { config, seed, split, data_sha256: sha256, warnings, outliers: Vec::new(), features, neighbours })
    }

    /// Computes features from images, if the run is on features.
    pub fn features(&self) -> Option<&Features> {
        self.features.as_deref()
    }

    /// The network's inputs for `images` in the form of the data; for a run on features, the features of their places.
    ///
    /// # Errors
    /// [`FeaturesError`] if features are not finite.
    pub(crate) fn samples(&self, images: ImageSet) -> Result<ImageSet, FeaturesError> {
        match self.features() {
            Some(features) => features.of(&images),
            None => Ok(images),
        }
    }

    /// Reads the images at `path`, a folder or an archive, as outliers for evaluation and converts them to the form of
    /// the data. If the data are a table, `path` must be one too.
    ///
    /// # Errors
    /// [`RunError::Data`] if they cannot be read; [`RunError::Features`] if their features are not finite.
    pub fn add_outliers(&mut self, path: &Path, corrupt: Corrupt) -> Result<(), RunError> {
        let read = self.config.form().read(path, corrupt)?;
        self.warnings.extend(read.warnings.into_iter().map(|warning| format!("outliers: {warning}")));
        let name = format!("{} (given)", own::title(path));
        let images = self.samples(read.train)?;
        let ([repeated], all) = (self.split.repeated_in([&images]), images.units().len());
        if repeated > 0 {
            self.warnings.push(format!(
                "outliers: {repeated} of {all} are copies of {} that are trained on as normal",
                self.config.source().samples()
            ));
        }
        let (kind, sha256) = (OutlierKind::Given, Some(read.sha256));
        self.outliers.push(OutlierSet { name, images, kind, selection: false, sha256 });
        Ok(())
    }

    /// Adds `set` to the outliers for evaluation. If it is for selection, training uses it in place of ConstantGray.
    pub fn add_set(&mut self, set: OutlierSet) {
        if set.selection {
            self.split.selection = Some(set.images.clone());
        }
        self.outliers.push(set);
    }

    /// The name of the selection set that training uses in place of ConstantGray, if any.
    pub fn selection(&self) -> Option<&str> {
        self.outliers.iter().find(|set| set.selection).map(|set| set.name.as_str())
    }

    /// The state after a pre-training that another run has made; its weights are in `file`, which is a checkpoint or
    /// `autoencoder.safetensors`.
    ///
    /// # Errors
    /// [`RunError`] if the file cannot be read, or belongs to another network.
    pub fn pretrained(&self, file: &Path, device: &Device) -> Result<Snapshot, RunError> {
        let spec = self.config.architecture();
        let autoencoder = checkpoint::load(checkpoint::blank(spec, device), spec.name(), file)?;
        let (config, images) = (&self.config, self.split.train.len());
        Ok(Snapshot::pretrained(config, autoencoder, images, self.seed, device).map_err(TrainError::from)?)
    }

    /// Trains the model; see [`Trainer`].
    ///
    /// # Errors
    /// [`RunError::Train`] if `resume` is from another run, if a state for `observer` cannot be written, or if training
    /// fails.
    pub fn train(
        &self,
        engine: Engine,
        device: &Device,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
        resume: Option<Snapshot>,
    ) -> Result<Outcome, RunError> {
        Ok(self.trainer(&self.config, engine, device, observer, stop).train(resume)?)
    }

    /// Trains a plain autoencoder with the pre-training settings of `config`, on the same data and with the same seed.
    ///
    /// # Errors
    /// [`RunError::Train`] if a figure of training was not finite.
    pub fn train_autoencoder(
        &self,
        config: &Config,
        engine: Engine,
        device: &Device,
        stop: &AtomicBool,
    ) -> Result<Autoencoder, RunError> {
        Ok(self.trainer(config, engine, device, &mut Silent, stop).train_autoencoder()?)
    }

    fn trainer<'a>(
        &'a self,
        config: &'a Config,
        engine: Engine,
        device: &'a Device,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Trainer<'a> {
        Trainer { config, split: &self.split, seed: self.seed, engine, device, observer, stop }
    }

    /// The number of independent calibration data: for a time series its stretches, since windows of one stretch are
    /// similar; otherwise all of them.
    pub fn independent(&self) -> usize {
        independent(&self.split.calibration)
    }

    /// Calibrates `model` on the calibration data and returns the metadata of its model file. The energies are computed
    /// by burn, whose graph is exported.
    ///
    /// # Errors
    /// [`RunError::Export`] if the energies give no threshold for the target rate.
    pub fn calibrate(&self, model: &dyn Model, device: &Device) -> Result<ModelMetadata, RunError> {
        let energies = decided(model, Decision::Reconstruction, &self.split.calibration, Engine::Burn, device);
        Ok(export::metadata(
            &self.config,
            self.seed,
            &self.data_sha256,
            model.temperature(),
            &energies,
            self.independent(),
            self.features(),
        )?)
    }

    /// The share of normal test images that `model` finds above the threshold of `metadata`; `None` without a threshold.
    /// The energies are computed as in [`calibrate`](Self::calibrate): rounded in another way, an image that is equal to
    /// one of the calibration could be above a threshold that is its own energy.
    pub fn measured_rate(&self, model: &dyn Model, metadata: &ModelMetadata, device: &Device) -> Option<f64> {
        let threshold = metadata.contract.threshold()?.energy;
        share_above(&decided(model, Decision::Reconstruction, &self.split.test, Engine::Burn, device), threshold)
    }

    /// The columns of a table for `outcome`: the plain autoencoder before an NAE, every decision function of the model,
    /// and for a run on features or on a table the usual reference methods.
    pub fn columns<'a>(&'a self, outcome: &'a Outcome) -> Vec<Column<'a>> {
        let method = self.config.method();
        let plain = outcome.autoencoder.as_ref().map(plain_column);
        let own = outcome.model.decisions().iter().zip(method.columns());
        let own = own.map(|(&decision, column)| Column {
            key: column.key,
            title: column.title,
            model: &*outcome.model,
            decision,
        });
        let references = self.features().into_iter().flat_map(Features::references);
        let references = references.chain(self.neighbours.as_ref().map(neighbours_column));
        let references =
            references.filter(move |reference| method.columns().iter().all(|own| own.key != reference.key));
        plain.into_iter().chain(own).chain(references).collect()
    }

    /// The outliers for evaluation: a user's outliers first, then `outlier_sets`.
    pub fn outlier_sets(&self) -> Vec<OutlierSet> {
        let mut rng = Stream::Evaluation.of(self.seed);
        let made = match self.features() {
            Some(features) => features.outlier_sets(!self.config.method().is_fitted(), rng.rng()),
            None => outlier_sets(&self.split, &self.config, rng.rng()),
        };
        self.outliers.iter().cloned().chain(made).collect()
    }

    /// The expected time of an evaluation's parts that do not depend on the model: features of synthetic outliers, and the
    /// reference detectors on all images. Zero for a run without features, whose evaluation is short.
    pub fn evaluation_time(&self, device: &Device) -> Duration {
        let Some(features) = self.features() else { return Duration::ZERO };
        let given: usize = self.outliers.iter().map(|set| set.images.units().len()).sum();
        features.evaluation_time(given, device)
    }

    /// Tracks models against every outlier set during training, for studies.
    pub fn trace(&self, engine: Engine, device: &Device) -> Trace {
        Trace::new(&self.split.test, &self.outlier_sets(), engine, device)
    }

    /// The stages of `count` new images that the trained `model` generates ([`NewImages::stages`]), `[N, C, H, W]` each and
    /// on `device`, with the same random numbers in every picture of this run. `None` for a model without a decoder, and for settings without a
    /// latent chain.
    pub fn new_images(
        &self,
        model: &dyn Model,
        count: usize,
        engine: Engine,
        device: &Device,
    ) -> Option<[Tensor<4>; 3]> {
        let (autoencoder, spec) = (model.autoencoder()?, self.config.architecture());
        let chains = NewImages::new(&self.config.sampler())?;
        let shape = spec.image();
        let frozen = engine.freeze(autoencoder, [shape.channels, shape.height, shape.width], Precision::F32, device);
        let mut noise = Stream::Pictures.of(self.seed);
        Some(chains.stages(&*frozen, count, spec.latent_dim(), model.temperature(), &mut noise, device))
    }

    /// Evaluates `columns` against every outlier set.
    pub fn evaluate(&self, columns: &[Column<'_>], engine: Engine, device: &Device) -> Evaluation {
        let samples = self.config.source().samples();
        Evaluation::new(samples, &self.split.test, &self.outlier_sets(), columns, engine, device)
    }
}

fn independent(calibration: &ImageSet) -> usize {
    calibration.units().len()
}

/// Checks that the calibration at the end of the run can reach the requested confidence.
fn check_confidence(config: &Config, found: usize) -> Result<(), RunError> {
    let (rate, Some(confidence)) = (config.false_positive_rate(), config.confidence()) else { return Ok(()) };
    match config.expected_rate(found) {
        Ok(_) => Ok(()),
        Err(CalibrationError::Empty | CalibrationError::RateTooLow | CalibrationError::ConfidenceTooHigh) => {
            let needed = count_for_confidence(rate as f32, confidence as f32).map_err(ExportError::from)?;
            Err(RunError::Confidence { confidence, rate, needed, found })
        }
        Err(error) => Err(RunError::Export(error.into())),
    }
}

/// The column of a plain autoencoder.
pub fn plain_column(autoencoder: &Autoencoder) -> Column<'_> {
    Column {
        key: MethodKind::Ae.column(),
        title: MethodKind::Ae.title(),
        model: autoencoder,
        decision: Decision::Reconstruction,
    }
}

/// The column of an NAE.
pub fn nae_column(model: &dyn Model) -> Column<'_> {
    Column { key: MethodKind::Nae.column(), title: MethodKind::Nae.title(), model, decision: Decision::Reconstruction }
}
