//! Learning at the camera, for users who have no data but what it sees: frames are collected, looked through, trained on, and
//! the model that comes of them is watched beside the one in use before it takes over. Here is who does what when: each
//! action is checked against the table of `state`, done, and written down, so that a restart at any moment goes on. The parts are
//! `collect` and `diverse` (which frames), `collection` (frames on disk), `archive` (to take them elsewhere), `training` (the child
//! process) and `shadow` (two models side by side). Not here: making a model the one in use, which is `keeper`'s.
//!
//! The camera's thread calls [`Learn::offer`] and [`Learn::shadow_offer`] only, which wait for no disk and no model.
//!
//! In the folder `learn` of the camera's state:
//!
//! | | |
//! |---|---|
//! | `state.json` | the [`Record`], written whole and then renamed |
//! | `frames`, `thrown-out` | the collection |
//! | `run`, `new.onnx` | of the training that runs |
//! | `models/DIGEST.model`, `models/DIGEST.html` | models that are used or may be, and their reports |

mod archive;
mod collect;
mod collection;
mod diverse;
mod shadow;
mod state;
mod training;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use serde::Serialize;
use tracing::Span;

use super::config::CameraConfig;
use super::history::Slice;
use super::model::{Model, Models};
use collect::{Ending, Offers};
use collection::{Collection, Counts, Listed, private_folder};
use shadow::{Shadow, ShadowStatus};
use training::{Job, Training, TrainingStatus};

pub(crate) use diverse::APART;
pub(crate) use state::{Action, Collecting, Phase, Record, Refused};
pub(crate) use training::Trainer;

/// How often how far collecting is goes to disk.
const SAVE: Duration = Duration::from_secs(10);
/// The folder and the model of the training that runs, and a model that was sent, until it was looked at.
const RUN: &str = "run";
const NEW: &str = "new.onnx";
const TAKEN: &str = "taken.onnx";
/// The largest report that is shown.
const MAX_REPORT: u64 = 64 << 20;
/// The time for a training that the command to run elsewhere shows where none was given here.
const USUAL_SECONDS: f64 = 600.0;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LearnError {
    /// Not in this phase.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Something is missing for it.
    #[error("{0}")]
    Missing(String),
    /// What was sent is no model that can be used.
    #[error("{0}")]
    Model(String),
    /// The disk does not take it.
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
    span: Span,
    collection: Collection,
    inner: Mutex<Inner>,
    /// One action at a time, however long it takes; `inner` is locked for moments only.
    actions: Mutex<()>,
    /// Frames that came while others were looked at, since that was last noted.
    missed: AtomicU64,
    offers: Mutex<Option<Offers>>,
    shadow: Mutex<Option<Shadow>>,
}

struct Inner {
    record: Record,
    /// Changes with every activity, so that one that has ended does not speak for the next.
    activity: u64,
    training: Option<Arc<Training>>,
    thread: Option<JoinHandle<()>>,
    saved: Instant,
}

/// What is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    phase: &'static str,
    /// What can be done now.
    may: Vec<Action>,
    note: Option<String>,
    seen: u64,
    missed: u64,
    #[serde(flatten)]
    counts: Counts,
    /// Bytes that the collection may have.
    room: u64,
    collecting: Option<Collecting>,
    /// Seconds that the training was given.
    seconds: Option<f64>,
    training: Option<TrainingStatus>,
    /// The model that was learned last.
    model: Option<String>,
    /// Whether there is a report of its training.
    report: bool,
    /// The model learned here that is in use; without one, it is that of the settings.
    in_use: Option<String>,
    shadow: Option<ShadowStatus>,
    /// Whether nae-train is on this machine.
    nae_train: bool,
    /// How to train elsewhere.
    command: String,
}

/// Where learning is kept in a camera's folder of the state.
fn folder_in(state: &Path) -> PathBuf {
    state.join("learn")
}

fn record_in(folder: &Path) -> PathBuf {
    folder.join("state.json")
}

/// The file of a model that was learned at a camera with this folder of the state.
fn model_in(folder: &Path, digest: &str) -> PathBuf {
    folder.join("models").join(format!("{digest}.model"))
}

