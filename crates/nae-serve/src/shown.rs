//! A frame as it is shown: with the result of a model, or unchanged if there is no model yet.
//! [`monitor`](super::monitor) selects the frame; [`pictures`](super::pictures) makes pictures of it.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use nae_infer::Scored;

use super::regions::{Applied, View};

/// A frame of a camera.
pub(crate) struct Taken {
    /// Its number, counted from the start of the service.
    pub(crate) number: u64,
    pub(crate) image: Bytes,
    pub(crate) name: Option<String>,
    /// The time at which it was taken, by the monotonic clock.
    pub(crate) at: Instant,
}

/// A frame that a model has scored.
pub(crate) struct Shown {
    pub(crate) frame: Taken,
    pub(crate) scored: Scored,
    /// The pixel error at which a heat map is fully opaque.
    pub(crate) full_error: f32,
    pub(crate) looked: Looked,
}

/// The regions that were applied to a frame, and the part that they left.
pub(crate) struct Looked {
    pub(crate) regions: Arc<Applied>,
    pub(crate) view: Option<Arc<View>>,
}

/// The last frame of a camera.
#[derive(Clone)]
pub(crate) enum Latest {
    Scored(Arc<Shown>),
    /// There was no model when the frame arrived.
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

    /// The frame with its score, if it has one.
    pub(crate) fn scored(&self) -> Option<&Shown> {
        match self {
            Self::Scored(shown) => Some(shown),
            Self::Unscored(_) => None,
        }
    }
}
