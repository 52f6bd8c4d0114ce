//! Prepares a finished run from its folder: its data, divided as for the run. [`interrupted`](crate::interrupted) resumes
//! an interrupted run.

use std::path::{Path, PathBuf};

use nae_data::own::Corrupt;

use crate::report::{RESUME, Resume, RunFolder, RunFolderError};
use crate::run::{Prepared, RunError};

/// An error for data that are not those of the run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: expected the data that the run was made with, of SHA-256 {recorded}; found {found}: other data would be divided \
     otherwise, and samples that were trained on would be taken for others; give the same --data", folder.display()
)]
pub struct OtherData {
    /// The run folder.
    pub folder: PathBuf,
    /// The SHA-256 of the run's data.
    pub recorded: String,
    /// The SHA-256 of the given data.
    pub found: String,
}

impl OtherData {
    /// Checks that `prepared` has the data of the run in `folder`, whose SHA-256 is `recorded`.
    pub(crate) fn check(prepared: &Prepared, folder: &Path, recorded: &str) -> Result<(), Self> {
        if prepared.data_sha256 == recorded {
            return Ok(());
        }
        let (folder, recorded, found) = (folder.to_owned(), recorded.to_owned(), prepared.data_sha256.clone());
        Err(Self { folder, recorded, found })
    }
}

/// An error that prevents the preparation of a finished run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// The run folder cannot be read.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// The data are not those of the run.
    #[error(transparent)]
    OtherData(#[from] OtherData),
    /// The data cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Reads settings, seed and data of the run in the folder `run`; the data are read from `data` if they are not
/// embedded.
///
/// # Errors
/// [`RecordedError::OtherData`] if these are not the data of the run; this is not checked for runs of earlier versions,
/// which did not record a digest. Other cases of [`RecordedError`] if the folder or the data cannot be read.
pub fn prepare(run: &Path, data: Option<&Path>, corrupt: Corrupt) -> Result<Prepared, RecordedError> {
    let (config, seed) = RunFolder::read(run)?;
    let prepared = Prepared::new(config, seed, data, corrupt)?;
    if let Some(recorded) = RunFolder::data_sha256(run)? {
        OtherData::check(&prepared, run, &recorded)?;
    }
    Ok(prepared)
}

/// What the user of the model of the run in the folder `run` should know if the run can be continued; `None` if it has ended.
pub fn unfinished(run: &Path) -> Option<String> {
    if !run.join(RESUME).exists() {
        return None;
    }
    let done = match Resume::read(run) {
        Ok(resume) => format!(" after {}, and is continued by `nae-train --resume`", resume.snapshot),
        Err(_) => String::new(),
    };
    Some(format!("{}: the run was interrupted{done}: this model is the best until then", run.display()))
}

/// The names of the user's outlier sets that the run in the folder `run` was evaluated on and `prepared` does not have; empty
/// for a run that has not ended.
///
/// # Errors
/// [`RunFolderError`] if the results are there and cannot be read.
pub fn missing_outliers(run: &Path, prepared: &Prepared) -> Result<Vec<String>, RunFolderError> {
    let names = RunFolder::results(run)?.given_outliers.into_iter().map(|set| set.name);
    Ok(names.filter(|name| !prepared.outliers.iter().any(|set| set.name == *name)).collect())
}
