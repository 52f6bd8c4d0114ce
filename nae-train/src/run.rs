//! A whole run: data, training, calibration, evaluation. What the command line does, without the command line.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use nae_onnx::metadata::ModelMetadata;

use crate::arch::Autoencoder;
use crate::config::Config;
use crate::data::source::{DataError, Loaded};
use crate::data::{Split, outliers};
use crate::engine::Engine;
use crate::eval::scoring::{energies, scores};
use crate::eval::table::{Column, Table, held_out_name, outlier_sets};
use crate::export::{self, ExportError};
use crate::methods::{Decision, MethodKind, Model};
use crate::report::figure::{self, Panel};
use crate::seed::Stream;
use crate::train::observer::{Observer, Silent};
use crate::train::{Outcome, Trainer};

/// A run that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The result cannot be calibrated or exported.
    #[error(transparent)]
    Export(#[from] ExportError),
}

/// What a run knows of its data.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The run's settings.
    pub config: Config,
    /// The seed that divided the data.
    pub seed: u64,
    /// The parts.
    pub split: Split,
    /// SHA-256 of the data, in hexadecimal.
    pub data_sha256: String,
}

impl Prepared {
    /// Loads the data of `config`, from `folder` where it is not embedded, and divides it.
    ///
    /// # Errors
    /// [`RunError::Data`].
    pub fn new(config: Config, seed: u64, folder: Option<&Path>) -> Result<Self, RunError> {
        let Loaded { train, test, sha256 } = config.source().load(folder)?;
        let mut rng = Stream::Split.of(seed);
        let split = Split::new(&train, test.as_ref(), config.held_out(), config.split(), rng.rng());
        Ok(Self { config, seed, split, data_sha256: sha256 })
    }

    /// Trains; see [`Trainer`].
    pub fn train(&self, engine: Engine, device: &Device, observer: &mut dyn Observer, stop: &AtomicBool) -> Outcome {
        self.trainer(&self.config, engine, device, observer, stop).train()
    }

    /// Trains a plain autoencoder by the pre-training of `config`, on the same data and seed.
    pub fn train_autoencoder(
        &self,
        config: &Config,
        engine: Engine,
        device: &Device,
        stop: &AtomicBool,
    ) -> Autoencoder {
        self.trainer(config, engine, device, &mut Silent, stop).train_autoencoder()
    }

    fn trainer<'a>(
        &'a self,
        config: &'a Config,
        engine: Engine,
        device: &'a Device,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Trainer<'a> {
        Trainer { config, split: &self.split, seed: self.seed, engine, device, observer, stop }
    }

    /// Energies of the calibration images under `model`, and everything else the model file says of itself.
    ///
    /// # Errors
    /// [`RunError::Export`] where the energies give no threshold for the target rate.
    pub fn calibrate(&self, model: &dyn Model, device: &Device) -> Result<ModelMetadata, RunError> {
        let energies = energies(model, &self.split.calibration, device);
        Ok(export::metadata(&self.config, self.seed, &self.data_sha256, model.temperature(), &energies)?)
    }

    /// What a table of `outcome` shows: the plain autoencoder before an NAE; every decision function of the model.
    pub fn columns<'a>(&self, outcome: &'a Outcome) -> Vec<Column<'a>> {
        let method = self.config.method();
        let plain = outcome.autoencoder.as_ref().map(plain_column);
        let own = outcome.model.decisions().iter().map(|&decision| {
            let (key, title) = match (method, decision) {
                (MethodKind::Ae, _) => ("autoencoder", method.title()),
                (MethodKind::Vae, Decision::Reconstruction) => ("vae_reconstruction", "VAE (R)"),
                (MethodKind::Vae, Decision::NegativeLogLikelihood) => ("vae_likelihood", "VAE (L)"),
                _ => (method.name(), method.title()),
            };
            Column { key, title, model: &*outcome.model, decision }
        });
        plain.into_iter().chain(own).collect()
    }

    /// `columns` against every outlier set.
    pub fn evaluate(&self, columns: &[Column<'_>], device: &Device) -> Table {
        let sets = outlier_sets(&self.split, &self.config, Stream::Evaluation.of(self.seed).rng());
        Table::measure(&self.split.test, &sets, columns, device)
    }

    /// Histograms of the scores of normal test images, of the held-out class and of chimeras, as SVG.
    ///
    /// # Errors
    /// What the drawing library says, as text.
    pub fn figure(&self, columns: &[Column<'_>], device: &Device) -> Result<String, String> {
        let held_out = held_out_name(&self.config);
        let chimeras = outliers::chimeras(&self.split.test, self.config.source().chimera_gap());
        let sets = [("normal", &self.split.test), (&held_out, &self.split.held_out), ("chimeras", &chimeras)];
        let panels: Vec<Panel<'_>> = columns
            .iter()
            .map(|column| Panel {
                title: column.title,
                series: sets.map(|(name, images)| (name, scores(column.model, column.decision, images, device))).into(),
            })
            .collect();
        figure::energies(&panels)
    }

    /// Share of the normal test images above the threshold of `metadata`; what the target rate promises.
    pub fn false_positive_rate(&self, model: &dyn Model, metadata: &ModelMetadata, device: &Device) -> Option<f64> {
        let threshold = metadata.calibration.as_ref()?.threshold();
        let energies = energies(model, &self.split.test, device);
        Some(energies.iter().filter(|&&e| e > threshold).count() as f64 / energies.len() as f64)
    }
}

/// The column of a plain autoencoder.
pub fn plain_column(autoencoder: &Autoencoder) -> Column<'_> {
    Column { key: "autoencoder", title: MethodKind::Ae.title(), model: autoencoder, decision: Decision::Reconstruction }
}

/// The column of an NAE.
pub fn nae_column(model: &dyn Model) -> Column<'_> {
    Column { key: MethodKind::Nae.name(), title: MethodKind::Nae.title(), model, decision: Decision::Reconstruction }
}
