//! The regions that somebody set, as they are on disk, so that they hold after a restart.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::kept_file;
use super::list::{Regions, Wanted};

/// The largest file read.
const MAX_FILE: u64 = 1 << 18;

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    /// In place of those of the settings.
    pub(super) regions: Option<Regions>,
    /// Of the models under which regions were changed last, the newest in the end.
    pub(super) before: Vec<Before>,
}

/// The regions that were in use when they were first changed under a model, by their digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Before {
    pub(super) model: String,
    pub(super) regions: String,
}

/// The file's text, as JSON, as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    regions: Option<Vec<Wanted>>,
    before: Vec<Before>,
}

/// What the file says; nothing where there is none.
///
/// # Errors
/// What is wrong with it.
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
/// What writing failed with; the file is as before then.
pub(super) fn write(path: &Path, Kept { regions, before }: &Kept) -> Result<(), nae_onnx::file::FileError> {
    // Texts and finite numbers: this does not fail.
    let text = serde_json::json!({ "regions": regions, "before": before });
    nae_onnx::file::write(path, &serde_json::to_vec(&text).unwrap_or_default())
}
