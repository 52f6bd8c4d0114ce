//! The autoencoder: f_d(f_e(x)), with the latent projected to its space in between.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use nae_core::energy::Energy;
use rand::Rng;

use super::autoencoder_spec::AutoencoderSpec;
use super::latent::LatentSpace;
use super::layer::Sequential;

/// Encoder and decoder with their weights.
#[derive(Module, Debug)]
pub struct Autoencoder {
    /// f_e, before the projection.
    pub encoder: Sequential,
    /// f_d.
    pub decoder: Sequential,
    #[module(skip)]
    latent_space: LatentSpace,
    #[module(skip)]
    latent_dim: usize,
    #[module(skip)]
    energy: Energy,
}

impl Autoencoder {
    /// An autoencoder with fresh weights drawn from `rng`.
    pub fn new(spec: &AutoencoderSpec, rng: &mut impl Rng, device: &Device) -> Self {
        Self {
            encoder: Sequential::new(spec.encoder(), spec.image(), rng, device),
            decoder: Sequential::new(spec.decoder(), spec.latent(), rng, device),
            latent_space: spec.latent_space(),
            latent_dim: spec.latent_dim(),
            energy: spec.energy(),
        }
    }

    /// With biases of the last layer for which outputs are about `mean`, one image's values, while weights are small:
    /// by channel where the layer is a convolution, by value where it is dense. Other last layers stay as they are.
    #[must_use]
    pub fn with_output_at(self, mean: &[f32]) -> Self {
        Self { decoder: self.decoder.with_output_at(mean), ..self }
    }

    /// Latents `[N, D, 1, 1]` of images `[N, C, H, W]`.
    pub fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        self.latent_space.project(self.encoder.forward(x))
    }

    /// Images of latents: a point of the decoder's manifold (paper, equation 13).
    pub fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        self.decoder.forward(z)
    }

    /// f_d(f_e(x)).
    pub fn reconstruct(&self, x: Tensor<4>) -> Tensor<4> {
        self.decode(self.encode(x))
    }

    /// Advances the estimates of every spectral norm by one step of power iteration: once an update, after it.
    #[must_use]
    pub fn power_iteration(self) -> Self {
        Self { encoder: self.encoder.power_iteration(), decoder: self.decoder.power_iteration(), ..self }
    }

    /// Geometry of the latent space.
    pub fn latent_space(&self) -> LatentSpace {
        self.latent_space
    }

    /// D_z, the length of the latent vector.
    pub fn latent_dim(&self) -> usize {
        self.latent_dim
    }

    /// How a reconstruction is compared with its image.
    pub fn energy(&self) -> Energy {
        self.energy
    }
}
