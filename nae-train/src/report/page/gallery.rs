//! Images for the report: reconstructions by a model, and the stages of its chains.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;

use crate::engine::Engine;
use crate::methods::Model;
use crate::report::images;
use crate::run::Prepared;
use crate::tensors::Batches as _;

/// The number of images of each kind.
const SHOWN: usize = 10;

/// Rows of strips of images, as PNG in base64.
pub struct Gallery {
    /// The title of the gallery.
    pub title: String,
    /// The explanation of the images.
    pub caption: String,
    /// The titles of the columns, starting with that of the rows' names.
    pub columns: Vec<String>,
    /// The name and strips of each row.
    pub rows: Vec<(String, Vec<String>)>,
}

/// Images, reconstructions and squared errors under the autoencoder of `model`, for the normal test images and each
/// outlier set. `None` if the model has no autoencoder.
pub fn reconstructions(prepared: &Prepared, model: &dyn Model, device: &Device) -> Option<Gallery> {
    let autoencoder = model.autoencoder()?.valid();
    let outliers = prepared.outlier_sets();
    let sets = std::iter::once(("normal", &prepared.split.test));
    let rows =
        sets.chain(outliers.iter().map(|set| (set.name.as_str(), &set.images))).filter(|(_, set)| !set.is_empty());
    let rows = rows.map(|(name, set)| {
        let x = set.batch(&set.evenly(SHOWN), device);
        let reconstruction = autoencoder.reconstruct(x.clone());
        let error = (x.clone() - reconstruction.clone()).powi_scalar(2);
        // All rows have the same scale, so that they can be compared: an error of 1/2 is white.
        let strips = [x, reconstruction, error.mul_scalar(4.0)].map(|images| strip(&images, set.shape()));
        (name.to_owned(), strips.to_vec())
    });
    Some(Gallery {
        title: "Reconstructions".to_owned(),
        caption:
            "The model's energy is the mean squared error between the first two; in the third, white is an error of a \
                  half and more. An outlier that is reproduced as well as a normal one is missed."
                .to_owned(),
        columns: ["", "images", "reconstructions", "squared error"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    })
}

/// Chains of the trained model from noise: the decoder's images of the latent chain's start and end, and the end of the
/// visible chain. `None` for models without an autoencoder or a latent chain.
pub fn chains(prepared: &Prepared, model: &dyn Model, engine: Engine, device: &Device) -> Option<Gallery> {
    let stages = prepared.new_images(model, SHOWN, engine, device)?;
    let shape = prepared.split.test.shape();
    let names = ["decoded noise", "after the latent chain", "after the visible chain"];
    Some(Gallery {
        title: "Samples".to_owned(),
        caption: "What the model takes for normal: chains from noise in the latent space, eight times as long as in training. \
                  They should look like the data."
            .to_owned(),
        columns: ["", "images"].map(str::to_owned).to_vec(),
        rows: names.iter().zip(stages).map(|(name, x)| ((*name).to_owned(), vec![strip(&x, shape)])).collect(),
    })
}

/// Images side by side, as PNG in base64.
fn strip(images: &Tensor<4>, shape: Shape) -> String {
    STANDARD.encode(images::png(&images::grid(images, shape, SHOWN)))
}
