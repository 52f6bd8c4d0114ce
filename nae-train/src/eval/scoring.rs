//! Decisions of a model on whole sets.

use burn::tensor::{Device, Tensor};
use nae_core::Shape;

use crate::engine::{CpuEngine, Engine};
use crate::methods::{Decision, Model};
use crate::tensors::Batches as _;
use nae_data::ImageSet;

/// Images scored at once: bounds memory, changes no score.
const BATCH: usize = 256;

/// A model ready to decide on samples: its weights are laid out once, for however many sets. The CPU engine has
/// reconstruction errors; what else there is, is burn's.
pub struct Scorer<'a> {
    model: &'a dyn Model,
    decision: Decision,
    cpu: Option<CpuEngine>,
    device: &'a Device,
}

impl<'a> Scorer<'a> {
    /// `model` deciding by `decision` on samples of `shape`.
    pub fn new(model: &'a dyn Model, decision: Decision, shape: Shape, engine: Engine, device: &'a Device) -> Self {
        let cpu = match (engine, decision, model.autoencoder()) {
            (Engine::Cpu, Decision::Reconstruction, Some(autoencoder)) => {
                Some(CpuEngine::new(autoencoder, [shape.channels, shape.height, shape.width], device))
            }
            _ => None,
        };
        Self { model, decision, cpu, device }
    }

    /// A number for each sample of `x` `[N, C, H, W]`.
    pub fn batch(&self, x: Tensor<4>) -> Vec<f32> {
        match &self.cpu {
            Some(cpu) => cpu.energies(x),
            None => self.model.decide(self.decision, x).into_data().try_into_vec().expect("scores are float"),
        }
    }

    /// One for every sample of `images`, in order.
    pub fn scores(&self, images: &ImageSet) -> Vec<f32> {
        images.batches(BATCH, self.device).flat_map(|batch| self.batch(batch)).collect()
    }

    /// The same where samples are images; where they are tiles, what is decided of the images they are of.
    pub fn decided(&self, images: &ImageSet) -> Vec<f32> {
        images.decide(self.scores(images))
    }
}

/// What `model` decides of `images` by `decision`: [`Scorer::decided`] of a single set.
pub fn decided(model: &dyn Model, decision: Decision, images: &ImageSet, engine: Engine, device: &Device) -> Vec<f32> {
    Scorer::new(model, decision, images.shape(), engine, device).decided(images)
}

/// The energy of every sample of `images`, in order, its reconstruction error: [`Scorer::scores`] of a single set.
pub fn energies(model: &dyn Model, images: &ImageSet, engine: Engine, device: &Device) -> Vec<f32> {
    Scorer::new(model, Decision::Reconstruction, images.shape(), engine, device).scores(images)
}

/// Share of `energies` above `threshold`: of normal data, the false-positive rate. `None` where there are none.
pub fn share_above(energies: &[f32], threshold: f32) -> Option<f64> {
    let above = energies.iter().filter(|&&e| e > threshold).count();
    (!energies.is_empty()).then(|| above as f64 / energies.len() as f64)
}
