//! The model in use: opened from its file, exchanged while the service runs, adjusted by people.
//! Whether a new one is fit to take over is decided in [`replace`](super::replace).

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use nae_infer::card::ModelFile;
use nae_infer::{Detector, Limits, OpenError};

use super::config::Config;

/// A model that is ready to score.
pub(crate) struct Model {
    pub(crate) detector: Detector,
    /// What it says about itself.
    pub(crate) card: Vec<(&'static str, String)>,
    /// CRC-32 of the file, by which adjustments know their model.
    pub(crate) digest: String,
    /// The file.
    pub(crate) bytes: Arc<Vec<u8>>,
}

/// The model in use, for any number of threads.
pub(crate) type Current = ArcSwap<Model>;

impl Model {
    /// Opens the file of the settings.
    ///
    /// # Errors
    /// [`OpenError`] names the file.
    pub(crate) fn open(config: &Config) -> Result<Self, OpenError> {
        Self::open_file(&config.model, config)
    }

    /// Opens another file with the same backend and threshold.
    ///
    /// # Errors
    /// [`OpenError`] names the file.
    pub(crate) fn open_file(path: &Path, config: &Config) -> Result<Self, OpenError> {
        let limits = Limits::default();
        let bytes = nae_onnx::file::read(path, limits.bytes)?;
        let providers = config.execution_providers.clone();
        let mut builder = Detector::builder().backend(config.backend).execution_providers(providers);
        if let Some(rate) = config.false_positive_rate {
            builder = builder.false_positive_rate(rate);
        }
        let file = ModelFile::parse(bytes, &limits)
            .map_err(|error| OpenError::Model { path: path.to_owned(), error: Box::new(error) })?;
        let detector = builder.load(&file, path)?;
        let digest = format!("{:08x}", crc32fast::hash(file.bytes()));
        Ok(Self { detector, card: file.card(), digest, bytes: Arc::new(file.into_bytes()) })
    }

    /// The same with another calibration or threshold.
    pub(crate) fn with_detector(&self, detector: Detector) -> Self {
        Self { detector, card: self.card.clone(), digest: self.digest.clone(), bytes: Arc::clone(&self.bytes) }
    }

    /// The false-positive rate its threshold is for.
    pub(crate) fn false_positive_rate(&self) -> Option<f32> {
        self.detector.false_positive_rate()
    }
}
