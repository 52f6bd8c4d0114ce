//! The run folder. It contains `config.toml` with the seed, `metrics.jsonl` with all measurements during the run and an
//! event file with the same for TensorBoard, `checkpoint.safetensors` with the weights to keep so far,
//! `autoencoder.safetensors` with the plain autoencoder's weights, `resume.bin` for resuming until the run has ended,
//! and `report.md` with `energies.svg`, `report.html` and `result.json` at the end. By `lock`, one process at a time
//! writes to it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nae_data::digest::hex;
use nae_onnx::file;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::commit;
use crate::config::Config;
use crate::config::preset::{self, Recorded};
use crate::device::DeviceChoice;
use crate::eval::trace::Trace;
use crate::methods::Model;
use crate::report::clock::{Clock, Taken};
use crate::report::error::RunFolderError;
use crate::report::metrics::{METRICS, Metrics};
use crate::report::resume::{Facts, RESUME, Resume};
use crate::report::tensorboard::EVENTS;
use crate::train::observer::{Observer, Progress};
use crate::train::snapshot::Snapshot;
use crate::train::stopping::Look;

/// The file of the kept weights.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// The file of the plain autoencoder's weights, for comparison.
pub const AUTOENCODER: &str = "autoencoder.safetensors";
/// The file of the seed and configuration.
pub const CONFIG: &str = "config.toml";
/// The file of the report.
pub(crate) const REPORT: &str = "report.md";
/// The file of a finished run's figures, for programs.
pub const RESULT: &str = "result.json";
/// The file of the report as one page with pictures.
pub(crate) const PAGE: &str = "report.html";
/// The file that the process of a run locks.
const LOCK: &str = "lock";
/// The file of the picture in the report.
pub(crate) const FIGURE: &str = "energies.svg";

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> RunFolderError + '_ {
    |cause| RunFolderError::at(path, cause)
}

/// The text of `config.toml` in the run folder at `path`, and the file's name for errors.
fn config_text(path: &Path) -> Result<(String, String), RunFolderError> {
    let file = path.join(CONFIG);
    let text = fs::read_to_string(&file).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound if !path.exists() => RunFolderError::at(path, "there is no such folder"),
        std::io::ErrorKind::NotFound => {
            RunFolderError::at(path, format_args!("expected the folder of a run, found no {CONFIG} in it"))
        }
        _ => RunFolderError::at(&file, cause),
    })?;
    Ok((text, file.display().to_string()))
}

/// The SHA-256 of `config.toml` in the run folder at `path`, in hexadecimal.
pub(super) fn config_sha256(path: &Path) -> Result<String, RunFolderError> {
    Ok(hex(Sha256::new_with_prefix(config_text(path)?.0)))
}

/// Writes a run folder during the run.
pub struct RunFolder {
    path: PathBuf,
    /// Held until the run ends, so that no other process writes to the folder.
    _lock: File,
    metrics: Metrics,
    facts: Facts,
    config_sha256: String,
    /// The time between two stored states for resuming.
    every: Duration,
    stored: Instant,
    clock: Clock,
    trace: Option<Trace>,
    failure: Option<String>,
}

/// The AUROCs of outlier sets, by name, at a look.
#[derive(Serialize)]
struct Traced {
    update: usize,
    auroc: BTreeMap<String, Option<f64>>,
}

/// What is read again of a finished run's [`RESULT`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunResults {
    /// The threshold, an energy; `None` for a model that is not calibrated.
    pub threshold: Option<f32>,
    /// The user's outlier sets that the run was evaluated on.
    pub given_outliers: Vec<GivenOutliers>,
}

/// One of the user's outlier sets in a run's results.
#[derive(Clone, Debug, Deserialize)]
pub struct GivenOutliers {
    /// The name of the set, as in the table.
    #[serde(rename = "outliers")]
    pub name: String,
}

