//! Encoder and decoder as data, with checked shapes.

use nae_core::Shape;
use nae_core::energy::Energy;

use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, parameters, walk};

/// An autoencoder described layer by layer, with checked shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoencoderSpec {
    name: String,
    image: Shape,
    encoder: Vec<LayerSpec>,
    decoder: Vec<LayerSpec>,
    latent_space: LatentSpace,
    latent_dim: usize,
    energy: Energy,
}

impl AutoencoderSpec {
    /// Checks that the layers fit `image`, that the encoder's output is a vector, and that the decoder's output has the
    /// image's shape.
    ///
    /// # Errors
    /// [`SpecError`] with the first layer that does not fit.
    pub fn new(
        name: impl Into<String>,
        image: Shape,
        encoder: Vec<LayerSpec>,
        decoder: Vec<LayerSpec>,
        latent_space: LatentSpace,
    ) -> Result<Self, SpecError> {
        let latent = walk(&encoder, image)?;
        if latent.height != 1 || latent.width != 1 {
            return Err(SpecError::NotALatent { found: latent });
        }
        let output = walk(&decoder, latent)?;
        if output != image {
            return Err(SpecError::NotAnAutoencoder { expected: image, found: output });
        }
        Ok(Self {
            name: name.into(),
            image,
            encoder,
            decoder,
            latent_space,
            latent_dim: latent.channels,
            energy: Energy::SquaredL2,
        })
    }

    /// Returns the same network with another energy; the default is squared L2.
    #[must_use]
    pub fn with_energy(self, energy: Energy) -> Self {
        Self { energy, ..self }
    }

    /// Returns the same network with latents in another space.
    #[must_use]
    pub fn with_latent_space(self, latent_space: LatentSpace) -> Self {
        Self { latent_space, ..self }
    }

    /// How a reconstruction is compared with its image.
    pub fn energy(&self) -> Energy {
        self.energy
    }

    /// The name of the architecture, with its sizes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape of an image.
    pub fn image(&self) -> Shape {
        self.image
    }

    /// The layers from image to latent, before the projection to the latent space.
    pub fn encoder(&self) -> &[LayerSpec] {
        &self.encoder
    }

    /// The layers from latent to reconstruction.
    pub fn decoder(&self) -> &[LayerSpec] {
        &self.decoder
    }

    /// The geometry of the latent space.
    pub fn latent_space(&self) -> LatentSpace {
        self.latent_space
    }

    /// The length D_z of the latent vector.
    pub fn latent_dim(&self) -> usize {
        self.latent_dim
    }

    /// The shape of the latent vector as an activation.
    pub fn latent(&self) -> Shape {
        Shape::new(self.latent_dim, 1, 1)
    }

    /// The index of the encoder's last layer with weights, and the shape of its input.
    pub fn encoder_head(&self) -> (usize, Shape) {
        let mut head = (0, self.image);
        let mut shape = self.image;
        for (index, layer) in self.encoder.iter().enumerate() {
            if layer.parameters(shape) > 0 {
                head = (index, shape);
            }
            shape = layer.output(shape).unwrap_or(shape);
        }
        head
    }

    /// The number of weights and biases.
    pub fn parameters(&self) -> usize {
        parameters(&self.encoder, self.image) + parameters(&self.decoder, self.latent())
    }
}
