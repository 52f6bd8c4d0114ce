//! Learning at the camera, for users who have no data except what the camera sees: frames are collected, reviewed and
//! trained on, and the resulting model is tested beside the one in use before it replaces that. Each action is checked
//! against the table in `state`, executed and recorded, so that learning continues after a restart at any moment. This
//! module has the common parts, and the continuation after a restart; the actions are in `frames`, `training` and
//! `models`. They use `collect` and `diverse` (selection of frames), `collection` (frames on disk), `lossless` (frames
//! of which regions hide a part), `archive` (download), `program` (nae-train as a child process) and `shadow` (two
//! models side by side). `keeper` takes a model into use.
//!
//! The camera's thread only calls [`Learn::offer`] and [`Learn::shadow_offer`], which do not wait for a disk or a
//! model.
//!
//! The folder `learn` in the camera's state contains:
//!
//! | | |
//! |---|---|
//! | `state.json` | the [`Record`], written completely and then renamed |
//! | `frames`, `thrown-out` | the collection |
//! | `run`, `new.onnx` | the folder and the model of the current training |
//! | `models/DIGEST.model`, `models/DIGEST.html` | models that are used or may be, and their reports |

mod archive;
mod collect;
mod collection;
mod diverse;
mod frames;
mod lossless;
mod models;
mod program;
mod shadow;
mod state;
mod training;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::Serialize;
use tracing::Span;

use super::config::CameraConfig;
use super::kept_file;
use super::model::Models;
use super::private_folder::private_folder;
use super::regions::Sight;
use collect::Offers;
use collection::{Collection, Counts};
use program::{Training, TrainingStatus};
use shadow::{Shadow, ShadowStatus};

pub(crate) use diverse::APART;
pub(crate) use program::Trainer;
pub(crate) use state::{Action, Collecting, Phase, Record, Refused};

/// The folder and the model of the current training; the latter is also used for an uploaded model until it is checked.
const RUN: &str = "run";
const NEW: &str = "new.onnx";
const TAKEN: &str = "taken.onnx";
/// The maximum size of a report that is shown, in bytes.
const MAX_REPORT: u64 = 64 << 20;
/// The time in the command for training elsewhere if no time was set here, in seconds.
const USUAL_SECONDS: f64 = 600.0;

/// The reason why an action was not executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LearnError {
    /// It is not permitted in this phase.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A prerequisite is missing.
    #[error("{0}")]
    Missing(String),
    /// The uploaded file is not a usable model.
    #[error("{0}")]
    Model(String),
    /// The disk cannot store it.
    #[error("{0}")]
    Disk(String),
}

impl From<io::Error> for LearnError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error.to_string())
    }
}

impl From<nae_onnx::file::FileError> for LearnError {
    fn from(error: nae_onnx::file::FileError) -> Self {
        Self::Disk(error.to_string())
    }
}

/// Learning at one camera.
pub(crate) struct Learn {
    config: CameraConfig,
    folder: PathBuf,
    models: Arc<Models>,
    trainer: Arc<Trainer>,
    sight: Arc<Sight>,
    span: Span,
    collection: Collection,
    inner: Mutex<Inner>,
    /// Permits one action at a time, however long it takes; `inner` is only locked briefly.
    actions: Mutex<()>,
    /// Whether frames are of the condition (day or night) for which a model is learned here.
    holds: AtomicBool,
    /// The number of frames that were skipped while others were processed, since it was last recorded.
    missed: AtomicU64,
    offers: Mutex<Option<Offers>>,
    shadow: Mutex<Option<Shadow>>,
}

struct Inner {
    record: Record,
    /// Changes with every activity, so that one that has ended cannot change the state of the next.
    activity: u64,
    training: Option<Arc<Training>>,
    thread: Option<JoinHandle<()>>,
    saved: Instant,
}

/// The state for clients.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    phase: &'static str,
    /// The actions that are permitted now.
    may: Vec<Action>,
    note: Option<String>,
    seen: u64,
    missed: u64,
    #[serde(flatten)]
    counts: Counts,
    /// The maximum size of the collection, in bytes.
    room: u64,
    collecting: Option<Collecting>,
    /// Whether collecting waits for the condition, day or night, whose frames are to be collected.
    waits: bool,
    /// The time of the training, in seconds.
    seconds: Option<f64>,
    training: Option<TrainingStatus>,
    /// The model that was learned last.
    model: Option<String>,
    /// Whether there is a report of its training.
    report: bool,
    /// The model learned here that is in use; `None` if it is that of the settings, or if there is none.
    in_use: Option<String>,
    /// What a rollback restores, if one is possible.
    back_to: Option<&'static str>,
    shadow: Option<ShadowStatus>,
    /// Whether nae-train is available on this machine.
    nae_train: bool,
    /// The command for training elsewhere.
    command: String,
}

