//! The exported model read back into burn by burn-onnx, when this crate was built.

use burn::tensor::{Device, Tensor, TensorData};

use crate::{Images, Runtime, Unavailable};

/// burn, from the exported file.
pub const IMPORTED: &str = "burn-onnx";

#[allow(dead_code, missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)] // written by burn-onnx
mod generated {
    include!(concat!(env!("OUT_DIR"), "/imported/digits.rs"));
}

/// `models/digits/digits.onnx` as burn code, on burn's flex backend. The energies are those of the
/// graph's own energy node.
pub struct Imported {
    device: Device,
    model: generated::Model,
}

impl Imported {
    /// The model, with the weights of the file.
    pub fn new() -> Self {
        let device = Device::flex();
        let model = generated::Model::from_embedded(&device);
        Self { device, model }
    }
}

impl Default for Imported {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for Imported {
    fn name(&self) -> &'static str {
        IMPORTED
    }

    fn energies(&self, images: &Images) -> Result<Vec<f32>, Unavailable> {
        let data = TensorData::new(images.values.clone(), images.shape);
        let batch = Tensor::<4>::from_data(data, &self.device);
        let (_reconstruction, energy, _latent) = self.model.forward(batch);
        energy.into_data().try_into_vec::<f32>().map_err(|e| Unavailable::Failed(format!("{e:?}")))
    }
}
