//! The run folder: `config.toml` with the seed, `metrics.jsonl` with everything measured on the way and an event file
//! with the same for TensorBoard, `checkpoint.safetensors` with the weights to keep so far, `autoencoder.safetensors`
//! with the plain autoencoder's, `resume.bin` to go on from until the run has ended, and `report.md` with
//! `energies.svg` and `report.html` at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::config::Config;
use crate::config::preset::{self, Recorded};
use crate::config::text::TextError;
use crate::device::DeviceChoice;
use crate::engine::Engine;
use crate::eval::trace::Trace;
use crate::methods::Model;
use crate::report::clock::{Clock, Taken};
use crate::report::metrics::{Metrics, MetricsError};
use crate::report::resume::{RESUME, Resume, ResumeError, Saved};
use crate::train::observer::{Observer, Progress};
use crate::train::snapshot::Snapshot;
use crate::train::stopping::Look;

/// The kept weights.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// The plain autoencoder's weights, for comparison.
pub const AUTOENCODER: &str = "autoencoder.safetensors";
/// Seed and configuration.
pub const CONFIG: &str = "config.toml";
/// The report.
pub(crate) const REPORT: &str = "report.md";
/// The report as one page, with pictures.
pub(crate) const PAGE: &str = "report.html";
/// The picture in the report.
pub(crate) const FIGURE: &str = "energies.svg";

/// A run folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Reading or writing failed.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The configuration there cannot be used.
    #[error(transparent)]
    Recorded(#[from] TextError),
    /// The configuration cannot be written.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Measurements cannot be written.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The state to go on from cannot be written.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// A run there was broken off.
    #[error(
        "{}: a run there was broken off; go on with it: nae-train --resume {}; or remove the folder, or choose another \
         with --out", path.display(), path.display()
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> FolderError {
    let path = path.to_owned();
    move |cause| FolderError::Io { path, cause }
}

/// What is the same at every update of a run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// SHA-256 of the data, in hexadecimal.
    pub data_sha256: String,
    /// What computes gradients.
    pub engine: Engine,
    /// Where.
    pub device: DeviceChoice,
    /// What was chosen for the run and why.
    pub choices: Vec<String>,
    /// The set that training looks at in place of ConstantGray, by its name.
    pub selection: Option<String>,
}

/// Writes a run folder while the run goes on.
pub struct RunFolder {
    path: PathBuf,
    metrics: Metrics,
    facts: Facts,
    /// Time between two states to go on from.
    every: Duration,
    stored: Instant,
    clock: Clock,
    trace: Option<Trace>,
    failure: Option<String>,
}

/// AUROC of outlier sets, by name, at a look.
#[derive(Serialize)]
struct Traced {
    update: usize,
    auroc: BTreeMap<String, Option<f64>>,
}

impl RunFolder {
    /// Makes the folder and writes `config.toml`; files of an earlier run there that has ended are replaced. What the
    /// run can go on from is stored `every` so often.
    ///
    /// # Errors
    /// [`FolderError`] where the folder cannot be made or written, or holds a run that could go on.
    pub fn create(path: &Path, config: &Config, seed: u64, facts: Facts, every: Duration) -> Result<Self, FolderError> {
        if path.join(RESUME).exists() {
            return Err(FolderError::Unfinished { path: path.to_owned() });
        }
        fs::create_dir_all(path).map_err(io(path))?;
        let recorded = Recorded { seed, version: env!("CARGO_PKG_VERSION").to_owned(), preset: config.raw().clone() };
        let file = path.join(CONFIG);
        let text = toml::to_string(&recorded)
            .map_err(|error| FolderError::Config { path: file.clone(), reason: error.to_string() })?;
        fs::write(&file, text).map_err(io(&file))?;
        Ok(Self::with(path, Metrics::create(path)?, facts, every, Taken::default()))
    }

    /// Opens the folder of a run that goes on from `resume`: what was measured after that state is measured again.
    ///
    /// # Errors
    /// [`FolderError::Metrics`].
    pub fn reopen(path: &Path, resume: &Resume, every: Duration) -> Result<Self, FolderError> {
        let Resume { data_sha256, engine, device, choices, selection, taken, metrics, .. } = resume;
        let (data_sha256, choices, selection) = (data_sha256.clone(), choices.clone(), selection.clone());
        let facts = Facts { data_sha256, engine: *engine, device: *device, choices, selection };
        Ok(Self::with(path, Metrics::reopen(path, *metrics)?, facts, every, *taken))
    }

