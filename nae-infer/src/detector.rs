//! A model that is ready to score images.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::DynamicImage;
use nae_core::Shape;
use nae_core::calibration::{Calibration, CalibrationError};
use nae_core::contract::Contract;
use nae_core::energy::EnergyError;
use nae_core::verdict::{AlarmSettings, Verdict};
use nae_input::layout::to_channels_last;
use nae_input::tiling::image_score;
use nae_input::{Pixels, PrepareError};
use nae_onnx::autoencoder::{FEATURES, RECONSTRUCTION};
use nae_onnx::file::FileError;
use nae_onnx::metadata::Features;

use crate::backend::{
    self, Backend, BackendChoice, BackendError, BackendKind, BackendOptions, ExecutionProvider, Limits,
};
use crate::card::{ModelFile, ModelFileError, ScoringSettings};
use crate::heat_map::HeatMap;

/// A model with a backend: scores images, from any number of threads. A clone shares the backend.
#[derive(Clone)]
pub struct Detector {
    settings: ScoringSettings,
    backend: Arc<dyn Backend>,
    threshold: Option<f32>,
    false_positive_rate: Option<f32>,
    alarm: Option<AlarmSettings>,
    threads: usize,
}

/// What is known of one image.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Energy: the higher, the less normal.
    pub energy: f32,
    /// Conformal p-value in (0, 1]: the share of normal images at least as strange; `None` for a
    /// model without calibration.
    pub p_value: Option<f32>,
    /// Whether the energy is above the threshold; `None` for a model without calibration.
    pub verdict: Option<Verdict>,
    /// The latent vector, channels first, where the model gives it out.
    pub latent: Option<Vec<f32>>,
    /// Each pixel's part in the energy, row by row, of the size of the network's input; of a model that looks at tiles,
    /// of the image's own size: see [`Grid`](nae_input::tiling::Grid); of a model of features,
    /// the energy of the place that a pixel lies in.
    pub error_map: Vec<f32>,
    /// Rows and columns of the map; one channel.
    pub error_map_shape: Shape,
}

/// Why a detector could not be made. Messages name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The model is refused.
    #[error("{}: {error}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<ModelFileError>,
    },
    /// An ONNX model of other origin: nothing says how images are prepared and scored.
    #[error(
        "{}: expected metadata under `nae.`, found none: add it with `nae-infer calibrate`",
        path.display()
    )]
    NoMetadata {
        /// The file.
        path: PathBuf,
    },
    /// The backend cannot run the model.
    #[error("{}: {error}", path.display())]
    Backend {
        /// The file.
        path: PathBuf,
        /// What the backend says.
        error: BackendError,
    },
    /// The metadata and the graph disagree on the image.
    #[error("{}: metadata says images of {expected} (CxHxW), the graph takes {found}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What the metadata says.
        expected: Shape,
        /// What the graph takes.
        found: String,
    },
    /// The metadata and the graph disagree on the features.
    #[error("{}: metadata says features of {expected} (KxRxC), output `{output}` has {found}", path.display())]
    Features {
        /// The file.
        path: PathBuf,
        /// The output.
        output: &'static str,
        /// What the metadata says.
        expected: Shape,
        /// What the output has.
        found: String,
    },
    /// A false-positive rate was asked for that the calibration cannot give.
    #[error("{}: false-positive rate {rate}: {error}", path.display())]
    FalsePositiveRate {
        /// The file.
        path: PathBuf,
        /// The rate asked for.
        rate: f32,
        /// Why not.
        error: CalibrationError,
    },
    /// A threshold was asked for that no energy can be compared with.
    #[error("{}: expected a threshold that is a finite energy, found {energy}", path.display())]
    Threshold {
        /// The file.
        path: PathBuf,
        /// The threshold asked for.
        energy: f32,
    },
    /// A false-positive rate was asked for, but the model is not calibrated.
    #[error("{}: a false-positive rate needs a calibrated model, and this one is not", path.display())]
    NoCalibration {
        /// The file.
        path: PathBuf,
    },
}

/// Why an image was not scored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// The image cannot become the network's input.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The batch is not a whole number of images.
    #[error("expected a multiple of {expected} values, found {found}")]
    Length {
        /// Values in an image.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The image or its reconstruction is not finite.
    #[error("no energy: {0}")]
    Energy(EnergyError),
    /// Of a model that looks at tiles, none was to be scored.
    #[error("no tile of the image is to be scored")]
    NoTile,
}

impl From<EnergyError> for ScoreError {
    fn from(error: EnergyError) -> Self {
        Self::Energy(error)
    }
}

