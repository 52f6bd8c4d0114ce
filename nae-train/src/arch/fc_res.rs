//! FCRes2, the paper's network for densities in the plane: dense residual blocks on points `[N, 2, 1, 1]`.

use nae_core::Shape;

use super::autoencoder_spec::AutoencoderSpec;
use super::blocks;
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, fc};

/// FCRes2 with `blocks` FCRes(`width`, `hidden`) blocks in the encoder, and as many in the decoder. The paper has five
/// of (256, 1024) and `latent_dim` 2, or 3 for the overcomplete network.
///
/// The output is linear, since points can be anywhere in the plane.
///
/// # Errors
/// [`SpecError`] if a size is zero.
pub fn fc_res2(
    blocks: usize,
    width: usize,
    hidden: usize,
    latent_dim: usize,
    latent_space: LatentSpace,
) -> Result<AutoencoderSpec, SpecError> {
    let chain = |out: usize| {
        let mut layers = vec![fc(width)];
        layers.extend(std::iter::repeat_n(blocks::fc_res(width, hidden), blocks));
        layers.extend([LayerSpec::Relu, fc(out)]);
        layers
    };
    let name = format!("fc-res2 blocks={blocks} width={width} hidden={hidden} latent_dim={latent_dim}");
    AutoencoderSpec::new(name, Shape::vector(2), chain(latent_dim), chain(2), latent_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_counted_by_hand() {
        let block = (256 * 1024 + 1024) + (1024 * 256 + 256);
        for d in [2, 3] {
            let spec = fc_res2(5, 256, 1024, d, LatentSpace::Euclidean).expect("a valid architecture");
            let encoder = (2 * 256 + 256) + 5 * block + (256 * d + d);
            let decoder = (d * 256 + 256) + 5 * block + (256 * 2 + 2);
            assert_eq!(spec.parameters(), encoder + decoder);
            assert_eq!(spec.latent_dim(), d);
        }
        assert!(fc_res2(5, 0, 1024, 2, LatentSpace::Euclidean).is_err());
    }
}
