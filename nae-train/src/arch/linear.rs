//! A linear map to as many latents as a sample has values, and one back, which can express the Mahalanobis distance
//! ([`mahalanobis`](crate::methods::mahalanobis)).

use nae_core::Shape;

use super::autoencoder_spec::AutoencoderSpec;
use super::latent::LatentSpace;
use super::spec::{SpecError, as_image, fc};

/// The largest number of values of a sample: with it, the two layers have a million weights each, and the principal
/// components take some seconds.
pub(crate) const MOST_VALUES: usize = 1024;

/// One dense layer to D latents and one back, for samples of D values.
///
/// # Errors
/// [`SpecError`] if a size is zero.
pub(crate) fn linear(image: Shape) -> Result<AutoencoderSpec, SpecError> {
    let values = image.len();
    let mut decoder = vec![fc(values)];
    decoder.extend(as_image(image));
    AutoencoderSpec::new(format!("linear image={image}"), image, vec![fc(values)], decoder, LatentSpace::Euclidean)
}
