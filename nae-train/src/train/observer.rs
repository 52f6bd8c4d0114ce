//! How a run is watched: progress, looks at the model, and states worth storing.

use serde::Serialize;

use super::stopping::Look;
use crate::arch::Autoencoder;

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// As a plain autoencoder, counted in epochs.
    Pretraining,
    /// As an NAE, counted in updates.
    Normalizing,
}

/// One step done.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum Progress {
    /// An epoch of pre-training.
    Pretraining {
        /// From 1.
        epoch: usize,
        /// Mean energy of the training data.
        energy: f64,
    },
    /// An update of NAE training.
    Normalizing {
        /// From 1.
        update: usize,
        /// Mean energy of the batch.
        positive_energy: f64,
        /// Mean energy of the negative samples.
        negative_energy: f64,
    },
}

/// Watches a run. All methods may do nothing.
pub trait Observer {
    /// A part of `total` steps begins.
    fn begin(&mut self, _phase: Phase, _total: usize) {}
    /// A step is done.
    fn progress(&mut self, _progress: &Progress) {}
    /// The model was looked at.
    fn look(&mut self, _look: &Look) {}
    /// `model` is the state that would be kept if the run ended now.
    fn checkpoint(&mut self, _model: &Autoencoder) {}
    /// The part is over.
    fn end(&mut self, _phase: Phase) {}
}

/// Watches nothing.
pub struct Silent;

impl Observer for Silent {}
