//! The state for continuing training, as bytes: a model's weights, Adam's moments, and a method's other state between
//! updates, such as the position in its random numbers. The state is exact: training continues as without an
//! interruption.
//!
//! [`report::resume`](crate::report::resume) writes these bytes to a file.

use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;
use nae_core::Shape;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::optimizer::{Optimizer, ScalarAdam};
use crate::sample::NoiseSource;

/// An error for a state that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The weights or moments cannot be written or read.
    #[error("weights or moments: {0}")]
    Record(RecordError),
    /// The other parts cannot be written.
    #[error("{0}")]
    Write(ciborium::ser::Error<std::io::Error>),
    /// The other parts cannot be read.
    #[error("{0}")]
    Read(ciborium::de::Error<std::io::Error>),
    /// The state can be read but is not from this run; contains the part that differs.
    #[error("it is of another run, by its {0}; the run has to start again")]
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

/// The weights of `model`, with their identifiers, which the moments refer to.
///
/// # Errors
/// [`StateError`] if burn cannot write them.
pub(crate) fn weights(model: &impl Module) -> Result<ByteBuf, StateError> {
    Ok(ByteBuf::from(model.clone().into_record().into_bytes()?.to_vec()))
}

/// Returns `blank` with the weights in `state`.
///
/// # Errors
/// [`StateError`] if they belong to another network.
pub(crate) fn with_weights<M: Module>(blank: M, state: ByteBuf) -> Result<M, StateError> {
    let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(state.into_vec()))?;
    Ok(blank.try_load_record(record)?)
}

/// The state that a method keeps between two updates besides weights and moments.
pub trait Kept: Serialize + DeserializeOwned {
    /// The name of a part that cannot be a later state of `begun`, on samples of the shape `image`; `None` if all parts
    /// can be. Updates rely on these checks.
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str>;
}

impl Kept for NoiseSource {
    fn difference(&self, begun: &Self, _: Shape) -> Option<&'static str> {
        (!self.is_stream_of(begun)).then_some("seed")
    }
}

impl Kept for ScalarAdam {
    /// Any moments are valid.
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

/// The state of a method between two updates.
#[derive(Serialize, Deserialize)]
struct MethodState<R> {
    weights: ByteBuf,
    moments: ByteBuf,
    rest: R,
}

/// Converts `model`, `optimizer` and the `rest` of a method to bytes.
pub(super) fn save<M: Module, R: Serialize>(model: &M, optimizer: &Optimizer, rest: R) -> Result<ByteBuf, StateError> {
    let state = MethodState { weights: weights(model)?, moments: optimizer.state()?, rest };
    let mut bytes = Vec::new();
    ciborium::into_writer(&state, &mut bytes)?;
    Ok(ByteBuf::from(bytes))
}

/// Restores `model`, `optimizer` and `kept`, before their first update on samples of the shape `image`, from a state of
/// [`save`].
///
/// # Errors
/// [`StateError`] if the state is not from this method, network or run; parts restored before the error stay changed.
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
