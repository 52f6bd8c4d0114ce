//! Images and their reconstructions by autoencoders: an outlier that is reconstructed well is missed (paper, figures
//! "Examples of reconstructed outliers" and "Reconstruction examples in MNIST hold-out class detection").

use burn::tensor::{Device, Tensor};
use nae_data::ImageSet;

use crate::energy::mean;
use crate::methods::{Decision, Model};
use crate::tensors::Batches as _;

/// Some images of a set and their reconstructions.
pub struct Reconstructed {
    /// The images, followed by each model's reconstructions: `[N, C, H, W]` each.
    pub rows: Vec<Tensor<4>>,
    /// The mean reconstruction error of these images for each model; NaN if there are no images.
    pub energies: Vec<f64>,
}

/// Reconstructs at most `count` images of `set`, evenly spaced over all, with each of `models`. A model that decides by
/// something else has no row.
pub fn reconstructed(set: &ImageSet, count: usize, models: &[&dyn Model], device: &Device) -> Reconstructed {
    let x = set.batch(&set.evenly(count), device);
    let (mut rows, mut energies) = (vec![x.clone()], Vec::new());
    for model in models {
        let Some(reconstruction) = model.reconstruct(x.clone()) else { continue };
        rows.push(reconstruction);
        let of_each: Vec<f32> = model.decide(Decision::Reconstruction, x.clone()).into_data().iter::<f32>().collect();
        energies.push(mean(&of_each));
    }
    Reconstructed { rows, energies }
}