impl Scored {
    /// Where in the image the energy lies.
    pub fn heat_map(&self) -> Option<HeatMap<'_>> {
        HeatMap::new(&self.error_map, self.error_map_shape.width)
    }
}

impl Detector {
    /// Opens an `.onnx` or `.nae` file with the usual backend: see [`BackendChoice::Usual`].
    ///
    /// # Errors
    /// [`OpenError`] names the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::builder().open(path)
    }

    /// For another backend, threads, threshold, or alarm filter.
    pub fn builder() -> DetectorBuilder {
        DetectorBuilder::default()
    }

    /// With a backend of the caller, which reconstructs images of the shape `settings.contract.input`.
    pub fn with_backend(settings: ScoringSettings, backend: Arc<dyn Backend>) -> Self {
        let threshold = settings.contract.threshold();
        Self {
            threshold: threshold.map(|t| t.energy),
            false_positive_rate: threshold.map(|t| t.false_positive_rate),
            settings,
            backend,
            alarm: None,
            threads: 1,
        }
    }

    /// The same network, calibrated by other normal data, with the threshold for a false-positive rate
    /// in (0, 1).
    ///
    /// # Errors
    /// [`CalibrationError`] where so few energies do not give a threshold for this rate.
    pub fn recalibrated(&self, calibration: Calibration, false_positive_rate: f32) -> Result<Self, CalibrationError> {
        let settings = self.settings.clone();
        let contract = settings.contract.with_calibration(calibration, false_positive_rate)?;
        let detector = Self::with_backend(ScoringSettings { contract, ..settings }, Arc::clone(&self.backend));
        Ok(Self { alarm: self.alarm, threads: self.threads, ..detector })
    }

    /// The same with the energy `threshold`, whatever the model says. Its false-positive rate is what the calibration
    /// says of it.
    fn with_threshold(self, threshold: f32) -> Self {
        let false_positive_rate = self.contract().calibration().and_then(|c| c.p_value(threshold).ok());
        Self { threshold: Some(threshold), false_positive_rate, ..self }
    }

    /// The alarm filter that the builder was given.
    pub(crate) const fn alarm(&self) -> Option<AlarmSettings> {
        self.alarm
    }

    /// How samples become energies and verdicts.
    pub const fn settings(&self) -> &ScoringSettings {
        &self.settings
    }

    /// Input, preprocessing, energy and calibration.
    pub const fn contract(&self) -> &Contract {
        &self.settings.contract
    }

    /// Which backend reconstructs.
    pub fn backend(&self) -> BackendKind {
        self.backend.kind()
    }

    /// The energy above which an image is an anomaly; `None` for a model without calibration.
    pub const fn threshold(&self) -> Option<f32> {
        self.threshold
    }

    /// The share of normal images above the threshold, at most; `None` for a model without calibration.
    pub const fn false_positive_rate(&self) -> Option<f32> {
        self.false_positive_rate
    }

    /// Scores an image of any size; of a model that looks at tiles, of at least one tile.
    ///
    /// # Errors
    /// [`ScoreError`].
    pub fn score(&self, image: &DynamicImage) -> Result<Scored, ScoreError> {
        self.score_pixels(&Pixels::from(image))
    }

    /// Scores an image in memory.
    ///
    /// # Errors
    /// [`ScoreError`].
    pub fn score_pixels(&self, pixels: &Pixels) -> Result<Scored, ScoreError> {
        self.score_pixels_where(pixels, |_, _| true)
    }

    /// As [`score_pixels`](Self::score_pixels), but of a model that looks at tiles only those have a part in the score that
    /// are `wanted`, by the rows and columns of the image that they hold; the errors of pixels in no other are 0. A model of whole
    /// images does not ask.
    ///
    /// # Errors
    /// [`ScoreError`]; [`ScoreError::NoTile`] where none is wanted.
    pub fn score_pixels_where(
        &self,
        pixels: &Pixels,
        wanted: impl Fn(Range<usize>, Range<usize>) -> bool,
    ) -> Result<Scored, ScoreError> {
        if let Some(tiles) = self.settings.tiles {
            return self.score_tiles(pixels, tiles, wanted);
        }
        self.score_one(&self.settings.prepare(pixels)?)
    }

    fn score_one(&self, prepared: &[f32]) -> Result<Scored, ScoreError> {
        match self.score_prepared(prepared)?.pop() {
            Some(scored) => Ok(scored),
            None => Err(ScoreError::Length { expected: self.contract().input.len(), found: 0 }),
        }
    }

    /// As [`score_prepared`](Self::score_prepared), image by image: all at once, and where that fails, each
    /// alone when it is asked for, to say which it was.
    pub fn score_each<'a>(&'a self, batch: &'a [f32]) -> impl Iterator<Item = Result<Scored, ScoreError>> + 'a {
        let together = self.score_prepared(batch).ok();
        let alone = if together.is_some() { &[] } else { batch };
        let alone = alone.chunks(self.contract().input.len()).map(|image| self.score_one(image));
        together.into_iter().flatten().map(Ok).chain(alone)
    }

    /// Scores images that are the network's input already: one after the other, channels first, in
    /// the model's range, as `prepare` makes them. Several threads share the work if the
    /// builder was told so. Of a model that looks at tiles, they are tiles, each scored as an image of one tile.
    ///
    /// # Errors
    /// [`ScoreError`]; of several, the first.
    pub fn score_prepared(&self, batch: &[f32]) -> Result<Vec<Scored>, ScoreError> {
        let length = self.contract().input.len();
        if !batch.len().is_multiple_of(length) {
            return Err(ScoreError::Length { expected: length, found: batch.len() });
        }
        // Before the backend: some turn a NaN into a number.
        if !batch.iter().all(|v| v.is_finite()) {
            return Err(EnergyError::NonFinite.into());
        }
        let images = batch.len() / length;
        let parts = if self.backend.kind() == BackendKind::Ort { 1 } else { self.threads.min(images).max(1) };
        if parts == 1 {
            return self.score_part(batch);
        }
        let share = images.div_ceil(parts) * length;
        std::thread::scope(|scope| {
            let workers: Vec<_> = batch.chunks(share).map(|part| scope.spawn(move || self.score_part(part))).collect();
            let mut scored = Vec::with_capacity(images);
            for worker in workers {
                match worker.join() {
                    Ok(part) => scored.extend(part?),
                    // `score_part` does not panic; if it ever does, the caller should know where.
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(scored)
        })
    }

    fn score_part(&self, batch: &[f32]) -> Result<Vec<Scored>, ScoreError> {
        let Contract { input, energy, .. } = self.contract();
        let calibration = self.contract().calibration();
        let result = self.backend.reconstruct(batch)?;
        let images = batch.len() / input.len();
        let latent_length = result.latents.as_ref().map(|l| l.len() / images.max(1));
        // What was reconstructed: the images, or the features of their places.
        let (shape, compared) = match self.settings.features {
            Some(Features { components, rows, columns, .. }) => {
                (Shape::new(components, rows, columns), result.features.as_deref().unwrap_or_default())
            }
            None => (*input, batch),
        };
        let length = shape.len();
        let mut scored = Vec::with_capacity(images);
        for i in 0..images {
            let of = |all: &[f32]| to_channels_last(all.get(i * length..(i + 1) * length).unwrap_or_default(), shape);
            let (image, reconstruction) = (of(compared), of(&result.images));
            let mut error_map = vec![0.0; shape.height * shape.width];
            energy.error_map(&image, &reconstruction, shape, &mut error_map)?;
            let (value, error_map) = match self.settings.features {
                Some(Features { top_k, .. }) => (image_score(&error_map, top_k), enlarged(&error_map, shape, *input)),
                None => (energy.evaluate(&image, &reconstruction, shape)?, error_map),
            };
            scored.push(Scored {
                energy: value,
                p_value: calibration.and_then(|c| c.p_value(value).ok()),
                verdict: self.threshold.map(|t| Verdict::of(value, t)),
                latent: result.latents.as_ref().zip(latent_length).map(|(l, n)| l[i * n..(i + 1) * n].to_vec()),
                error_map,
                error_map_shape: Shape::new(1, input.height, input.width),
            });
        }
        Ok(scored)
    }
}

/// For each pixel of `to` the value of the place that it lies in.
fn enlarged(places: &[f32], from: Shape, to: Shape) -> Vec<f32> {
    let place = |pixel: usize| {
        let (y, x) = (pixel / to.width, pixel % to.width);
        y * from.height / to.height * from.width + x * from.width / to.width
    };
    (0..to.height * to.width).map(|pixel| places[place(pixel)]).collect()
}

/// How a [`Detector`] is made.
///
/// ```no_run
/// use nae_infer::{BackendKind, Detector};
/// let detector = Detector::builder().backend(BackendKind::Native).false_positive_rate(0.001).open("model.onnx")?;
/// # Ok::<(), nae_infer::OpenError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct DetectorBuilder {
    backend: BackendChoice,
    threads: Option<usize>,
    threshold: Option<Wanted>,
    alarm: Option<AlarmSettings>,
    ort_library: Option<PathBuf>,
    execution_providers: Vec<ExecutionProvider>,
    limits: Limits,
}

