//! What training goes on from, as bytes: a model's weights, Adam's moments, and what else a method keeps between two
//! updates, such as the place in its random numbers. Exact: training goes on as if it had never stopped.
//!
//! The file these bytes go into is [`report::resume`](crate::report::resume).

use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;
use nae_core::Shape;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::optimizer::{Optimizer, ScalarAdam};
use crate::sample::NoiseSource;

/// A state that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Weights or moments.
    #[error("weights or moments: {0}")]
    Record(RecordError),
    /// Everything else cannot be written.
    #[error("{0}")]
    Write(ciborium::ser::Error<std::io::Error>),
    /// Everything else cannot be read.
    #[error("{0}")]
    Read(ciborium::de::Error<std::io::Error>),
    /// It can be read, and this run cannot have written it: what in it differs.
    #[error("it is of another run, by its {0}; the run has to start anew")]
    OtherRun(&'static str),
}

impl From<RecordError> for StateError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl From<ciborium::ser::Error<std::io::Error>> for StateError {
    fn from(error: ciborium::ser::Error<std::io::Error>) -> Self {
        Self::Write(error)
    }
}

impl From<ciborium::de::Error<std::io::Error>> for StateError {
    fn from(error: ciborium::de::Error<std::io::Error>) -> Self {
        Self::Read(error)
    }
}

/// The weights of `model`, with their identifiers, by which moments are told apart.
///
/// # Errors
/// [`StateError`] where burn cannot write them.
pub(crate) fn weights(model: &impl Module) -> Result<ByteBuf, StateError> {
    Ok(ByteBuf::from(model.clone().into_record().into_bytes()?.to_vec()))
}

/// `blank` with the weights in `state`.
///
/// # Errors
/// [`StateError`] where they are of another network.
pub(crate) fn with_weights<M: Module>(blank: M, state: ByteBuf) -> Result<M, StateError> {
    let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(state.into_vec()))?;
    Ok(blank.try_load_record(record)?)
}

/// What a method keeps between two updates beside weights and moments.
pub trait Kept: Serialize + DeserializeOwned {
    /// What in it cannot be of the run that began as `begun`, on samples of the shape `image`; `None` where it may go on
    /// from there. Updates rely on what is compared here.
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str>;
}

impl Kept for NoiseSource {
    fn difference(&self, begun: &Self, _: Shape) -> Option<&'static str> {
        (!self.is_stream_of(begun)).then_some("seed")
    }
}

impl Kept for ScalarAdam {
    /// Any moments can be gone on from.
    fn difference(&self, _: &Self, _: Shape) -> Option<&'static str> {
        None
    }
}

impl<K: Kept> Kept for Option<K> {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        match (self, begun) {
            (Some(kept), Some(begun)) => kept.difference(begun, image),
            (None, None) => None,
            _ => Some("settings"),
        }
    }
}

impl<A: Kept, B: Kept> Kept for (A, B) {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        self.0.difference(&begun.0, image).or_else(|| self.1.difference(&begun.1, image))
    }
}

/// A method between two updates.
#[derive(Serialize, Deserialize)]
struct MethodState<R> {
    weights: ByteBuf,
    moments: ByteBuf,
    rest: R,
}

/// `model`, `optimizer` and the `rest` of a method as bytes.
pub(super) fn save<M: Module, R: Serialize>(model: &M, optimizer: &Optimizer, rest: R) -> Result<ByteBuf, StateError> {
    let state = MethodState { weights: weights(model)?, moments: optimizer.state()?, rest };
    let mut bytes = Vec::new();
    ciborium::into_writer(&state, &mut bytes)?;
    Ok(ByteBuf::from(bytes))
}

/// Brings `model`, `optimizer` and `kept`, before their first update on samples of the shape `image`, to where [`save`]
/// found them.
///
/// # Errors
/// [`StateError`] where the state is not of this method, network or run; what has been restored by then stays.
pub(super) fn restore<M: Module, K: Kept>(
    state: &[u8],
    image: Shape,
    model: &mut M,
    optimizer: &mut Optimizer,
    kept: &mut K,
) -> Result<(), StateError> {
    let MethodState { weights, moments, rest } = ciborium::from_reader::<MethodState<K>, _>(state)?;
    if let Some(difference) = rest.difference(kept, image) {
        return Err(StateError::OtherRun(difference));
    }
    *model = with_weights(model.clone(), weights)?;
    optimizer.restore(moments, model)?;
    *kept = rest;
    Ok(())
}
