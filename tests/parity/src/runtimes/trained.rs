//! The model as the trainer knows it: its own network and energy, with the weights of its
//! checkpoint.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use nae_train::methods::{self, Decision, Model};
use nae_train::report::{CHECKPOINT, RunFolder};

use super::TRAINED;
use crate::{Images, Runtime, Unavailable};

/// burn, from the trainer's checkpoint.
pub struct Trained {
    device: Device,
    model: Result<Box<dyn Model>, String>,
}

impl Trained {
    /// The model of a run folder.
    pub fn new(folder: &Path) -> Self {
        let device = Device::flex();
        let model = RunFolder::read(folder).map_err(|e| e.to_string()).and_then(|(config, _)| {
            methods::load(&config, &folder.join(CHECKPOINT), &device).map_err(|e| e.to_string())
        });
        Self { device, model }
    }
}

impl Runtime for Trained {
    fn name(&self) -> &'static str {
        TRAINED
    }

    fn energies(&self, images: &Images) -> Result<Vec<f32>, Unavailable> {
        let model = self.model.as_ref().map_err(|e| Unavailable::Failed(e.clone()))?;
        let data = TensorData::new(images.values.clone(), images.shape);
        let energies = model.decide(Decision::Reconstruction, Tensor::from_data(data, &self.device));
        energies.into_data().try_into_vec::<f32>().map_err(|e| Unavailable::Failed(format!("{e:?}")))
    }
}
