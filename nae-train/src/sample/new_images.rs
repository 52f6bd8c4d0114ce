//! New images from a trained model (paper, "Sampling Parameters and Techniques").

use burn::tensor::{Device, Tensor};

use super::frozen::FrozenEnergy;
use super::langevin::Langevin;
use super::negatives::SamplerConfig;
use super::noise::NoiseSource;

/// The factor of the latent chain's length compared with training.
pub(crate) const LONGER: usize = 8;

/// Draws new images with a latent chain `LONGER` times as long as in training, which starts from noise without a replay
/// buffer, then the decoder, then the visible chain of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewImages {
    latent_chain: Langevin,
    visible_chain: Langevin,
}

impl NewImages {
    /// The chains of `config`; `None` if it has no latent chain, since the paper only generates images with one.
    pub fn new(config: &SamplerConfig) -> Option<Self> {
        let chain = config.latent_chain?;
        let latent_chain = Langevin { steps: LONGER * chain.steps, ..chain };
        Some(Self { latent_chain, visible_chain: config.visible_chain })
    }

    /// Draws `count` images `[N, C, H, W]` from a model with latents of `latent_dim` values.
    pub fn draw(
        &self,
        model: &dyn FrozenEnergy,
        count: usize,
        latent_dim: usize,
        temperature: f32,
        noise: &mut NoiseSource,
        device: &Device,
    ) -> Tensor<4> {
        let [_, _, x] = self.stages(model, count, latent_dim, temperature, noise, device);
        x
    }

    /// Draws the same images in three stages, `[N, C, H, W]` each: the decoder's images of the latent chain's start and of
    /// its end, and the end of the visible chain. The second stage is moved to the nearest point within the bounds of the
    /// visible chain, if it has bounds; the first is what the decoder returns. N is `count`.
    pub fn stages(
        &self,
        model: &dyn FrozenEnergy,
        count: usize,
        latent_dim: usize,
        temperature: f32,
        noise: &mut NoiseSource,
        device: &Device,
    ) -> [Tensor<4>; 3] {
        let start = noise.latents(model.latent_space(), count, latent_dim, device);
        let z = model.latent_chain(&self.latent_chain, start.clone(), temperature, noise).state;
        let x = model.decode(z);
        let x = self.visible_chain.bounds.map_or(x.clone(), |bounds| bounds.nearest(x));
        let end = model.visible_chain(&self.visible_chain, x.clone(), temperature, noise).state;
        [model.decode(start), x, end]
    }
}
