//! Weights on disk, in safetensors files that are first written under a temporary name.

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::{ModuleSnapshot as _, SafetensorsStore};
use burn::tensor::Device;
use rand::SeedableRng as _;

use crate::arch::{Autoencoder, AutoencoderSpec};

/// An error in writing or reading a checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file cannot be written.
    #[error("{}: the checkpoint cannot be written: {reason}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file cannot be read.
    #[error("{}: the checkpoint cannot be read: {reason}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Writes the weights of `model` to `path`, atomically.
///
/// # Errors
/// [`CheckpointError::Write`] if the file cannot be written.
pub fn save(model: &impl Module, path: &Path) -> Result<(), CheckpointError> {
    let failed = |reason: String| CheckpointError::Write { path: path.to_owned(), reason };
    let temporary = path.with_extension("safetensors.tmp");
    let mut store = SafetensorsStore::from_file(&temporary).overwrite(true);
    model.save_into(&mut store).map_err(|error| failed(error.to_string()))?;
    std::fs::rename(&temporary, path).map_err(|error| failed(error.to_string()))
}

/// An autoencoder to load weights into, on the autodiff form of `device`.
pub fn blank(spec: &AutoencoderSpec, device: &Device) -> Autoencoder {
    // All drawn weights are replaced, so the seed does not matter.
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
    Autoencoder::new(spec, &mut rng, &device.clone().autodiff())
}

/// Loads the weights of `blank`, a model described by `name`, from `path`.
///
/// # Errors
/// [`CheckpointError::Read`] if the file cannot be read, or a weight is missing or has another shape.
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
