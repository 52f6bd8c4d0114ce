//! The scores of whole sets under a model.

use burn::tensor::{Device, Tensor};
use nae_core::Shape;

use crate::engine::{CpuEngine, Engine};
use crate::methods::{Decision, Model};
use crate::tensors::Batches as _;
use nae_data::ImageSet;

/// The number of images scored at once; it limits the memory and does not affect scores.
const BATCH: usize = 256;

/// A model prepared for scoring: its weights are laid out once for any number of sets. The CPU engine computes
/// reconstruction errors; burn computes all other decisions.
pub struct Scorer<'a> {
    model: &'a dyn Model,
    decision: Decision,
    cpu: Option<CpuEngine>,
    device: &'a Device,
}

impl<'a> Scorer<'a> {
    /// Prepares `model` to score samples of `shape` with `decision`.
    pub fn new(model: &'a dyn Model, decision: Decision, shape: Shape, engine: Engine, device: &'a Device) -> Self {
        let cpu = match (engine, decision, model.autoencoder()) {
            (Engine::Cpu, Decision::Reconstruction, Some(autoencoder)) => {
                Some(CpuEngine::new(autoencoder, [shape.channels, shape.height, shape.width], device))
            }
            _ => None,
        };
        Self { model, decision, cpu, device }
    }

    /// The score of each sample of `x` `[N, C, H, W]`.
    pub fn batch(&self, x: Tensor<4>) -> Vec<f32> {
        match &self.cpu {
            Some(cpu) => cpu.energies(x),
            None => self.model.decide(self.decision, x).into_data().try_into_vec().expect("scores are float"),
        }
    }

    /// The score of every sample of `images`, in order.
    pub fn scores(&self, images: &ImageSet) -> Vec<f32> {
        images.batches(BATCH, self.device).flat_map(|batch| self.batch(batch)).collect()
    }

    /// The score of every image if samples are tiles, otherwise of every sample.
    pub fn decided(&self, images: &ImageSet) -> Vec<f32> {
        images.decide(self.scores(images))
    }
}

/// The scores of `images` under `model` with `decision`: [`Scorer::decided`] for a single set.
pub fn decided(model: &dyn Model, decision: Decision, images: &ImageSet, engine: Engine, device: &Device) -> Vec<f32> {
    Scorer::new(model, decision, images.shape(), engine, device).decided(images)
}

/// The energy, which is the reconstruction error, of every sample of `images`, in order: [`Scorer::scores`] for a
/// single set.
pub fn energies(model: &dyn Model, images: &ImageSet, engine: Engine, device: &Device) -> Vec<f32> {
    Scorer::new(model, Decision::Reconstruction, images.shape(), engine, device).scores(images)
}

/// The share of `energies` above `threshold`, which is the false-positive rate for normal data. `None` if there are
/// none.
pub fn share_above(energies: &[f32], threshold: f32) -> Option<f64> {
    let above = energies.iter().filter(|&&e| e > threshold).count();
    (!energies.is_empty()).then(|| above as f64 / energies.len() as f64)
}
