//! Decisions of a model on whole sets.

use burn::tensor::{Device, Tensor};

use crate::data::ImageSet;
use crate::engine::{CpuEngine, Engine};
use crate::methods::{Decision, Model};

/// Images scored at once: bounds memory, changes no score.
const BATCH: usize = 256;

/// What `model` decides of every image, in order, by `decision`. The CPU engine has reconstruction errors; what else there
/// is, is burn's.
pub fn scores(model: &dyn Model, decision: Decision, images: &ImageSet, engine: Engine, device: &Device) -> Vec<f32> {
    let shape = images.shape();
    let cpu = match (engine, decision, model.autoencoder()) {
        (Engine::Cpu, Decision::Reconstruction, Some(autoencoder)) => {
            Some(CpuEngine::new(autoencoder, [shape.channels, shape.height, shape.width], device))
        }
        _ => None,
    };
    let decide = |batch: Tensor<4>| match &cpu {
        Some(cpu) => cpu.energies(batch),
        None => model.decide(decision, batch).into_data().try_into_vec().expect("scores are float"),
    };
    images.batches(BATCH, device).flat_map(decide).collect()
}

/// The same where samples are images; where they are tiles, what is decided of the images they are of.
pub fn decided(model: &dyn Model, decision: Decision, images: &ImageSet, engine: Engine, device: &Device) -> Vec<f32> {
    images.decide(scores(model, decision, images, engine, device))
}

/// The energy of every image, in order: its reconstruction error.
pub fn energies(model: &dyn Model, images: &ImageSet, engine: Engine, device: &Device) -> Vec<f32> {
    scores(model, Decision::Reconstruction, images, engine, device)
}

/// Share of `energies` above `threshold`: of normal data, the false-positive rate. `None` where there are none.
pub fn share_above(energies: &[f32], threshold: f32) -> Option<f64> {
    let above = energies.iter().filter(|&&e| e > threshold).count();
    (!energies.is_empty()).then(|| above as f64 / energies.len() as f64)
}

/// The mean of `energies`, summed in double precision; NaN where there are none.
pub fn mean(energies: &[f32]) -> f64 {
    energies.iter().map(|&e| f64::from(e)).sum::<f64>() / energies.len() as f64
}