/// The threshold that is asked for.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    FalsePositiveRate(f32),
    Energy(f32),
}

impl DetectorBuilder {
    /// Reconstructs with this backend, or the one chosen by this rule.
    pub fn backend(mut self, choice: impl Into<BackendChoice>) -> Self {
        self.backend = choice.into();
        self
    }

    /// Scores batches with this many threads; one otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Takes the threshold for this rate, in (0, 1), instead of the one in the file.
    pub fn false_positive_rate(mut self, rate: f32) -> Self {
        self.threshold = Some(Wanted::FalsePositiveRate(rate));
        self
    }

    /// Takes this energy for the threshold, instead of the one in the file, or of one for a
    /// [rate](Self::false_positive_rate). The model need not be calibrated.
    pub fn threshold(mut self, energy: f32) -> Self {
        self.threshold = Some(Wanted::Energy(energy));
        self
    }

    /// When the alarm of a [stream](Detector::stream) of images goes on and off.
    pub fn alarm_filter(mut self, settings: AlarmSettings) -> Self {
        self.alarm = Some(settings);
        self
    }

    /// Loads ONNX Runtime from this file; otherwise from the one `ORT_DYLIB_PATH` names, or the
    /// system's. The first library loaded serves the whole process.
    pub fn ort_library(mut self, path: impl Into<PathBuf>) -> Self {
        self.ort_library = Some(path.into());
        self
    }

