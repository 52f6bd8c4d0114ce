//! Whether the interrupted run in a model's folder may go on: with the settings, selection set, engine and data that it was begun
//! with. Other sets of outliers do not influence the training; [`check_joins`](super::Experiment::check_joins) compares them.

use std::path::Path;

use super::DetectionError;
use nae_train::config::Config;
use nae_train::report::{Facts, Resume, RunFolder};

/// The state of the run in `folder`, which is to go on with `config`, `seed` and `facts`.
///
/// # Errors
/// [`DetectionError::OtherRun`] if it was begun with others, [`DetectionError::Folder`] if it cannot be read.
pub(super) fn resume(folder: &Path, config: &Config, seed: u64, facts: &Facts) -> Result<Resume, DetectionError> {
    let differs = |recorded, found| Err(DetectionError::OtherRun { folder: folder.to_owned(), recorded, found });
    let (begun, of_seed) = RunFolder::read(folder)?;
    if of_seed != seed {
        return differs(format!("the seed {of_seed}"), seed.to_string());
    }
    if begun.raw() != config.raw() {
        return differs("settings of its own".to_owned(), "other settings".to_owned());
    }
    let mut resume = Resume::read(folder)?;
    if resume.facts.outliers_sha256.is_none() {
        // A state of an earlier version does not have them; from now on they are compared.
        resume.facts.outliers_sha256.clone_from(&facts.outliers_sha256);
    }
    let [recorded, found] = [&resume.facts, facts].map(described);
    match recorded.into_iter().zip(found).find(|(recorded, found)| recorded != found) {
        Some((recorded, found)) => differs(recorded, found),
        None => Ok(resume),
    }
}

/// What the rest of a training depends on, for a message: selection set, engine and data.
fn described(facts: &Facts) -> [String; 3] {
    let selection = facts.selection.as_deref().map_or_else(
        || "the selection set ConstantGray".to_owned(),
        |name| {
            let sha256 = facts.outliers_sha256.iter().find_map(|sets| sets.get(name));
            format!("the selection set `{name}` of SHA-256 {}", sha256.map_or("unknown", String::as_str))
        },
    );
    [
        selection,
        format!("the engine {:?}", facts.engine).to_lowercase(),
        format!("data of SHA-256 {}", facts.data_sha256),
    ]
}
