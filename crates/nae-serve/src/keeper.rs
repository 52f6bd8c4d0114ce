//! Changes that people make to the model of a condition (day or night), if there is one: another false-positive rate or
//! a recalibration on recent frames, both kept with their history and undone one by one; or another network, which is
//! tested on recent frames before it is taken into use, and is replaced by the previous one if it then fails.

mod opening;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use jiff::Timestamp;
use nae_core::calibration::{Calibration, CalibrationError, Spacing};
use nae_infer::input::decode;
use nae_infer::{Detector, OpenError};
use serde::{Deserialize, Serialize};

use super::config::CameraConfig;
use super::day_night::Condition;
use super::in_use::InUse;
use super::kept_file;
use super::model::{Model, Models, NoModel, smallest_rate};
use super::monitor::{Monitor, Recent};
use super::regions::{Applied, Sight};
use opening::last_good;
pub(crate) use opening::{Opened, open};

/// The number of frames after an exchange during which a failure restores the previous model.
const PROBATION: u32 = 100;
/// The minimum number of normal frames on which a new model's verdicts are compared.
const FEWEST_NORMAL: usize = 8;
/// The minimum number of frames for a recalibration.
const FEWEST_ENERGIES: usize = 50;
/// The maximum size of the file of adjustments, in bytes: several times the size of a hundred adjustments with a
/// calibration each.
const MAX_FILE: u64 = 16 << 20;
/// The number of adjustments that are kept for a model.
const MOST: usize = 100;

/// One change of threshold or calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Adjustment {
    pub(crate) time: String,
    /// The digest of the model that it applies to.
    pub(crate) model: String,
    pub(crate) change: Change,
    /// Whether it was undone.
    #[serde(default)]
    pub(crate) undone: bool,
}

/// The kinds of changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// A threshold for another false-positive rate.
    FalsePositiveRate(f32),
    /// A calibration on the energies of frames that a person called normal.
    Calibration {
        count: usize,
        /// Missing in files of earlier versions.
        #[serde(default = "even")]
        spacing: Spacing,
        table: Vec<f32>,
        false_positive_rate: f32,
    },
}

const fn even() -> Spacing {
    Spacing::Even
}

/// The reason why a change was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// There is no model to change.
    #[error(transparent)]
    NoModel(#[from] NoModel),
    /// The model has no calibration from which to compute another threshold.
    #[error("the model is not calibrated: recalibrate it on normal frames first")]
    NoCalibration,
    /// There are too few frames.
    #[error("{found} frames in this span, at least {FEWEST_ENERGIES} are needed")]
    TooFew { found: usize },
    /// The calibration cannot give a threshold for the requested rate.
    #[error("false-positive rate: {0}")]
    Calibration(CalibrationError),
    /// There is no change to undo.
    #[error("there is no change to undo")]
    NothingToUndo,
    /// Regions cannot be changed while frames are collected: all collected frames must have the same regions.
    #[error("frames are being collected by these regions: stop that first (`/api/learn/stop`)")]
    Collecting,
    /// The change was made, but could not be stored.
    #[error("the change holds until the service stops, for it cannot be kept: {0}")]
    Kept(nae_onnx::file::FileError),
    /// The new model cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new model fails on a recent frame.
    #[error("the new model fails on a recent frame: {0}; it is not taken")]
    Fails(String),
    /// The new model calls most of the recent normal frames anomalies.
    #[error(
        "the new model calls {anomalies} of {normal} recent normal frames anomalies; the old one stays. If that is \
         meant, say so (`anyway` where it was learned here), or restart the service with it"
    )]
    Disagrees { anomalies: usize, normal: usize },
    /// The model was exchanged while its file was opened again.
    #[error("the model in use was exchanged meanwhile, and its file is another now; reload again")]
    Exchanged,
    /// The new model did not finish in time.
    #[error("the new model does not come to an end on recent frames; the old one stays")]
    Hangs,
}

impl From<CalibrationError> for ChangeError {
    fn from(error: CalibrationError) -> Self {
        Self::Calibration(error)
    }
}

