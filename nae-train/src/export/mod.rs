//! Exports a trained model to ONNX: [`graph`] writes the network, `codes` a VQ-VAE's choice of codes, this module the metadata.
//!
//! Lowering to `.nae` is in [`nae_onnx::lower`]; the operators are in [`nae_onnx::builder`].

mod codes;
pub mod graph;

use nae_core::Shape;
use nae_core::calibration::{Calibration, CalibrationError};
use nae_core::contract::{Contract, Preprocessing};
use nae_core::density::Temperature;
use nae_core::energy::Energy;
use nae_onnx::builder::BuildError;
use nae_onnx::metadata::{self, Geometry, Latent, ModelMetadata, Provenance};

use crate::arch::LatentSpace;
use crate::config::{Config, MethodKind};
use crate::features::Features;
use crate::methods::{Model, Networks};
use nae_data::Source;

/// An error that prevents an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The graph cannot be built.
    #[error("the model cannot be written as ONNX: {0}")]
    Build(BuildError),
    /// The energies give no threshold.
    #[error("the calibration energies give no threshold: {0}")]
    Calibration(CalibrationError),
    /// The model's decision cannot be expressed by layers.
    #[error("a model trained by `{method}` is not exported: {reason}")]
    NotExported {
        /// The name of the method.
        method: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// Encoder and decoder alone do not decide as the model does.
    #[error(
        "--export-parts: encoder and decoder alone are not what a model of `{method}` decides by; leave it out, and give \
         --export for the whole"
    )]
    NoParts {
        /// The name of the method.
        method: &'static str,
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

/// The metadata of a model file, from the run's configuration and data, the model's temperature and the energies of its
/// calibration images, of which `independent` are independent; with `features` if the run is on features.
///
/// # Errors
/// [`ExportError::Calibration`] if there are too few energies for the target rate, or one is NaN;
/// [`ExportError::Temperature`] if the temperature is not positive.
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
            data_description: data_description(config),
            data_sha256: data_sha256.to_owned(),
            seed,
            crate_version: env!("CARGO_PKG_VERSION").to_owned(),
        },
    })
}

/// The name of the data that models of `config` are trained on, with the class that is held out.
pub fn data_description(config: &Config) -> String {
    match config.held_out() {
        Some(class) => format!("{}, class {class} held out", config.source().title()),
        None => config.source().title().to_owned(),
    }
}

/// Exports the whole model: `image` is the input; `reconstruction`, `energy` and `latent` are the outputs. With
/// `features`, those of a run on features, the frozen network is part of the model, and `features`, `reconstruction`,
/// `heat_map` and `energy` are the outputs.
///
/// GANomaly and energy networks do not compare images: their `features` are the latent, or the energy, in one place,
/// and `reconstruction` is the value that these are compared with. For energy networks, the exported energy is
/// [`positive`], and the calibration in the file is of that.
///
/// # Errors
/// [`ExportError::NotExported`] if the model cannot be exported, or has calibration energies below −12 that would have to be
/// mapped; [`ExportError::Build`] if the graph cannot be built.
pub fn model(
    model: &dyn Model,
    config: &Config,
    features: Option<&Features>,
    metadata: &ModelMetadata,
) -> Result<Vec<u8>, ExportError> {
    check(config)?;
    let spec = config.architecture();
    Ok(match (model.networks(), features) {
        (Some(Networks::Reconstruction { autoencoder, codes }), Some(features)) => {
            graph::of_features(autoencoder, codes, spec, features, metadata)?
        }
        (Some(Networks::Reconstruction { autoencoder, codes }), None) => {
            graph::autoencoder(autoencoder, codes, spec, metadata)?
        }
        (Some(Networks::Latents { autoencoder, second }), None) => {
            let metadata = of_one_place(metadata, spec.latent_dim(), Energy::SquaredL2);
            graph::of_latents(autoencoder, second, spec, &metadata)?
        }
        (Some(Networks::Energy(network)), None) => {
            let table = metadata.contract.calibration().map_or(&[][..], |calibration| calibration.table());
            if table.iter().any(|&energy| energy < LEAST) {
                return Err(refused(config, FAR_BELOW_0));
            }
            graph::of_energy(network, spec, &of_positive(metadata)?)?
        }
        (Some(Networks::Latents { .. } | Networks::Energy(_)), Some(_)) => {
            return Err(refused(config, ON_FEATURES));
        }
        (None, _) => return Err(refused(config, "it has no networks that are compared")),
    })
}

