//! The part of a preset on features: the frozen network, and how the places of its outputs are converted to samples.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::raw::require;

/// The settings of features. The input of an NAE of features is a frozen network's output at each place of an image,
/// not the pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSettings {
    /// The frozen network, an ONNX file.
    pub backbone: PathBuf,
    /// The SHA-256 of that file, in hexadecimal, since the model depends on this network.
    pub sha256: String,
    /// The names of the network's outputs that are used.
    pub outputs: Vec<String>,
    /// K: the number of values for each place, after whitening.
    pub components: usize,
    /// The SHA-256 of the data that the whitening was fitted on, in hexadecimal, as recorded in the run folder. Other
    /// data give other features, which the trained network does not fit. A new run fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sha256: Option<String>,
    /// The number of largest energies of places that an image's score is the mean of.
    pub top_k: usize,
}

impl FeatureSettings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        require("data.features.components", self.components, "1 to 2048", |k| (1..=2048).contains(k))?;
        require("data.features.top_k", self.top_k, "1 to 65536", |k| (1..=1 << 16).contains(k))?;
        require("data.features.outputs", self.outputs.len(), "at least one name", |&n| n > 0)
    }
}
