//! Conv32, the paper's network for CIFAR-10.

use super::autoencoder_spec::AutoencoderSpec;
use super::blocks::{color, res_att};
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, conv_transpose2d, conv2d};

/// Conv32 for 3×32×32 images with `width` channels in the first layer; the paper has 32. The residual attention block
/// at the end of the encoder has 32·`width` hidden channels.
///
/// # Errors
/// [`SpecError`] if a size is zero.
pub fn conv32(width: usize, latent_dim: usize, latent_space: LatentSpace) -> Result<AutoencoderSpec, SpecError> {
    use LayerSpec::{Relu, Sigmoid};
    let encoder = vec![
        conv2d(width, 4, 2, 0),
        Relu,
        conv2d(2 * width, 4, 2, 0),
        Relu,
        conv2d(4 * width, 4, 2, 0),
        Relu,
        conv2d(8 * width, 2, 2, 0),
        Relu,
        conv2d(latent_dim, 1, 1, 0),
        Relu,
        res_att(latent_dim, 32 * width),
    ];
    let decoder = vec![
        conv_transpose2d(8 * width, 6, 1, 0),
        Relu,
        conv_transpose2d(4 * width, 4, 2, 0),
        Relu,
        conv_transpose2d(2 * width, 4, 2, 0),
        Relu,
        conv_transpose2d(3, 3, 1, 0),
        Sigmoid,
    ];
    let name = format!("conv32 width={width} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, color(32), encoder, decoder, latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let spec = conv32(32, 64, LatentSpace::Sphere).expect("a valid architecture");
        let attention = 2 * ((64 * 1024 * 9 + 1024) + (1024 * 64 * 9 + 64));
        let encoder = (3 * 32 * 16 + 32)
            + (32 * 64 * 16 + 64)
            + (64 * 128 * 16 + 128)
            + (128 * 256 * 4 + 256)
            + (256 * 64 + 64)
            + attention;
        let decoder = (64 * 256 * 36 + 256) + (256 * 128 * 16 + 128) + (128 * 64 * 16 + 64) + (64 * 3 * 9 + 3);
        assert_eq!(spec.parameters(), encoder + decoder);
        assert!(conv32(0, 64, LatentSpace::Sphere).is_err());
    }
}