/// A finished run that is already in a folder, compared with a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishedRun {
    /// It has the same data, settings and seed.
    Same,
    /// It has other data, other settings or another seed, or its settings cannot be read.
    Other,
}

/// Locks the folder at `path` until the file is closed or the process ends.
fn claim(path: &Path) -> Result<File, RunFolderError> {
    let name = path.join(LOCK);
    file::lock(&name).map_err(io(&name))?.ok_or_else(|| {
        let problem = "another process writes to this folder; wait for its end, or choose another folder";
        RunFolderError::at(path, problem)
    })
}

impl RunFolder {
    /// Compares the finished run in the folder at `path`, if there is one, with a run of `config`.
    pub fn finished(path: &Path, config: &Config, seed: u64, data_sha256: &str) -> Option<FinishedRun> {
        // Folders of earlier versions have a report, but no results; those of an experiment's models have weights only.
        if ![RESULT, REPORT, CHECKPOINT].iter().any(|name| path.join(name).exists()) {
            return None;
        }
        let recorded = config_text(path).ok().and_then(|(text, origin)| preset::recorded(&text, &origin).ok());
        let same = recorded.is_some_and(|recorded| {
            recorded.seed == seed
                && recorded.preset == *config.raw()
                && recorded.data_sha256.as_deref() == Some(data_sha256)
        });
        Some(if same { FinishedRun::Same } else { FinishedRun::Other })
    }

    /// Checks that the folder at `path` has no finished run of other data, other settings or another seed, which a new run of
    /// `config` would replace.
    ///
    /// # Errors
    /// [`RunFolderError`] with the folder.
    pub fn refuse_other(path: &Path, config: &Config, seed: u64, data_sha256: &str) -> Result<(), RunFolderError> {
        match Self::finished(path, config, seed, data_sha256) {
            Some(FinishedRun::Other) => Err(Self::other_run(path)),
            Some(FinishedRun::Same) | None => Ok(()),
        }
    }

    /// The error about a folder that has a [finished run](Self::finished) of other data or settings.
    pub fn other_run(path: &Path) -> RunFolderError {
        let problem = "a finished run of other data or settings is there; choose another folder, or remove this one";
        RunFolderError::at(path, problem)
    }

    /// Checks that `path` is a folder or free, and that files in it with the names of a run's files are those of a run, so
    /// that they may be replaced.
    ///
    /// # Errors
    /// [`RunFolderError`] with the name of a file that may be someone's.
    pub fn refuse_foreign(path: &Path) -> Result<(), RunFolderError> {
        if path.exists() && !path.is_dir() {
            return Err(RunFolderError::at(path, "expected a folder for the run, found a file; choose another name"));
        }
        let names = [CONFIG, CHECKPOINT, AUTOENCODER, REPORT, FIGURE, PAGE, RESULT, METRICS, EVENTS];
        let Some(file) = names.map(|name| path.join(name)).into_iter().find(|file| file.exists()) else {
            return Ok(());
        };
        match config_text(path).map(|(text, origin)| preset::recorded(&text, &origin)) {
            Ok(Ok(_)) => Ok(()),
            _ => {
                let problem =
                    "it would be replaced, and the folder is not that of a run by this version; choose another folder";
                Err(RunFolderError::at(&file, problem))
            }
        }
    }