/// The least calibration energy of an exported model. The graph computes exp(E) as exp(E) − 1 + 1, in steps of 6·10⁻⁸, which are
/// 1% of it there.
const LEAST: f32 = -12.0;
const FAR_BELOW_0: &str = "normal energies are below -12, where a model file cannot tell them apart; a larger \
                           baselines.igebm.regularization keeps them near 0";

/// Maps an energy that may be negative to the positive energy in a model file: exp(E) for negative E, E + 1 otherwise.
/// The map is increasing, so that thresholds, p-values and verdicts are those of E, up to the rounding of exp(E).
pub fn positive(energy: f32) -> f32 {
    if energy < 0.0 { energy.exp() } else { energy + 1.0 }
}

/// Converts `metadata` to that of a model with [`positive`] energies.
fn of_positive(metadata: &ModelMetadata) -> Result<ModelMetadata, ExportError> {
    let mut metadata = of_one_place(metadata, 1, Energy::L1);
    metadata.latent = None;
    let contract = metadata.contract.clone();
    if let (Some(calibration), Some(threshold)) = (contract.calibration(), contract.threshold()) {
        let table: Vec<f32> = calibration.table().iter().copied().map(positive).collect();
        let calibration = Calibration::from_table(calibration.count(), calibration.spacing(), &table)?;
        metadata.contract = contract.with_calibration(calibration, threshold.false_positive_rate)?;
    }
    Ok(metadata)
}

/// Converts `metadata` to that of a model that compares `components` numbers with `energy`.
fn of_one_place(metadata: &ModelMetadata, components: usize, energy: Energy) -> ModelMetadata {
    let mut metadata = metadata.clone();
    metadata.contract.energy = energy;
    metadata.features = Some(metadata::Features { components, rows: 1, columns: 1, top_k: 1 });
    metadata
}

/// Why most methods are not exported for features.
const ON_FEATURES: &str = "of a run on features only autoencoders are";

/// Checks before training whether models of `config` can be exported.
///
/// # Errors
/// [`ExportError::NotExported`] with the reason.
pub fn check(config: &Config) -> Result<(), ExportError> {
    let method = config.method();
    if let Some(reason) = method.why_not_exported() {
        return Err(refused(config, reason));
    }
    match method {
        MethodKind::Ganomaly | MethodKind::Igebm | MethodKind::Mpdr if config.features().is_some() => {
            Err(refused(config, ON_FEATURES))
        }
        MethodKind::Vqvae if config.features().is_some() && config.baselines().vqvae.parts > 1 => {
            Err(refused(config, "of a run on features a latent has one code (baselines.vqvae.parts = 1)"))
        }
        _ => Ok(()),
    }
}

/// Same as [`check`], for [`parts`].
///
/// # Errors
/// [`ExportError::NotExported`] with the reason; [`ExportError::NoParts`].
pub fn check_parts(config: &Config) -> Result<(), ExportError> {
    check(config)?;
    match config.method() {
        method @ (MethodKind::Ganomaly | MethodKind::Igebm | MethodKind::Mpdr) => {
            Err(ExportError::NoParts { method: method.name() })
        }
        _ => Ok(()),
    }
}

fn refused(config: &Config, reason: &'static str) -> ExportError {
    ExportError::NotExported { method: config.method().name(), reason }
}

/// Exports `encoder.onnx` (`image` to `latent`) and `decoder.onnx` (`latent` to `reconstruction`).
///
/// # Errors
/// Those of [`check_parts`]; [`ExportError::Build`] if a graph cannot be built.
pub fn parts(model: &dyn Model, config: &Config) -> Result<[(&'static str, Vec<u8>); 2], ExportError> {
    check_parts(config)?;
    let Some(Networks::Reconstruction { autoencoder, codes }) = model.networks() else {
        return Err(refused(config, "it has no autoencoder"));
    };
    let spec = config.architecture();
    let encoder = graph::encoder(autoencoder, codes, spec)?;
    Ok([("encoder.onnx", encoder), ("decoder.onnx", graph::decoder(autoencoder, spec)?)])
}
