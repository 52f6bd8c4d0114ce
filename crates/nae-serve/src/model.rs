//! The model in use, if there is one: opened from its file, exchanged while the service runs, adjusted by people. Cameras with the
//! same file share its network. Whether a new one is fit to take over is decided in [`keeper`](super::keeper).

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
    /// What it says about itself.
    pub(crate) card: Vec<(&'static str, String)>,
    /// CRC-32 of the file, by which adjustments know their model.
    pub(crate) digest: String,
    /// Which of a camera's two models it is. One of a file alone is of any.
    pub(crate) condition: Condition,
    /// The file.
    pub(crate) bytes: Arc<Vec<u8>>,
}

/// The model in use, for any number of threads; none until a camera whose settings name none has learned one.
pub(crate) type Current = ArcSwapOption<Model>;

/// Something was asked of a camera that has no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no model yet: learn one here (the page has \"Learn here\", programs have /api/learn), or start the service with --model FILE"
)]
pub(crate) struct NoModel;

/// The models that are open, to be shared by cameras.
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

impl Models {
    /// Opens a file with the backend and threshold of the settings. One that is open with the same is given again.
    ///
    /// # Errors
    /// [`OpenError`] names the file.
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
        let digest = format!("{:08x}", crc32fast::hash(file.bytes()));
        let model = Arc::new(Model {
            detector,
            card: file.card(),
            digest,
            condition: Condition::Day,
            bytes: Arc::new(file.into_bytes()),
        });
        self.lock().push((opening, Arc::downgrade(&model)));
        Ok(model)
    }

    fn find(&self, opening: &Opening, bytes: &[u8]) -> Option<Arc<Model>> {
        let mut opened = self.lock();
        opened.retain(|(_, model)| model.strong_count() > 0);
        let same = opened.iter().filter(|(other, _)| other == opening);
        same.filter_map(|(_, model)| model.upgrade()).find(|model| *model.bytes == *bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Opening, Weak<Model>)>> {
        // An entry more or less is no harm.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model {
    /// The same for a condition, with the calibration or threshold that it has there.
    pub(crate) fn for_condition(&self, condition: Condition, detector: Detector) -> Self {
        let (card, digest, bytes) = (self.card.clone(), self.digest.clone(), Arc::clone(&self.bytes));
        Self { detector, card, digest, condition, bytes }
    }

    /// The false-positive rate its threshold is for.
    pub(crate) fn false_positive_rate(&self) -> Option<f32> {
        self.detector.false_positive_rate()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::config::{Config, Flags};
    use super::*;

    /// What differs by a setting, or by the bytes of the file, is another model.
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
        // What nobody has any more is not kept.
        drop((first, strict));
        open(&config);
        assert_eq!(models.lock().len(), 1);
    }
}
