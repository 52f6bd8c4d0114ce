//! The reasons why an image has no score, for clients, the log and the decision whether a model is at fault.

use nae_infer::ScoreError;
use nae_infer::input::PrepareError;

use super::super::model::NoModel;
use super::super::regions::NothingSeen;

/// The reason why there is no score.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Failure {
    /// The bytes are not an image in a supported format.
    #[error("not an image that can be read (PNG, JPEG, BMP, TIFF, WebP, PNM): {0}")]
    Decode(String),
    /// The regions exclude the whole image.
    #[error(transparent)]
    NothingSeen(#[from] NothingSeen),
    /// The image cannot be converted to the network's input.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The energy could not be computed: see [`is_of_model`](Self::is_of_model).
    #[error(transparent)]
    Score(ScoreError),
    /// There is no model.
    #[error(transparent)]
    NoModel(#[from] NoModel),
    /// Too many jobs wait.
    #[error("too many images wait to be scored")]
    Busy,
    /// The model was given up, because it failed to return too often.
    #[error("the model did not return again and again, and is given up: exchange it, or restart the service")]
    GivenUp,
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
}

impl Failure {
    /// Whether the model failed on a valid image: decoded pixels are finite, and so should the energy be.
    pub(crate) fn is_of_model(&self) -> bool {
        matches!(self, Self::Score(ScoreError::Backend(_) | ScoreError::Energy(_)))
    }
}

impl From<ScoreError> for Failure {
    fn from(error: ScoreError) -> Self {
        match error {
            // Comes from a model of tiles, which prepares an image during scoring.
            ScoreError::Prepare(error) => Self::Prepare(error),
            error => Self::Score(error),
        }
    }
}
