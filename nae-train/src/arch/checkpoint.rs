//! Weights on disk: safetensors, written under a temporary name first.

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::{ModuleSnapshot as _, SafetensorsStore};
use burn::tensor::Device;
use rand::SeedableRng as _;

use crate::arch::{Autoencoder, AutoencoderSpec};

/// A checkpoint that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Writing failed.
    #[error("{}: the checkpoint cannot be written: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Reading failed.
    #[error("{}: the checkpoint cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Writes the weights of `model` to `path`, whole or not at all.
///
/// # Errors
/// [`CheckpointError::Write`].
pub fn save(model: &impl Module, path: &Path) -> Result<(), CheckpointError> {
    let failed = |reason: String| CheckpointError::Write { path: path.to_owned(), reason };
    let temporary = path.with_extension("safetensors.tmp");
    let mut store = SafetensorsStore::from_file(&temporary).overwrite(true);
    model.save_into(&mut store).map_err(|error| failed(error.to_string()))?;
    std::fs::rename(&temporary, path).map_err(|error| failed(error.to_string()))
}

/// An autoencoder to read weights into, on the autodiff form of `device`.
pub fn blank(spec: &AutoencoderSpec, device: &Device) -> Autoencoder {
    // The drawn weights are all replaced; the seed does not matter.
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
    Autoencoder::new(spec, &mut rng, &device.clone().autodiff())
}

/// Reads the weights of `blank`, a model described by `name`, from `path`.
///
/// # Errors
/// [`CheckpointError::Read`], also where a weight is missing or of another shape.
pub fn load<M: Module>(blank: M, name: &str, path: &Path) -> Result<M, CheckpointError> {
    let failed = |reason: String| CheckpointError::Read { path: path.to_owned(), reason };
    let mut model = blank;
    let result = model.load_from(&mut SafetensorsStore::from_file(path)).map_err(|error| failed(error.to_string()))?;
    if !result.missing.is_empty() || !result.errors.is_empty() {
        return Err(failed(format!(
            "it is not of {name}: {} weights missing, {} of another shape",
            result.missing.len(),
            result.errors.len()
        )));
    }
    Ok(model)
}
