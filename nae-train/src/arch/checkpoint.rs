//! Weights on disk, in safetensors files that are first written under a temporary name.

use std::fs::File;
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

/// Writes the weights of `model` to `path`, atomically, with the system's default permissions.
///
/// # Errors
/// [`CheckpointError::Write`] if the file cannot be written.
pub fn save(model: &impl Module, path: &Path) -> Result<(), CheckpointError> {
    let temporary = path.with_extension("safetensors.tmp");
    let renamed = || std::fs::rename(&temporary, path).map_err(|error| error.to_string());
    write(model, &temporary).and_then(|()| renamed()).map_err(|reason| {
        // Half of the weights are of no use, and may fill the disk.
        let _ = std::fs::remove_file(&temporary);
        CheckpointError::Write { path: path.to_owned(), reason }
    })
}

/// Writes the weights of `model` to `path`. They are on the disk when this returns: after a power cut, a name that the file gets
/// later is that of complete weights.
fn write(model: &impl Module, path: &Path) -> Result<(), String> {
    // A file that the store makes can be read by its owner only, and others may use a run: it writes into this one.
    let file = File::create(path).map_err(|error| error.to_string())?;
    let mut store = SafetensorsStore::from_file(path).overwrite(true);
    model.save_into(&mut store).map_err(|error| error.to_string())?;
    file.sync_all().map_err(|error| error.to_string())
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
    // With its own checks, the store lists all weights of another shape.
    let mut store = SafetensorsStore::from_file(path).validate(false).allow_partial(true);
    let result = model.load_from(&mut store).map_err(|error| failed(error.to_string()))?;
    if !result.missing.is_empty() || !result.errors.is_empty() {
        return Err(failed(format!(
            "it is not of {name}: {} weights missing, {} of another shape",
            result.missing.len(),
            result.errors.len()
        )));
    }
    Ok(model)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::preset;

    /// Others may use a run, as far as the system's default permissions let them.
    #[test]
    fn weights_have_the_permissions_of_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let model = blank(preset::load("digits").unwrap().architecture(), &Device::flex());
        let (weights, other) = (folder.path().join("weights.safetensors"), folder.path().join("other"));
        save(&model, &weights).unwrap();
        std::fs::write(&other, "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&weights), mode(&other));
    }
}