impl From<nae_onnx::file::FileError> for ChangeError {
    fn from(error: nae_onnx::file::FileError) -> Self {
        Self::Kept(error)
    }
}

/// Changes the model of a condition, and keeps the history of changes. [`InUse`] determines whether that model is in
/// use.
pub(crate) struct Keeper {
    config: CameraConfig,
    models: Arc<Models>,
    /// The condition of the model.
    condition: Condition,
    in_use: Arc<InUse>,
    monitor: Arc<Monitor>,
    sight: Arc<Sight>,
    state: Mutex<State>,
    /// The file of adjustments. Locked while it is written, so that the last state is in it; frames do not wait for the
    /// disk.
    file: Mutex<PathBuf>,
}

struct State {
    /// The model as it is in its file, without adjustments, and the file; `None` if there is no model.
    base: Option<Opened>,
    adjustments: Vec<Adjustment>,
    /// The model in use before the last exchange, and the number of frames until it is dropped.
    previous: Option<(Option<Opened>, u32)>,
}

impl State {
    /// The digest by which adjustments refer to the model.
    fn digest(&self) -> Result<&str, NoModel> {
        self.base.as_ref().map(|base| base.model.digest.as_str()).ok_or(NoModel)
    }
}

impl Keeper {
    /// Applies the stored adjustments to `base`. A file of them that cannot be read is renamed: it is better to watch a
    /// camera with the model's own threshold than not at all.
    pub(crate) fn start(
        config: CameraConfig,
        models: Arc<Models>,
        base: Option<Opened>,
        condition: Condition,
        in_use: Arc<InUse>,
        monitor: Arc<Monitor>,
        sight: Arc<Sight>,
    ) -> Self {
        let file = config.state.join("adjustments.json");
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| error.to_string());
        let adjustments = kept_file::read(&file, MAX_FILE, "changes of threshold and calibration", parse);
        let adjustments = adjustments.unwrap_or_else(|error| {
            tracing::error!(error, "the changes that were made are not known: the model's own threshold is used");
            kept_file::put_aside(&file);
            None
        });
        let state = State { base, adjustments: adjustments.unwrap_or_default(), previous: None };
        let (state, file) = (Mutex::new(state), Mutex::new(file));
        let this = Self { config, models, condition, in_use, monitor, sight, state, file };
        this.tell_adjustments();
        this.apply(&this.lock(), false);
        this.remember_good();
        this
    }

    /// Logs that changes are in force: whoever has changed the settings since would look for their effect.
    fn tell_adjustments(&self) {
        let state = self.lock();
        let Ok(model) = state.digest() else { return };
        let in_force = state.adjustments.iter().filter(|a| a.model == model && !a.undone).count();
        if in_force > 0 {
            tracing::info!(
                of = %self.condition,
                changes = in_force,
                "threshold and calibration are those that were set on the page or by HTTP, whatever the settings say; \
                 /api/undo undoes the last change"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, PathBuf> {
        // The path does not change.
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stored adjustments, at most a hundred of each model, the oldest first.
    pub(crate) fn adjustments(&self) -> Vec<Adjustment> {
        self.lock().adjustments.clone()
    }

    /// Sets the threshold for another false-positive rate.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub(crate) fn set_rate(&self, rate: f32) -> Result<(), ChangeError> {
        let model = self.model().ok_or(NoModel)?;
        let calibration = model.detector.contract().calibration().cloned();
        calibration.ok_or(ChangeError::NoCalibration)?.threshold(rate)?;
        self.add(Change::FalsePositiveRate(rate), &model.digest)
    }

    /// Calibrates on the frames between `from` and `to` seconds ago, which a person says are normal.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub(crate) fn recalibrate(&self, from: f64, to: f64) -> Result<(), ChangeError> {
        let model = self.model().ok_or(NoModel)?;
        let mut energies = self.monitor.energies(self.condition, from, to);
        let found = energies.len();
        if found < FEWEST_ENERGIES {
            return Err(ChangeError::TooFew { found });
        }
        let calibration = Calibration::from_energies(&mut energies)?;
        // Few frames cannot give the threshold of a small rate; in that case, the smallest possible rate is used.
        let rate = self.wanted_rate(&model.digest).max(smallest_rate(found));
        calibration.threshold(rate)?;
        let change = Change::Calibration {
            count: calibration.count(),
            spacing: calibration.spacing(),
            table: calibration.table().to_vec(),
            false_positive_rate: rate,
        };
        self.add(change, &model.digest)
    }

    /// The false-positive rate that was asked for: an earlier calibration on few frames may have a larger one.
    fn wanted_rate(&self, model: &str) -> f32 {
        let state = self.lock();
        let set = state.adjustments.iter().rev().find_map(|adjustment| match adjustment.change {
            Change::FalsePositiveRate(rate) if adjustment.model == model && !adjustment.undone => Some(rate),
            _ => None,
        });
        let of_base = || state.base.as_ref().and_then(|base| base.model.false_positive_rate());
        set.or(self.config.false_positive_rate).or_else(of_base).unwrap_or(0.01)
    }

    /// Adds a change that was computed for the model with the digest `of`.
    fn add(&self, change: Change, of: &str) -> Result<(), ChangeError> {
        self.adjust(|adjustments, model| {
            // Another request may have exchanged the model meanwhile, or a failure on a frame.
            if model != of {
                return Err(ChangeError::Exchanged);
            }
            make_room(adjustments, &model);
            adjustments.push(Adjustment { time: Timestamp::now().to_string(), model, change, undone: false });
            Ok(())
        })
    }

    /// Undoes the last change to this model that is in force.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub(crate) fn undo(&self) -> Result<(), ChangeError> {
        self.adjust(|adjustments, model| {
            let last = adjustments.iter_mut().rfind(|a| a.model == model && !a.undone);
            last.ok_or(ChangeError::NothingToUndo)?.undone = true;
            Ok(())
        })
    }

    /// Changes the adjustments, for the model in use with this digest, applies them, and stores them.
    fn adjust(
        &self,
        change: impl FnOnce(&mut Vec<Adjustment>, String) -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        let file = self.file();
        {
            let mut state = self.lock();
            let model = state.digest()?.to_owned();
            change(&mut state.adjustments, model)?;
            self.apply(&state, false);
        }
        self.write(&file)
    }

    /// Stores the adjustments in the locked file.
    fn write(&self, file: &Path) -> Result<(), ChangeError> {
        // Cannot fail: the adjustments consist of texts and finite numbers.
        let text = serde_json::to_vec_pretty(&self.adjustments()).unwrap_or_default();
        Ok(nae_onnx::file::write(file, &text)?)
    }

    /// Makes the base with its adjustments the model of this condition, or none if there is no base.
    fn apply(&self, state: &State, other_network: bool) {
        let model = state.base.as_ref().map(|base| self.with_adjustments(&base.model, &state.adjustments));
        self.in_use.put(self.condition, model, other_network);
    }

    /// The model with its adjustments, even if that of the other condition is in use.
    fn model(&self) -> Option<Arc<Model>> {
        self.in_use.of(self.condition)
    }

    fn with_adjustments(&self, base: &Model, adjustments: &[Adjustment]) -> Arc<Model> {
        let mine = adjustments.iter().filter(|a| a.model == base.digest && !a.undone);
        let detector = mine.fold(base.detector.clone(), |detector, adjustment| {
            adjusted(&detector, &adjustment.change).unwrap_or_else(|error| {
                tracing::warn!(%error, time = adjustment.time, "an adjustment is left out");
                detector
            })
        });
        Arc::new(base.for_condition(self.condition, detector))
    }

    /// Opens the model's file again, tests the model on recent frames, and takes it into use.
    ///
    /// # Errors
    /// [`ChangeError`]; the model in use stays.
    pub(crate) fn reload(&self) -> Result<(), ChangeError> {
        let of_base = path_of(self.lock().base.as_ref());
        // A model of the night that could not be opened at the start may be available now.
        let path = of_base.clone().or_else(|| self.config.model.clone()).ok_or(NoModel)?;
        let new = self.fit(path, true)?;
        let state = self.lock();
        // A failure on a frame may have restored the previous model meanwhile.
        if path_of(state.base.as_ref()) != of_base {
            return Err(ChangeError::Exchanged);
        }
        // The model of an unchanged file is the one in use: its alarm and energies stay, and the model before is still the one to
        // return to.
        if state.base.as_ref().is_some_and(|base| Arc::ptr_eq(&base.model, &new.model)) {
            tracing::info!(model = new.model.digest, of = %self.condition, "the model's file is unchanged");
            return Ok(());
        }
        self.put(state, Some(new), true);
        Ok(())
    }

    /// Opens a model and tests it on recent frames. If `agrees` is set, the test also fails if the model calls most of
    /// the normal ones anomalies.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub(crate) fn fit(&self, path: PathBuf, agrees: bool) -> Result<Opened, ChangeError> {
        let is_of_settings = self.config.model.as_ref() == Some(&path);
        let model = if is_of_settings {
            self.models.open(&path, &self.config)?
        } else {
            self.models.open_learned(&path, &self.config)?
        };
        match self.try_on(&model, self.monitor.recent(self.condition)) {
            Err(ChangeError::Disagrees { .. }) if !agrees => {}
            tried => tried?,
        }
        Ok(Opened { model, path })
    }

    /// Makes `new` the model of this condition, and keeps the previous one in case the new one fails.
    pub(crate) fn exchange(&self, new: Opened) {
        self.put(self.lock(), Some(new), true);
    }

    /// Restores a model that was in use before, or no model if there was none. The replaced model is not restored
    /// automatically.
    pub(crate) fn go_back(&self, before: Option<Opened>) {
        self.put(self.lock(), before, false);
    }

    fn put(&self, mut state: MutexGuard<'_, State>, new: Option<Opened>, on_probation: bool) {
        let old = std::mem::replace(&mut state.base, new);
        state.previous = on_probation.then_some((old, PROBATION));
        self.apply(&state, true);
        match state.digest() {
            Ok(model) => tracing::info!(model, of = %self.condition, "another model was taken"),
            Err(NoModel) if self.condition == Condition::Day => {
                tracing::warn!("no model is in use any more: nothing is scored, and no alarm raised");
            }
            Err(NoModel) => tracing::warn!("there is no model for the night any more: that of the day is used"),
        }
        drop(state);
        self.remember_good();
    }

    /// Scores recent frames with a new model, in a separate thread since it may hang.
    fn try_on(&self, new: &Arc<Model>, recent: Vec<Recent>) -> Result<(), ChangeError> {
        let (sender, result) = channel();
        // The total of the limits for each frame.
        let limit = self.config.score_timeout.saturating_mul(recent.len().max(1) as u32);
        let (new, regions) = (Arc::clone(new), self.sight.applied());
        let work = move || {
            // The receiver waits, or has stopped waiting.
            let _ = sender.send(verdicts(&new.detector, &regions, &recent));
        };
        thread::Builder::new().name("new model".into()).spawn(work).map_err(|e| ChangeError::Fails(e.to_string()))?;
        let (anomalies, normal) = match result.recv_timeout(limit) {
            Ok(verdicts) => verdicts.map_err(ChangeError::Fails)?,
            Err(RecvTimeoutError::Timeout) => return Err(ChangeError::Hangs),
            Err(RecvTimeoutError::Disconnected) => return Err(ChangeError::Fails("it panicked".into())),
        };
        if 2 * anomalies > normal {
            if normal >= FEWEST_NORMAL {
                return Err(ChangeError::Disagrees { anomalies, normal });
            }
            tracing::warn!("the new model calls {anomalies} of {normal} recent normal frames anomalies");
        }
        Ok(())
    }

    /// Records that the model with the digest `by` scored a frame, or failed on it. A failure soon after an exchange
    /// restores the previous model. Returns whether the restored model is of another file. A frame that was processed
    /// during the exchange does not count for the new model.
    pub(crate) fn scored(&self, by: &str, failure: Option<&str>) -> bool {
        let mut state = self.lock();
        if state.base.as_ref().is_none_or(|base| base.model.digest != by) {
            return false;
        }
        let Some((previous, left)) = state.previous.take() else { return false };
        match failure {
            Some(reason) => {
                match &previous {
                    Some(_) => tracing::error!(reason, "the new model fails: the old one is in use again"),
                    None => tracing::error!(reason, "the new model fails: none is in use, as before"),
                }
                let failed = std::mem::replace(&mut state.base, previous);
                self.apply(&state, true);
                let other_file = path_of(failed.as_ref()) != path_of(state.base.as_ref());
                drop(state);
                self.remember_good();
                return other_file;
            }
            None if left > 1 => state.previous = Some((previous, left - 1)),
            None => {}
        }
        false
    }

    /// Stores a copy of the model, in case its file is damaged at the next start.
    fn remember_good(&self) {
        let Some(base) = self.lock().base.clone() else { return };
        // A learned model is in the service's own folder already.
        if self.config.model.as_ref() != Some(&base.path) {
            return;
        }
        let path = last_good(&self.config, &base.path);
        let bytes = Arc::clone(&base.model.bytes);
        if std::fs::read(&path).is_ok_and(|kept| kept == *bytes) {
            return;
        }
        if let Err(error) = nae_onnx::file::write(path, &bytes) {
            tracing::warn!(%error, "no copy of the model is kept");
        }
    }
}

