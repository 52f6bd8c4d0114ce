//! Negative samples: a latent chain, the decoder, a visible chain (paper, algorithm 1, with equations 10 and 14 in
//! the place of its slips).

use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::frozen::FrozenEnergy;
use super::langevin::Langevin;
use super::noise::NoiseSource;
use super::replay_buffer::{ReplayBuffer, ReplayConfig};

/// Where the latent chain starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Start {
    /// On-manifold initialisation: from the noise distribution of the latent space (uniform on the sphere, standard
    /// normal in ℝ^D), or from a replay buffer of earlier chains.
    OnManifold {
        /// The buffer, where one is used.
        #[serde(default)]
        replay_buffer: Option<ReplayConfig>,
    },
    /// From latents of data, moved by Gaussian noise whose scale is drawn for each sample from [0, `max_scale`]
    /// (manifold projection–diffusion recovery: Yoon et al., NeurIPS 2023).
    PerturbedData {
        /// Largest standard deviation of the noise.
        max_scale: f32,
    },
}

/// The two chains and their start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerConfig {
    /// Where latent chains start.
    pub start: Start,
    /// Chain in the latent space, on H(z) = E(f_d(z)).
    pub latent_chain: Langevin,
    /// Chain among images, on E(x), clamped to [0, 1].
    pub visible_chain: Langevin,
    /// Temperature T of both chains.
    pub temperature: f32,
}

/// Draws negative samples, keeping the replay buffer between draws.
#[derive(Clone, Debug)]
pub struct NegativeSampler {
    config: SamplerConfig,
    buffer: Option<ReplayBuffer>,
    noise: NoiseSource,
}

impl NegativeSampler {
    /// A sampler for latents of `latent_dim` values whose random numbers come from `noise`.
    pub fn new(config: SamplerConfig, latent_dim: usize, noise: NoiseSource) -> Self {
        let buffer = match config.start {
            Start::OnManifold { replay_buffer } => replay_buffer.map(|config| ReplayBuffer::new(config, latent_dim)),
            Start::PerturbedData { .. } => None,
        };
        Self { config, buffer, noise }
    }

    /// As many negative samples as `data` `[N, C, H, W]` has images, values in [0, 1].
    pub fn sample(&mut self, model: &dyn FrozenEnergy, data: Tensor<4>) -> Tensor<4> {
        let space = model.latent_space();
        let SamplerConfig { latent_chain, visible_chain, temperature, .. } = self.config;
        let z = self.start(model, data);
        let z = latent_chain.run(z, temperature, &mut self.noise, |z| model.latent(z), |z| space.project(z));
        if let Some(buffer) = &mut self.buffer {
            buffer.append(&z.clone().into_data().try_into_vec::<f32>().expect("latents are float"));
        }
        let x = model.decode(z);
        visible_chain.run(x, temperature, &mut self.noise, |x| model.visible(x), |x| x.clamp(0.0, 1.0))
    }

    fn start(&mut self, model: &dyn FrozenEnergy, data: Tensor<4>) -> Tensor<4> {
        let (space, device, count) = (model.latent_space(), data.device(), data.dims()[0]);
        match self.config.start {
            Start::PerturbedData { max_scale } => {
                let z = model.encode(data);
                let scale = self.noise.uniform([count, 1, 1, 1], &device).mul_scalar(max_scale);
                let moved = z.clone() + self.noise.normal(z.dims(), &device) * scale;
                space.project(moved)
            }
            Start::OnManifold { .. } => {
                let dim = model.encode(data.narrow(0, 0, 1)).dims()[1];
                let fresh = space.project(self.noise.normal([count, dim, 1, 1], &device));
                let Some(buffer) = &self.buffer else { return fresh };
                let mut values = fresh.into_data().try_into_vec::<f32>().expect("latents are float");
                for z in values.chunks_exact_mut(dim) {
                    if let Some(kept) = buffer.draw(self.noise.rng()) {
                        z.copy_from_slice(kept);
                    }
                }
                Tensor::from_data(TensorData::new(values, [count, dim, 1, 1]), &device)
            }
        }
    }
}
