//! Dense autoencoders, for example for sensor readings, spectrogram frames and small images.

use nae_core::Shape;

use super::autoencoder_spec::AutoencoderSpec;
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, as_image, fc};

/// The range of a decoder's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenseOutput {
    /// Any number, without an activation.
    #[default]
    Linear,
    /// Between 0 and 1, by the logistic function.
    Sigmoid,
}

/// Dense layers with the given `widths` from the image to the latent vector, and the same in reverse, each followed by
/// a ReLU. The latent vector is linear, and the output has the activation in `output`.
///
/// `dense(Shape::vector(640), &[128; 4], 8, …)` has the widths of MLPerf Tiny's network for machine sounds,
/// 640-128×4-8-128×4-640. Unlike that network, this one has neither batch normalization nor a ReLU on the latent
/// vector: batch normalization would make an image's energy depend on the other images.
///
/// # Errors
/// [`SpecError`] if a size is zero.
pub fn dense(
    image: Shape,
    widths: &[usize],
    latent_dim: usize,
    output: DenseOutput,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    let hidden = |width: &usize| [fc(*width), LayerSpec::Relu];
    let mut encoder: Vec<LayerSpec> = widths.iter().flat_map(hidden).collect();
    encoder.push(fc(latent_dim));
    let mut decoder: Vec<LayerSpec> = widths.iter().rev().flat_map(hidden).collect();
    decoder.push(fc(image.len()));
    if output == DenseOutput::Sigmoid {
        decoder.push(LayerSpec::Sigmoid);
    }
    decoder.extend(as_image(image));
    let list = widths.iter().map(ToString::to_string).collect::<Vec<_>>().join("-");
    let name = format!("dense image={image} widths={list} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, image, encoder, decoder, latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let space = LatentSpace::Euclidean;
        let spec = dense(Shape::vector(640), &[128; 4], 8, DenseOutput::Linear, space).expect("a valid architecture");
        let half = |from: usize, to: usize| (from * 128 + 128) + 3 * (128 * 128 + 128) + (128 * to + to);
        assert_eq!(spec.parameters(), half(640, 8) + half(8, 640));
        // 264,192 multiplications, without the biases.
        assert_eq!(spec.parameters() - 8 * 128 - 8 - 640, 264_192);
        assert_eq!(spec.name(), "dense image=640x1x1 widths=128-128-128-128 latent_dim=8");
    }

    #[test]
    fn images_come_back_in_their_shape() {
        let image = Shape::new(3, 4, 5);
        let spec = dense(image, &[16, 8], 2, DenseOutput::Sigmoid, LatentSpace::Sphere).expect("a valid architecture");
        assert_eq!(spec.image(), image);
        assert_eq!(
            spec.parameters(),
            (60 * 16 + 16) + (16 * 8 + 8) + (8 * 2 + 2) + (2 * 8 + 8) + (8 * 16 + 16) + (16 * 60 + 60)
        );
        assert!(dense(Shape::new(0, 4, 4), &[16], 2, DenseOutput::Linear, LatentSpace::Sphere).is_err());
        assert!(dense(image, &[0], 2, DenseOutput::Linear, LatentSpace::Sphere).is_err());
    }
}