fn report_in(folder: &Path, digest: &str) -> PathBuf {
    folder.join("models").join(format!("{digest}.html"))
}

/// The model that was learned here and is to be used in place of that of the settings.
pub(crate) fn model_in_use(config: &CameraConfig) -> Option<PathBuf> {
    let folder = folder_in(&config.state);
    // A file that cannot be read is spoken of when it is opened for good.
    let record = Record::read(&record_in(&folder)).ok()?;
    Some(model_in(&folder, record.used.last()?))
}

impl Learn {
    /// What a camera has learned so far. Nothing goes on yet.
    ///
    /// # Errors
    /// If its folder cannot be listed.
    pub(crate) fn open(
        config: CameraConfig,
        models: Arc<Models>,
        trainer: Arc<Trainer>,
        span: Span,
    ) -> io::Result<Self> {
        let folder = folder_in(&config.state);
        let collection = Collection::open(&folder)?;
        let path = record_in(&folder);
        let phase = if collection.counts() == Counts::default() { Phase::Idle } else { Phase::Collected };
        // Frames without a record were put here by somebody: they are not to be lost.
        let from_frames = Record { phase, ..Record::default() };
        let record = if path.exists() { Record::read(&path) } else { Ok(from_frames.clone()) };
        let record = record.unwrap_or_else(|error| {
            tracing::error!("{error:#}; learning begins anew with the frames that are there");
            // Kept for whoever wants to look at it.
            let _ = std::fs::rename(&path, path.with_extension("json.damaged"));
            from_frames
        });
        let inner = Inner { record, activity: 0, training: None, thread: None, saved: Instant::now() };
        Ok(Self {
            config,
            folder,
            models,
            trainer,
            span,
            collection,
            inner: Mutex::new(inner),
            actions: Mutex::default(),
            missed: AtomicU64::new(0),
            offers: Mutex::default(),
            shadow: Mutex::default(),
        })
    }

