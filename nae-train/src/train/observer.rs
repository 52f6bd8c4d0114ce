//! Reports on a run: its progress, looks at the model, and states to store.

use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;
use super::stopping::Look;
use crate::methods::{Model, UpdateFigures};

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Pre-training as a plain autoencoder, counted in epochs.
    Pretraining,
    /// Training as an NAE, counted in updates.
    Normalizing,
    /// Training with another method than the NAE, counted in epochs.
    Training,
}

impl Phase {
    /// The name of the phase in recorded measurements.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pretraining => "pretraining",
            Self::Normalizing => "normalizing",
            Self::Training => "training",
        }
    }
}

/// A completed step.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// The phase of the run.
    pub phase: Phase,
    /// The epoch or update, from 1.
    pub step: usize,
    /// The means of the figures over the step.
    #[serde(flatten)]
    pub figures: UpdateFigures,
}

/// Receives reports on a run. All methods have defaults that do nothing.
pub trait Observer {
    /// A phase of `total` steps begins, or continues after `done` of them.
    fn begin(&mut self, _phase: Phase, _done: usize, _total: usize) {}
    /// A step was completed.
    fn progress(&mut self, _progress: &Progress) {}
    /// `model` was evaluated in its current state.
    fn look(&mut self, _look: &Look, _model: &dyn Model) {}
    /// `model` is the state that would be kept if the run ended now.
    fn checkpoint(&mut self, _model: &dyn Model) {}
    /// Called after each update; returns whether [`snapshot`](Self::snapshot) should be called next. `last` is true if
    /// the run is about to end early, and after the last update of training in epochs.
    fn wants_snapshot(&mut self, _last: bool) -> bool {
        false
    }
    /// Receives the state after this update, from which the run can be continued.
    fn snapshot(&mut self, _snapshot: &Snapshot) {}
    /// The phase has ended.
    fn end(&mut self, _phase: Phase) {}
}

/// An observer that ignores all reports.
pub struct Silent;

impl Observer for Silent {}

/// Passes reports to two observers; a snapshot is only passed to those that requested it.
pub struct Both<A, B> {
    /// The observer that is called first.
    pub first: A,
    /// The observer that is called second.
    pub second: B,
    asked: (bool, bool),
}

impl<A, B> Both<A, B> {
    /// Combines `first` and `second`.
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
