//! The rule that a user set for day and night, and the last condition determined by the light, stored on disk so that
//! they survive a restart.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::kept_file;
use super::Condition;
use super::rule::{Rule, RuleText};

/// The maximum size of the file, in bytes.
const MAX_FILE: u64 = 1 << 14;

/// The stored state.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    /// The rule that replaces that of the settings.
    pub(super) rule: Option<Rule>,
    /// The last condition determined by the light.
    pub(super) condition: Option<Condition>,
}

/// The JSON of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    rule: Option<RuleText>,
    condition: Option<Condition>,
}

/// Reads the file; the default if there is none.
///
/// # Errors
/// A description of what is wrong with it.
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
/// If writing fails; in that case, the file is unchanged.
pub(super) fn write(path: &Path, Kept { rule, condition }: &Kept) -> Result<(), nae_onnx::file::FileError> {
    let text = Text { rule: rule.as_ref().map(Rule::text), condition: *condition };
    // Cannot fail: the state consists of texts and finite numbers.
    nae_onnx::file::write(path, &serde_json::to_vec(&text).unwrap_or_default())
}
