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
use nae_onnx::check::graph::OnnxGraph;
use nae_onnx::file::FileError;
use nae_onnx::metadata::Features;

use crate::backend::{
    self, Backend, BackendChoice, BackendError, BackendKind, BackendOptions, ExecutionProvider, Limits,
};
use crate::card::{ModelFile, ModelFileError, ScoringSettings};
use crate::heat_map::HeatMap;

/// A model and the backend that runs it. Scores images, from any number of threads at a time. A clone shares the backend.
#[derive(Clone)]
pub struct Detector {
    settings: ScoringSettings,
    backend: Arc<dyn Backend>,
    threshold: Option<f32>,
    false_positive_rate: Option<f32>,
    alarm: Option<AlarmSettings>,
    threads: usize,
}

/// The score of one image, with its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The reconstruction error. The higher, the less normal.
    pub energy: f32,
    /// The conformal p-value in (0, 1]: the share of normal images with at least this energy. `None` for a model without
    /// calibration.
    pub p_value: Option<f32>,
    /// Whether the energy is above the threshold. `None` for a model without a threshold.
    pub verdict: Option<Verdict>,
    /// The latent vector, channels first. `None` if the model has no such output.
    pub latent: Option<Vec<f32>>,
    /// Each pixel's contribution to the energy, or for structural similarity its squared error, row by row, in the size of
    /// the network's input. A model of tiles gives a map of the image's own size, see [`Grid`](nae_input::tiling::Grid). In
    /// the map of a model of features, a pixel has the energy of the feature vector at its place.
    pub error_map: Vec<f32>,
    /// Rows and columns of `error_map`, which has one channel.
    pub error_map_shape: Shape,
}

/// Why a detector could not be opened. Messages name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not a model that can be used.
    #[error("{}: {error}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<ModelFileError>,
    },
    /// An ONNX model without this project's metadata, so that preprocessing and energy are unknown.
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
        /// The backend's error.
        error: BackendError,
    },
    /// Metadata and graph have different input shapes.
    #[error("{}: metadata says images of {expected} (CxHxW), the graph takes {found}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The shape in the metadata.
        expected: Shape,
        /// The shape of the graph's input.
        found: String,
    },
    /// Metadata and graph have different shapes of features.
    #[error("{}: metadata says features of {expected} (KxRxC), output `{output}` has {found}", path.display())]
    Features {
        /// The file.
        path: PathBuf,
        /// The name of the output.
        output: &'static str,
        /// The shape in the metadata.
        expected: Shape,
        /// The shape of the output.
        found: String,
    },
    /// The graph reconstructs something else than its image, and the metadata say nothing of features.
    #[error(
        "{}: metadata says images of {expected} (CxHxW) and no features, output `{output}` has {found}; add the metadata \
         `nae.features.`, or export a reconstruction of the image",
        path.display()
    )]
    Reconstruction {
        /// The file.
        path: PathBuf,
        /// The name of the output.
        output: String,
        /// The shape of the images in the metadata.
        expected: Shape,
        /// The shape of the output.
        found: String,
    },
    /// The calibration cannot give a threshold for the requested false-positive rate.
    #[error(
        "{}: false-positive rate {rate}: {error} (this model has {count}, enough for rates from 1/{})",
        path.display(),
        *count + 1
    )]
    FalsePositiveRate {
        /// The file.
        path: PathBuf,
        /// The requested rate.
        rate: f32,
        /// The number of energies of the model's calibration.
        count: usize,
        /// The calibration's error.
        error: CalibrationError,
    },
    /// The requested threshold is NaN or infinite.
    #[error("{}: expected a threshold that is a finite energy, found {energy}", path.display())]
    Threshold {
        /// The file.
        path: PathBuf,
        /// The requested threshold.
        energy: f32,
    },
    /// A false-positive rate was requested of a model without calibration.
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
    /// The image cannot be converted to the network's input.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The length of the batch is not a multiple of the length of an image.
    #[error("expected a multiple of {expected} values, found {found}")]
    Length {
        /// The number of values in an image.
        expected: usize,
        /// The number of values in the batch.
        found: usize,
    },
    /// The image or its reconstruction is not finite.
    #[error("no energy: {0}")]
    Energy(EnergyError),
    /// An image was given to a model of tables.
    #[error("a model of tables, not of images: prepare its rows, and hand them over with `score_prepared`")]
    Table,
    /// None of the image's tiles was selected for scoring.
    #[error("no tile of the image is to be scored")]
    NoTile,
}

