//! The run folder: `config.toml` with the seed, `metrics.jsonl` with everything measured on the way,
//! `checkpoint.safetensors` with the weights to keep so far, `autoencoder.safetensors` with the plain autoencoder's,
//! and `report.md` with `energies.svg` at the end.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::config::Config;
use crate::config::preset::Recorded;
use crate::methods::Model;
use crate::train::observer::{Observer, Progress};
use crate::train::stopping::Look;

/// The kept weights.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// The plain autoencoder's weights, for comparison.
pub const AUTOENCODER: &str = "autoencoder.safetensors";
/// Seed and configuration.
pub const CONFIG: &str = "config.toml";
/// Measurements, one JSON object a line.
pub const METRICS: &str = "metrics.jsonl";
/// The report.
pub const REPORT: &str = "report.md";
/// The picture in it.
pub const FIGURE: &str = "energies.svg";

/// A run folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Reading or writing failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The configuration there cannot be read.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Writes a run folder while the run goes on.
pub struct RunFolder {
    path: PathBuf,
    metrics: BufWriter<File>,
    started: Instant,
    failure: Option<String>,
}

impl RunFolder {
    /// Makes the folder and writes `config.toml`; files of an earlier run there are replaced.
    ///
    /// # Errors
    /// [`FolderError`] where the folder cannot be made or written.
    pub fn create(path: &Path, config: &Config, seed: u64) -> Result<Self, FolderError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| FolderError::Io { path, source }
        };
        fs::create_dir_all(path).map_err(io(path))?;
        let recorded = Recorded { seed, version: env!("CARGO_PKG_VERSION").to_owned(), preset: config.raw().clone() };
        let file = path.join(CONFIG);
        let text = toml::to_string(&recorded)
            .map_err(|error| FolderError::Config { path: file.clone(), reason: error.to_string() })?;
        fs::write(&file, text).map_err(io(&file))?;
        let file = path.join(METRICS);
        let metrics = BufWriter::new(File::create(&file).map_err(io(&file))?);
        Ok(Self { path: path.to_owned(), metrics, started: Instant::now(), failure: None })
    }

    /// The configuration and seed recorded in the folder at `path`.
    ///
    /// # Errors
    /// [`FolderError`] names the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<(Config, u64), FolderError> {
        let file = path.join(CONFIG);
        let text = fs::read_to_string(&file).map_err(|source| FolderError::Io { path: file.clone(), source })?;
        let invalid = |reason: String| FolderError::Config { path: file.clone(), reason };
        let recorded: Recorded = toml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let config = Config::new(recorded.preset).map_err(|error| invalid(error.to_string()))?;
        Ok((config, recorded.seed))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `text` as the report and `figure` beside it.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub fn report(&self, text: &str, figure: &str) -> Result<(), FolderError> {
        for (name, content) in [(REPORT, text), (FIGURE, figure)] {
            let file = self.path.join(name);
            fs::write(&file, content).map_err(|source| FolderError::Io { path: file, source })?;
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
            self.failure.get_or_insert(error.to_string());
        }
    }

    fn line(&mut self, kind: &str, value: &impl Serialize) {
        #[derive(Serialize)]
        struct Line<'a, T> {
            kind: &'a str,
            seconds: f64,
            #[serde(flatten)]
            value: &'a T,
        }
        let line = Line { kind, seconds: self.started.elapsed().as_secs_f64(), value };
        let written = serde_json::to_writer(&mut self.metrics, &line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.metrics.write_all(b"\n"));
        if let Err(error) = written {
            self.failure.get_or_insert(format!("{}: {error}", self.path.join(METRICS).display()));
        }
    }
}

impl Observer for RunFolder {
    fn progress(&mut self, progress: &Progress) {
        self.line("step", progress);
    }

    fn look(&mut self, look: &Look) {
        self.line("look", look);
        if let Err(error) = self.metrics.flush() {
            self.failure.get_or_insert(format!("{}: {error}", self.path.join(METRICS).display()));
        }
    }

    fn checkpoint(&mut self, model: &dyn Model) {
        self.save(model, CHECKPOINT);
    }
}
