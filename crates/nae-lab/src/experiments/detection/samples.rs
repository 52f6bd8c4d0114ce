//! New images of a trained model, as a picture (paper, figure "Sampling with NAEs trained on MNIST and CelebA").

use burn::tensor::{Device, Tensor};

use nae_train::engine::Engine;
use nae_train::methods::Model;
use nae_train::report::images;
use nae_train::run::Prepared;

/// The file name of the picture in a run folder.
pub(super) const SAMPLES: &str = "samples.png";
/// The maximum number of images side by side.
const COLUMNS: usize = 16;

/// `count` images of each stage, as a PNG file: the decoded latents at the start and at the end of the latent chain,
/// and the end of the visible chain. `None` for a model without a decoder, and for settings without a latent chain.
pub(super) fn picture(
    prepared: &Prepared,
    model: &dyn Model,
    count: usize,
    engine: Engine,
    device: &Device,
) -> Option<Vec<u8>> {
    let stages = prepared.new_images(model, count, engine, device)?;
    // Complete rows, so that each stage begins with a new row.
    let columns = (1..=COLUMNS).rev().find(|columns| count.is_multiple_of(*columns)).unwrap_or(1);
    Some(images::png(&images::grid(&Tensor::cat(stages.to_vec(), 0), prepared.config.architecture().image(), columns)))
}