    /// Goes on with what a stop or a kill broke off. `in_use` is the model that was opened.
    pub(crate) fn start(self: &Arc<Self>, in_use: &Path) {
        let _entered = self.span.enter();
        if in_use == self.config.model && !self.lock().record.used.is_empty() {
            self.note_down(|record| {
                record.used.clear();
                if let Phase::Swapped { model } = &record.phase {
                    record.phase = Phase::Trained { model: model.clone() };
                }
                record.note = Some("the model learned here could not be opened: that of the settings is used".into());
            });
        }
        let phase = self.lock().record.phase.clone();
        let gone_on = match phase {
            Phase::Idle => self.collection.delete().map_err(LearnError::from),
            Phase::Collecting(settings) => {
                tracing::info!("collecting goes on");
                self.start_collecting(settings)
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

    /// The service stops: what goes on is broken off, and goes on after the next start.
    pub(crate) fn stop(&self) {
        *lock(&self.offers) = None;
        *lock(&self.shadow) = None;
        let mut inner = self.lock();
        // Whatever ends now says so to nobody.
        inner.activity += 1;
        if let Some(training) = &inner.training {
            training.cancel();
        }
        let thread = inner.thread.take();
        // Where nothing was learned there is nothing to keep.
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Keeps others from acting until it is dropped.
    pub(crate) fn acting(&self) -> MutexGuard<'_, ()> {
        lock(&self.actions)
    }

    /// Changes what is kept, on disk first.
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

    /// Changes what is kept also where the disk does not take it: it is so, and is said again after the next start.
    fn note_down(&self, change: impl FnOnce(&mut Record)) {
        let mut inner = self.lock();
        change(&mut inner.record);
        inner.activity += 1;
        if let Err(error) = inner.record.write(&record_in(&self.folder)) {
            tracing::error!(%error, "the state of learning was not kept");
        }
    }

    /// As `note_down`, for an activity that ends by itself, unless somebody ended it before.
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

    /// Removes what no phase needs.
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

    /// How it is.
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
            collecting,
            seconds,
            training: inner.training.as_ref().map(|training| training.status()),
            report: model.as_ref().is_some_and(|model| report_in(&self.folder, model).is_file()),
            model,
            in_use: record.used.last().cloned(),
            shadow: lock(&self.shadow).as_ref().map(Shadow::status),
            nae_train: self.trainer.find().is_some(),
            command: training::by_hand(seconds.unwrap_or(USUAL_SECONDS)),
        }
    }

    /// A frame of the camera.
    pub(crate) fn offer(&self, frame: &Bytes) {
        if let Some(offers) = &*lock(&self.offers)
            && !offers.offer(frame)
        {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A frame that the model in use has scored.
    pub(crate) fn shadow_offer(&self, frame: &Bytes, taken: Instant, anomaly: bool) {
        if let Some(shadow) = &*lock(&self.shadow) {
            shadow.offer(frame, taken, anomaly);
        }
    }

    /// Takes frames from now on.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn collect(self: &Arc<Self>, settings: Collecting) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Collect)?;
        if self.config.learn_bytes == 0 {
            return Err(LearnError::Missing("no frames may be collected: the setting `learn_room` is 0".into()));
        }
        self.change(|record| {
            if matches!(record.phase, Phase::Idle) {
                (record.seen, record.missed) = (0, 0);
            }
            record.phase = Phase::Collecting(settings);
            record.note = None;
        })?;
        self.missed.store(0, Ordering::Relaxed);
        self.start_collecting(settings)?;
        self.tidy();
        Ok(())
    }

    fn start_collecting(self: &Arc<Self>, settings: Collecting) -> Result<(), LearnError> {
        let (offers, frames) = Offers::new();
        let mut inner = self.lock();
        let (own, activity) = (Arc::clone(self), inner.activity);
        let work = move || {
            let _entered = own.span.enter();
            super::child::lowest_priority();
            let looked = |looked: collect::Looked| own.looked(activity, looked);
            let ending = collect::run(settings, own.config.learn_bytes, &own.collection, &frames, looked);
            *lock(&own.offers) = None;
            let kept = own.collection.counts().kept;
            let note = match ending {
                // Whoever stopped it has said so.
                Ending::Stopped => return,
                Ending::TimeIsUp => format!("the time was up after {kept} frames"),
                Ending::Enough => format!("{kept} frames were collected, as many as were asked for"),
                Ending::NoRoom => {
                    format!(
                        "the room of `learn_room` ({} MiB) was full after {kept} frames",
                        own.config.learn_bytes >> 20
                    )
                }
                Ending::Disk(error) if error.kind() == io::ErrorKind::StorageFull => {
                    format!("the disk was full after {kept} frames")
                }
                Ending::Disk(error) => format!("the disk took no more after {kept} frames: {error}"),
            };
            tracing::info!(note, "collecting has ended");
            own.ended(activity, |record| {
                record.phase = Phase::Collected;
                record.note = Some(note);
            });
        };
        // Before the thread, which takes it away when it ends.
        *lock(&self.offers) = Some(offers);
        inner.thread = Some(thread::Builder::new().name("collect".into()).spawn(work)?);
        Ok(())
    }

    /// Notes how collecting goes on, to disk from time to time; says whether it is to.
    fn looked(&self, activity: u64, looked: collect::Looked) -> bool {
        let mut inner = self.lock();
        if inner.activity != activity {
            return false;
        }
        inner.record.seen += looked.seen;
        inner.record.missed += self.missed.swap(0, Ordering::Relaxed);
        if let Phase::Collecting(settings) = &mut inner.record.phase {
            settings.left = looked.left;
        }
        if inner.saved.elapsed() >= SAVE {
            inner.saved = Instant::now();
            // A full disk is noticed by the next frame.
            let _ = inner.record.write(&record_in(&self.folder));
        }
        true
    }

    /// Ends what goes on, and waits for its end.
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

    /// Takes no more frames.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn stop_collecting(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Stop)?;
        self.change(|record| record.phase = Phase::Collected)?;
        self.end_activity();
        Ok(())
    }

    /// Frames from number `from` on.
    pub(crate) fn frames(&self, from: u32, most: usize) -> Vec<Listed> {
        self.collection.list(from, most)
    }

    /// A frame, as a file.
    pub(crate) fn frame(&self, number: u32) -> Option<Bytes> {
        Some(std::fs::read(self.collection.file(number)?).ok()?.into())
    }

    /// Throws frames out of the collection, or brings them back.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn throw_out(&self, numbers: &[u32], thrown_out: bool) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(if thrown_out { Action::ThrowOut } else { Action::BringBack })?;
        Ok(self.collection.throw_out(numbers, thrown_out)?)
    }

