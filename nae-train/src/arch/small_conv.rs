//! A small convolutional autoencoder for 16×16 images, shaped after the paper's Conv28.
//!
//! Small enough for a microcontroller, and still one that reconstructs outliers it never saw: the failure that
//! normalisation mends.

use nae_core::Shape;

use super::latent::LatentSpace;
use super::spec::{AutoencoderSpec, LayerSpec, SpecError};

/// The autoencoder for `channels`×16×16 images with `width` channels in the first layer and `latent_dim` latents.
///
/// # Errors
/// [`SpecError`] where `width`, `latent_dim` or `channels` is zero.
pub fn small_conv16(
    channels: usize,
    width: usize,
    latent_dim: usize,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    use LayerSpec::{Conv, ConvTranspose, MaxPool, Relu, Sigmoid, Upsample};
    let encoder = vec![
        Conv { channels: width, kernel: 3 },
        Relu,
        Conv { channels: 2 * width, kernel: 3 },
        Relu,
        MaxPool { window: 2 },
        Conv { channels: 4 * width, kernel: 3 },
        Relu,
        Conv { channels: 16 * width, kernel: 4 },
        Relu,
        Conv { channels: latent_dim, kernel: 1 },
    ];
    let decoder = vec![
        ConvTranspose { channels: 4 * width, kernel: 3 },
        Relu,
        Upsample { size: 5 },
        ConvTranspose { channels: 2 * width, kernel: 3 },
        Relu,
        Upsample { size: 12 },
        ConvTranspose { channels: width, kernel: 3 },
        Relu,
        ConvTranspose { channels, kernel: 3 },
        Sigmoid,
    ];
    let name = format!("small-conv16 width={width} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, Shape::new(channels, 16, 16), encoder, decoder, latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let spec = small_conv16(1, 8, 32, LatentSpace::Sphere).expect("a valid architecture");
        let encoder = 80 + 1_168 + 4_640 + 65_664 + 4_128;
        let decoder = 9_248 + 4_624 + 1_160 + 73;
        assert_eq!(spec.parameters(), encoder + decoder);
        assert_eq!(spec.latent_dim(), 32);
    }

    #[test]
    fn zero_widths_are_refused() {
        assert!(small_conv16(1, 0, 32, LatentSpace::Sphere).is_err());
        assert!(small_conv16(1, 8, 0, LatentSpace::Sphere).is_err());
        assert!(small_conv16(0, 8, 32, LatentSpace::Sphere).is_err());
    }
}
