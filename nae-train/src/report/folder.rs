//! The run folder: `config.toml` with the seed, `metrics.jsonl` with everything measured on the way and an event file
//! with the same for TensorBoard, `checkpoint.safetensors` with the weights to keep so far, `autoencoder.safetensors`
//! with the plain autoencoder's, `resume.bin` to go on from until the run has ended, and `report.md` with
//! `energies.svg`, `report.html` and `result.json` at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nae_data::digest::hex;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::config::preset::{self, Recorded};
use crate::eval::trace::Trace;
use crate::methods::Model;
use crate::report::clock::{Clock, Taken};
use crate::report::error::RunFolderError;
use crate::report::metrics::Metrics;
use crate::report::resume::{Facts, RESUME, Resume};
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
/// The figures of a run that has ended, for programs.
pub const RESULT: &str = "result.json";
/// The report as one page, with pictures.
pub(crate) const PAGE: &str = "report.html";
/// The picture in the report.
pub(crate) const FIGURE: &str = "energies.svg";

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> RunFolderError + '_ {
    |cause| RunFolderError::at(path, cause)
}

/// The text of `config.toml` in the run folder at `path`, and what errors call it.
fn config_text(path: &Path) -> Result<(String, String), RunFolderError> {
    let file = path.join(CONFIG);
    let text = fs::read_to_string(&file).map_err(io(&file))?;
    Ok((text, file.display().to_string()))
}

/// SHA-256 of `config.toml` in the run folder at `path`, in hexadecimal.
pub(super) fn config_sha256(path: &Path) -> Result<String, RunFolderError> {
    Ok(hex(Sha256::new_with_prefix(config_text(path)?.0)))
}

/// Writes a run folder while the run goes on.
pub struct RunFolder {
    path: PathBuf,
    metrics: Metrics,
    facts: Facts,
    config_sha256: String,
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
    /// [`RunFolderError`] where the folder cannot be made or written, or holds a run that could go on.
    pub fn create(
        path: &Path,
        config: &Config,
        seed: u64,
        facts: Facts,
        every: Duration,
    ) -> Result<Self, RunFolderError> {
        if path.join(RESUME).exists() {
            let go_on = format_args!("go on with it: nae-train --resume {}", path.display());
            let problem =
                format_args!("a run there was broken off; {go_on}; or remove the folder, or choose another with --out");
            return Err(RunFolderError::at(path, problem));
        }
        fs::create_dir_all(path).map_err(io(path))?;
        // Weights and figures of a run before would pass for this one's, should it be killed.
        for name in [CHECKPOINT, AUTOENCODER, REPORT, FIGURE, PAGE, RESULT] {
            let file = path.join(name);
            if file.exists() {
                fs::remove_file(&file).map_err(io(&file))?;
            }
        }
        let recorded = Recorded {
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            data_sha256: Some(facts.data_sha256.clone()),
            preset: config.raw().clone(),
        };
        let file = path.join(CONFIG);
        let text = toml::to_string(&recorded).map_err(|error| RunFolderError::at(&file, error))?;
        fs::write(&file, text).map_err(io(&file))?;
        Self::with(path, Metrics::create(path)?, facts, every, Taken::default())
    }

    /// Opens the folder of a run that goes on from `resume`: what was measured after that state is measured again.
    ///
    /// # Errors
    /// [`RunFolderError`].
    pub fn reopen(path: &Path, resume: &Resume, every: Duration) -> Result<Self, RunFolderError> {
        let metrics = Metrics::reopen(path, resume.metrics)?;
        Self::with(path, metrics, resume.facts.clone(), every, resume.taken)
    }

    fn with(
        path: &Path,
        metrics: Metrics,
        facts: Facts,
        every: Duration,
        earlier: Taken,
    ) -> Result<Self, RunFolderError> {
        let config_sha256 = config_sha256(path)?;
        let (path, clock, stored) = (path.to_owned(), Clock::after(earlier), Instant::now());
        Ok(Self { path, metrics, facts, config_sha256, every, stored, clock, trace: None, failure: None })
    }

    /// The configuration and seed recorded in the folder at `path`.
    ///
    /// # Errors
    /// [`RunFolderError`] names the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<(Config, u64), RunFolderError> {
        let (text, origin) = config_text(path)?;
        Ok(preset::recorded_run(&text, &origin)?)
    }

    /// SHA-256 of the data of the run in the folder at `path`; runs of earlier versions have not recorded it.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn data_sha256(path: &Path) -> Result<Option<String>, RunFolderError> {
        let (text, origin) = config_text(path)?;
        Ok(preset::recorded(&text, &origin)?.data_sha256)
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

    /// Writes `text` as the report, `figure` beside it, `page` for a browser, and `result` for programs.
    ///
    /// # Errors
    /// [`RunFolderError`].
    pub fn report(&self, text: &str, figure: &str, page: &str, result: &str) -> Result<(), RunFolderError> {
        for (name, content) in [(REPORT, text), (FIGURE, figure), (PAGE, page), (RESULT, result)] {
            let file = self.path.join(name);
            fs::write(&file, content).map_err(io(&file))?;
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
    /// [`RunFolderError`].
    pub fn finish(&self) -> Result<(), RunFolderError> {
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
    use super::*;
    use crate::device::DeviceChoice;
    use crate::engine::Engine;

    /// Killed before its first state, a run would else have weights and figures of the one before.
    #[test]
    fn nothing_of_an_earlier_run_stays_but_what_others_put_there() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [CHECKPOINT, AUTOENCODER, REPORT, FIGURE, PAGE, RESULT, "notes.txt"] {
            fs::write(folder.path().join(name), "of before").expect("writes");
        }
        let config = preset::load("digits").expect("valid");
        let facts = Facts {
            data_sha256: "abc".to_owned(),
            engine: Engine::Cpu,
            device: DeviceChoice::Cpu,
            choices: Vec::new(),
            selection: None,
        };
        RunFolder::create(folder.path(), &config, 7, facts, Duration::ZERO).expect("begins");
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .expect("reads")
            .map(|entry| entry.expect("reads").file_name().into_string().expect("a name"))
            .collect();
        left.sort();
        assert_eq!(left, [CONFIG, "events.out.tfevents.nae", "metrics.jsonl", "notes.txt"]);
        assert_eq!(RunFolder::data_sha256(folder.path()).expect("reads").as_deref(), Some("abc"));
    }
}
