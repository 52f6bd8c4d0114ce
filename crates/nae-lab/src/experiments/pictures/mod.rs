//! The paper's illustrations, each a picture and its numbers: samples of an untrained model ([`random_init`]),
//! samples along training and reconstructions after it ([`along_training`]), reconstruction error by D_z
//! ([`reconstruction_error`]), and outliers between two clusters ([`bimodal`]).
//!
//! Those on MNIST use the settings of the experiments with tables of AUROC ([`detection`](super::detection)), so
//! that scales have the same meaning.

mod along_training;
mod bimodal;
mod random_init;
mod reconstruction_error;

pub use along_training::along_training;
pub use bimodal::bimodal;
pub use random_init::random_init;
pub use reconstruction_error::reconstruction_error;

use std::fs::File;
use std::path::Path;

use burn::tensor::Tensor;
use nae_core::Shape;
use serde_json::Value;

use super::Scale;
use super::detection::{DetectionSettings, EXPERIMENTS, SettingsError};
use super::record::{Record, RecordError};
use nae_train::arch::spec::SpecError;
use nae_train::config::Config;
use nae_train::device::DeviceChoice;
use nae_train::energy::mean;
use nae_train::engine::Unsupported;
use nae_train::report::{RunFolderError, images};
use nae_train::run::RunError;

/// The names of the illustrations on the command line.
pub const NAMES: [&str; 4] = ["random-init", "along-training", "reconstruction-error", "bimodal"];

/// The number of images side by side.
const SHOWN: usize = 10;

/// The results of an illustration.
pub struct Made {
    /// Its numbers.
    pub figures: Value,
    /// The names and contents of its pictures, PNG or SVG.
    pub pictures: Vec<(&'static str, Vec<u8>)>,
}

/// An illustration that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PicturesError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No engine supports the network.
    #[error(transparent)]
    Engine(#[from] Unsupported),
    /// Measured results cannot be read or written.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// The configuration cannot be written as TOML.
    #[error("the settings as TOML: {0}")]
    Toml(#[from] toml::ser::Error),
    /// The network cannot be built.
    #[error(transparent)]
    Network(#[from] SpecError),
    /// The settings do not contain the required chain.
    #[error("the preset has no latent chain, and this illustration needs one")]
    NoLatentChain,
    /// The picture cannot be drawn.
    #[error("the picture cannot be drawn: {0}")]
    Draw(String),
    /// It was stopped on request.
    #[error("interrupted")]
    Interrupted,
}

/// Makes the folder `path` where it is not there, records in it that it is of the illustration `name`, and returns the lock
/// of the folder, which lasts until it is dropped or the process ends.
///
/// # Errors
/// [`RecordError`] if the folder has results of another experiment, scale, device or program version; or if another
/// process works on it.
pub fn claim(name: &str, scale: Scale, device: DeviceChoice, path: &Path) -> Result<File, RecordError> {
    // An illustration's settings are part of the program, whose version is recorded.
    Record::new(name, scale, device, "", Value::Null).claim(path)
}

/// The settings of MNIST without the digit 9, at a scale.
///
/// # Errors
/// [`PicturesError::Settings`] if they are invalid.
pub fn mnist_without_nine(scale: Scale) -> Result<Config, PicturesError> {
    let cells = cells("mnist-holdout", scale)?;
    let nine = cells.into_iter().find(|config| config.held_out() == Some(9));
    nine.ok_or_else(|| {
        SettingsError::Unknown {
            origin: "mnist-holdout".to_owned(),
            what: "cell",
            name: "digit-9".to_owned(),
            known: String::new(),
        }
        .into()
    })
}

/// The configurations of an experiment that is part of the program.
fn cells(name: &str, scale: Scale) -> Result<Vec<Config>, PicturesError> {
    let text = EXPERIMENTS.iter().find(|known| known.name == name).map_or("", |known| known.text);
    Ok(DetectionSettings::parse(text, name, scale, false)?.cells.into_iter().map(|cell| cell.config).collect())
}

/// Rows of images, one below the other, as a PNG file; all are cut to the length of the shortest.
fn rows(rows: Vec<Tensor<4>>, shape: Shape) -> Vec<u8> {
    let columns = rows.iter().map(|row| row.dims()[0]).min().unwrap_or(1);
    let rows = rows.into_iter().map(|row| row.narrow(0, 0, columns)).collect();
    images::png(&images::grid(&Tensor::cat(rows, 0), shape, columns))
}

fn mean_of(energies: Tensor<1>) -> f64 {
    let energies: Vec<f32> = energies.into_data().iter::<f32>().collect();
    mean(&energies)
}