    /// Creates the folder and writes `config.toml`; files of an earlier finished run in the folder are removed. A state
    /// for resuming is stored at intervals of `every`.
    ///
    /// # Errors
    /// [`RunFolderError`] if the folder cannot be created or written, contains a run that can be resumed or
    /// [files of others](Self::refuse_foreign), or if another process writes to it.
    pub fn create(
        path: &Path,
        config: &Config,
        seed: u64,
        facts: Facts,
        every: Duration,
    ) -> Result<Self, RunFolderError> {
        Self::refuse_foreign(path)?;
        fs::create_dir_all(path).map_err(io(path))?;
        let lock = claim(path)?;
        // Not before, since another process may have begun a run meanwhile.
        if path.join(RESUME).exists() {
            let problem = "an interrupted run is there; continue it, remove the folder, or choose another";
            return Err(RunFolderError::at(path, problem));
        }
        file::remove_incomplete(path).map_err(io(path))?;
        // If this run is killed, weights and figures of an earlier run must not be mistaken for its own.
        for name in [CHECKPOINT, AUTOENCODER, REPORT, FIGURE, PAGE, RESULT] {
            let file = path.join(name);
            if file.exists() {
                fs::remove_file(&file).map_err(io(&file))?;
            }
        }
        let recorded = Recorded {
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit::get(),
            data_sha256: Some(facts.data_sha256.clone()),
            preset: config.raw().clone(),
        };
        let file = path.join(CONFIG);
        let text = toml::to_string(&recorded).map_err(|error| RunFolderError::at(&file, error))?;
        file::write(&file, text.as_bytes())?;
        Self::with(path, lock, Metrics::create(path)?, facts, every, Taken::default())
    }

    /// Opens the folder of a run that continues from `resume`. Measurements after that state are removed, and made
    /// again.
    ///
    /// # Errors
    /// [`RunFolderError`] if the files cannot be opened, or are shorter than at that state, or if another process writes
    /// to the folder.
    pub fn reopen(path: &Path, resume: &Resume, every: Duration) -> Result<Self, RunFolderError> {
        let lock = claim(path)?;
        file::remove_incomplete(path).map_err(io(path))?;
        let metrics = Metrics::reopen(path, resume.metrics)?;
        Self::with(path, lock, metrics, resume.facts.clone(), every, resume.taken)
    }

    fn with(
        path: &Path,
        lock: File,
        metrics: Metrics,
        facts: Facts,
        every: Duration,
        earlier: Taken,
    ) -> Result<Self, RunFolderError> {
        let config_sha256 = config_sha256(path)?;
        let (path, clock, stored) = (path.to_owned(), Clock::after(earlier), Instant::now());
        Ok(Self { path, _lock: lock, metrics, facts, config_sha256, every, stored, clock, trace: None, failure: None })
    }

    /// Reads the configuration and seed recorded in the folder at `path`.
    ///
    /// # Errors
    /// [`RunFolderError`] with the file and the problem.
    pub fn read(path: &Path) -> Result<(Config, u64), RunFolderError> {
        let (text, origin) = config_text(path)?;
        Ok(preset::recorded_run(&text, &origin)?)
    }

    /// The SHA-256 of the data of the run in the folder at `path`; `None` for runs of earlier versions, which do not
    /// record it.
    ///
    /// # Errors
    /// The same as for [`read`](Self::read).
    pub fn data_sha256(path: &Path) -> Result<Option<String>, RunFolderError> {
        let (text, origin) = config_text(path)?;
        Ok(preset::recorded(&text, &origin)?.data_sha256)
    }

