//! From a trained autoencoder to ONNX: [`graph`] writes the network, this file what travels with it.
//!
//! Lowering to `.nae` is in [`nae_onnx::lower`]; the operators themselves are in [`nae_onnx::builder`].

pub mod graph;

use nae_core::Shape;
use nae_core::calibration::{Calibration, CalibrationError};
use nae_core::contract::{Contract, Preprocessing};
use nae_core::density::Temperature;
use nae_onnx::builder::BuildError;
use nae_onnx::metadata::{self, Geometry, Latent, ModelMetadata, Provenance};

use crate::arch::{Autoencoder, LatentSpace};
use crate::config::{Config, MethodKind};
use crate::features::Features;
use crate::methods::Model;
use nae_data::Source;

/// A model that cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The graph cannot be built.
    #[error("the model cannot be written as ONNX: {0}")]
    Build(BuildError),
    /// The energies give no threshold.
    #[error("the calibration energies give no threshold: {0}")]
    Calibration(CalibrationError),
    /// The model does not decide by an autoencoder's reconstruction.
    #[error("a model trained by `{method}` is not exported: {reason}")]
    NoAutoencoder {
        /// How it was trained.
        method: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// The temperature is not positive.
    #[error("the temperature {0} is not positive")]
    Temperature(f32),
}

impl From<BuildError> for ExportError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<CalibrationError> for ExportError {
    fn from(error: CalibrationError) -> Self {
        Self::Calibration(error)
    }
}

/// Everything a model file says about itself, from the run's configuration and data, the model's temperature and the
/// energies of its calibration images, of which so many are `independent` of one another; with `features` where the run is on features.
///
/// # Errors
/// [`ExportError::Calibration`] where there are too few energies for the target rate, or one is NaN.
pub fn metadata(
    config: &Config,
    seed: u64,
    data_sha256: &str,
    temperature: f32,
    energies: &[f32],
    independent: usize,
    features: Option<&Features>,
) -> Result<ModelMetadata, ExportError> {
    let spec = config.architecture();
    let calibration = Calibration::from_energies(&mut energies.to_vec())?;
    let input = if features.is_some() { config.source().image() } else { spec.image() };
    let mut contract = Contract::new(input);
    contract.energy = spec.energy();
    contract.temperature = Temperature::new(temperature).map_err(|_| ExportError::Temperature(temperature))?;
    contract.preprocessing = Preprocessing::unit(config.source().resize_filter());
    Ok(ModelMetadata {
        contract: contract.with_calibration(calibration, config.expected_rate(independent)?)?,
        latent: Some(Latent {
            geometry: match spec.latent_space() {
                LatentSpace::Sphere => Geometry::Sphere,
                LatentSpace::Euclidean => Geometry::Euclidean,
            },
            dimension: spec.latent_dim(),
        }),
        transforms: config.raw().data.transforms,
        columns: if let Source::Table(own) = config.source() { own.checked().ok() } else { None },
        window: if let Source::Table(own) = config.source() { own.window } else { None },
        tiles: if let Source::Own(own) = config.source() { own.tiles } else { None },
        features: features.map(|features| {
            let Shape { channels, height, width } = features.front().shape();
            metadata::Features { components: channels, rows: height, columns: width, top_k: features.top_k() }
        }),
        provenance: Provenance {
            architecture: spec.name().to_owned(),
            method: format!("{}, preset {}", config.method().name(), config.name()),
            data_description: match config.held_out() {
                Some(class) => format!("{}, class {class} held out", config.source().title()),
                None => config.source().title().to_owned(),
            },
            data_sha256: data_sha256.to_owned(),
            seed,
            crate_version: env!("CARGO_PKG_VERSION").to_owned(),
        },
    })
}

/// The whole model: `image` in; `reconstruction`, `energy` and `latent` out. With `features`, those of a run on features,
/// the frozen network is part of it, and `features`, `reconstruction`, `heat_map` and `energy` come out.
///
/// # Errors
/// [`ExportError::NoAutoencoder`], [`ExportError::Build`].
pub fn model(
    model: &dyn Model,
    config: &Config,
    features: Option<&Features>,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, ExportError> {
    let (autoencoder, spec) = (autoencoder_of(model, config)?, config.architecture());
    Ok(match features {
        Some(features) => graph::of_features(autoencoder, spec, features, metadata)?,
        None => graph::autoencoder(autoencoder, spec, metadata)?,
    })
}

/// Whether what `method` trains is exported: to be asked before it is trained.
///
/// # Errors
/// [`ExportError::NoAutoencoder`] says why not.
pub fn check(method: MethodKind) -> Result<(), ExportError> {
    let refused = |reason| ExportError::NoAutoencoder { method: method.name(), reason };
    method.why_not_exported().map(refused).map_or(Ok(()), Err)
}

/// `encoder.onnx` (`image` to `latent`) and `decoder.onnx` (`latent` to `reconstruction`).
///
/// # Errors
/// [`ExportError::NoAutoencoder`], [`ExportError::Build`].
pub fn parts(model: &dyn Model, config: &Config) -> Result<[(&'static str, Vec<u8>); 2], ExportError> {
    let (model, spec) = (autoencoder_of(model, config)?, config.architecture());
    Ok([("encoder.onnx", graph::encoder(model, spec)?), ("decoder.onnx", graph::decoder(model, spec)?)])
}

fn autoencoder_of<'a>(model: &'a dyn Model, config: &Config) -> Result<&'a Autoencoder, ExportError> {
    check(config.method())?;
    let reason = "it has no autoencoder";
    model.autoencoder().ok_or(ExportError::NoAutoencoder { method: config.method().name(), reason })
}