    /// What ONNX Runtime computes on: each layer on the first of these that has it, on the processor otherwise. Other
    /// backends run on the processor.
    pub fn execution_providers(mut self, providers: impl Into<Vec<ExecutionProvider>>) -> Self {
        self.execution_providers = providers.into();
        self
    }

    /// Accepts models up to these limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Opens an `.onnx` or `.nae` file.
    ///
    /// # Errors
    /// [`OpenError`] names the file.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Detector, OpenError> {
        let path = path.as_ref();
        let bytes = nae_onnx::file::read(path, self.limits.bytes)?;
        self.read(bytes, path)
    }

    /// As [`open`](Self::open), from bytes in memory; `path` is for messages.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read(self, bytes: Vec<u8>, path: impl AsRef<Path>) -> Result<Detector, OpenError> {
        let path = path.as_ref();
        let file = ModelFile::parse(bytes, &self.limits)
            .map_err(|error| OpenError::Model { path: path.to_owned(), error: Box::new(error) })?;
        self.load(&file, path)
    }

    /// As [`read`](Self::read), from a file that is parsed already.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn load(self, file: &ModelFile, path: impl AsRef<Path>) -> Result<Detector, OpenError> {
        let path = || path.as_ref().to_owned();
        let settings = file.settings().ok_or_else(|| OpenError::NoMetadata { path: path() })?;
        if let crate::card::Content::Onnx(model, _) = file.content() {
            let found = model.graph.sample_shape(model.graph.input);
            if found != Some(settings.contract.input) {
                let found = found.map_or_else(|| "something else".to_owned(), |s| s.to_string());
                return Err(OpenError::Input { path: path(), expected: settings.contract.input, found });
            }
        }
        if let (Some(features), crate::card::Content::Onnx(model, _)) = (settings.features, file.content()) {
            let Features { components, rows, columns, .. } = features;
            let expected = Shape::new(components, rows, columns);
            for name in [FEATURES, RECONSTRUCTION] {
                let found = model.graph.output(name).and_then(|value| model.graph.sample_shape(value));
                if found != Some(expected) {
                    let found = found.map_or_else(|| "no such output".to_owned(), |shape| shape.to_string());
                    return Err(OpenError::Features { path: path(), output: name, expected, found });
                }
            }
        }
        let threads = self.threads.unwrap_or(1).max(1);
        let options =
            BackendOptions { threads, ort_library: self.ort_library, execution_providers: self.execution_providers };
        let backend = backend::load(file, self.backend, &options, settings.contract.input.len())
            .map_err(|error| OpenError::Backend { path: path(), error })?;
        let detector = Detector { threads, alarm: self.alarm, ..Detector::with_backend(settings, backend) };
        match (self.threshold, detector.contract().calibration().cloned()) {
            (None, _) => Ok(detector),
            (Some(Wanted::Energy(energy)), _) if energy.is_finite() => Ok(detector.with_threshold(energy)),
            (Some(Wanted::Energy(energy)), _) => Err(OpenError::Threshold { path: path(), energy }),
            (Some(Wanted::FalsePositiveRate(_)), None) => Err(OpenError::NoCalibration { path: path() }),
            (Some(Wanted::FalsePositiveRate(rate)), Some(calibration)) => detector
                .recalibrated(calibration, rate)
                .map_err(|error| OpenError::FalsePositiveRate { path: path(), rate, error }),
        }
    }
}
