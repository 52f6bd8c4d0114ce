//! A run that was made before, by its folder: its data once more, divided as they were for it. One that was broken off and goes on
//! is in [`broken_off`](crate::broken_off).

use std::path::{Path, PathBuf};

use nae_data::own::Corrupt;

use crate::report::{RunFolder, RunFolderError};
use crate::run::{Prepared, RunError};

/// The data that are given are not those of the run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: expected the data that the run was made with, of SHA-256 {recorded}; found {found}: other data would be divided \
     otherwise, and images that were trained on would be taken for others; give the same --data", folder.display()
)]
pub struct OtherData {
    /// The run folder.
    pub folder: PathBuf,
    /// SHA-256 of the data of the run.
    pub recorded: String,
    /// Of those that are given.
    pub found: String,
}

impl OtherData {
    /// Refuses `prepared` for the run in `folder`, which was made with data of SHA-256 `recorded`, where it has others.
    pub(crate) fn check(prepared: &Prepared, folder: &Path, recorded: &str) -> Result<(), Self> {
        if prepared.data_sha256 == recorded {
            return Ok(());
        }
        let (folder, recorded, found) = (folder.to_owned(), recorded.to_owned(), prepared.data_sha256.clone());
        Err(Self { folder, recorded, found })
    }
}

/// A run whose data cannot be had once more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// Its folder cannot be read.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// The data are others.
    #[error(transparent)]
    OtherData(#[from] OtherData),
    /// The data cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Settings, seed and data of the run whose folder is `run`; the data from `data` where they are not part of the program.
///
/// # Errors
/// [`RecordedError::OtherData`] where these are not the data of the run. Runs of earlier versions have not recorded which they had.
pub fn prepare(run: &Path, data: Option<&Path>, corrupt: Corrupt) -> Result<Prepared, RecordedError> {
    let (config, seed) = RunFolder::read(run)?;
    let prepared = Prepared::new(config, seed, data, corrupt)?;
    if let Some(recorded) = RunFolder::data_sha256(run)? {
        OtherData::check(&prepared, run, &recorded)?;
    }
    Ok(prepared)
}