impl From<EnergyError> for ScoreError {
    fn from(error: EnergyError) -> Self {
        Self::Energy(error)
    }
}

impl Scored {
    /// The error map as a heat map. `None` for an empty map.
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

    /// A builder, to choose backend, threads, threshold or alarm filter.
    pub fn builder() -> DetectorBuilder {
        DetectorBuilder::default()
    }

    /// A detector with the caller's own backend, which must reconstruct images of the shape `settings.contract.input`.
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

    /// The same network with another calibration, and the threshold for a false-positive rate in (0, 1).
    ///
    /// # Errors
    /// [`CalibrationError`] if the calibration has too few energies for this rate.
    pub fn recalibrated(&self, calibration: Calibration, false_positive_rate: f32) -> Result<Self, CalibrationError> {
        let settings = self.settings.clone();
        let contract = settings.contract.with_calibration(calibration, false_positive_rate)?;
        let detector = Self::with_backend(ScoringSettings { contract, ..settings }, Arc::clone(&self.backend));
        Ok(Self { alarm: self.alarm, threads: self.threads, ..detector })
    }

    /// The same with the threshold `threshold`, an energy. Its false-positive rate is that of the calibration, if there is
    /// one.
    fn with_threshold(self, threshold: f32) -> Self {
        let false_positive_rate = self.contract().calibration().and_then(|c| c.p_value(threshold).ok());
        Self { threshold: Some(threshold), false_positive_rate, ..self }
    }

    /// The alarm filter that was given to the builder.
    pub(crate) const fn alarm(&self) -> Option<AlarmSettings> {
        self.alarm
    }

    /// How samples are converted, scored and judged.
    pub const fn settings(&self) -> &ScoringSettings {
        &self.settings
    }

    /// Input, preprocessing, energy and calibration.
    pub const fn contract(&self) -> &Contract {
        &self.settings.contract
    }

    /// The kind of backend that runs the network.
    pub fn backend(&self) -> BackendKind {
        self.backend.kind()
    }

    /// The energy above which an image is an anomaly. `None` for a model without a threshold.
    pub const fn threshold(&self) -> Option<f32> {
        self.threshold
    }

    /// The expected share of normal images above the threshold, at most. `None` for a model without a threshold.
    pub const fn false_positive_rate(&self) -> Option<f32> {
        self.false_positive_rate
    }

    /// Scores an image of any size. For a model of tiles it has to contain at least one tile.
    ///
    /// The image is taken as it is: it is not turned by an EXIF orientation, and `image::open` does not turn it either. Training
    /// does; to score a file or its bytes in the same way, pass what [`read`](nae_input::read) or
    /// [`decode`](nae_input::decode) returns to [`score_pixels`](Self::score_pixels).
    ///
    /// # Errors
    /// [`ScoreError`]; [`ScoreError::Table`] for a model of tables.
    pub fn score(&self, image: &DynamicImage) -> Result<Scored, ScoreError> {
        self.score_pixels(&Pixels::from(image))
    }

    /// Scores an image of decoded pixels.
    ///
    /// # Errors
    /// [`ScoreError`]; [`ScoreError::Table`] for a model of tables.
    pub fn score_pixels(&self, pixels: &Pixels) -> Result<Scored, ScoreError> {
        self.score_pixels_where(pixels, |_, _| true)
    }

