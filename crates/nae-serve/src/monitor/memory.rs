//! What the monitor remembers of the frames of one model: energies of the last hour, drift, frames to try another model on. A camera
//! that has one for the day and one for the night has two, and what one has seen says nothing of the other. The alarm filter is not
//! in here: frames of before have no part in an alarm once another model is in use, and it begins empty.

use std::collections::VecDeque;

use axum::body::Bytes;
use nae_core::drift::{Drift, PageHinkley};

use super::super::history::History;
use super::super::model::Model;

/// Frames kept to try a new model on.
const RECENT: usize = 32;
/// Drift: shifts of the mean within this share of the threshold are ignored, and the sum of what is
/// beyond may reach so many thresholds.
const DRIFT: (f32, f32) = (0.25, 5.0);

/// A frame of the past whose image is still there.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    pub(crate) image: Bytes,
    /// Whether a model that is, or was, in use called it so; not where none has seen it.
    pub(crate) normal: bool,
}

/// What is remembered of one model's frames.
pub(super) struct Memory {
    /// The digest of the model; none without one.
    model: Option<String>,
    pub(super) history: History,
    drift: Option<PageHinkley>,
    pub(super) drifted: Drift,
    pub(super) recent: VecDeque<Recent>,
    /// Mean of the largest pixel errors of normal frames: what a heat map is bright against.
    pub(super) usual_error: Option<f32>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            model: None,
            history: History::default(),
            drift: None,
            drifted: Drift::Steady,
            recent: VecDeque::new(),
            usual_error: None,
        }
    }
}

impl Memory {
    /// Drift is watched for anew, by this model's threshold; not without one to measure by.
    pub(super) fn watch_anew(&mut self, model: Option<&Model>) {
        self.model = model.map(|model| model.digest.clone());
        let threshold = model.and_then(|model| model.detector.threshold());
        self.drift = threshold.and_then(|threshold| PageHinkley::new(DRIFT.0 * threshold, DRIFT.1 * threshold).ok());
        self.drifted = Drift::Steady;
    }

    /// Whether frames of this model are remembered.
    pub(super) fn is_of(&self, model: &Model) -> bool {
        self.model.as_ref() == Some(&model.digest)
    }

    /// Energies have no scale in common with those of before.
    pub(super) fn forget_energies(&mut self) {
        self.history.clear();
        self.usual_error = None;
    }

    /// Drift is of the many: one anomaly counts as no more than a frame at the threshold.
    pub(super) fn drifts(&mut self, energy: f32, threshold: Option<f32>) {
        let energy = threshold.map_or(energy, |threshold| energy.min(threshold));
        if let Some(seen) = self.drift.as_mut().and_then(|drift| drift.observe(energy).ok())
            && seen != Drift::Steady
        {
            self.drifted = seen;
        }
    }

    /// What is usual from now on, after the largest error of a frame; what a heat map shows in full.
    pub(super) fn full_error(&mut self, largest: f32, is_normal: bool) -> f32 {
        if is_normal {
            self.usual_error = Some(self.usual_error.map_or(largest, |usual| usual + (largest - usual) / 32.0));
        }
        largest.max(2.0 * self.usual_error.unwrap_or(0.0))
    }

    pub(super) fn remember(&mut self, frame: Recent) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(frame);
    }
}