/// The folder of learning in a camera's state folder.
fn folder_in(state: &Path) -> PathBuf {
    state.join("learn")
}

fn record_in(folder: &Path) -> PathBuf {
    folder.join("state.json")
}

/// The file of a model in a folder of learning.
fn model_in(folder: &Path, digest: &str) -> PathBuf {
    folder.join("models").join(format!("{digest}.model"))
}

fn report_in(folder: &Path, digest: &str) -> PathBuf {
    folder.join("models").join(format!("{digest}.html"))
}

/// The model that was learned here and is to be used instead of that of the settings.
pub(crate) fn model_in_use(config: &CameraConfig) -> Option<PathBuf> {
    let folder = folder_in(&config.state);
    // An unreadable file is reported when it is opened properly.
    let record = Record::read(&record_in(&folder)).ok()?;
    Some(model_in(&folder, record.wanted()?))
}

/// The models in a folder of learning.
fn models_in(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("models")).into_iter().flatten().flatten().map(|entry| entry.path());
    let models = files.filter(|path| path.extension().is_some_and(|extension| extension == "model"));
    let digests = models.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
    digests.filter(|digest| state::is_digest(digest)).collect()
}

impl Learn {
    /// Opens the state of learning of a camera, without continuing an activity.
    ///
    /// # Errors
    /// If its folder cannot be listed.
    pub(crate) fn open(
        config: CameraConfig,
        models: Arc<Models>,
        trainer: Arc<Trainer>,
        sight: Arc<Sight>,
        span: Span,
    ) -> io::Result<Self> {
        let folder = folder_in(&config.state);
        let collection = Collection::open(&folder)?;
        let path = record_in(&folder);
        let phase = if collection.counts() == Counts::default() { Phase::Idle } else { Phase::Collected };
        // Frames and models without a record were put here by a user, or the record is damaged: they must not be lost.
        let from_files = Record { phase, found: models_in(&folder), ..Record::default() };
        let record = if path.exists() { Record::read(&path) } else { Ok(from_files.clone()) };
        let record = record.unwrap_or_else(|error| {
            tracing::error!(
                "{error:#}; learning starts again with the collected frames; learned models stay in the folder `models`"
            );
            kept_file::put_aside(&path);
            from_files
        });
        let inner = Inner { record, activity: 0, training: None, thread: None, saved: Instant::now() };
        Ok(Self {
            config,
            folder,
            models,
            trainer,
            sight,
            span,
            collection,
            inner: Mutex::new(inner),
            actions: Mutex::default(),
            holds: AtomicBool::new(true),
            missed: AtomicU64::new(0),
            offers: Mutex::default(),
            shadow: Mutex::default(),
        })
    }

    /// Continues what a stop or a crash interrupted. `in_use` is the file of the model that was opened, if one was.
    pub(crate) fn start(self: &Arc<Self>, in_use: Option<&Path>) {
        let _entered = self.span.enter();
        let is_of_settings = in_use.is_none() || in_use == self.config.model.as_deref();
        if is_of_settings && !self.lock().record.used.is_empty() {
            let instead = if in_use.is_some() { "that of the settings is used" } else { "there is none in use" };
            self.note_down(|record| {
                record.passed_over();
                record.note = Some(format!("the model learned here could not be opened: {instead}"));
            });
        }
        if !is_of_settings && self.lock().record.used.is_empty() {
            self.note_down(|record| {
                record.opened_again();
                record.note = Some("the model learned here could be opened again, and is in use".to_owned());
            });
        }
        let phase = self.lock().record.phase.clone();
        let gone_on = match phase {
            Phase::Idle => self.collection.delete().map_err(LearnError::from),
            Phase::Collecting(settings) => {
                tracing::info!("collecting continues");
                self.are_of_these_regions().and_then(|()| self.start_collecting(settings))
            }
            Phase::Training { seconds, starts } => {
                let phase = Phase::Training { seconds, starts: starts.saturating_add(1) };
                self.change(|record| record.phase = phase).and_then(|()| self.start_training(seconds, true))
            }
            Phase::Shadowing { model } => self.start_shadow(&model),
            Phase::Collected | Phase::Trained { .. } | Phase::Swapped { .. } => Ok(()),
        };
        if let Err(error) = gone_on {
            tracing::error!(%error, "learning does not go on");
            self.note_down(|record| {
                record.phase = match &record.phase {
                    Phase::Shadowing { model } => Phase::Trained { model: model.clone() },
                    Phase::Collecting(_) | Phase::Training { .. } => Phase::Collected,
                    other => other.clone(),
                };
                record.note = Some(format!("it could not go on after a restart: {error}"));
            });
        }
        let _ = std::fs::remove_file(self.folder.join(TAKEN));
        self.tidy();
    }