    /// The same as [`score_pixels`](Self::score_pixels), with a selection of tiles. `wanted` is called with the rows and the
    /// columns of each tile; only tiles for which it returns true contribute to the score. Pixels outside them have the error
    /// 0. For a model of whole images, `wanted` is not called.
    ///
    /// # Errors
    /// [`ScoreError`]; [`ScoreError::NoTile`] if no tile is selected, [`ScoreError::Table`] for a model of tables.
    pub fn score_pixels_where(
        &self,
        pixels: &Pixels,
        wanted: impl Fn(Range<usize>, Range<usize>) -> bool,
    ) -> Result<Scored, ScoreError> {
        // The input of a table's row would pass for a grey image of one column.
        if self.settings.columns.is_some() {
            return Err(ScoreError::Table);
        }
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

    /// The same as [`score_prepared`](Self::score_prepared) with one result per image. All are scored in one call; if that
    /// fails, each image is scored alone, so that the error belongs to the image that caused it.
    pub fn score_each<'a>(&'a self, batch: &'a [f32]) -> impl Iterator<Item = Result<Scored, ScoreError>> + 'a {
        let together = self.score_prepared(batch).ok();
        let alone = if together.is_some() { &[] } else { batch };
        let alone = alone.chunks(self.contract().input.len()).map(|image| self.score_one(image));
        together.into_iter().flatten().map(Ok).chain(alone)
    }

    /// Scores inputs of the network: images one after the other, channels first, in the model's range, as
    /// [`ScoringSettings::prepare`] returns them. The work is shared by as many threads as the builder was given. For a model
    /// of tiles each input is a tile, and is scored as an image of one tile.
    ///
    /// # Errors
    /// [`ScoreError`], that of the first image with an error.
    pub fn score_prepared(&self, batch: &[f32]) -> Result<Vec<Scored>, ScoreError> {
        let length = self.contract().input.len();
        if !batch.len().is_multiple_of(length) {
            return Err(ScoreError::Length { expected: length, found: batch.len() });
        }
        // Checked before the backend runs, since some backends turn a NaN into a number.
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
                    // `score_part` does not panic. If it ever does, the caller should see the original panic.
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(scored)
        })
    }

    /// Checks the number of values from a backend, which can be the caller's own.
    fn expect_values(&self, expected: usize, found: usize) -> Result<(), BackendError> {
        if found == expected {
            return Ok(());
        }
        Err(BackendError::Run { backend: self.backend(), reason: format!("expected {expected} values, found {found}") })
    }

    fn score_part(&self, batch: &[f32]) -> Result<Vec<Scored>, ScoreError> {
        let Contract { input, energy, .. } = self.contract();
        let calibration = self.contract().calibration();
        let result = self.backend.reconstruct(batch)?;
        let images = batch.len() / input.len();
        let latent_length = result.latents.as_ref().map(|l| l.len() / images.max(1));
        // The network reconstructs its input, or the features of it.
        let (shape, compared) = match self.settings.features {
            Some(Features { components, rows, columns, .. }) => {
                (Shape::new(components, rows, columns), result.features.as_deref().unwrap_or_default())
            }
            None => (*input, batch),
        };
        let length = shape.len();
        for values in [compared, &result.images] {
            self.expect_values(images * length, values.len())?;
        }
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

/// Checks that the graph takes and reconstructs what the settings say.
fn check_shapes(settings: &ScoringSettings, graph: &OnnxGraph, path: &Path) -> Result<(), OpenError> {
    let path = || path.to_owned();
    let input = settings.contract.input;
    let found = graph.sample_shape(graph.input);
    if found != Some(input) {
        let found = found.map_or_else(|| "something else".to_owned(), |shape| shape.to_string());
        return Err(OpenError::Input { path: path(), expected: input, found });
    }
    let shape_of = |output: &str| graph.output(output).and_then(|value| graph.sample_shape(value));
    let text = |shape: Option<Shape>| shape.map_or_else(|| "no such output".to_owned(), |shape| shape.to_string());
    match settings.features {
        Some(Features { components, rows, columns, .. }) => {
            let expected = Shape::new(components, rows, columns);
            let wrong = [FEATURES, RECONSTRUCTION].into_iter().find(|output| shape_of(output) != Some(expected));
            wrong.map_or(Ok(()), |output| {
                Err(OpenError::Features { path: path(), output, expected, found: text(shape_of(output)) })
            })
        }
        // Without a reconstruction, the backend's error says what it found.
        None => match nae_onnx::lower::reconstruction(graph) {
            Ok(output) if shape_of(output) != Some(input) => {
                let (output, found) = (output.to_owned(), text(shape_of(output)));
                Err(OpenError::Reconstruction { path: path(), output, expected: input, found })
            }
            _ => Ok(()),
        },
    }
}

/// Enlarges a map to the shape `to`: each pixel gets the value of the place that it lies in.
fn enlarged(places: &[f32], from: Shape, to: Shape) -> Vec<f32> {
    let place = |pixel: usize| {
        let (y, x) = (pixel / to.width, pixel % to.width);
        y * from.height / to.height * from.width + x * from.width / to.width
    };
    (0..to.height * to.width).map(|pixel| places[place(pixel)]).collect()
}

/// Options for opening a [`Detector`].
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

/// The requested threshold.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    FalsePositiveRate(f32),
    Energy(f32),
}

