//! The paper's illustrations, each a picture and its numbers: what chains find in a model that was never trained
//! ([`random_init`]), samples along training and what is reconstructed after it ([`along_training`]), reconstruction
//! error by D_z ([`latent_dim`]), and outliers between two clusters ([`bimodal`]).
//!
//! Those on MNIST take the settings of the experiments with tables of AUROC
//! ([`detection`](super::detection)), so that scales mean the same.

mod along_training;
mod bimodal;
mod latent_dim;
mod random_init;

pub use along_training::along_training;
pub use bimodal::bimodal;
pub use latent_dim::latent_dim;
pub use random_init::random_init;

use burn::tensor::Tensor;
use nae_core::Shape;
use serde_json::Value;

use super::Scale;
use super::detection::{DetectionSettings, EXPERIMENTS, SettingsError};
use nae_train::arch::spec::SpecError;
use nae_train::config::Config;
use nae_train::energy::mean;
use nae_train::engine::Unsupported;
use nae_train::report::images;
use nae_train::run::RunError;

/// Images side by side.
const SHOWN: usize = 10;

/// What an illustration gives.
pub struct Made {
    /// Its numbers.
    pub figures: Value,
    /// Names and contents of its pictures, PNG or SVG.
    pub pictures: Vec<(&'static str, Vec<u8>)>,
}

/// An illustration that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PicturesError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A run cannot be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No engine has the network.
    #[error(transparent)]
    Engine(#[from] Unsupported),
    /// The network cannot be built.
    #[error(transparent)]
    Network(#[from] SpecError),
    /// The settings have no chain that this needs.
    #[error("the preset has no latent chain, and this is about one")]
    NoLatentChain,
    /// The picture cannot be drawn.
    #[error("the picture cannot be drawn: {0}")]
    Draw(String),
    /// Asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The settings of MNIST without the digit 9, at a scale.
///
/// # Errors
/// [`PicturesError::Settings`].
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

/// The configurations of an experiment that comes with the program.
fn cells(name: &str, scale: Scale) -> Result<Vec<Config>, PicturesError> {
    let text = EXPERIMENTS.iter().find(|known| known.name == name).map_or("", |known| known.text);
    Ok(DetectionSettings::parse(text, name, scale, false)?.cells.into_iter().map(|cell| cell.config).collect())
}

/// Rows of images, one below the other, as a PNG file; all as long as the shortest.
fn rows(rows: Vec<Tensor<4>>, shape: Shape) -> Vec<u8> {
    let columns = rows.iter().map(|row| row.dims()[0]).min().unwrap_or(1);
    let rows = rows.into_iter().map(|row| row.narrow(0, 0, columns)).collect();
    images::png(&images::grid(&Tensor::cat(rows, 0), shape, columns))
}

fn mean_of(energies: Tensor<1>) -> f64 {
    let energies: Vec<f32> = energies.into_data().iter::<f32>().collect();
    mean(&energies)
}
