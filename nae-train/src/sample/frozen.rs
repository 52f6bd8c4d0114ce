//! The energy of an autoencoder with fixed weights, and its input gradient.
//!
//! Over nine tenths of the training time are spent here, so the interface is separate from its implementations:
//! [`FrozenEnergy`] is the interface, [`BurnFrozen`] the implementation for any burn device. Running chains is part of
//! the interface, since an implementation such as the CPU engine can run whole chains faster than separate gradients.

use burn::module::Module as _;
use burn::tensor::{Tensor, TensorData};

use super::langevin::{ChainEnd, Langevin};
use super::noise::NoiseSource;
use super::precision::Precision;
use super::recovery::Recovery;
use crate::arch::{Autoencoder, LatentSpace};
use crate::energy::{at_least_f32, energy};
use crate::shard;

/// The energies of a batch and their gradient.
pub struct EnergyGradient {
    /// The energy of each sample, `[N]`.
    pub energy: Tensor<1>,
    /// ∂E/∂input, in the shape of the input.
    pub gradient: Tensor<4>,
}

/// The functions of a network that a chain needs.
pub trait FrozenEnergy {
    /// The geometry of the latent space.
    fn latent_space(&self) -> LatentSpace;
    /// The latents `[N, D, 1, 1]` of images `[N, C, H, W]`.
    fn encode(&self, x: Tensor<4>) -> Tensor<4>;
    /// The images of latents.
    fn decode(&self, z: Tensor<4>) -> Tensor<4>;
    /// E(x) and ∇ₓE(x).
    fn visible(&self, x: Tensor<4>) -> EnergyGradient;
    /// H(z) = E(f_d(z)) and ∇H(z), where f_d is the decoder of [`decode`](Self::decode).
    fn latent(&self, z: Tensor<4>) -> EnergyGradient;
    /// w/2·‖f_e(x) − z̃‖² and its gradient at x, where f_e is the encoder of [`encode`](Self::encode).
    fn recovery(&self, x: Tensor<4>, recovery: &Recovery) -> EnergyGradient;
    /// Same as [`recovery`](Self::recovery) with x = f_d(z), and its gradient at z.
    fn latent_recovery(&self, z: Tensor<4>, recovery: &Recovery) -> EnergyGradient;

    /// Runs `chain` in image space, on E(x) at `temperature`.
    fn visible_chain(&self, chain: &Langevin, start: Tensor<4>, temperature: f32, noise: &mut NoiseSource) -> ChainEnd {
        chain.run(start, temperature, noise, |x| self.visible(x), LatentSpace::Euclidean)
    }

    /// Runs `chain` in the latent space, on H(z) at `temperature`.
    fn latent_chain(&self, chain: &Langevin, start: Tensor<4>, temperature: f32, noise: &mut NoiseSource) -> ChainEnd {
        chain.run(start, temperature, noise, |z| self.latent(z), self.latent_space())
    }
}

/// [`FrozenEnergy`] with burn's automatic differentiation; weights are not tracked.
pub struct BurnFrozen {
    frozen: Autoencoder,
    manifold: Manifold,
    precision: Precision,
}

/// The autoencoder that maps between latents and images for chains, on a device without and one with autodiff.
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
    /// Freezes a copy of `model`, which must be on an autodiff device, to compute in `precision`; inputs and outputs
    /// are f32.
    pub fn new(model: &Autoencoder, precision: Precision) -> Self {
        let manifold = Manifold::new(model, precision);
        Self { frozen: manifold.frozen.clone(), manifold, precision }
    }

    /// Returns the same energies for chains on the manifold of the autoencoder `manifold`, if given.
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

    /// The energies of a [`Recovery`], for inputs whose latents `encode` computes. The batch is not cut into shards,
    /// since this computation is short.
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

/// The energies of `input` and their gradient by burn's automatic differentiation, with shards in parallel. `energy`
/// must have untracked weights on an autodiff device; it may compute in `precision`.
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