    fn with(path: &Path, metrics: Metrics, facts: Facts, every: Duration, earlier: Taken) -> Self {
        let (path, clock, stored) = (path.to_owned(), Clock::after(earlier), Instant::now());
        Self { path, metrics, facts, every, stored, clock, trace: None, failure: None }
    }

    /// The configuration and seed recorded in the folder at `path`.
    ///
    /// # Errors
    /// [`FolderError`] names the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<(Config, u64), FolderError> {
        let file = path.join(CONFIG);
        let text = fs::read_to_string(&file).map_err(|cause| FolderError::Io { path: file.clone(), cause })?;
        Ok(preset::recorded_run(&text, &file.display().to_string())?)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was recorded in the file `name` so far; nothing where it cannot be read.
    pub fn text(&mut self, name: &str) -> String {
        self.flush();
        fs::read_to_string(self.path.join(name)).unwrap_or_default()
    }

    /// Writes `text` as the report, `figure` beside it, and `page` for a browser.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn report(&self, text: &str, figure: &str, page: &str) -> Result<(), FolderError> {
        for (name, content) in [(REPORT, text), (FIGURE, figure), (PAGE, page)] {
            let file = self.path.join(name);
            fs::write(&file, content).map_err(|cause| FolderError::Io { path: file, cause })?;
        }
        Ok(())
    }

    /// The first thing that could not be written during the run, if any.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Writes `model` under `name`; a failure is kept for [`failure`](Self::failure), the run goes on.
    pub fn save(&mut self, model: &dyn Model, name: &str) {
        if let Err(error) = model.save(&self.path.join(name)) {
            self.fail(error.to_string());
        }
    }

    /// Notes that the run has ended: there is nothing to go on from.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn finish(&self) -> Result<(), FolderError> {
        let file = self.path.join(RESUME);
        if file.exists() { fs::remove_file(&file).map_err(io(&file)) } else { Ok(()) }
    }

    /// From now on, measures by `trace` at every look.
    pub fn trace(&mut self, trace: Trace) {
        self.trace = Some(trace);
    }

    fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }

    fn flush(&mut self) {
        if let Err(error) = self.metrics.flush() {
            self.fail(error.to_string());
        }
    }

    /// What the run has taken so far.
    pub fn taken(&self) -> Taken {
        self.clock.taken()
    }

    fn store(&mut self, snapshot: &Snapshot) -> Result<(), FolderError> {
        let metrics = self.metrics.flush()?;
        let Facts { data_sha256, engine, device, choices, selection } = &self.facts;
        let (engine, device, selection, taken) = (*engine, *device, selection.as_deref(), self.taken());
        Ok(Saved { data_sha256, engine, device, choices, selection, taken, metrics, snapshot }.write(&self.path)?)
    }

    fn record(&mut self, kind: &str, group: &str, step: usize, values: &impl Serialize) {
        let taken = self.taken();
        if let Err(error) = self.metrics.record(kind, taken, group, step, values) {
            self.fail(error.to_string());
        }
    }
}

impl Observer for RunFolder {
    fn progress(&mut self, progress: &Progress) {
        self.record("step", progress.phase.name(), progress.step, progress);
    }

    fn look(&mut self, look: &Look, model: &dyn Model) {
        self.record("look", "look", look.update, look);
        if let Some(trace) = &self.trace {
            let traced = Traced { update: look.update, auroc: trace.measure(model) };
            self.record("outliers", "outliers", look.update, &traced);
        }
        self.flush();
    }

    fn checkpoint(&mut self, model: &dyn Model) {
        self.save(model, CHECKPOINT);
    }

    fn wants_snapshot(&mut self, last: bool) -> bool {
        last || self.stored.elapsed() >= self.every
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        if let Err(error) = self.store(snapshot) {
            self.fail(error.to_string());
        }
        self.stored = Instant::now();
    }
}
