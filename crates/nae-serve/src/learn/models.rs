//! Actions on a model that was learned or uploaded: testing it beside the one in use, if there is one, taking it into
//! use, and rolling back, as far as these are recorded. `keeper` exchanges models.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;

use super::super::history::Slice;
use super::super::model::{Model, digest};
use super::super::private_folder::private_folder;
use super::super::regions::Applied;
use super::collection::Counts;
use super::shadow::Shadow;
use super::{Action, Learn, LearnError, MAX_REPORT, Phase, Record, TAKEN, lock, model_in, record_in, report_in};

/// What was in use before a model that was learned here.
pub(super) enum Before {
    /// Another model that was learned here.
    Learned(PathBuf),
    OfSettings(PathBuf),
    /// No model: the settings name none.
    Nothing,
}

impl Before {
    /// Its name, one word.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Learned(_) => "learned",
            Self::OfSettings(_) => "settings",
            Self::Nothing => "nothing",
        }
    }

    fn into_file(self) -> Option<PathBuf> {
        match self {
            Self::Learned(file) | Self::OfSettings(file) => Some(file),
            Self::Nothing => None,
        }
    }
}

impl Learn {
    /// Offers a frame to the tested model, with whether the model in use calls it an anomaly; `None` if no model is in
    /// use.
    pub(crate) fn shadow_offer(&self, frame: &Bytes, regions: &Arc<Applied>, taken: Instant, anomaly: Option<bool>) {
        if let Some(shadow) = &*lock(&self.shadow) {
            shadow.offer(frame, regions, taken, anomaly);
        }
    }

    /// Adds a usable model file, and its report, to those learned here.
    pub(super) fn take(&self, file: &Path, report: Option<&Path>) -> Result<String, LearnError> {
        let model = self.open_model(file)?;
        private_folder(&self.folder.join("models"))?;
        let kept = model_in(&self.folder, &model.digest);
        // The digest is a checksum of 32 bits, so that another model with the same can be made. A damaged file has another.
        let is_another = |bytes: Vec<u8>| bytes[..] != model.bytes[..] && digest(&bytes) == model.digest;
        if std::fs::read(&kept).is_ok_and(is_another) {
            return Err(LearnError::Model(format!(
                "it has the checksum {} of another model that is kept here, and models are known by their checksums: train it again",
                model.digest
            )));
        }
        nae_onnx::file::write(kept, &model.bytes)?;
        if let Some(report) = report
            && let Ok(bytes) = nae_onnx::file::read(report, MAX_REPORT)
        {
            nae_onnx::file::write(report_in(&self.folder, &model.digest), &bytes)?;
        }
        Ok(model.digest.clone())
    }

    fn open_model(&self, path: &Path) -> Result<Arc<Model>, LearnError> {
        let model =
            self.models.open_learned(path, &self.config).map_err(|error| LearnError::Model(error.to_string()))?;
        if model.detector.settings().columns.is_some() {
            return Err(LearnError::Model("this is a model of tables; the service takes images".into()));
        }
        Ok(model)
    }

