//! Small convolutional autoencoders, similar to the paper's Conv28.
//!
//! They are small enough for a microcontroller, but still reconstruct outliers that they were not trained on, which is
//! the failure that normalization corrects.

use nae_core::Shape;

use super::autoencoder_spec::AutoencoderSpec;
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, conv_transpose2d, conv2d};

/// The sides that [`small_conv`] supports, in pixels.
pub(crate) const SIDES: std::ops::RangeInclusive<usize> = 12..=82;
/// Larger images are halved first.
const WHOLE: usize = 40;

/// The autoencoder for `channels`×16×16 images with `width` channels in the first layer and `latent_dim` latents.
///
/// # Errors
/// [`SpecError`] if `width`, `latent_dim` or `channels` is zero.
pub fn small_conv16(
    channels: usize,
    width: usize,
    latent_dim: usize,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    small_conv(channels, 16, width, latent_dim, latent_space)
}

/// The autoencoder for images of `side` × `side` pixels, within `SIDES`: the pooling grows with the image, so that the
/// convolution from the remaining pixels to a vector stays small. For images with a side of more than 40 pixels, one
/// more convolution and a halving are added before, and a doubling after it.
///
/// # Errors
/// [`SpecError`] if a size is zero or the image too small.
pub fn small_conv(
    channels: usize,
    side: usize,
    width: usize,
    latent_dim: usize,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    use LayerSpec::{MaxPool, Relu, Sigmoid, Upsample};
    let name = format!("small-conv{side} width={width} latent_dim={latent_dim}");
    let image = Shape::new(channels, side, side);
    if side > WHOLE {
        let halved = (side - 2) / 2;
        let inner = small_conv(width, halved, width, latent_dim, latent_space)?;
        let mut encoder = vec![conv2d(width, 3, 1, 0), Relu, MaxPool { window: 2 }];
        encoder.extend_from_slice(inner.encoder());
        let mut decoder = inner.decoder().to_vec();
        // The output layer of the inner network becomes one more hidden layer.
        decoder.pop();
        decoder.extend([Relu, Upsample { size: side - 2 }, conv_transpose2d(channels, 3, 1, 0), Sigmoid]);
        return AutoencoderSpec::new(name, image, encoder, decoder, latent_space);
    }
    let inner = side.saturating_sub(4);
    let window = (inner / 6).max(2);
    let rest = (inner / window).saturating_sub(2);
    let encoder = vec![
        conv2d(width, 3, 1, 0),
        Relu,
        conv2d(2 * width, 3, 1, 0),
        Relu,
        MaxPool { window },
        conv2d(4 * width, 3, 1, 0),
        Relu,
        conv2d(16 * width, rest, 1, 0),
        Relu,
        conv2d(latent_dim, 1, 1, 0),
    ];
    let decoder = vec![
        conv_transpose2d(4 * width, 3, 1, 0),
        Relu,
        Upsample { size: rest + 1 },
        conv_transpose2d(2 * width, 3, 1, 0),
        Relu,
        Upsample { size: inner },
        conv_transpose2d(width, 3, 1, 0),
        Relu,
        conv_transpose2d(channels, 3, 1, 0),
        Sigmoid,
    ];
    AutoencoderSpec::new(name, image, encoder, decoder, latent_space)
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
        assert_eq!(spec.name(), "small-conv16 width=8 latent_dim=32");
    }

    #[test]
    fn every_side_fits() {
        for side in SIDES {
            let spec = small_conv(3, side, 4, 8, LatentSpace::Sphere).expect("a valid architecture");
            assert_eq!(spec.image(), Shape::new(3, side, side));
        }
        // The sides for 32 are: 30, 28, pooled by 4 to 7, 5, and a kernel of 5.
        let spec = small_conv(3, 32, 4, 8, LatentSpace::Sphere).expect("a valid architecture");
        let encoder = (3 * 4 * 9 + 4) + (4 * 8 * 9 + 8) + (8 * 16 * 9 + 16) + (16 * 64 * 25 + 64) + (64 * 8 + 8);
        let decoder = (8 * 16 * 9 + 16) + (16 * 8 * 9 + 8) + (8 * 4 * 9 + 4) + (4 * 3 * 9 + 3);
        assert_eq!(spec.parameters(), encoder + decoder);
    }

    #[test]
    fn zero_widths_are_refused() {
        assert!(small_conv16(1, 0, 32, LatentSpace::Sphere).is_err());
        assert!(small_conv16(1, 8, 0, LatentSpace::Sphere).is_err());
        assert!(small_conv16(0, 8, 32, LatentSpace::Sphere).is_err());
        assert!(small_conv(1, 0, 8, 32, LatentSpace::Sphere).is_err());
    }
}
