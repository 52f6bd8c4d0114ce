//! The complete state of a run between two updates. A run that continues from it ends in the same state as without the
//! interruption.
//!
//! The methods' parts of it are made in [`methods::state`](crate::methods::state); the file is written by
//! [`report::resume`](crate::report::resume).

use std::fmt;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::batches::BatchOrder;
use super::normalizing::NormalizingState;
use crate::arch::Autoencoder;
use crate::config::Config;
use crate::engine::Engine;
use crate::methods::autoencoder::AutoencoderMethod;
use crate::methods::state::StateError;
use crate::methods::{Method as _, UpdateFigures};
use crate::seed::Stream;

/// The complete state of a run between two updates.
#[derive(Serialize, Deserialize)]
pub struct Snapshot {
    /// The order of the data and the position in it.
    pub(super) order: BatchOrder,
    pub(super) stage: Stage,
}

impl Snapshot {
    /// The state of an NAE's run after pre-training on `images` training images, with `autoencoder` as its result.
    ///
    /// # Errors
    /// `StateError` if the weights cannot be written, or if the run has further manifolds, which would not be trained.
    pub(crate) fn pretrained(
        config: &Config,
        autoencoder: Autoencoder,
        images: usize,
        seed: u64,
        device: &Device,
    ) -> Result<Self, StateError> {
        if !config.manifolds().is_empty() {
            return Err(StateError::OtherRun("manifolds"));
        }
        let settings = config.pretraining();
        // The engine does not matter, since no update is made.
        let method = AutoencoderMethod::new(autoencoder, settings, None, Engine::Burn, device);
        let epochs = EpochsState { done: settings.epochs, method: Some(method.state()?), ..EpochsState::default() };
        let order = BatchOrder::new(images, Stream::Batches.of(seed));
        Ok(Self { order, stage: Stage::Epochs(epochs) })
    }
}

impl fmt::Display for Snapshot {
    /// Writes how many epochs or updates are completed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stage {
            Stage::Epochs(epochs) => write!(f, "{} epochs", epochs.done),
            Stage::Normalizing(state) => write!(f, "{} updates of NAE training", state.update),
        }
    }
}

/// The phase of a run and its state.
#[derive(Serialize, Deserialize)]
pub(super) enum Stage {
    /// Training in epochs.
    Epochs(EpochsState),
    /// NAE training.
    Normalizing(Box<NormalizingState>),
}

/// The state of training in epochs between two updates.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct EpochsState {
    /// The number of completed epochs.
    pub(super) done: usize,
    /// The means over the completed part of the current epoch.
    pub(super) means: UpdateFigures,
    /// The state of the method; `None` before its first update.
    pub(super) method: Option<ByteBuf>,
}
