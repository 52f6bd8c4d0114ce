//! Models: opened from files, exchanged while the service runs, adjusted by people. Cameras with the same file share
//! its network. [`keeper`](super::keeper) decides whether a new one is taken into use.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use nae_infer::card::ModelFile;
use nae_infer::{BackendChoice, Detector, ExecutionProvider, Limits, OpenError};

use super::config::CameraConfig;
use super::day_night::Condition;

/// A model that is ready to score.
pub(crate) struct Model {
    pub(crate) detector: Detector,
    /// Its description, as pairs of name and value.
    pub(crate) card: Vec<(&'static str, String)>,
    /// The CRC-32 of the file, by which adjustments refer to the model.
    pub(crate) digest: String,
    /// Which of a camera's two models it is. A model that was only read from a file belongs to either.
    pub(crate) condition: Condition,
    /// The content of the file.
    pub(crate) bytes: Arc<Vec<u8>>,
}

/// The model in use, for any number of threads; `None` until one is learned if the settings name none.
pub(crate) type Current = ArcSwapOption<Model>;

/// The error if an operation needs a model and the camera has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no model yet: learn one here (the page has \"Learn here\", programs have /api/learn), or start the service with --model FILE"
)]
pub(crate) struct NoModel;

/// The open models, which cameras share.
#[derive(Default)]
pub(crate) struct Models {
    opened: Mutex<Vec<(Opening, Weak<Model>)>>,
}

/// What a model depends on beside its file.
#[derive(Debug, Clone, PartialEq)]
struct Opening {
    backend: BackendChoice,
    execution_providers: Vec<ExecutionProvider>,
    false_positive_rate: Option<f32>,
}

/// The smallest false-positive rate that a calibration on `count` energies can give, and a little more: 1/(n + 1) itself is rounded.
pub(crate) fn smallest_rate(count: usize) -> f32 {
    1.0 / (count as f32 + 1.0) * 1.01
}

impl Models {
    /// Opens a file with the backend and threshold of the settings, or returns the open model if these are the same.
    ///
    /// # Errors
    /// [`OpenError`], which contains the path.
    pub(crate) fn open(&self, path: &Path, config: &CameraConfig) -> Result<Arc<Model>, OpenError> {
        let limits = Limits::default();
        let bytes = nae_onnx::file::read(path, limits.bytes)?;
        let opening = Opening {
            backend: config.backend,
            execution_providers: config.execution_providers.clone(),
            false_positive_rate: config.false_positive_rate,
        };
        if let Some(model) = self.find(&opening, &bytes) {
            return Ok(model);
        }
        let providers = opening.execution_providers.clone();
        let mut builder = Detector::builder().backend(opening.backend).execution_providers(providers);
        if let Some(rate) = opening.false_positive_rate {
            builder = builder.false_positive_rate(rate);
        }
        let file = ModelFile::parse(bytes, &limits)
            .map_err(|error| OpenError::Model { path: path.to_owned(), error: Box::new(error) })?;
        let detector = builder.load(&file, path)?;
        let digest = digest(file.bytes());
        let model = Arc::new(Model {
            detector,
            card: file.card().entries().iter().map(|entry| (entry.name, entry.text.clone())).collect(),
            digest,
            condition: Condition::Day,
            bytes: Arc::new(file.into_bytes()),
        });
        self.lock().push((opening, Arc::downgrade(&model)));
        Ok(model)
    }

    /// The same for a model that was learned or taken here. If it is calibrated on too few frames for the false-positive rate of
    /// the settings, it has the smallest rate that its calibration can give: it is better to watch a camera with that than not
    /// at all.
    ///
    /// # Errors
    /// [`OpenError`], which contains the path.
    pub(crate) fn open_learned(&self, path: &Path, config: &CameraConfig) -> Result<Arc<Model>, OpenError> {
        match self.open(path, config) {
            Err(OpenError::FalsePositiveRate { rate, count, .. }) if rate < smallest_rate(count) => {
                let smallest = smallest_rate(count);
                tracing::warn!(
                    wanted = rate,
                    used = smallest,
                    "a model that was learned here is calibrated on {count} frames, too few for the false-positive rate of the \
                     settings: recalibrate it on more frames"
                );
                self.open(path, &CameraConfig { false_positive_rate: Some(smallest), ..config.clone() })
            }
            opened => opened,
        }
    }

    fn find(&self, opening: &Opening, bytes: &[u8]) -> Option<Arc<Model>> {
        let mut opened = self.lock();
        opened.retain(|(_, model)| model.strong_count() > 0);
        let same = opened.iter().filter(|(other, _)| other == opening);
        same.filter_map(|(_, model)| model.upgrade()).find(|model| *model.bytes == *bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Opening, Weak<Model>)>> {
        // A missing or additional entry does no harm.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a model's file is known by: its CRC-32, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

impl Model {
    /// The same model for a condition, with the detector that has this condition's calibration and threshold.
    pub(crate) fn for_condition(&self, condition: Condition, detector: Detector) -> Self {
        let (card, digest, bytes) = (self.card.clone(), self.digest.clone(), Arc::clone(&self.bytes));
        Self { detector, card, digest, condition, bytes }
    }

    /// The false-positive rate of its threshold.
    pub(crate) fn false_positive_rate(&self) -> Option<f32> {
        self.detector.false_positive_rate()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::config::{Config, Flags};
    use super::*;

    /// A model with another setting, or with other bytes in its file, is another model.
    #[test]
    fn a_file_is_open_once_for_all_cameras_that_have_it() {
        let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/digits");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.nae");
        std::fs::copy(digits.join("digits.nae"), &path).unwrap();
        let variables = [("NAE_INFER_MODEL", path.to_str().unwrap())].map(|(name, text)| (name.into(), text.into()));
        let config = Config::read(&Flags::default(), variables.into_iter()).unwrap().cameras.remove(0);
        let other_rate = CameraConfig { false_positive_rate: Some(0.2), ..config.clone() };
        let models = Models::default();
        let open = |config: &CameraConfig| models.open(&path, config).unwrap();
        let first = open(&config);
        assert!(Arc::ptr_eq(&first, &open(&config)));
        let strict = open(&other_rate);
        assert!(!Arc::ptr_eq(&first, &strict) && strict.detector.threshold() < first.detector.threshold());
        std::fs::copy(digits.join("digits-int8.nae"), &path).unwrap();
        let exchanged = open(&config);
        assert!(!Arc::ptr_eq(&first, &exchanged) && exchanged.digest != first.digest);
        assert!(Arc::ptr_eq(&exchanged, &open(&config)));
        // A model that nobody uses any more is not kept.
        drop((first, strict));
        open(&config);
        assert_eq!(models.lock().len(), 1);
    }

    #[test]
    fn a_learned_model_of_few_frames_has_the_smallest_rate_that_it_can() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/digits/digits.onnx");
        let variables = [("NAE_INFER_MODEL", path.to_str().unwrap())].map(|(name, text)| (name.into(), text.into()));
        let config = Config::read(&Flags::default(), variables.into_iter()).unwrap().cameras.remove(0);
        let with = |rate| CameraConfig { false_positive_rate: Some(rate), ..config.clone() };
        let models = Models::default();
        let count = models.open(&path, &config).unwrap().detector.contract().calibration().unwrap().count();
        let rate = |wanted| models.open_learned(&path, &with(wanted)).unwrap().false_positive_rate().unwrap();
        assert_eq!((rate(0.2), rate(1e-5)), (0.2, smallest_rate(count)));
        // A model of the settings is refused, since their rate is a decision about this model.
        assert!(models.open(&path, &with(1e-5)).is_err());
    }
}
