//! The exported model read back into burn by burn-onnx: code and weights that `tests/parity/import` wrote, a program of its own
//! since burn-onnx would have all of burn built a second time with every test.

use burn::tensor::{Device, Tensor, TensorData};

use crate::{Images, Runtime, Unavailable};

/// burn, from the exported file.
pub const IMPORTED: &str = "burn-onnx";

#[allow(dead_code, missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)] // written by burn-onnx
mod generated {
    include!("../../imported/digits.rs");
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

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    #[test]
    fn the_code_is_of_the_model_in_the_repository() {
        let model = std::fs::read("../../models/digits/digits.onnx").unwrap();
        let digest: String = Sha256::digest(model).iter().map(|byte| format!("{byte:02x}")).collect();
        let code = include_str!("../../imported/digits.rs");
        assert!(
            code.contains(&digest),
            "models/digits/digits.onnx is another file than what burn-onnx read: run\n  cargo run --manifest-path \
             tests/parity/import/Cargo.toml"
        );
    }
}