    /// Forgets the frames, and the model that is not in use.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn delete(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Delete)?;
        // First of all: after a kill, the rest is done by the next start.
        self.change(|record| *record = Record { used: record.used.clone(), ..Record::default() })?;
        self.collection.delete()?;
        self.tidy();
        Ok(())
    }

    /// Sends the frames as a tar file. To be called where blocking is allowed.
    pub(crate) fn send_frames(
        &self,
        pieces: tokio::sync::mpsc::Sender<io::Result<Bytes>>,
        runtime: &tokio::runtime::Handle,
    ) {
        if let Err(error) = archive::send(&self.collection, pieces.clone(), runtime) {
            tracing::warn!(%error, "a download of frames broke off");
            // The client is to notice that it has not all.
            let _ = pieces.try_send(Err(error));
        }
    }

    /// Trains on what is in the collection.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn train(self: &Arc<Self>, seconds: f64) -> Result<(), LearnError> {
        let _acting = self.acting();
        let before = self.lock().record.clone();
        before.check(Action::Train)?;
        if self.collection.counts().kept == 0 {
            return Err(LearnError::Missing("there are no frames to train on: collect some".into()));
        }
        self.change(|record| {
            record.phase = Phase::Training { seconds, starts: 1 };
            record.note = None;
        })?;
        if let Err(error) = self.start_training(seconds, false) {
            self.change(|record| *record = before)?;
            return Err(error);
        }
        self.tidy();
        Ok(())
    }

    fn start_training(self: &Arc<Self>, seconds: f64, go_on: bool) -> Result<(), LearnError> {
        let program = self.trainer.find().ok_or_else(|| {
            LearnError::Missing(format!(
                "the program `{}` (setting `nae_train`) is not on this machine: download the frames, train elsewhere by `{}`, and \
                 bring the model by take-model",
                self.trainer.program().display(),
                training::by_hand(seconds)
            ))
        })?;
        let claim = self.trainer.claim(&self.config.name).map_err(|other| {
            LearnError::Missing(format!("the camera {other} is training, and one does at a time: wait for it"))
        })?;
        let job = Job {
            frames: self.collection.folder().to_owned(),
            run: self.folder.join(RUN),
            model: self.folder.join(NEW),
            seconds,
            go_on,
        };
        let training = Arc::new(Training::new());
        let mut inner = self.lock();
        let (own, activity, running) = (Arc::clone(self), inner.activity, Arc::clone(&training));
        let work = move || {
            let _entered = own.span.enter();
            tracing::info!(seconds, go_on, "training");
            let trained = match running.run(&program, &job) {
                Ok(()) => own.take(&job.model, Some(&job.run.join("report.html"))).map_err(|error| error.to_string()),
                // Whoever cancelled it has said so.
                Err(None) => return,
                Err(Some(reason)) => Err(reason),
            };
            // Whoever sees that it has ended may train again.
            drop(claim);
            own.ended(activity, |record| match trained {
                Ok(model) => {
                    tracing::info!(model, "trained");
                    record.phase = Phase::Trained { model };
                }
                Err(reason) => {
                    tracing::error!(reason, "training failed");
                    record.phase = Phase::Collected;
                    record.note = Some(format!("training failed: {reason}"));
                }
            });
        };
        inner.thread = Some(thread::Builder::new().name("training".into()).spawn(work)?);
        inner.training = Some(training);
        Ok(())
    }

    /// Trains no more.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn cancel(&self) -> Result<(), LearnError> {
        let _acting = self.acting();
        self.lock().record.check(Action::Cancel)?;
        self.change(|record| {
            record.phase = Phase::Collected;
            record.note = Some("training was cancelled".into());
        })?;
        self.end_activity();
        self.tidy();
        Ok(())
    }

    /// Puts a model file that can be used, and a report of it, among those learned here.
    fn take(&self, file: &Path, report: Option<&Path>) -> Result<String, LearnError> {
        let model = self.open_model(file)?;
        private_folder(&self.folder.join("models"))?;
        nae_onnx::file::write(model_in(&self.folder, &model.digest), &model.bytes)?;
        if let Some(report) = report
            && let Ok(bytes) = nae_onnx::file::read(report, MAX_REPORT)
        {
            nae_onnx::file::write(report_in(&self.folder, &model.digest), &bytes)?;
        }
        Ok(model.digest.clone())
    }

    fn open_model(&self, path: &Path) -> Result<Arc<Model>, LearnError> {
        let model = self.models.open(path, &self.config).map_err(|error| LearnError::Model(error.to_string()))?;
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
        self.change(|record| {
            record.phase = Phase::Trained { model };
            record.note = None;
        })?;
        self.tidy();
        Ok(())
    }

    /// The report of the model that was learned last.
    pub(crate) fn report(&self) -> Option<Vec<u8>> {
        let model = self.lock().record.phase.model()?.to_owned();
        nae_onnx::file::read(report_in(&self.folder, &model), MAX_REPORT).ok()
    }

    /// Has the new model score beside the one in use.
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

    fn start_shadow(&self, model: &str) -> Result<(), LearnError> {
        let model = self.open_model(&model_in(&self.folder, model))?;
        *lock(&self.shadow) = Some(Shadow::start(model)?);
        Ok(())
    }

    /// Has it do so no more.
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

    /// Energies of the model that scores beside, of the past `span`, in at most `most` slices.
    pub(crate) fn shadow_slices(&self, span: Duration, most: usize) -> Vec<Slice> {
        lock(&self.shadow).as_ref().map(|shadow| shadow.slices(span, most)).unwrap_or_default()
    }

    /// The model learned last, where this may be done with it.
    fn learned(&self, action: Action) -> Result<String, LearnError> {
        let inner = self.lock();
        inner.record.check(action)?;
        // No phase without one allows these actions.
        let missing = || LearnError::Missing("there is no model yet".into());
        inner.record.phase.model().map(str::to_owned).ok_or_else(missing)
    }

    /// The model to make the one in use, and its file.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn to_swap(&self) -> Result<(String, PathBuf), LearnError> {
        let model = self.learned(Action::Swap)?;
        let file = model_in(&self.folder, &model);
        Ok((model, file))
    }

    /// That model is about to be the one in use.
    ///
    /// # Errors
    /// [`LearnError`]: it cannot be kept.
    pub(crate) fn swapped(&self, model: String) -> Result<(), LearnError> {
        self.change(|record| {
            record.swapped(model);
            record.note = None;
        })?;
        *lock(&self.shadow) = None;
        self.tidy();
        Ok(())
    }

    /// The file of the model before the one in use.
    ///
    /// # Errors
    /// [`LearnError`].
    pub(crate) fn to_roll_back(&self) -> Result<PathBuf, LearnError> {
        let inner = self.lock();
        inner.record.check(Action::RollBack)?;
        Ok(match inner.record.used.as_slice() {
            [.., before, _] => model_in(&self.folder, before),
            _ => self.config.model.clone(),
        })
    }

    /// That model is about to be the one in use.
    ///
    /// # Errors
    /// [`LearnError`]: it cannot be kept.
    pub(crate) fn rolled_back(&self) -> Result<(), LearnError> {
        // What is learned meanwhile goes on.
        let mut inner = self.lock();
        let mut record = inner.record.clone();
        record.rolled_back();
        record.write(&record_in(&self.folder))?;
        inner.record = record;
        drop(inner);
        self.tidy();
        Ok(())
    }

    /// The new model failed on a frame soon after it took over, and the one before is in use again.
    pub(crate) fn taken_back(&self, reason: &str) {
        let mut inner = self.lock();
        if inner.record.used.is_empty() {
            return;
        }
        inner.record.rolled_back();
        inner.record.note = Some(format!("the new model failed, and the one before is in use again: {reason}"));
        if let Err(error) = inner.record.write(&record_in(&self.folder)) {
            tracing::error!(%error, "the state of learning was not kept");
        }
    }
}

/// Whatever panicked while it held one of these, what is in it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
