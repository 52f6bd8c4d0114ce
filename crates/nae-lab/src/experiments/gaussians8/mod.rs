//! Eight Gaussians in the plane, or another density that is known there: which start of the chains recovers it (paper,
//! section 5.2).
//!
//! `settings` is the file that says what to train, `cell` trains one model, `learned` is what that leaves, this file goes through all of them and
//! keeps what is done in a folder, so that a run that was broken off goes on where it was; [`summary`] is the table and
//! the picture.

mod cell;
mod learned;
mod settings;
pub mod summary;

pub use settings::{DensitySettings, PAPER, SettingsError};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::Seeds;
use crate::density::GridError;
use crate::experiments::Scale;
use crate::experiments::record::{Record, RecordError};
use cell::{Cell, Job};
use nae_train::arch::checkpoint::CheckpointError;
use nae_train::device::DeviceChoice;
use nae_train::engine::Unsupported;
use nae_train::report::RunFolderError;
use nae_train::report::journal::{self, Journal};
use nae_train::shard;
use settings::Size;

/// As on the command line.
pub const NAME: &str = "gaussians8";

/// One finished cell a line.
pub const CELLS: &str = "cells.jsonl";

/// The experiment, at one scale.
#[derive(Clone, Debug)]
pub struct Experiment {
    settings: DensitySettings,
    scale: Scale,
    size: Size,
    seeds: Seeds,
    digest: String,
}

/// An experiment that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        cause: io::Error,
    },
    /// [`CELLS`] cannot be read or written.
    #[error(transparent)]
    Journal(#[from] RunFolderError),
    /// The folder is of another experiment.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No engine has the network.
    #[error(transparent)]
    Engine(#[from] Unsupported),
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
    /// Which one.
    pub cell: Cell,
    /// How far the model's density is from the true one; nothing where an energy is no number, because training
    /// diverged.
    pub result: Option<cell::Distances>,
    /// Some of the last negative samples, for the picture.
    pub negatives: Vec<[f32; 2]>,
}

impl Experiment {
    /// The experiment of `settings` at `scale`, over `seeds`.
    ///
    /// # Errors
    /// [`ExperimentError::Settings`] where the settings have no such scale.
    pub fn new(settings: DensitySettings, scale: Scale, seeds: Seeds) -> Result<Self, ExperimentError> {
        let size = settings.size(scale)?;
        let digest = journal::digest([settings.text(), scale.name()]);
        Ok(Self { settings, scale, size, seeds, digest })
    }

    /// All cells, those of a seed together.
    pub fn jobs(&self) -> Vec<Job<'_>> {
        let (settings, size) = (&self.settings, self.size);
        let mut jobs = Vec::new();
        for seed in self.seeds.iter() {
            for &latent in settings.latents() {
                jobs.extend(settings.methods().iter().map(|method| Job { settings, method, latent, size, seed }));
            }
        }
        jobs
    }

    /// The cells of this experiment that the folder `path` already has.
    ///
    /// # Errors
    /// [`ExperimentError::Journal`].
    pub fn finished(&self, path: &Path) -> Result<Vec<Finished>, ExperimentError> {
        Ok(journal::read(&path.join(CELLS), &self.digest)?)
    }

    /// Trains what the folder `path` does not have yet, on all processors; `done` is called after each cell.
    ///
    /// Returns all finished cells in the order of [`jobs`](Self::jobs).
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
        fs::create_dir_all(path).map_err(|cause| ExperimentError::Io { path: path.to_owned(), cause })?;
        self.record().write(path)?;
        let finished = self.finished(path)?;
        let missing: Vec<Job<'_>> =
            self.jobs().into_iter().filter(|job| !finished.iter().any(|f| f.cell == job.cell())).collect();
        let journal = Journal::open(&path.join(CELLS), self.digest.clone())?;
        // One cell a thread: a batch of 200 points is too little work to divide.
        let results = shard::map(missing, |job| -> Result<(), ExperimentError> {
            if stop.load(Ordering::Relaxed) {
                return Err(ExperimentError::Interrupted);
            }
            let trained = shard::undivided(|| job.train(device, stop))?;
            let cell = job.cell();
            trained.model.save(&path.join(cell.checkpoint()))?;
            journal.append(&Finished { cell, result: trained.result, negatives: trained.negatives })?;
            done();
            Ok(())
        });
        for result in results {
            result?;
        }
        let mut finished = self.finished(path)?;
        let order: Vec<Cell> = self.jobs().iter().map(Job::cell).collect();
        finished.retain(|f| order.contains(&f.cell));
        finished.sort_by_key(|f| order.iter().position(|cell| *cell == f.cell));
        Ok(finished)
    }

    /// What the folder of this experiment says of itself.
    pub fn record(&self) -> Record {
        let text = self.settings.text();
        Record::new(NAME, self.scale, DeviceChoice::Cpu, text, text.into())
    }

    /// The seeds.
    pub fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    /// Which size the networks have.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// What is trained.
    pub fn settings(&self) -> &DensitySettings {
        &self.settings
    }
}
