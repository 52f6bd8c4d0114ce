//! A memory of samples and a softmax over it, which can express nearest neighbours ([`knn`](crate::methods::knn)).

use nae_core::Shape;

use super::autoencoder_spec::AutoencoderSpec;
use super::latent::LatentSpace;
use super::spec::{LayerSpec, SpecError, as_image, fc};

/// The largest number of weights of each of the two dense layers; they take 4 MB.
const MOST_WEIGHTS: usize = 1 << 20;

/// One dense layer to a score for each of at most `vectors` stored samples, a softmax that converts scores to shares,
/// and one dense layer back to a sample. There are fewer stored samples if samples have more than some hundred values,
/// so that a layer has at most 2²⁰ weights.
///
/// # Errors
/// [`SpecError`] if a size is zero.
pub(crate) fn memory(image: Shape, vectors: usize) -> Result<AutoencoderSpec, SpecError> {
    let values = image.len();
    let vectors = vectors.min((MOST_WEIGHTS / values.max(1)).max(1));
    let mut decoder = vec![fc(values)];
    decoder.extend(as_image(image));
    let encoder = vec![fc(vectors), LayerSpec::Softmax];
    AutoencoderSpec::new(
        format!("memory image={image} vectors={vectors}"),
        image,
        encoder,
        decoder,
        LatentSpace::Euclidean,
    )
}
