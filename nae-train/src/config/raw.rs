//! The form of a preset file, key by key, and the check of its values.

use nae_core::Shape;
use serde::{Deserialize, Serialize};

use super::architecture::ArchitectureConfig;
use super::{ConfigError, Pretraining, Stopping, Training};
use crate::data::split::SplitShares;
use crate::sample::{Langevin, SamplerConfig, Start};

/// A preset file. Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// Name, recorded in the model.
    pub name: String,
    /// Where the images come from.
    pub data: RawData,
    /// The network.
    pub architecture: ArchitectureConfig,
    /// Pre-training.
    pub pretraining: Pretraining,
    /// NAE training.
    pub training: Training,
    /// Negative samples.
    pub sampler: SamplerConfig,
    /// Stopping.
    pub stopping: Stopping,
    /// Calibration.
    pub calibration: RawCalibration,
}

/// Where the images come from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawData {
    /// The data set.
    pub source: Source,
    /// The class that is never trained on.
    pub held_out: u8,
    /// Shares of the normal images that are not trained on.
    pub split: SplitShares,
}

/// The known data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The embedded 8×8 digits, enlarged to 16×16.
    Digits,
}

impl Source {
    /// Shape of an image.
    pub fn image(self) -> Shape {
        match self {
            Self::Digits => Shape::new(1, 16, 16),
        }
    }
}

/// Calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawCalibration {
    /// Target share of normal images above the threshold.
    pub false_positive_rate: f64,
}

impl RawConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        require("data.held_out", self.data.held_out, "a digit, 0 to 9", |&d| d <= 9)?;
        let SplitShares { validation, calibration, test } = self.data.split;
        for (key, share) in
            [("data.split.validation", validation), ("data.split.calibration", calibration), ("data.split.test", test)]
        {
            require(key, share, "a share above 0 and below 1", |s| *s > 0.0 && *s < 1.0)?;
        }
        require("data.split", validation + calibration + test, "shares that leave at least 0.1 for training", |s| {
            *s <= 0.9
        })?;
        require("pretraining.batch_size", self.pretraining.batch_size, "at least 1", |&n| n > 0)?;
        require("pretraining.learning_rate", self.pretraining.learning_rate, "above 0", |r| positive(*r))?;
        require("training.batch_size", self.training.batch_size, "at least 1", |&n| n > 0)?;
        require("training.learning_rate", self.training.learning_rate, "above 0", |r| positive(*r))?;
        let regularization = self.training.regularization;
        require("training.regularization.negative_energy", regularization.negative_energy, "at least 0", at_least_0)?;
        require("training.regularization.encoder_l2", regularization.encoder_l2, "at least 0", at_least_0)?;
        require("stopping.every", self.stopping.every, "at least 1", |&n| n > 0)?;
        require("stopping.max_energy_ratio", self.stopping.max_energy_ratio, "above 1", |r| r.is_finite() && *r > 1.0)?;
        let rate = self.calibration.false_positive_rate;
        require("calibration.false_positive_rate", rate, "above 0 and below 1", |r| *r > 0.0 && *r < 1.0)?;
        check_sampler(&self.sampler)
    }
}

fn check_sampler(sampler: &SamplerConfig) -> Result<(), ConfigError> {
    require("sampler.temperature", sampler.temperature, "above 0", |t| positive(f64::from(*t)))?;
    match sampler.start {
        Start::PerturbedData { max_scale } => {
            require("sampler.start.perturbed_data.max_scale", max_scale, "at least 0", at_least_0)?;
        }
        Start::OnManifold { replay_buffer: Some(buffer) } => {
            require("sampler.start.on_manifold.replay_buffer.size", buffer.size, "at least 1", |&n| n > 0)?;
            require("sampler.start.on_manifold.replay_buffer.ratio", buffer.ratio, "0 to 1", |r| {
                (0.0..=1.0).contains(r)
            })?;
        }
        Start::OnManifold { replay_buffer: None } => {}
    }
    let check_chain = |chain: &Langevin, keys: [&'static str; 3]| {
        require(keys[0], chain.step_size, "above 0", |s| positive(f64::from(*s)))?;
        require(keys[1], chain.noise, "at least 0", at_least_0)?;
        match chain.gradient_clip {
            Some(clip) => require(keys[2], clip, "above 0", |c| positive(f64::from(*c))),
            None => Ok(()),
        }
    };
    check_chain(
        &sampler.latent_chain,
        ["sampler.latent_chain.step_size", "sampler.latent_chain.noise", "sampler.latent_chain.gradient_clip"],
    )?;
    check_chain(
        &sampler.visible_chain,
        ["sampler.visible_chain.step_size", "sampler.visible_chain.noise", "sampler.visible_chain.gradient_clip"],
    )
}

fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn at_least_0(value: &f32) -> bool {
    value.is_finite() && *value >= 0.0
}

pub(super) fn require<T: std::fmt::Display>(
    key: &'static str,
    value: T,
    expected: &'static str,
    valid: impl Fn(&T) -> bool,
) -> Result<(), ConfigError> {
    if valid(&value) { Ok(()) } else { Err(ConfigError { key, expected, found: value.to_string() }) }
}
