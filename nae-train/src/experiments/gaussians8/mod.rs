//! Eight Gaussians in the plane: which start of the chains recovers the density (paper, section 5.2).
//!
//! [`settings`] is the file that says what to train, [`cell`] trains one model, this file goes through all of them and
//! keeps what is done in a folder, so that a run that was broken off goes on where it was; [`summary`] is the table and
//! the picture.

pub mod cell;
pub mod settings;
pub mod summary;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::density::GridError;
use crate::methods::Model as _;
use crate::shard;
use crate::train::checkpoint::CheckpointError;
use cell::Cell;
use settings::{Scale, Settings, SettingsError};

/// One finished cell a line.
pub const CELLS: &str = "cells.jsonl";

/// The experiment, at one scale.
#[derive(Clone, Debug)]
pub struct Experiment {
    settings: Settings,
    scale: Scale,
    seeds: u64,
    digest: String,
}

/// An experiment that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of [`CELLS`] is not one.
    #[error("{}, line {line}: {source}; remove the line, and its cell is trained again", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// Weights cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A density is none.
    #[error(transparent)]
    Density(#[from] GridError),
    /// Asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A finished cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// SHA-256 of settings and scale: cells of others are left alone.
    pub digest: String,
    /// Which one.
    pub cell: Cell,
    /// How far the model's density is from the true one; nothing where an energy is no number, because training
    /// diverged.
    pub result: Option<cell::Distances>,
    /// Some of the last negative samples, for the picture.
    pub negatives: Vec<[f32; 2]>,
}

impl Experiment {
    /// The experiment of `settings` at `scale`, over seeds 0 to `seeds` − 1.
    ///
    /// # Errors
    /// [`ExperimentError::Settings`] where the settings have no such scale.
    pub fn new(settings: Settings, scale: Scale, seeds: u64) -> Result<Self, ExperimentError> {
        settings.size(scale)?;
        let digest = Sha256::new().chain_update(settings.text()).chain_update(scale.name()).finalize();
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { settings, scale, seeds, digest })
    }

    /// All cells, those of a seed together.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for seed in 0..self.seeds {
            for latent in self.settings.latents() {
                for method in self.settings.methods() {
                    cells.push(Cell { method: method.name.clone(), latent_dim: latent.dim, seed });
                }
            }
        }
        cells
    }

    /// The cells of this experiment that the folder `path` already has.
    ///
    /// # Errors
    /// [`ExperimentError::Io`], [`ExperimentError::Cell`].
    pub fn finished(&self, path: &Path) -> Result<Vec<Finished>, ExperimentError> {
        let file = path.join(CELLS);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(ExperimentError::Io { path: file, source }),
        };
        let mut finished = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let cell: Finished = serde_json::from_str(line).map_err(|source| ExperimentError::Cell {
                path: file.clone(),
                line: index + 1,
                source,
            })?;
            if cell.digest == self.digest {
                finished.push(cell);
            }
        }
        Ok(finished)
    }

    /// Trains what the folder `path` does not have yet, on all processors; `done` is called after each cell.
    ///
    /// Returns all finished cells in the order of [`cells`](Self::cells).
    ///
    /// # Errors
    /// [`ExperimentError`]; what was finished before stays in the folder.
    pub fn run(
        &self,
        path: &Path,
        device: &Device,
        stop: &AtomicBool,
        done: impl Fn() + Sync,
    ) -> Result<Vec<Finished>, ExperimentError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| ExperimentError::Io { path, source }
        };
        fs::create_dir_all(path).map_err(io(path))?;
        let finished = self.finished(path)?;
        let missing: Vec<Cell> =
            self.cells().into_iter().filter(|cell| !finished.iter().any(|f| f.cell == *cell)).collect();
        let file = path.join(CELLS);
        let lines = fs::OpenOptions::new().create(true).append(true).open(&file).map_err(io(&file))?;
        let lines = Mutex::new(lines);
        // One cell a thread: a batch of 200 points is too little work to divide.
        let results = shard::map(missing, |cell| -> Result<(), ExperimentError> {
            if stop.load(Ordering::Relaxed) {
                return Err(ExperimentError::Interrupted);
            }
            let trained = shard::undivided(|| cell.train(self, device, stop))?;
            trained.model.save(&path.join(cell.checkpoint()))?;
            let finished =
                Finished { digest: self.digest.clone(), cell, result: trained.result, negatives: trained.negatives };
            // A cell has plain fields only.
            let line = serde_json::to_string(&finished).unwrap_or_default() + "\n";
            let mut lines = lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            lines.write_all(line.as_bytes()).and_then(|()| lines.flush()).map_err(io(&file))?;
            done();
            Ok(())
        });
        for result in results {
            result?;
        }
        // Read again, so that a run in one piece gives the same last digits as one that was broken off.
        let mut finished = self.finished(path)?;
        let order = self.cells();
        finished.retain(|f| order.contains(&f.cell));
        finished.sort_by_key(|f| order.iter().position(|cell| *cell == f.cell));
        Ok(finished)
    }

    /// Which size the networks have.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// What is trained.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
