//! What training goes on from, as bytes: a model's weights, Adam's moments, and what else a method keeps between two
//! updates, such as the place in its random numbers. Exact: training goes on as if it had never stopped.
//!
//! The file these bytes go into is [`report::resume`](crate::report::resume).

use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::optimizer::Optimizer;

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

/// Brings `model` and `optimizer` to where [`save`] found them, and returns the rest.
pub(super) fn restore<M: Module, R: DeserializeOwned>(
    state: &[u8],
    model: &mut M,
    optimizer: &mut Optimizer,
) -> Result<R, StateError> {
    let MethodState { weights, moments, rest } = ciborium::from_reader(state)?;
    *model = with_weights(model.clone(), weights)?;
    optimizer.restore(moments)?;
    Ok(rest)
}
