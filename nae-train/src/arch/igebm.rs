//! The encoder and decoder for CIFAR-10 in the authors' code, for which the paper has Conv32: the encoder of IGEBM (Du
//! and Mordatch, 2019) without spectral normalization, and a residual generator with group normalization.
//!
//! This follows the behaviour of the code. Its blocks differ from the paper's Res: a leaky ReLU follows the sum and the
//! pooling, none comes first, and the short path has a projection if a block pools or widens. The code draws the
//! generator's initial weights with Glorot's method; here all weights are drawn as for the other networks
//! ([`init`](super::init)).

use super::autoencoder_spec::AutoencoderSpec;
use super::blocks::{LEAKY_RELU, color, generator32, projection};
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, conv2d};

/// The blocks of IGEBM: input channels, output channels, and whether pooling follows that halves the sides.
pub(crate) fn stages(narrow: usize) -> [(usize, usize, bool); 6] {
    let wide = 2 * narrow;
    [
        (narrow, narrow, true),
        (narrow, narrow, false),
        (narrow, wide, true),
        (wide, wide, false),
        (wide, wide, true),
        (wide, wide, false),
    ]
}

/// The network for 3×32×32 images with `width` channels in the first layer of the encoder and in all layers of the
/// decoder, and `groups` groups in the last group normalization; the code has 128, 2 and `latent_dim` 32.
///
/// The number of groups only applies to the last normalization, as in the code, whose blocks have one group.
///
/// # Errors
/// [`SpecError`] if a size is zero or `groups` does not divide `width`.
pub fn igebm32(
    width: usize,
    groups: usize,
    latent_dim: usize,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    let mut encoder = vec![conv2d(width, 3, 1, 1), LEAKY_RELU];
    for (inp, out, pool) in stages(width) {
        let body = vec![conv2d(out, 3, 1, 1), LEAKY_RELU, conv2d(out, 3, 1, 1)];
        let skip = if pool || inp != out { vec![projection(out)] } else { vec![] };
        encoder.push(LayerSpec::Residual { body, skip });
        encoder.extend(pool.then_some(LayerSpec::AvgPool { window: 2 }));
        encoder.push(LEAKY_RELU);
    }
    encoder.extend([LayerSpec::Relu, LayerSpec::AvgPool { window: 4 }, conv2d(latent_dim, 1, 1, 0)]);

    let decoder = generator32(width, 1, groups);
    let name = format!("igebm32 width={width} groups={groups} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, color(32), encoder, decoder, latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let spec = igebm32(128, 2, 32, LatentSpace::Sphere).expect("a valid architecture");
        let narrow = 2 * (128 * 128 * 9 + 128);
        let widening = (128 * 256 * 9 + 256) + (256 * 256 * 9 + 256) + 128 * 256;
        let wide = 2 * (256 * 256 * 9 + 256);
        let projections = 128 * 128 + 256 * 256;
        let encoder = (3 * 128 * 9 + 128) + 2 * narrow + widening + 3 * wide + projections + (256 * 32 + 32);
        let up = 2 * (128 * 128 * 9 + 128) + 2 * (128 + 128);
        let decoder = (32 * 128 * 16 + 128) + 3 * up + (128 + 128) + (128 * 3 * 9 + 3);
        assert_eq!(spec.parameters(), encoder + decoder);
        assert!(igebm32(127, 2, 32, LatentSpace::Sphere).is_err());
    }
}