    /// The results of the run in the folder at `path`; empty for a run that has not ended, and for the folder of an earlier
    /// version, which has none.
    ///
    /// # Errors
    /// [`RunFolderError`] if the results cannot be read.
    pub fn results(path: &Path) -> Result<RunResults, RunFolderError> {
        let file = path.join(RESULT);
        if !file.exists() {
            return Ok(RunResults::default());
        }
        let text = fs::read_to_string(&file).map_err(io(&file))?;
        serde_json::from_str(&text).map_err(|cause| RunFolderError::at(&file, cause))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The outliers that the run was started or continued with, as given.
    pub fn outliers(&self) -> Option<&str> {
        self.facts.outliers.as_deref()
    }

    /// The device of the run's computation.
    pub fn device(&self) -> DeviceChoice {
        self.facts.device
    }

    /// The current content of the file `name`; empty if it cannot be read.
    pub fn text(&mut self, name: &str) -> String {
        self.flush();
        fs::read_to_string(self.path.join(name)).unwrap_or_default()
    }

    /// Writes `text` as the report, `figure` as its picture, `page` for a browser, and `result` for programs.
    ///
    /// # Errors
    /// [`RunFolderError`] if a file cannot be written. The small files come first, and each is complete or not there.
    pub fn report(&self, text: &str, figure: &str, page: &str, result: &str) -> Result<(), RunFolderError> {
        for (name, content) in [(RESULT, result), (REPORT, text), (FIGURE, figure), (PAGE, page)] {
            file::write(self.path.join(name), content.as_bytes())?;
        }
        Ok(())
    }

    /// Writes `model` under `name`. An error is recorded for [`complete`](Self::complete), and the run continues.
    pub fn save(&mut self, model: &dyn Model, name: &str) {
        if let Err(error) = model.save(&self.path.join(name)) {
            self.fail(error.to_string());
        }
    }

    /// Writes the weights of `model` once more if something could not be written during the run: the disk may have room again.
    /// Returns what could not be written then, or cannot be written now.
    pub fn complete(&mut self, model: &dyn Model) -> Option<String> {
        let failure = self.failure.clone()?;
        let again = model.save(&self.path.join(CHECKPOINT));
        Some(again.err().map_or(failure, |error| error.to_string()))
    }

    /// Removes the state for resuming, since the run has ended.
    ///
    /// # Errors
    /// [`RunFolderError`] if the file cannot be removed.
    pub fn finish(&self) -> Result<(), RunFolderError> {
        Self::remove_state(&self.path)
    }

    /// Removes the state for resuming in the folder at `path`, if there is one.
    ///
    /// # Errors
    /// [`RunFolderError`] if the file cannot be removed.
    pub fn remove_state(path: &Path) -> Result<(), RunFolderError> {
        let file = path.join(RESUME);
        if file.exists() { fs::remove_file(&file).map_err(io(&file)) } else { Ok(()) }
    }

    /// Measures with `trace` at every following look.
    pub fn trace(&mut self, trace: Trace) {
        self.trace = Some(trace);
    }

    /// Keeps the first error for [`complete`](Self::complete), and warns of it at once: the run goes on for hours, and what it
    /// cannot store would be lost if it was interrupted.
    fn fail(&mut self, reason: String) {
        if self.failure.is_none() {
            tracing::error!("{reason}; the run goes on, but an interruption may lose what it could not write");
            self.failure = Some(reason);
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.metrics.flush() {
            self.fail(error.to_string());
        }
    }

    /// The time that the run has taken so far.
    pub fn taken(&self) -> Taken {
        self.clock.taken()
    }

    fn store(&mut self, snapshot: &Snapshot) -> Result<(), RunFolderError> {
        let metrics = self.metrics.sync()?;
        let config_sha256 = Some(self.config_sha256.clone());
        Resume { facts: &self.facts, config_sha256, taken: self.taken(), metrics, snapshot }.write(&self.path)
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

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::arch::checkpoint;
    use crate::engine::Engine;
    use crate::methods::nae::NormalizedAutoencoder;

    fn facts() -> Facts {
        Facts {
            data_sha256: "abc".to_owned(),
            engine: Engine::Cpu,
            device: DeviceChoice::Cpu,
            choices: Vec::new(),
            selection: None,
            outliers: None,
            outliers_sha256: None,
        }
    }

    #[test]
    fn files_of_others_are_not_replaced() {
        let config = preset::load("digits").expect("valid");
        for name in [CONFIG, CHECKPOINT, PAGE, METRICS] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join(name);
            fs::write(&file, "title = \"my page\"").expect("writes");
            let error = RunFolder::create(folder.path(), &config, 7, facts(), Duration::ZERO).err().expect("refused");
            assert!(error.to_string().contains(&file.display().to_string()), "{error}");
            assert_eq!(fs::read_to_string(&file).expect("reads"), "title = \"my page\"");
            assert_eq!(fs::read_dir(folder.path()).expect("reads").count(), 1);
        }
    }

    /// A disk that was full for a while.
    #[test]
    fn weights_that_could_not_be_written_are_written_at_the_end() {
        let (folder, config) = (tempfile::tempdir().expect("a folder"), preset::load("digits").expect("valid"));
        let mut run = RunFolder::create(folder.path(), &config, 7, facts(), Duration::ZERO).expect("begins");
        let model = NormalizedAutoencoder::new(checkpoint::blank(config.architecture(), &Device::flex()), 1.0);
        run.checkpoint(&model);
        assert_eq!(run.complete(&model), None);
        let (weights, in_the_way) = (folder.path().join(CHECKPOINT), folder.path().join("checkpoint.safetensors.tmp"));
        fs::remove_file(&weights).expect("removed");
        fs::create_dir(&in_the_way).expect("made");
        run.checkpoint(&model);
        let failure = run.complete(&model).expect("nothing can be written");
        assert!(failure.contains(CHECKPOINT) && !weights.exists(), "{failure}");
        fs::remove_dir(&in_the_way).expect("removed");
        assert_eq!(run.complete(&model), Some(failure), "the state for resuming may be older");
        assert!(weights.exists());
    }

    #[test]
    fn one_process_at_a_time_writes_to_a_folder() {
        let (folder, config) = (tempfile::tempdir().expect("a folder"), preset::load("digits").expect("valid"));
        let create = || RunFolder::create(folder.path(), &config, 7, facts(), Duration::ZERO);
        let first = create().expect("begins");
        let error = create().err().expect("refused").to_string();
        assert!(error.contains("another process writes to this folder"), "{error}");
        drop(first);
        create().expect("begins");
    }

    #[test]
    fn a_file_where_the_folder_should_be_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, config) = (folder.path().join("run"), preset::load("digits").expect("valid"));
        fs::write(&path, "mine").expect("writes");
        let error = RunFolder::create(&path, &config, 7, facts(), Duration::ZERO).err().expect("refused").to_string();
        assert_eq!(
            error,
            format!("{}: expected a folder for the run, found a file; choose another name", path.display())
        );
        assert_eq!(fs::read_to_string(&path).expect("reads"), "mine");
    }

