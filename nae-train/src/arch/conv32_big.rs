//! Conv32Big, the paper's network for ImageNet 32×32: the encoder is the energy function of Du and Mordatch (2019), the
//! decoder the generator of Miyato et al. (2018).

use super::autoencoder_spec::AutoencoderSpec;
use super::blocks::{LEAKY_RELU, color, generator32, res};
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, conv2d, with_spectral_norm};

/// Conv32Big for 3×32×32 images with `width` channels in the first layer and `groups` groups in the decoder's group
/// normalization; the paper has 128 and 8, and does not give `latent_dim`.
///
/// Every weight of the encoder has spectral normalization. Its last layer, the FC of the table, is a 1×1 convolution on
/// a single pixel. Res(128, 256, 256) has a projection on its short path ([`res`]). The paper does not say where the
/// decoder has group normalization: here it is before each ReLU, where the original generator has batch normalization.
///
/// # Errors
/// [`SpecError`] if a size is zero or `groups` does not divide `width`.
pub fn conv32_big(
    width: usize,
    groups: usize,
    latent_dim: usize,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    use LayerSpec::AvgPool;
    let (narrow, wide) = (width, 2 * width);
    let encoder = with_spectral_norm(vec![
        conv2d(narrow, 3, 1, 1),
        res(narrow, narrow, narrow),
        AvgPool { window: 2 },
        res(narrow, narrow, narrow),
        res(narrow, wide, wide),
        AvgPool { window: 2 },
        res(wide, wide, wide),
        res(wide, wide, wide),
        AvgPool { window: 2 },
        res(wide, wide, wide),
        LEAKY_RELU,
        AvgPool { window: 4 },
        conv2d(latent_dim, 1, 1, 0),
    ]);
    let decoder = generator32(width, groups, groups);
    let name = format!("conv32-big width={width} groups={groups} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, color(32), encoder, decoder, latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let spec = conv32_big(128, 8, 64, LatentSpace::Sphere).expect("a valid architecture");
        let narrow = 2 * (128 * 128 * 9 + 128);
        let widening = (128 * 256 * 9 + 256) + (256 * 256 * 9 + 256) + 128 * 256;
        let wide = 2 * (256 * 256 * 9 + 256);
        let encoder = (3 * 128 * 9 + 128) + 2 * narrow + widening + 3 * wide + (256 * 64 + 64);
        let up = 2 * (128 * 128 * 9 + 128) + 2 * (128 + 128);
        let decoder = (64 * 128 * 16 + 128) + 3 * up + (128 + 128) + (128 * 3 * 9 + 3);
        assert_eq!(spec.parameters(), encoder + decoder);
        assert!(conv32_big(128, 7, 64, LatentSpace::Sphere).is_err());
    }

    #[test]
    fn every_weight_of_the_encoder_is_normalized() {
        fn all(layers: &[LayerSpec]) -> bool {
            layers.iter().all(|layer| match layer {
                LayerSpec::Conv { spectral_norm, .. } => *spectral_norm,
                LayerSpec::Residual { body, skip } => all(body) && all(skip),
                LayerSpec::LeakyRelu { .. } | LayerSpec::AvgPool { .. } => true,
                _ => false,
            })
        }
        let spec = conv32_big(8, 2, 4, LatentSpace::Sphere).expect("a valid architecture");
        assert!(all(spec.encoder()));
        assert!(!all(spec.decoder()));
    }
}
