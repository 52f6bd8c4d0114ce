//! What an architecture is made of, as data: layers in order, with their shapes checked.

use nae_core::Shape;
use nae_core::energy::Energy;
use serde::{Deserialize, Serialize};

use super::latent::LatentSpace;

/// One layer. Convolutions have stride 1 and no padding, as in the authors' Conv28.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayerSpec {
    /// Convolution, `kernel` × `kernel`.
    Conv {
        /// Channels out.
        channels: usize,
        /// Side of the kernel, in pixels.
        kernel: usize,
    },
    /// Transposed convolution, `kernel` × `kernel`.
    ConvTranspose {
        /// Channels out.
        channels: usize,
        /// Side of the kernel, in pixels.
        kernel: usize,
    },
    /// max(0, x).
    Relu,
    /// 1 / (1 + exp(−x)).
    Sigmoid,
    /// Largest of each `window` × `window` block; a remainder at the border is dropped.
    MaxPool {
        /// Side of the block and stride, in pixels.
        window: usize,
    },
    /// Bilinear enlargement to `size` × `size`, corners aligned.
    Upsample {
        /// Side of the result, in pixels.
        size: usize,
    },
}

/// A layer that does not fit the activation it is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A kernel, window or size that the input cannot take.
    #[error("layer {index} ({layer:?}) cannot take an input of {input}")]
    DoesNotFit {
        /// Position in the list, from 0.
        index: usize,
        /// The layer.
        layer: LayerSpec,
        /// What it was given.
        input: Shape,
    },
    /// The decoder's output is not of the image's shape.
    #[error("the decoder gives {found}, the image is {expected}")]
    NotAnAutoencoder {
        /// The image's shape.
        expected: Shape,
        /// The decoder's output.
        found: Shape,
    },
    /// The encoder's output is not a vector.
    #[error("the encoder gives {found}; a latent vector is D×1×1")]
    NotALatent {
        /// The encoder's output.
        found: Shape,
    },
}

impl LayerSpec {
    /// The activation's shape after this layer, or `None` where the layer does not fit.
    pub fn output(self, input: Shape) -> Option<Shape> {
        let Shape { channels, height, width } = input;
        let shape = match self {
            Self::Conv { channels: out, kernel } => {
                if kernel == 0 || kernel > height || kernel > width {
                    return None;
                }
                Shape::new(out, height - kernel + 1, width - kernel + 1)
            }
            Self::ConvTranspose { channels: out, kernel } => {
                if kernel == 0 {
                    return None;
                }
                Shape::new(out, height + kernel - 1, width + kernel - 1)
            }
            Self::Relu | Self::Sigmoid => input,
            Self::MaxPool { window } => {
                if window == 0 {
                    return None;
                }
                Shape::new(channels, height / window, width / window)
            }
            Self::Upsample { size } => Shape::new(channels, size, size),
        };
        (!shape.is_empty()).then_some(shape)
    }

    /// Weights and biases of this layer on `input`.
    pub fn parameters(self, input: Shape) -> usize {
        match self {
            Self::Conv { channels, kernel } | Self::ConvTranspose { channels, kernel } => {
                input.channels * channels * kernel * kernel + channels
            }
            _ => 0,
        }
    }
}

/// An autoencoder described layer by layer, known to fit together.
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
    /// Checks that the layers fit `image`, meet in a vector, and give the image's shape back.
    ///
    /// # Errors
    /// [`SpecError`] names the first layer that does not fit.
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

    /// The same network with another energy than squared L2.
    #[must_use]
    pub fn with_energy(self, energy: Energy) -> Self {
        Self { energy, ..self }
    }

    /// How a reconstruction is compared with its image.
    pub fn energy(&self) -> Energy {
        self.energy
    }

    /// The architecture's name, with its sizes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shape of an image.
    pub fn image(&self) -> Shape {
        self.image
    }

    /// Layers from image to latent, before the projection to the latent space.
    pub fn encoder(&self) -> &[LayerSpec] {
        &self.encoder
    }

    /// Layers from latent to reconstruction.
    pub fn decoder(&self) -> &[LayerSpec] {
        &self.decoder
    }

    /// Geometry of the latent space.
    pub fn latent_space(&self) -> LatentSpace {
        self.latent_space
    }

    /// D_z, the length of the latent vector.
    pub fn latent_dim(&self) -> usize {
        self.latent_dim
    }

    /// Shape of the latent vector as an activation.
    pub fn latent(&self) -> Shape {
        Shape::new(self.latent_dim, 1, 1)
    }

    /// Where the encoder's last layer with weights stands, and the shape of what it is given.
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

    /// Number of weights and biases.
    pub fn parameters(&self) -> usize {
        let count = |layers: &[LayerSpec], mut shape: Shape| {
            let mut total = 0;
            for layer in layers {
                total += layer.parameters(shape);
                shape = layer.output(shape).unwrap_or(shape);
            }
            total
        };
        count(&self.encoder, self.image) + count(&self.decoder, self.latent())
    }
}

fn walk(layers: &[LayerSpec], input: Shape) -> Result<Shape, SpecError> {
    layers.iter().enumerate().try_fold(input, |shape, (index, &layer)| {
        layer.output(shape).ok_or(SpecError::DoesNotFit { index, layer, input: shape })
    })
}
