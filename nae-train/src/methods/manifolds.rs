//! The autoencoders on whose manifolds MPDR's negative samples start (Yoon, Jin, Noh, Park, NeurIPS 2023): several of
//! different D_z, which are trained on the same batches. Each has an equal part of a batch of negative samples.

use std::ops::Range;

use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use serde_bytes::ByteBuf;

use super::autoencoder::AutoencoderMethod;
use super::state::StateError;
use super::{EpochMethod, Method, Model, UpdateFigures};
use crate::arch::Autoencoder;
use crate::config::Pretraining;
use crate::engine::Engine;

/// Trains one or several autoencoders on the same batches.
pub(crate) struct Manifolds(Vec<AutoencoderMethod>);

impl Manifolds {
    /// Starts from `autoencoders`, of which there is at least one.
    pub(crate) fn new(
        autoencoders: impl IntoIterator<Item = Autoencoder>,
        settings: Pretraining,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let method = |autoencoder| AutoencoderMethod::new(autoencoder, settings, None, engine, device);
        Self(autoencoders.into_iter().map(method).collect())
    }

    /// The trained autoencoders.
    pub(crate) fn into_trained(self) -> Vec<Autoencoder> {
        self.0.into_iter().map(AutoencoderMethod::into_trained).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Autoencoder `k` as it is now.
    pub(super) fn get(&self, k: usize) -> &Autoencoder {
        &self.0[k].model
    }

    /// The state of each.
    pub(super) fn states(&self) -> Result<Vec<ByteBuf>, StateError> {
        self.0.iter().map(Method::state).collect()
    }

    /// Restores each from a state of [`states`](Self::states).
    pub(super) fn restore_states(&mut self, states: &[ByteBuf], image: Shape) -> Result<(), StateError> {
        if states.len() != self.0.len() {
            return Err(StateError::OtherRun("manifolds"));
        }
        self.0.iter_mut().zip(states).try_for_each(|(method, state)| method.restore(state, image))
    }
}

impl Method for Manifolds {
    /// The figures are means over the autoencoders.
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        let mut figures = UpdateFigures::default();
        let weight = 1.0 / self.0.len() as f64;
        for method in &mut self.0 {
            figures.add(&method.update(x.clone()), weight);
        }
        figures
    }

    fn model(&self) -> &dyn Model {
        &self.0[0].model
    }

    fn state(&self) -> Result<ByteBuf, StateError> {
        let mut bytes = Vec::new();
        ciborium::into_writer(&self.states()?, &mut bytes)?;
        Ok(ByteBuf::from(bytes))
    }

    fn restore(&mut self, state: &[u8], image: Shape) -> Result<(), StateError> {
        self.restore_states(&ciborium::from_reader::<Vec<ByteBuf>, _>(state)?, image)
    }

    fn into_model(self: Box<Self>) -> Box<dyn Model> {
        Box::new(self.into_trained().remove(0))
    }
}

impl EpochMethod for Manifolds {
    fn set_learning_rate(&mut self, rate: f64) {
        self.0.iter_mut().for_each(|method| method.set_learning_rate(rate));
    }
}

/// The parts of a batch of `n` images for `count` manifolds: each manifold and its images. A batch may have fewer images
/// than there are manifolds, of which some then have none.
pub(super) fn parts(n: usize, count: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    (0..count).map(move |k| (k, k * n / count..(k + 1) * n / count)).filter(|(_, part)| !part.is_empty())
}