fn path_of(opened: Option<&Opened>) -> Option<PathBuf> {
    opened.map(|opened| opened.path.clone())
}

/// Removes adjustments of a model until there is room for one more: undone ones first, then the oldest, but never the
/// last calibration in force. The threshold therefore does not change: rates refer to the last calibration.
fn make_room(adjustments: &mut Vec<Adjustment>, model: &str) {
    let is_mine = |a: &Adjustment| a.model == model;
    while adjustments.iter().filter(|a| is_mine(a)).count() >= MOST {
        let is_calibration = |a: &Adjustment| matches!(a.change, Change::Calibration { .. });
        let last = adjustments.iter().rposition(|a| is_mine(a) && !a.undone && is_calibration(a));
        let undone = adjustments.iter().position(|a| is_mine(a) && a.undone);
        let replaced = || (0..adjustments.len()).find(|&at| is_mine(&adjustments[at]) && Some(at) != last);
        let Some(at) = undone.or_else(replaced) else { return };
        adjustments.remove(at);
    }
}

fn adjusted(detector: &Detector, change: &Change) -> Result<Detector, ChangeError> {
    Ok(match change {
        Change::FalsePositiveRate(rate) => {
            let calibration = detector.contract().calibration().cloned().ok_or(ChangeError::NoCalibration)?;
            detector.recalibrated(calibration, *rate)?
        }
        Change::Calibration { count, spacing, table, false_positive_rate } => {
            detector.recalibrated(Calibration::from_table(*count, *spacing, table)?, *false_positive_rate)?
        }
    })
}

/// The number of normal frames that `detector` calls anomalies, and the number of normal frames.
fn verdicts(detector: &Detector, regions: &Applied, recent: &[Recent]) -> Result<(usize, usize), String> {
    let (mut anomalies, mut normal) = (0, 0);
    for frame in recent {
        // A damaged frame says nothing about the model. Without a model, frames are remembered without being decoded.
        let Some(seen) = decode(&frame.image).ok().and_then(|pixels| regions.look(pixels).ok()) else { continue };
        let scored = seen.score(detector).map_err(|e| e.to_string())?;
        if frame.normal {
            normal += 1;
            anomalies += usize::from(scored.verdict.is_some_and(|v| v.is_anomaly()));
        }
    }
    Ok((anomalies, normal))
}

#[cfg(test)]
mod tests;
