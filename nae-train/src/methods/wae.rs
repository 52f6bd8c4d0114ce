//! The Wasserstein autoencoder (Tolstikhin et al., ICLR 2018): reconstruction error, plus the distance of the data's
//! latents from the latent space's noise distribution, as MMD.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use serde_bytes::ByteBuf;

use super::gradients::{ShardLoss, add_l2, sharded};
use super::mmd::mmd_squared;
use super::optimizer::Optimizer;
use super::state::{self, StateError};
use super::{EpochMethod, Method, Model, UpdateFigures};
use crate::arch::Autoencoder;
use crate::config::Pretraining;
use crate::config::methods::Wasserstein;
use crate::energy::distance;
use crate::sample::NoiseSource;

/// Trains a Wasserstein autoencoder. What it leaves is an autoencoder.
///
/// MMD is not a mean over samples, so a batch is not divided between threads; burn computes the gradient.
pub struct WaeMethod {
    model: Autoencoder,
    optimizer: Optimizer,
    rate: f64,
    encoder_l2: f32,
    settings: Wasserstein,
    prior: NoiseSource,
    device: Device,
}

impl WaeMethod {
    /// From the state `model`; latents of the noise distribution come from `prior`.
    pub fn new(
        model: Autoencoder,
        pretraining: Pretraining,
        settings: Wasserstein,
        prior: NoiseSource,
        device: &Device,
    ) -> Self {
        let optimizer = Optimizer::new(pretraining.max_gradient_norm);
        let (rate, encoder_l2) = (pretraining.learning_rate, pretraining.encoder_l2);
        Self { model, optimizer, rate, encoder_l2, settings, prior, device: device.clone() }
    }

    /// The gradient of the loss with respect to all weights, with the next draw from the prior, and its parts.
    pub(super) fn gradients(&mut self, x: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        let n = x.dims()[0];
        let (space, dim) = (self.model.latent_space(), self.model.latent_dim());
        let noise = self.prior.latents(space, n, dim, &self.device);
        let weight = self.settings.mmd;
        let (mut gradients, figures) = sharded(&self.model, vec![(n, (x, noise))], |model, (x, noise)| {
            let x: Tensor<4> = x.autodiff();
            let z = model.encode(x.clone());
            let energy = distance(model.energy(), x, model.decode(z.clone())).mean();
            let mmd = mmd_squared(z.reshape([n, dim]), noise.autodiff().reshape([n, dim]));
            let loss = energy.clone() + mmd.clone().mul_scalar(weight);
            ShardLoss { loss, report: vec![("energy", energy), ("mmd_squared", mmd)] }
        });
        add_l2(&self.model.encoder, self.encoder_l2, &mut gradients);
        (gradients, figures)
    }
}

impl Method for WaeMethod {
    fn update(&mut self, x: Tensor<4>) -> UpdateFigures {
        let (gradients, figures) = self.gradients(x);
        self.model = self.optimizer.step(self.rate, self.model.clone(), gradients).power_iteration();
        figures
    }

    fn model(&self) -> &dyn Model {
        &self.model
    }

    fn state(&self) -> Result<ByteBuf, StateError> {
        state::save(&self.model, &self.optimizer, &self.prior)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), StateError> {
        self.prior = state::restore(state, &mut self.model, &mut self.optimizer)?;
        Ok(())
    }

    fn into_model(self: Box<Self>) -> Box<dyn Model> {
        Box::new(self.model)
    }
}

impl EpochMethod for WaeMethod {
    fn set_learning_rate(&mut self, rate: f64) {
        self.rate = rate;
    }
}
