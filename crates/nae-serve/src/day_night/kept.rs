//! What somebody set of day and night, and which condition held by the light, as they are on disk, so that they hold after a restart.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::kept_file;
use super::Condition;
use super::rule::{Rule, RuleText};

/// The largest file read.
const MAX_FILE: u64 = 1 << 14;

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    /// In place of that of the settings.
    pub(super) rule: Option<Rule>,
    /// The condition that held by the light.
    pub(super) condition: Option<Condition>,
}

/// The file's text, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    rule: Option<RuleText>,
    condition: Option<Condition>,
}

/// What the file says; nothing where there is none.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(path: &Path) -> Result<Kept, String> {
    let parse = |bytes: &[u8]| {
        let Text { rule, condition } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Ok(Kept { rule: rule.map(Rule::try_from).transpose()?, condition })
    };
    Ok(kept_file::read(path, MAX_FILE, "what day and night are told by", parse)?.unwrap_or_default())
}

/// Replaces the file.
///
/// # Errors
/// What writing failed with; the file is as before then.
pub(super) fn write(path: &Path, Kept { rule, condition }: &Kept) -> Result<(), nae_onnx::file::FileError> {
    let text = Text { rule: rule.as_ref().map(Rule::text), condition: *condition };
    // Texts and finite numbers: this does not fail.
    nae_onnx::file::write(path, &serde_json::to_vec(&text).unwrap_or_default())
}