    /// Takes a model that was trained elsewhere.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn take_model(&self, bytes: &[u8]) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::TakeModel)?;
        private_folder(&self.folder)?;
        let file = self.folder.join(TAKEN);
        nae_onnx::file::write(&file, bytes)?;
        let model = self.take(&file, None);
        let _ = std::fs::remove_file(&file);
        let model = model?;
        // If there are no frames here, it was trained on others.
        let of_frames = self.collection.counts() != Counts::default();
        self.change(|record| {
            record.trained(model, of_frames);
            record.note = None;
        })?;
        self.tidy();
        Ok(())
    }

    /// The digest of the regions of a model's frames, if it is known.
    pub(crate) fn learned_with(&self, model: &str) -> Option<String> {
        self.lock().record.learned_with.get(model).cloned()
    }

    /// The report of the model that was learned last.
    pub(crate) fn report(&self) -> Option<Vec<u8>> {
        let model = self.lock().record.phase.model()?.to_owned();
        nae_onnx::file::read(report_in(&self.folder, &model), MAX_REPORT).ok()
    }

    /// Starts to test the new model beside the one in use.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn start_shadowing(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        let model = self.learned(Action::Shadow)?;
        self.start_shadow(&model)?;
        let written = self.change(|record| {
            record.phase = Phase::Shadowing { model };
            record.note = None;
        });
        if written.is_err() {
            *lock(&self.shadow) = None;
        }
        written
    }

    pub(super) fn start_shadow(&self, model: &str) -> Result<(), LearnError> {
        let model = self.open_model(&model_in(&self.folder, model))?;
        *lock(&self.shadow) = Some(Shadow::start(model, self.sight.applied().digest())?);
        Ok(())
    }

    /// Resets the counts and energies of the tested model: with other regions, frames show another picture.
    pub(crate) fn regions_changed(&self, digest: &str) {
        if let Some(shadow) = &*lock(&self.shadow) {
            shadow.begin_anew(digest);
        }
    }

    /// Ends the test.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn end_shadowing(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        let model = self.learned(Action::EndShadow)?;
        self.change(|record| record.phase = Phase::Trained { model })?;
        *lock(&self.shadow) = None;
        Ok(())
    }

    /// The energies of the tested model in the past `span`, in at most `most` slices.
    pub(crate) fn shadow_slices(&self, span: Duration, most: usize) -> Vec<Slice> {
        // Outside the lock, for which the next frame would wait.
        let past = lock(&self.shadow).as_ref().map(|shadow| shadow.past(span));
        past.map(|past| past.slices(most)).unwrap_or_default()
    }

    /// The model learned last, if this action is permitted for it.
    fn learned(&self, action: Action) -> Result<String, LearnError> {
        let inner = self.lock();
        inner.record.check(action)?;
        // Only phases with a model permit these actions.
        let missing = || LearnError::Missing("there is no model yet".into());
        inner.record.phase.model().map(str::to_owned).ok_or_else(missing)
    }

    /// The model to take into use, and its file.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn to_swap(&self) -> Result<(String, PathBuf), LearnError> {
        let model = self.learned(Action::Swap)?;
        let file = model_in(&self.folder, &model);
        Ok((model, file))
    }

    /// Records that the model is about to be taken into use.
    ///
    /// # Errors
    /// [`LearnError`] if that cannot be stored.
    pub(crate) fn swapped(&self, model: String) -> Result<(), LearnError> {
        self.change(|record| {
            record.swapped(model);
            record.note = None;
        })?;
        *lock(&self.shadow) = None;
        self.tidy();
        Ok(())
    }

    /// What was in use before the current model; `None` if the current model was not learned here.
    pub(super) fn before(&self, record: &Record) -> Option<Before> {
        match (record.used.as_slice(), &self.config.model) {
            ([], _) => None,
            ([.., before, _], _) => Some(Before::Learned(model_in(&self.folder, before))),
            ([_], Some(file)) => Some(Before::OfSettings(file.clone())),
            ([_], None) => Some(Before::Nothing),
        }
    }

    /// The file of the model before the one in use; `None` if there was no model.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn to_roll_back(&self) -> Result<Option<PathBuf>, LearnError> {
        let inner = self.lock();
        inner.record.check(Action::RollBack)?;
        Ok(self.before(&inner.record).and_then(Before::into_file))
    }

    /// Records that the previous model is about to be restored.
    ///
    /// # Errors
    /// [`LearnError`] if that cannot be stored.
    pub(crate) fn rolled_back(&self) -> Result<(), LearnError> {
        // The current activity continues.
        let mut inner = self.lock();
        let mut record = inner.record.clone();
        record.rolled_back();
        record.write(&record_in(&self.folder))?;
        let trains = matches!(record.phase, Phase::Training { .. });
        inner.record = record;
        drop(inner);
        // The model of a training that is just ending is kept already, and not recorded yet. The next action tidies.
        if !trains {
            self.tidy();
        }
        Ok(())
    }

    /// Records that the new model failed on a frame soon after the exchange, and that the previous one is in use again.
    pub(crate) fn taken_back(&self, reason: &str) {
        let mut inner = self.lock();
        if inner.record.used.is_empty() {
            return;
        }
        let now = match self.before(&inner.record) {
            Some(Before::Nothing) => "none is in use, as before",
            _ => "the one before is in use again",
        };
        inner.record.rolled_back();
        inner.record.note = Some(format!("the new model failed, and {now}: {reason}"));
        if let Err(error) = inner.record.write(&record_in(&self.folder)) {
            tracing::error!(%error, "the state of learning was not kept");
        }
    }
}
