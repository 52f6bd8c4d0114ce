//! The energy of chains for manifold projection–diffusion recovery (MPDR: Yoon, Jin, Noh, Park, NeurIPS 2023): the
//! model's energy plus a term that keeps a sample near the latent of the data that it started from.
//!
//! z̃ is the data's latent with added noise of scale s. The density of x given z̃ is proportional to exp(−E(x)/T −
//! c·‖f_e(x) − z̃‖²/2s²), where f_e is the encoder of the manifold; c is 1 in the paper and 10⁻⁴ in its authors'
//! settings.

use burn::tensor::Tensor;

use super::frozen::{EnergyGradient, FrozenEnergy};
use crate::arch::LatentSpace;

/// The starts of chains, and the strength of the force that pulls them back: c·‖f_e(x) − z̃‖²/2s² is added to E(x)/T,
/// where z̃ is the data's latent with added noise of scale s (MPDR: Yoon et al., NeurIPS 2023).
pub struct Recovery {
    /// The latents z̃ that chains are pulled to, `[N, D, 1, 1]`.
    pub latents: Tensor<4>,
    /// w = T·c/s² for each sample, `[N]`, at least 0.
    pub weights: Vec<f32>,
}

/// The energies of a model plus w/2·‖f_e(x) − z̃‖².
pub(super) struct Recovering<'a> {
    model: &'a dyn FrozenEnergy,
    recovery: Recovery,
}

impl<'a> Recovering<'a> {
    /// For chains at temperature T that started at `latents` with noise of `scales` `[N]`, all above 0; c is
    /// `strength`.
    pub(super) fn new(
        model: &'a dyn FrozenEnergy,
        latents: Tensor<4>,
        scales: &[f32],
        strength: f32,
        temperature: f32,
    ) -> Self {
        // T cancels, since a chain divides its whole energy by T.
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

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::arch::Autoencoder;
    use crate::arch::small_conv::small_conv16;
    use crate::engine::Engine;
    use crate::sample::{NoiseSource, Precision};

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_into_vec::<f32>().expect("float data")
    }

    /// The test is for both spaces, since Metropolis–Hastings compares these sums.
    #[test]
    fn energies_are_sums_of_the_models_and_the_distance() {
        let (temperature, strength, scales) = (0.5, 0.3, [0.1, 0.2, 0.4]);
        let spec = small_conv16(1, 2, 4, LatentSpace::Sphere).expect("valid");
        let device = Device::flex();
        let weights = Autoencoder::new(&spec, NoiseSource::new(1, 0).rng(), &device.clone().autodiff());
        let model = Engine::Cpu.freeze(&weights, [1, 16, 16], Precision::F32, &device);
        let x = NoiseSource::new(2, 0).uniform([3, 1, 16, 16], &device);
        let z = NoiseSource::new(3, 0).latents(LatentSpace::Sphere, 3, 4, &device);
        let started = NoiseSource::new(4, 0).latents(LatentSpace::Sphere, 3, 4, &device);
        let recovering = Recovering::new(&*model, started.clone(), &scales, strength, temperature);
        for (found, own, latents) in [
            (recovering.visible(x.clone()), model.visible(x.clone()), model.encode(x)),
            (recovering.latent(z.clone()), model.latent(z.clone()), model.encode(model.decode(z))),
        ] {
            let (found, own) = (values(found.energy), values(own.energy));
            let (latents, started) = (values(latents), values(started.clone()));
            for (i, (found, own)) in found.into_iter().zip(own).enumerate() {
                let pairs = latents[4 * i..][..4].iter().zip(&started[4 * i..]);
                let square: f32 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
                let expected = own + temperature * strength / (2.0 * scales[i] * scales[i]) * square;
                assert!((found / expected - 1.0).abs() < 1e-5, "{found} against {expected}");
            }
        }
    }
}
