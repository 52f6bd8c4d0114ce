//! How a run is watched: progress, looks at the model, and states worth storing.

use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;
use super::stopping::Look;
use crate::methods::{Model, UpdateFigures};

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

impl Phase {
    /// As in recorded measurements.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pretraining => "pretraining",
            Self::Normalizing => "normalizing",
            Self::Training => "training",
        }
    }
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
    pub figures: UpdateFigures,
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

/// Both watch; a state is given to whom asked for it.
pub struct Both<A, B> {
    /// Is told first.
    pub first: A,
    /// Is told second.
    pub second: B,
    asked: (bool, bool),
}

impl<A, B> Both<A, B> {
    /// `first` and `second`.
    pub fn new(first: A, second: B) -> Self {
        Self { first, second, asked: (false, false) }
    }
}

impl<A: Observer, B: Observer> Observer for Both<A, B> {
    fn begin(&mut self, phase: Phase, done: usize, total: usize) {
        self.first.begin(phase, done, total);
        self.second.begin(phase, done, total);
    }

    fn progress(&mut self, progress: &Progress) {
        self.first.progress(progress);
        self.second.progress(progress);
    }

    fn look(&mut self, look: &Look, model: &dyn Model) {
        self.first.look(look, model);
        self.second.look(look, model);
    }

    fn checkpoint(&mut self, model: &dyn Model) {
        self.first.checkpoint(model);
        self.second.checkpoint(model);
    }

    fn wants_snapshot(&mut self, last: bool) -> bool {
        self.asked = (self.first.wants_snapshot(last), self.second.wants_snapshot(last));
        self.asked.0 || self.asked.1
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        if self.asked.0 {
            self.first.snapshot(snapshot);
        }
        if self.asked.1 {
            self.second.snapshot(snapshot);
        }
    }

    fn end(&mut self, phase: Phase) {
        self.first.end(phase);
        self.second.end(phase);
    }
}