impl DetectorBuilder {
    /// The backend, or the rule that chooses it.
    pub fn backend(mut self, choice: impl Into<BackendChoice>) -> Self {
        self.backend = choice.into();
        self
    }

    /// The number of threads that share a batch; 1 by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Uses the threshold for this false-positive rate, in (0, 1), instead of the model's own.
    pub fn false_positive_rate(mut self, rate: f32) -> Self {
        self.threshold = Some(Wanted::FalsePositiveRate(rate));
        self
    }

    /// Uses this energy as the threshold, instead of the model's own or of that for a [rate](Self::false_positive_rate). The
    /// model need not be calibrated.
    pub fn threshold(mut self, energy: f32) -> Self {
        self.threshold = Some(Wanted::Energy(energy));
        self
    }

    /// The alarm filter of a [stream](Detector::stream) of images: when its alarm is raised and cleared.
    pub fn alarm_filter(mut self, settings: AlarmSettings) -> Self {
        self.alarm = Some(settings);
        self
    }

    /// The file to load ONNX Runtime from. By default it is the one that `ORT_DYLIB_PATH` names, or the system's. The first
    /// library that is loaded is used by the whole process.
    pub fn ort_library(mut self, path: impl Into<PathBuf>) -> Self {
        self.ort_library = Some(path.into());
        self
    }

    /// ONNX Runtime's execution providers: each layer runs on the first of these that supports it, or else on the processor.
    /// Other backends always run on the processor.
    pub fn execution_providers(mut self, providers: impl Into<Vec<ExecutionProvider>>) -> Self {
        self.execution_providers = providers.into();
        self
    }

    /// Limits on the size of a model; larger models are refused.
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

    /// The same as [`open`](Self::open) for a file in memory. `path` is used in messages only.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read(self, bytes: Vec<u8>, path: impl AsRef<Path>) -> Result<Detector, OpenError> {
        let path = path.as_ref();
        let file = ModelFile::parse(bytes, &self.limits)
            .map_err(|error| OpenError::Model { path: path.to_owned(), error: Box::new(error) })?;
        self.load(&file, path)
    }

    /// The same as [`read`](Self::read) for a file that has been parsed.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn load(self, file: &ModelFile, path: impl AsRef<Path>) -> Result<Detector, OpenError> {
        let path = || path.as_ref().to_owned();
        let settings = file.settings().ok_or_else(|| OpenError::NoMetadata { path: path() })?;
        if let crate::card::Content::Onnx(model, _) = file.content() {
            check_shapes(&settings, &model.graph, &path())?;
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
            (Some(Wanted::FalsePositiveRate(rate)), Some(calibration)) => {
                let count = calibration.count();
                detector.recalibrated(calibration, rate).map_err(|error| OpenError::FalsePositiveRate {
                    path: path(),
                    rate,
                    count,
                    error,
                })
            }
        }
    }
}
