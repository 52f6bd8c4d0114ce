//! The Wasserstein autoencoder (Tolstikhin et al., ICLR 2018): the loss is the reconstruction error plus the distance
//! of the data's latents from the latent space's noise distribution, measured by MMD.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use super::UpdateFigures;
use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, add_l2};
use super::halves::{Halves, HalvesEngine};
use super::mmd::mmd_squared;
use crate::arch::Autoencoder;
use crate::config::Pretraining;
use crate::config::methods::Wasserstein;
use crate::energy::distance;
use crate::engine::Engine;
use crate::sample::NoiseSource;

/// Trains a Wasserstein autoencoder. The result is a plain autoencoder.
pub type WaeMethod = GradientMethod<WaeObjective>;

/// The reconstruction error and MMD. The state kept between updates is the source of the prior's latents.
pub struct WaeObjective {
    engine: HalvesEngine,
    settings: Wasserstein,
    encoder_l2: f32,
}

impl WaeMethod {
    /// Starts from the state `model`; latents of the noise distribution are drawn from `prior`.
    pub fn new(
        model: Autoencoder,
        pretraining: Pretraining,
        settings: Wasserstein,
        prior: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let (engine, encoder_l2) = (HalvesEngine::new(engine, device), pretraining.encoder_l2);
        Self::begin(WaeObjective { engine, settings, encoder_l2 }, model, prior, pretraining)
    }
}

/// The latent is decoded unchanged.
impl Halves for Autoencoder {
    type Drawn = ();
    type Between = Tensor<4>;

    fn autoencoder(&self) -> &Autoencoder {
        self
    }

    fn between(&self, encoded: Tensor<4>, (): ()) -> (Tensor<4>, Tensor<4>) {
        (encoded.clone(), encoded)
    }
}

impl WaeObjective {
    /// Returns the gradient of the loss with respect to all weights, with the next draw from the prior, and the loss's
    /// parts.
    pub(super) fn gradients(
        &self,
        prior: &mut NoiseSource,
        model: &Autoencoder,
        x: Tensor<4>,
    ) -> (GradientsParams, UpdateFigures) {
        let (n, dim) = (x.dims()[0], model.latent_dim());
        let noise = prior.latents(model.latent_space(), n, dim, self.engine.device()).reshape([n, dim]);
        let (mut gradients, figures) = self.engine.gradients(model, x, (), |model, x, y, z| {
            let energy = distance(model.energy(), x, y).mean();
            let mmd = mmd_squared(z.reshape([n, dim]), noise.clone().autodiff());
            let loss = energy.clone() + mmd.clone().mul_scalar(self.settings.mmd);
            BatchLoss { loss, report: vec![("energy", energy), ("mmd_squared", mmd)] }
        });
        add_l2(&model.encoder, self.encoder_l2, &mut gradients);
        (gradients, figures)
    }
}

impl Objective for WaeObjective {
    type Model = Autoencoder;
    type Kept = NoiseSource;

    fn update(
        &self,
        prior: &mut NoiseSource,
        model: Autoencoder,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (Autoencoder, UpdateFigures) {
        let (gradients, figures) = self.gradients(prior, &model, x);
        (step.along(gradients, model).power_iteration(), figures)
    }
}
