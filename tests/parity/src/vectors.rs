//! The vectors and the model, as files of the repository.

use std::path::{Path, PathBuf};

use crate::Images;

/// A file of the repository, from its root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The trained model.
pub fn model() -> PathBuf {
    repository("models/digits/digits.onnx")
}

/// `tests/vectors/images.npy`.
///
/// # Errors
/// What is wrong with the file.
pub fn images() -> Result<Images, String> {
    read_images(&repository("tests/vectors/images.npy"))
}

/// `tests/vectors/energies.npy`.
///
/// # Errors
/// What is wrong with the file.
pub fn energies() -> Result<Vec<f32>, String> {
    let (_, values) = read(&repository("tests/vectors/energies.npy"))?;
    Ok(values)
}

/// Images of float32 in a `.npy` file.
///
/// # Errors
/// What is wrong with the file.
pub fn read_images(path: &Path) -> Result<Images, String> {
    let (shape, values) = read(path)?;
    let shape = <[usize; 4]>::try_from(shape).map_err(|s| format!("{}: shape {s:?}", path.display()))?;
    Ok(Images { shape, values })
}

fn read(path: &Path) -> Result<(Vec<usize>, Vec<f32>), String> {
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    let bytes = std::fs::read(path).map_err(fail)?;
    let file = npyz::NpyFile::new(bytes.as_slice()).map_err(fail)?;
    let shape = file.shape().iter().map(|&d| d as usize).collect();
    Ok((shape, file.into_vec::<f32>().map_err(fail)?))
}

/// Writes float32 values as a `.npy` file.
///
/// # Errors
/// What the system said.
pub fn write(path: &Path, shape: &[usize], values: &[f32]) -> Result<(), Box<dyn std::error::Error>> {
    use npyz::WriterBuilder;
    let mut bytes = Vec::new();
    let shape: Vec<u64> = shape.iter().map(|&d| d as u64).collect();
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut bytes).begin_nd()?;
    writer.extend(values.iter().copied())?;
    writer.finish()?;
    nae_onnx::file::write(path, &bytes)?;
    Ok(())
}
