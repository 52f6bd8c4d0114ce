//! The part of a preset on features: of which frozen network, and how its places become samples.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::raw::require;

/// An NAE of features sees what a frozen network says of each place of an image, not its pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSettings {
    /// The frozen network, an ONNX file.
    pub backbone: PathBuf,
    /// SHA-256 of that file, in hexadecimal: another network is another model.
    pub sha256: String,
    /// Names of its outputs whose features are used.
    pub outputs: Vec<String>,
    /// K: the numbers of a place, after whitening.
    pub components: usize,
    /// SHA-256 of the data that the whitening was fitted on, in hexadecimal, as the run folder records it: other data make
    /// other features, and the trained network is of these. A new run fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sha256: Option<String>,
    /// An image's score is the mean of so many largest energies of its places.
    pub top_k: usize,
}

impl FeatureSettings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        require("data.features.components", self.components, "1 to 2048", |k| (1..=2048).contains(k))?;
        require("data.features.top_k", self.top_k, "1 to 65536", |k| (1..=1 << 16).contains(k))?;
        require("data.features.outputs", self.outputs.len(), "at least one name", |&n| n > 0)
    }
}