    /// Interrupts the current activity because the service stops; it continues after the next start.
    pub(crate) fn stop(&self) {
        *lock(&self.offers) = None;
        *lock(&self.shadow) = None;
        let mut inner = self.lock();
        // The end of the activity is not recorded.
        inner.activity += 1;
        if let Some(training) = &inner.training {
            training.cancel();
        }
        let thread = inner.thread.take();
        // If nothing was learned, there is nothing to store.
        if self.folder.exists()
            && let Err(error) = inner.record.write(&record_in(&self.folder))
        {
            tracing::warn!(%error, "how far learning is was not kept");
        }
        drop(inner);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Sets whether new frames are of the condition for which a model is learned here. While they are not, none is
    /// offered, and the time limit of collecting does not count.
    pub(crate) fn holds(&self, holds: bool) {
        self.holds.store(holds, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Prevents other actions until it is dropped.
    pub(crate) fn acting(&self) -> MutexGuard<'_, ()> {
        lock(&self.actions)
    }

    /// Changes the record, on disk first.
    fn change(&self, change: impl FnOnce(&mut Record)) -> Result<(), LearnError> {
        let mut inner = self.lock();
        let mut record = inner.record.clone();
        change(&mut record);
        private_folder(&self.folder)?;
        record.write(&record_in(&self.folder))?;
        inner.record = record;
        inner.activity += 1;
        Ok(())
    }

    /// Changes the record even if the disk cannot store it: the change has already happened, and is determined again
    /// after the next start.
    fn note_down(&self, change: impl FnOnce(&mut Record)) {
        let mut inner = self.lock();
        change(&mut inner.record);
        inner.activity += 1;
        if let Err(error) = inner.record.write(&record_in(&self.folder)) {
            tracing::error!(%error, "the state of learning was not kept");
        }
    }

    /// Like `note_down`, for an activity that ends by itself, unless an action ended it before.
    fn ended(&self, activity: u64, change: impl FnOnce(&mut Record)) {
        let mut inner = self.lock();
        if inner.activity != activity {
            return;
        }
        change(&mut inner.record);
        inner.activity += 1;
        inner.training = None;
        if let Err(error) = inner.record.write(&record_in(&self.folder)) {
            tracing::error!(%error, "the state of learning was not kept");
        }
        self.remove_all_but(&inner.record);
    }

    /// Removes files that no phase needs.
    fn tidy(&self) {
        self.remove_all_but(&self.lock().record);
    }

    fn remove_all_but(&self, record: &Record) {
        let trains = matches!(record.phase, Phase::Training { .. });
        let needed = record.models();
        let files = std::fs::read_dir(self.folder.join("models")).into_iter().flatten().flatten();
        for path in files.map(|entry| entry.path()) {
            let digest = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if !needed.contains(digest) {
                let _ = std::fs::remove_file(&path);
            }
        }
        if !trains {
            let _ = std::fs::remove_dir_all(self.folder.join(RUN));
            let _ = std::fs::remove_file(self.folder.join(NEW));
        }
    }

    /// The state for clients.
    pub(crate) fn status(&self) -> Status {
        let counts = self.collection.counts();
        let inner = self.lock();
        let record = &inner.record;
        let (mut collecting, mut seconds) = (None, None);
        match record.phase {
            Phase::Collecting(settings) => collecting = Some(settings),
            Phase::Training { seconds: given, .. } => seconds = Some(given),
            _ => {}
        }
        let model = record.phase.model().map(str::to_owned);
        Status {
            phase: record.phase.name(),
            may: record.may(),
            note: record.note.clone(),
            seen: record.seen,
            missed: record.missed + self.missed.load(Ordering::Relaxed),
            counts,
            room: self.config.learn_bytes,
            waits: collecting.is_some() && !self.holds.load(Ordering::Relaxed),
            collecting,
            seconds,
            training: inner.training.as_ref().map(|training| training.status()),
            report: model.as_ref().is_some_and(|model| report_in(&self.folder, model).is_file()),
            model,
            in_use: record.used.last().cloned(),
            back_to: self.before(record).map(|before| before.name()),
            shadow: lock(&self.shadow).as_ref().map(Shadow::status),
            nae_train: self.trainer.find().is_some(),
            command: program::by_hand(seconds.unwrap_or(USUAL_SECONDS)),
        }
    }

    /// Ends the current activity, and waits for its end.
    fn end_activity(&self) {
        *lock(&self.offers) = None;
        let mut inner = self.lock();
        if let Some(training) = inner.training.take() {
            training.cancel();
        }
        let thread = inner.thread.take();
        drop(inner);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Locks; after a panic of another holder, the content is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
