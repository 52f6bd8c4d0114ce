//! The autoencoder: f_d(f_e(x)), where the latent is projected to its space in between.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use nae_core::energy::Energy;
use rand::Rng;

use super::autoencoder_spec::AutoencoderSpec;
use super::latent::LatentSpace;
use super::layer::Sequential;

/// An encoder and a decoder with their weights.
#[derive(Module, Debug)]
pub struct Autoencoder {
    /// The encoder f_e, before the projection.
    pub encoder: Sequential,
    /// The decoder f_d.
    pub decoder: Sequential,
    #[module(skip)]
    latent_space: LatentSpace,
    #[module(skip)]
    latent_dim: usize,
    #[module(skip)]
    energy: Energy,
}

impl Autoencoder {
    /// Makes an autoencoder with new weights drawn from `rng`.
    pub fn new(spec: &AutoencoderSpec, rng: &mut impl Rng, device: &Device) -> Self {
        Self {
            encoder: Sequential::new(spec.encoder(), spec.image(), rng, device),
            decoder: Sequential::new(spec.decoder(), spec.latent(), rng, device),
            latent_space: spec.latent_space(),
            latent_dim: spec.latent_dim(),
            energy: spec.energy(),
        }
    }

    /// Sets the biases of the last layer so that outputs are about `mean`, the values of one image, while weights are
    /// small: by channel if the layer is a convolution, by value if it is dense. Other last layers are not changed. The
    /// values of `mean` are in the order channels, rows, columns (CHW).
    ///
    /// # Panics
    /// If `mean` has fewer values than the last layer has biases; it must have as many as an image.
    #[must_use]
    pub fn with_output_at(self, mean: &[f32]) -> Self {
        Self { decoder: self.decoder.with_output_at(mean), ..self }
    }

    /// The latents `[N, D, 1, 1]` of images `[N, C, H, W]`.
    pub fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        self.latent_space.project(self.encoder.forward(x))
    }

    /// The images `[N, C, H, W]` of latents `[N, D, 1, 1]`, where D is [`latent_dim`](Self::latent_dim): points of the
    /// decoder's manifold (paper, equation 13).
    pub fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        self.decoder.forward(z)
    }

    /// The reconstructions f_d(f_e(x)) of images `x`, both `[N, C, H, W]` with C, H and W of the architecture.
    pub fn reconstruct(&self, x: Tensor<4>) -> Tensor<4> {
        self.decode(self.encode(x))
    }

    /// Updates the estimate of every spectral norm by one step of power iteration; called once after each update.
    #[must_use]
    pub fn power_iteration(self) -> Self {
        Self { encoder: self.encoder.power_iteration(), decoder: self.decoder.power_iteration(), ..self }
    }

    /// The geometry of the latent space.
    pub fn latent_space(&self) -> LatentSpace {
        self.latent_space
    }

    /// The length D_z of the latent vector.
    pub fn latent_dim(&self) -> usize {
        self.latent_dim
    }

    /// How a reconstruction is compared with its image.
    pub fn energy(&self) -> Energy {
        self.energy
    }
}
