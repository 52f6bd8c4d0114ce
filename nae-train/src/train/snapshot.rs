//! A run between two updates, whole: what it goes on from to the same end as if it had never stopped.
//!
//! The parts that the methods keep are made in [`methods::state`](crate::methods::state); the file is
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

/// A run between two updates.
#[derive(Serialize, Deserialize)]
pub struct Snapshot {
    /// Order of the data, and the place in it.
    pub(super) order: BatchOrder,
    pub(super) stage: Stage,
}

impl Snapshot {
    /// An NAE's run after its pre-training, of which `autoencoder` is taken to be the end, on so many training images.
    ///
    /// # Errors
    /// `StateError` where its weights cannot be written.
    pub(crate) fn pretrained(
        config: &Config,
        autoencoder: Autoencoder,
        images: usize,
        seed: u64,
        device: &Device,
    ) -> Result<Self, StateError> {
        let settings = config.pretraining();
        // Which engine does not matter: no update is made.
        let method = AutoencoderMethod::new(autoencoder, settings, None, Engine::Burn, device);
        let epochs = EpochsState { done: settings.epochs, method: Some(method.state()?), ..EpochsState::default() };
        let order = BatchOrder::new(images, Stream::Batches.of(seed));
        Ok(Self { order, stage: Stage::Epochs(epochs) })
    }
}

impl fmt::Display for Snapshot {
    /// How far the run has come.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stage {
            Stage::Epochs(epochs) => write!(f, "{} epochs", epochs.done),
            Stage::Normalizing(state) => write!(f, "{} updates of NAE training", state.update),
        }
    }
}

/// The part of a run, and where it stands.
#[derive(Serialize, Deserialize)]
pub(super) enum Stage {
    /// Passes over the data.
    Epochs(EpochsState),
    /// NAE training.
    Normalizing(Box<NormalizingState>),
}

/// Passes over the data, between two updates.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct EpochsState {
    /// Whole epochs done.
    pub(super) done: usize,
    /// Means over the epoch that has begun.
    pub(super) means: UpdateFigures,
    /// The method; `None` before its first update.
    pub(super) method: Option<ByteBuf>,
}
