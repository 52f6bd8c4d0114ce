//! Eight Gaussians in the plane, or another density that is known there: which start of the chains recovers it (paper,
//! section 6.2).
//!
//! `settings` reads the file with the models to train, `cell` trains one model, and `learned` is the result; this file
//! trains all of them and stores finished ones in a folder, so that an interrupted run continues where it stopped;
//! [`summary`] makes the table and the picture.

mod cell;
mod learned;
mod settings;
pub mod summary;

pub use settings::{DensitySettings, PAPER, SettingsError};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::Seeds;
use crate::density::GridError;
use crate::experiments::Scale;
use crate::experiments::origin::Origin;
use crate::experiments::record::{Record, RecordError};
use cell::{Cell, Job, in_file_names};
use nae_train::arch::checkpoint::CheckpointError;
use nae_train::device::DeviceChoice;
use nae_train::engine::Unsupported;
use nae_train::report::RunFolderError;
use nae_train::report::journal::{self, Journal};
use nae_train::shard;
use settings::Size;

/// The name on the command line.
pub const NAME: &str = "gaussians8";

/// The file with one finished cell per line.
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

/// An experiment that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// [`CELLS`] cannot be read or written.
    #[error(transparent)]
    Journal(#[from] RunFolderError),
    /// The folder belongs to another experiment.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No engine supports the network.
    #[error(transparent)]
    Engine(#[from] Unsupported),
    /// Weights cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A density is invalid.
    #[error(transparent)]
    Density(#[from] GridError),
    /// The experiment was stopped on request.
    #[error("interrupted")]
    Interrupted,
}

/// A finished cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The identity of the cell.
    pub cell: Cell,
    /// The distances of the model's density from the true one; `None` if training diverged, so that an energy is not a
    /// number, or a distance or the temperature is not finite.
    pub result: Option<cell::Distances>,
    /// Some of the last negative samples, for the picture.
    pub negatives: Vec<[f32; 2]>,
    /// What made it.
    #[serde(flatten)]
    pub origin: Origin,
}

impl Experiment {
    /// The experiment of `settings` at `scale`, over `seeds`.
    ///
    /// # Errors
    /// [`ExperimentError::Settings`] if the settings do not contain this scale.
    pub fn new(settings: DensitySettings, scale: Scale, seeds: Seeds) -> Result<Self, ExperimentError> {
        let size = settings.size(scale)?;
        let digest = journal::digest([settings.text(), scale.name()]);
        Ok(Self { settings, scale, size, seeds, digest })
    }

    /// All cells, grouped by seed.
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

    /// The finished cells of this experiment in the folder `path`.
    ///
    /// # Errors
    /// [`ExperimentError::Journal`].
    pub fn finished(&self, path: &Path) -> Result<Vec<Finished>, ExperimentError> {
        Ok(journal::read(&path.join(CELLS), &self.digest)?)
    }

    /// Trains the cells that the folder `path` does not contain yet, on all processors; `done` is called after each
    /// cell.
    ///
    /// Returns all finished cells in the order of [`jobs`](Self::jobs).
    ///
    /// # Errors
    /// [`ExperimentError`]; finished cells stay in the folder.
    pub fn run(
        &self,
        path: &Path,
        device: &Device,
        stop: &AtomicBool,
        done: impl Fn() + Sync,
    ) -> Result<Vec<Finished>, ExperimentError> {
        let _lock = self.record().claim(path)?;
        let finished = self.finished(path)?;
        let missing: Vec<Job<'_>> =
            self.jobs().into_iter().filter(|job| !finished.iter().any(|f| f.cell == job.cell())).collect();
        let journal = Journal::open(&path.join(CELLS), self.digest.clone())?;
        // One cell per thread: a batch of 200 points is too small to be divided.
        let results = shard::map(missing, |job| -> Result<(), ExperimentError> {
            if stop.load(Ordering::Relaxed) {
                return Err(ExperimentError::Interrupted);
            }
            let trained = shard::undivided(|| job.train(device, stop))?;
            let cell = job.cell();
            trained.model.save(&path.join(self.weights(&cell)))?;
            let origin = Origin::here(None);
            journal.append(&Finished { cell, result: trained.result, negatives: trained.negatives, origin })?;
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

    /// The name of the file for the weights of `cell`. Models of other settings, whose results may be in the same folder, have
    /// other names.
    pub fn weights(&self, cell: &Cell) -> String {
        let Cell { method, latent_dim, seed } = cell;
        let settings = self.digest.get(..8).unwrap_or(&self.digest);
        format!("{}-{latent_dim}-{seed}-{settings}.safetensors", in_file_names(method))
    }

    /// The record for the folder of this experiment.
    pub fn record(&self) -> Record {
        let text = self.settings.text();
        Record::new(NAME, self.scale, DeviceChoice::Cpu, text, text.into())
    }

    /// The seeds.
    pub fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    /// The scale, which determines the size of the networks.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The settings.
    pub fn settings(&self) -> &DensitySettings {
        &self.settings
    }
}
