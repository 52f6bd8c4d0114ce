//! The monitor's state for the frames of one model: energies of the last hour, drift, frames to test another model on.
//! A camera with models for day and night has two, which are independent. The alarm filter is not part of it: after a
//! change of the model in use, earlier frames do not count for an alarm, and the filter starts empty.

use std::collections::VecDeque;

use axum::body::Bytes;
use nae_core::drift::{Drift, PageHinkley};

use super::super::history::History;
use super::super::model::Model;

/// The number of frames that are kept to test a new model on, and the bytes that they may have together: fewer are kept of
/// frames that a camera sends uncompressed.
const RECENT: usize = 32;
const RECENT_BYTES: usize = 64 << 20;
/// The parameters of the drift watch: shifts of the mean within this fraction of the threshold are ignored, and the sum
/// of larger ones may reach this multiple of the threshold.
const DRIFT: (f32, f32) = (0.25, 5.0);

/// A past frame whose image is kept.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    pub(crate) image: Bytes,
    /// Whether the model in use at its time called it normal; false if no model has scored it.
    pub(crate) normal: bool,
}

/// The state for one model's frames.
pub(super) struct Memory {
    /// The digest of the model; `None` without one.
    model: Option<String>,
    pub(super) history: History,
    drift: Option<PageHinkley>,
    pub(super) drifted: Drift,
    pub(super) recent: VecDeque<Recent>,
    /// The mean of the largest pixel errors of normal frames, from which the scale of a heat map follows.
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
    /// Restarts the drift watch with this model's threshold; without a threshold, there is no drift watch.
    pub(super) fn watch_anew(&mut self, model: Option<&Model>) {
        self.model = model.map(|model| model.digest.clone());
        let threshold = model.and_then(|model| model.detector.threshold());
        self.drift = threshold.and_then(|threshold| PageHinkley::new(DRIFT.0 * threshold, DRIFT.1 * threshold).ok());
        self.drifted = Drift::Steady;
    }

    /// Whether the state belongs to this model.
    pub(super) fn is_of(&self, model: &Model) -> bool {
        self.model.as_ref() == Some(&model.digest)
    }

    /// Clears the energies, since later ones are on another scale.
    pub(super) fn forget_energies(&mut self) {
        self.history.clear();
        self.usual_error = None;
    }

    /// Adds an energy to the drift watch. Drift concerns many frames: one anomaly counts no more than a frame at the
    /// threshold. Returns whether the direction of the drift has changed.
    pub(super) fn drifts(&mut self, energy: f32, threshold: Option<f32>) -> bool {
        let energy = threshold.map_or(energy, |threshold| energy.min(threshold));
        let Some(seen) = self.drift.as_mut().and_then(|drift| drift.observe(energy).ok()) else { return false };
        std::mem::replace(&mut self.drifted, seen) != seen
    }

    /// Updates the usual error with the largest error of a frame. Returns the error that a heat map shows fully opaque.
    pub(super) fn full_error(&mut self, largest: f32, is_normal: bool) -> f32 {
        if is_normal {
            self.usual_error = Some(self.usual_error.map_or(largest, |usual| usual + (largest - usual) / 32.0));
        }
        largest.max(2.0 * self.usual_error.unwrap_or(0.0))
    }

    pub(super) fn remember(&mut self, frame: Recent) {
        self.recent.push_back(frame);
        let bytes = |recent: &VecDeque<Recent>| recent.iter().map(|frame| frame.image.len()).sum::<usize>();
        while self.recent.len() > RECENT || (self.recent.len() > 1 && bytes(&self.recent) > RECENT_BYTES) {
            self.recent.pop_front();
        }
    }
}
