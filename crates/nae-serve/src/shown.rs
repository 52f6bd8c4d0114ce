//! A frame as it is shown: with what a model made of it, or as the camera gave it where there is no model yet. Which frame that is
//! says [`monitor`](super::monitor); pictures of it are made in [`pictures`](super::pictures).

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use nae_infer::Scored;

use super::regions::{Applied, View};

/// A frame of a camera.
pub(crate) struct Taken {
    /// Counted from the start of the service.
    pub(crate) number: u64,
    pub(crate) image: Bytes,
    pub(crate) name: Option<String>,
    /// By the clock that does not jump.
    pub(crate) at: Instant,
}

/// One that a model has scored.
pub(crate) struct Shown {
    pub(crate) frame: Taken,
    pub(crate) scored: Scored,
    /// The pixel error that a heat map shows in full.
    pub(crate) full_error: f32,
    pub(crate) looked: Looked,
}

/// By what regions a model looked at a frame, and what these left of it.
pub(crate) struct Looked {
    pub(crate) regions: Arc<Applied>,
    pub(crate) view: Option<Arc<View>>,
}

/// The last frame of a camera.
#[derive(Clone)]
pub(crate) enum Latest {
    Scored(Arc<Shown>),
    /// There was no model when it came.
    Unscored(Arc<Taken>),
}

impl Shown {
    /// Whether its energy is above the threshold.
    pub(crate) fn is_anomaly(&self) -> bool {
        self.scored.verdict.is_some_and(|verdict| verdict.is_anomaly())
    }
}

impl Latest {
    pub(crate) fn frame(&self) -> &Taken {
        match self {
            Self::Scored(shown) => &shown.frame,
            Self::Unscored(taken) => taken,
        }
    }

    /// With its score, if it has one.
    pub(crate) fn scored(&self) -> Option<&Shown> {
        match self {
            Self::Scored(shown) => Some(shown),
            Self::Unscored(_) => None,
        }
    }
}
