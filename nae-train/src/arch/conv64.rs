//! Conv64, the paper's network for CelebA 64×64.

use super::autoencoder_spec::AutoencoderSpec;
use super::blocks::{activation, color};
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, conv_transpose2d, conv2d};

/// The widths of [`conv64`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv64Widths {
    /// The channels of the encoder's first layer; the last layer has 8 times as many.
    pub encoder: usize,
    /// The channels of the decoder's last hidden layer; the first layer has 8 times as many.
    pub decoder: usize,
}

impl Conv64Widths {
    /// The widths in the paper's table.
    pub const PAPER: Self = Self { encoder: 256, decoder: 128 };
    /// The widths in the authors' code, whose encoder is half as wide.
    pub const CODE: Self = Self { encoder: 128, decoder: 128 };
}

/// Conv64 for 3×64×64 images, with `groups` groups in the group normalization before each ReLU, in encoder and decoder;
/// the paper has 8.
///
/// The table's Conv2d(245, …) has 256 channels here, as many as the layer before. With the table's widths the exported
/// file has 340 MB, more than the default limits of `nae-onnx`'s check allow `nae-infer` to read.
///
/// # Errors
/// [`SpecError`] if a size is zero or `groups` does not divide the channels of a layer.
pub fn conv64(
    widths: Conv64Widths,
    groups: usize,
    latent_dim: usize,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    let mut encoder = Vec::new();
    for factor in [1, 2, 4, 8] {
        encoder.push(conv2d(factor * widths.encoder, 5, 2, 0));
        encoder.extend(activation(Some(groups)));
    }
    encoder.push(conv2d(latent_dim, 1, 1, 0));

    let mut decoder = vec![conv_transpose2d(8 * widths.decoder, 8, 1, 0)];
    decoder.extend(activation(Some(groups)));
    for factor in [4, 2, 1] {
        decoder.push(conv_transpose2d(factor * widths.decoder, 4, 2, 1));
        decoder.extend(activation(Some(groups)));
    }
    decoder.extend([conv_transpose2d(3, 1, 1, 0), LayerSpec::Sigmoid]);
    let Conv64Widths { encoder: e, decoder: d } = widths;
    let name = format!("conv64 encoder_width={e} decoder_width={d} groups={groups} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, color(64), encoder, decoder, latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let spec = conv64(Conv64Widths::PAPER, 8, 64, LatentSpace::Sphere).expect("a valid architecture");
        let norms = 2 * (256 + 512 + 1024 + 2048) + 2 * (1024 + 512 + 256 + 128);
        let encoder = (3 * 256 * 25 + 256)
            + (256 * 512 * 25 + 512)
            + (512 * 1024 * 25 + 1024)
            + (1024 * 2048 * 25 + 2048)
            + (2048 * 64 + 64);
        let decoder = (64 * 1024 * 64 + 1024)
            + (1024 * 512 * 16 + 512)
            + (512 * 256 * 16 + 256)
            + (256 * 128 * 16 + 128)
            + (128 * 3 + 3);
        assert_eq!(spec.parameters(), encoder + decoder + norms);
        let code = conv64(Conv64Widths::CODE, 8, 64, LatentSpace::Sphere).expect("a valid architecture");
        assert!(code.parameters() < spec.parameters());
        assert!(conv64(Conv64Widths::PAPER, 3, 64, LatentSpace::Sphere).is_err());
    }
}
