//! The regions that a user set, stored on disk so that they survive a restart.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::kept_file;
use super::list::{Regions, Wanted};

/// The maximum size of the file, in bytes.
const MAX_FILE: u64 = 1 << 18;

/// The stored state.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    /// The regions that replace those of the settings.
    pub(super) regions: Option<Regions>,
    /// For the models under which regions were changed last; the newest is the last.
    pub(super) before: Vec<Before>,
}

/// The digest of the regions that were in use when they were first changed under a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Before {
    pub(super) model: String,
    pub(super) regions: String,
}

/// The JSON of the file, for reading.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    regions: Option<Vec<Wanted>>,
    before: Vec<Before>,
}

/// Reads the file; the default if there is none.
///
/// # Errors
/// A description of what is wrong with it.
pub(super) fn read(path: &Path) -> Result<Kept, String> {
    let parse = |bytes: &[u8]| {
        let Text { regions, before } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Ok(Kept { regions: regions.map(Regions::new).transpose()?, before })
    };
    Ok(kept_file::read(path, MAX_FILE, "regions", parse)?.unwrap_or_default())
}

/// Replaces the file.
///
/// # Errors
/// If writing fails; in that case, the file is unchanged.
pub(super) fn write(path: &Path, Kept { regions, before }: &Kept) -> Result<(), nae_onnx::file::FileError> {
    // Cannot fail: the state consists of texts and finite numbers.
    let text = serde_json::json!({ "regions": regions, "before": before });
    nae_onnx::file::write(path, &serde_json::to_vec(&text).unwrap_or_default())
}
