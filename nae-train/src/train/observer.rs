//! How a run is watched: progress, looks at the model, and states worth storing.

use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;
use super::stopping::Look;
use crate::methods::{Figures, Model};

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// As a plain autoencoder, counted in epochs.
    Pretraining,
    /// As an NAE, counted in updates.
    Normalizing,
    /// By a method other than the NAE, counted in epochs.
    Training,
}

/// One step done.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// The part of the run.
    pub phase: Phase,
    /// Epoch or update, from 1.
    pub step: usize,
    /// Means over the step.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Watches a run. All methods may do nothing.
pub trait Observer {
    /// A part of `total` steps begins, or goes on after `done` of them.
    fn begin(&mut self, _phase: Phase, _done: usize, _total: usize) {}
    /// A step is done.
    fn progress(&mut self, _progress: &Progress) {}
    /// `model` was looked at, as it is now.
    fn look(&mut self, _look: &Look, _model: &dyn Model) {}
    /// `model` is the state that would be kept if the run ended now.
    fn checkpoint(&mut self, _model: &dyn Model) {}
    /// Asked after each update: whether [`snapshot`](Self::snapshot) is to follow. `last` where the run is about to end
    /// early.
    fn wants_snapshot(&mut self, _last: bool) -> bool {
        false
    }
    /// What the run goes on from after this update.
    fn snapshot(&mut self, _snapshot: &Snapshot) {}
    /// The part is over.
    fn end(&mut self, _phase: Phase) {}
}

/// Watches nothing.
pub struct Silent;

impl Observer for Silent {}
