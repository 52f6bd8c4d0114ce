//! Energy and input gradient of an autoencoder whose weights stand still.
//!
//! Over nine tenths of the training time are spent here, so what is computed is kept apart from how:
//! [`FrozenEnergy`] is the border, [`BurnFrozen`] the implementation for any burn device. Chains belong to it: one that
//! can do more than give a gradient for each step, as the CPU engine can, runs them whole.

use burn::module::Module as _;
use burn::tensor::{Tensor, TensorData};

use super::langevin::{ChainEnd, Langevin};
use super::noise::NoiseSource;
use super::precision::Precision;
use super::recovery::Recovery;
use crate::arch::{Autoencoder, LatentSpace};
use crate::energy::{at_least_f32, energy};
use crate::shard;

/// Energies of a batch and their gradient.
pub struct EnergyGradient {
    /// One energy a sample, `[N]`.
    pub energy: Tensor<1>,
    /// ∂E/∂input, of the input's shape.
    pub gradient: Tensor<4>,
}

/// What a chain asks of a network.
pub trait FrozenEnergy {
    /// Geometry of the latent space.
    fn latent_space(&self) -> LatentSpace;
    /// Latents `[N, D, 1, 1]` of images `[N, C, H, W]`.
    fn encode(&self, x: Tensor<4>) -> Tensor<4>;
    /// Images of latents.
    fn decode(&self, z: Tensor<4>) -> Tensor<4>;
    /// E(x) and ∇ₓE(x).
    fn visible(&self, x: Tensor<4>) -> EnergyGradient;
    /// H(z) = E(f_d(z)) and ∇H(z), f_d the decoder of [`decode`](Self::decode).
    fn latent(&self, z: Tensor<4>) -> EnergyGradient;
    /// w/2·‖f_e(x) − z̃‖² and its gradient at x, f_e the encoder of [`encode`](Self::encode).
    fn recovery(&self, x: Tensor<4>, recovery: &Recovery) -> EnergyGradient;
    /// The same of f_d(z), and its gradient at z.
    fn latent_recovery(&self, z: Tensor<4>, recovery: &Recovery) -> EnergyGradient;

    /// Runs `chain` among images, on E(x) at `temperature`.
    fn visible_chain(&self, chain: &Langevin, start: Tensor<4>, temperature: f32, noise: &mut NoiseSource) -> ChainEnd {
        chain.run(start, temperature, noise, |x| self.visible(x), LatentSpace::Euclidean)
    }

    /// Runs `chain` in the latent space, on H(z) at `temperature`.
    fn latent_chain(&self, chain: &Langevin, start: Tensor<4>, temperature: f32, noise: &mut NoiseSource) -> ChainEnd {
        chain.run(start, temperature, noise, |z| self.latent(z), self.latent_space())
    }
}

/// [`FrozenEnergy`] by burn's automatic differentiation, weights untracked.
pub struct BurnFrozen {
    frozen: Autoencoder,
    manifold: Manifold,
    precision: Precision,
}

/// The autoencoder whose latents and images chains have, without and with a device that differentiates.
struct Manifold {
    plain: Autoencoder,
    frozen: Autoencoder,
}

impl Manifold {
    fn new(model: &Autoencoder, precision: Precision) -> Self {
        let [plain, frozen] = [model.valid(), model.clone().no_grad()].map(|model| precision.rounded(model));
        Self { plain, frozen }
    }
}

impl BurnFrozen {
    /// Freezes a copy of `model`, which lives on an autodiff device, to compute in `precision`; what goes in and comes
    /// out is f32.
    pub fn new(model: &Autoencoder, precision: Precision) -> Self {
        let manifold = Manifold::new(model, precision);
        Self { frozen: manifold.frozen.clone(), manifold, precision }
    }

    /// The same energies for chains on the manifold of `manifold`, where one is given.
    #[must_use]
    pub fn on_manifold_of(self, manifold: Option<&Autoencoder>) -> Self {
        match manifold {
            Some(manifold) => Self { manifold: Manifold::new(manifold, self.precision), ..self },
            None => self,
        }
    }

    fn lower(&self, input: Tensor<4>) -> Tensor<4> {
        input.cast(self.precision.dtype())
    }

    fn differentiate(&self, input: Tensor<4>, energy: impl Fn(Tensor<4>) -> Tensor<1> + Sync) -> EnergyGradient {
        differentiate(self.precision, input, |input| energy(self.lower(input)))
    }

    /// The energies of a [`Recovery`], for inputs with the latents of `encode`. In one piece: a batch is cut into shards
    /// for what takes longer.
    fn recover(
        &self,
        input: Tensor<4>,
        recovery: &Recovery,
        encode: impl Fn(Tensor<4>) -> Tensor<4>,
    ) -> EnergyGradient {
        let [n, d, ..] = recovery.latents.dims();
        let device = input.device();
        let weights = Tensor::<1>::from_data(TensorData::new(recovery.weights.clone(), [n]), &device);
        let input = input.autodiff().require_grad();
        let latents = at_least_f32(encode(self.lower(input.clone())));
        let apart = (latents - recovery.latents.clone().autodiff()).reshape([n, d]);
        let energy = (apart.clone() * apart).sum_dim(1).reshape([n]) * weights.mul_scalar(0.5).autodiff();
        let mut gradients = self.precision.scaled(energy.clone().sum()).backward();
        let gradient = input.grad_remove(&mut gradients).expect("latents are a function of the input");
        EnergyGradient { energy: energy.inner(), gradient: self.precision.unscaled(gradient) }
    }
}

/// Energies of `input` and their gradient by burn's automatic differentiation, shards side by side. `energy` is of
/// weights that are not tracked, on an autodiff device; it may compute in `precision`.
pub(crate) fn differentiate(
    precision: Precision,
    input: Tensor<4>,
    energy: impl Fn(Tensor<4>) -> Tensor<1> + Sync,
) -> EnergyGradient {
    let parts = shard::map(shard::shards(input), |input| {
        let input = input.autodiff().require_grad();
        let energy = energy(input.clone());
        let mut gradients = precision.scaled(energy.clone().sum()).backward();
        let gradient = input.grad_remove(&mut gradients).expect("the energy is a function of its input");
        (energy.inner(), precision.unscaled(gradient))
    });
    let (energies, gradients) = parts.into_iter().unzip();
    EnergyGradient { energy: Tensor::cat(energies, 0), gradient: Tensor::cat(gradients, 0) }
}

impl FrozenEnergy for BurnFrozen {
    fn latent_space(&self) -> LatentSpace {
        self.manifold.plain.latent_space()
    }

    fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        at_least_f32(self.manifold.plain.encode(self.lower(x)))
    }

    fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        at_least_f32(self.manifold.plain.decode(self.lower(z)))
    }

    fn visible(&self, x: Tensor<4>) -> EnergyGradient {
        self.differentiate(x, |x| energy(&self.frozen, x))
    }

    fn latent(&self, z: Tensor<4>) -> EnergyGradient {
        self.differentiate(z, |z| energy(&self.frozen, self.manifold.frozen.decode(z)))
    }

    fn recovery(&self, x: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.recover(x, recovery, |x| self.manifold.frozen.encode(x))
    }

    fn latent_recovery(&self, z: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.recover(z, recovery, |z| self.manifold.frozen.encode(self.manifold.frozen.decode(z)))
    }
}
