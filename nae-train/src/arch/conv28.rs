//! Conv28, the paper's network for MNIST.

use nae_core::Shape;

use super::autoencoder_spec::AutoencoderSpec;
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, conv_transpose2d, conv2d};

/// Conv28 for 1×28×28 images with `width` channels in the first layer; the paper has 32 and `latent_dim` 32.
///
/// The paper's table pads the first convolutions and ends with a kernel of 4. The authors' code does neither, and only
/// the sizes of the code (28, 26, 24, 12, 10, 8, 4, 1 and 1, 4, 8, 10, 12, 24, 26, 28) are consistent.
///
/// # Errors
/// [`SpecError`] if a size is zero.
pub fn conv28(width: usize, latent_dim: usize, latent_space: LatentSpace) -> Result<AutoencoderSpec, SpecError> {
    use LayerSpec::{MaxPool, Relu, Sigmoid, Upsample};
    let encoder = vec![
        conv2d(width, 3, 1, 0),
        Relu,
        conv2d(2 * width, 3, 1, 0),
        Relu,
        MaxPool { window: 2 },
        conv2d(2 * width, 3, 1, 0),
        Relu,
        conv2d(4 * width, 3, 1, 0),
        Relu,
        MaxPool { window: 2 },
        conv2d(32 * width, 4, 1, 0),
        Relu,
        conv2d(latent_dim, 1, 1, 0),
    ];
    let decoder = vec![
        conv_transpose2d(4 * width, 4, 1, 0),
        Relu,
        Upsample { size: 8 },
        conv_transpose2d(2 * width, 3, 1, 0),
        Relu,
        conv_transpose2d(2 * width, 3, 1, 0),
        Relu,
        Upsample { size: 24 },
        conv_transpose2d(width, 3, 1, 0),
        Relu,
        conv_transpose2d(1, 3, 1, 0),
        Sigmoid,
    ];
    let name = format!("conv28 width={width} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, Shape::new(1, 28, 28), encoder, decoder, latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let spec = conv28(32, 32, LatentSpace::Sphere).expect("a valid architecture");
        let encoder = (32 * 9 + 32)
            + (32 * 64 * 9 + 64)
            + (64 * 64 * 9 + 64)
            + (64 * 128 * 9 + 128)
            + (128 * 1024 * 16 + 1024)
            + (1024 * 32 + 32);
        let decoder =
            (32 * 128 * 16 + 128) + (128 * 64 * 9 + 64) + (64 * 64 * 9 + 64) + (64 * 32 * 9 + 32) + (32 * 9 + 1);
        assert_eq!(spec.parameters(), encoder + decoder);
        assert_eq!(spec.parameters(), 2_455_713);
        assert!(conv28(0, 32, LatentSpace::Sphere).is_err());
    }
}
