//! Configuration: presets in TOML, read strictly and checked once.
//!
//! [`raw`] is the file's form, [`architecture`] its part on the network, [`preset`] finds and reads it, and [`Config`] is what the rest of the crate gets:
//! values that need no further checking.

pub mod architecture;
pub mod preset;
pub mod raw;

use serde::{Deserialize, Serialize};

use crate::arch::AutoencoderSpec;
use crate::data::split::SplitShares;
use crate::methods::nae::Regularization;
use crate::sample::SamplerConfig;
use raw::{RawConfig, require};

pub use architecture::ArchitectureConfig;
pub use preset::{Preset, PresetError};

/// A value that no run can use.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is {found}; expected {expected}")]
pub struct ConfigError {
    /// Path of the key in the file.
    pub key: &'static str,
    /// What was expected.
    pub expected: &'static str,
    /// What was found.
    pub found: String,
}

/// Pre-training as a plain autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pretraining {
    /// Passes over the training data.
    pub epochs: usize,
    /// Images an update.
    pub batch_size: usize,
    /// Adam's learning rate.
    pub learning_rate: f64,
}

/// NAE training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Number of parameter updates.
    pub updates: usize,
    /// Images, and negative samples, an update.
    pub batch_size: usize,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// Weights of the regularisers.
    pub regularization: Regularization,
}

/// When to look at the model, and when to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// Updates between two looks.
    pub every: usize,
    /// The run has diverged where the negative samples' mean energy exceeds this many times the data's.
    pub max_energy_ratio: f64,
}

/// Everything a run needs to know besides its seed, checked.
#[derive(Clone, Debug)]
pub struct Config {
    raw: RawConfig,
    architecture: AutoencoderSpec,
}

impl Config {
    /// Checks every value of `raw`.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key whose value cannot be used.
    pub fn new(raw: RawConfig) -> Result<Self, ConfigError> {
        raw.check()?;
        let architecture = raw.architecture.spec()?;
        let found = architecture.image();
        require("architecture.kind", found, "a network for images of 1x16x16, as data.source has them", |&image| {
            image == raw.data.source.image()
        })?;
        Ok(Self { raw, architecture })
    }

    /// The preset's name.
    pub fn name(&self) -> &str {
        &self.raw.name
    }

    /// The file's form, as recorded in the run folder.
    pub fn raw(&self) -> &RawConfig {
        &self.raw
    }

    /// The network.
    pub fn architecture(&self) -> &AutoencoderSpec {
        &self.architecture
    }

    /// The class kept out of training.
    pub fn held_out(&self) -> u8 {
        self.raw.data.held_out
    }

    /// Shares of the data's parts.
    pub fn split(&self) -> SplitShares {
        self.raw.data.split
    }

    /// Pre-training settings.
    pub fn pretraining(&self) -> Pretraining {
        self.raw.pretraining
    }

    /// NAE training settings.
    pub fn training(&self) -> Training {
        self.raw.training
    }

    /// How negative samples are drawn.
    pub fn sampler(&self) -> SamplerConfig {
        self.raw.sampler
    }

    /// Stopping settings.
    pub fn stopping(&self) -> Stopping {
        self.raw.stopping
    }

    /// Target false-positive rate of the threshold.
    pub fn false_positive_rate(&self) -> f64 {
        self.raw.calibration.false_positive_rate
    }
}
