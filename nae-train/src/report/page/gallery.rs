//! Images for the report: reconstructions by a model, and the stages of its chains.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use nae_core::energy::Energy;

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

/// Images, reconstructions and their errors by `model`, for the normal test images and each outlier set. `None` if the
/// model decides by something else.
pub fn reconstructions(prepared: &Prepared, model: &dyn Model, device: &Device) -> Option<Gallery> {
    if !model.reconstructs() {
        return None;
    }
    let energy = prepared.config.architecture().energy();
    let (measure, error) = match energy {
        Energy::SquaredL2 => ("the mean squared error between the first two", "squared error"),
        Energy::L1 => ("the mean absolute error between the first two", "absolute error"),
        // Its map has no place for each pixel.
        _ => ("one minus the mean structural similarity of the first two", "squared error"),
    };
    let outliers = prepared.outlier_sets();
    let sets = std::iter::once(("normal", &prepared.split.test));
    let rows =
        sets.chain(outliers.iter().map(|set| (set.name.as_str(), &set.images))).filter(|(_, set)| !set.is_empty());
    let rows = rows.filter_map(|(name, set)| {
        let x = set.batch(&set.evenly(SHOWN), device);
        let reconstruction = model.reconstruct(x.clone())?;
        // All rows have the same scale, so that they can be compared: a difference of 1/2 is white.
        let double = (x.clone() - reconstruction.clone()).abs().mul_scalar(2.0);
        let error = if energy == Energy::L1 { double } else { double.powi_scalar(2) };
        let strips = [x, reconstruction, error].map(|images| strip(&images, set.shape()));
        Some((name.to_owned(), strips.to_vec()))
    });
    Some(Gallery {
        title: "Reconstructions".to_owned(),
        caption: format!(
            "The model's energy is {measure}; in the third, white is a difference of a half and more. An outlier that is \
             reproduced as well as a normal one is missed."
        ),
        columns: ["", "images", "reconstructions", error].map(str::to_owned).to_vec(),
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