    /// Otherwise a run that is killed before its first state would have weights and figures of the one before.
    #[test]
    fn nothing_of_an_earlier_run_stays_but_what_others_put_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = preset::load("digits").expect("valid");
        let create = || RunFolder::create(folder.path(), &config, 7, facts(), Duration::ZERO);
        create().expect("begins");
        for name in [CHECKPOINT, AUTOENCODER, REPORT, FIGURE, PAGE, RESULT, "notes.txt"] {
            fs::write(folder.path().join(name), "of before").expect("writes");
        }
        create().expect("begins");
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .expect("reads")
            .map(|entry| entry.expect("reads").file_name().into_string().expect("a name"))
            .collect();
        left.sort();
        assert_eq!(left, [CONFIG, "events.out.tfevents.nae", LOCK, "metrics.jsonl", "notes.txt"]);
        assert_eq!(RunFolder::data_sha256(folder.path()).expect("reads").as_deref(), Some("abc"));

        let found = |config: &Config, seed, data| RunFolder::finished(folder.path(), config, seed, data);
        assert_eq!(found(&config, 7, "abc"), None, "not yet finished");
        fs::write(folder.path().join(RESULT), "{}").expect("writes");
        assert_eq!(found(&config, 7, "abc"), Some(FinishedRun::Same));
        let other = preset::load("digits-omi").expect("valid");
        for (config, seed, data) in [(&other, 7, "abc"), (&config, 8, "abc"), (&config, 7, "abd")] {
            assert_eq!(found(config, seed, data), Some(FinishedRun::Other));
        }
        fs::write(folder.path().join(CONFIG), "no settings").expect("writes");
        assert_eq!(found(&config, 7, "abc"), Some(FinishedRun::Other));
    }
}
