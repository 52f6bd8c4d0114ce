//! The energy that chains of manifold projection–diffusion recovery (MPDR: Yoon, Jin, Noh, Park, NeurIPS 2023) run on: beside the
//! model's, what holds a sample near the latent of the data that it started from.
//!
//! The data's latent, moved by noise of the scale s, is z̃. Of x given z̃ the density is proportional to
//! exp(−E(x)/T − c·‖f_e(x) − z̃‖²/2s²), f_e the encoder of the manifold; c is 1 in the paper and 10⁻⁴ in its authors' settings.

use burn::tensor::Tensor;

use super::frozen::{EnergyGradient, FrozenEnergy};
use crate::arch::LatentSpace;

/// Where chains started, and how strongly they are drawn back.
pub struct Recovery {
    /// z̃, `[N, D, 1, 1]`.
    pub latents: Tensor<4>,
    /// w of each sample, `[N]`, at least 0.
    pub weights: Vec<f32>,
}

/// The energies of a model together with w/2·‖f_e(x) − z̃‖².
pub(super) struct Recovering<'a> {
    model: &'a dyn FrozenEnergy,
    recovery: Recovery,
}

impl<'a> Recovering<'a> {
    /// For chains at temperature T that started at latents moved by noise of these scales `[N]`, all above 0; c is
    /// `strength`.
    pub(super) fn new(
        model: &'a dyn FrozenEnergy,
        latents: Tensor<4>,
        scales: &[f32],
        strength: f32,
        temperature: f32,
    ) -> Self {
        // A chain divides all of its energy by T.
        let weights = scales.iter().map(|s| temperature * strength / (s * s)).collect();
        Self { model, recovery: Recovery { latents, weights } }
    }
}

impl FrozenEnergy for Recovering<'_> {
    fn latent_space(&self) -> LatentSpace {
        self.model.latent_space()
    }

    fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        self.model.encode(x)
    }

    fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        self.model.decode(z)
    }

    fn visible(&self, x: Tensor<4>) -> EnergyGradient {
        sum(self.model.visible(x.clone()), self.model.recovery(x, &self.recovery))
    }

    fn latent(&self, z: Tensor<4>) -> EnergyGradient {
        sum(self.model.latent(z.clone()), self.model.latent_recovery(z, &self.recovery))
    }

    fn recovery(&self, x: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.model.recovery(x, recovery)
    }

    fn latent_recovery(&self, z: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.model.latent_recovery(z, recovery)
    }
}

fn sum(a: EnergyGradient, b: EnergyGradient) -> EnergyGradient {
    EnergyGradient { energy: a.energy + b.energy, gradient: a.gradient + b.gradient }
}
