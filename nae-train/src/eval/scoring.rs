//! Energies of whole sets.

use burn::module::Module as _;
use burn::tensor::Device;

use crate::arch::Autoencoder;
use crate::data::ImageSet;
use crate::energy::energy;

/// Images scored at once: bounds memory, changes no energy.
const BATCH: usize = 256;

/// The energy of every image, in order. `model` may live on an autodiff device; nothing is tracked.
pub fn energies(model: &Autoencoder, images: &ImageSet, device: &Device) -> Vec<f32> {
    let model = model.valid();
    images
        .batches(BATCH, device)
        .flat_map(|batch| energy(&model, batch).into_data().try_into_vec::<f32>().expect("energies are float"))
        .collect()
}

/// The mean of `energies`, summed in double precision; NaN where there are none.
pub fn mean(energies: &[f32]) -> f64 {
    energies.iter().map(|&e| f64::from(e)).sum::<f64>() / energies.len() as f64
}
