//! A run that was broken off, by Ctrl-C, a power cut or otherwise, and is gone on with, to the same model as if it had not
//! been.

use std::path::{Path, PathBuf};

use nae_data::own::Corrupt;

use crate::config::Config;
use crate::own::{self, OwnError};
use crate::recorded::OtherData;
use crate::report::{Resume, RunFolder, RunFolderError};
use crate::run::{Prepared, RunError};

/// Such a run, as its folder has it.
pub struct BrokenOff {
    /// The run folder.
    pub folder: PathBuf,
    /// Its settings.
    pub config: Config,
    /// Its seed.
    pub seed: u64,
    /// The state it goes on from.
    pub resume: Resume,
}

/// A run that cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenOffError {
    /// It selects by a set that is not given here.
    #[error(
        "{}: the run selects by the set \"{selection}\", which only the experiment has; go on with it by the same \
         `nae-train reproduce` that it was begun with", folder.display()
    )]
    Selection {
        /// The run folder.
        folder: PathBuf,
        /// The set.
        selection: String,
    },
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// Outliers lie within the data.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// The data are others.
    #[error(transparent)]
    OtherData(#[from] OtherData),
    /// The data cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl BrokenOff {
    /// Reads settings, seed and state in the run folder at `folder`.
    ///
    /// # Errors
    /// [`RunFolderError`] where there is nothing to go on from.
    pub fn read(folder: &Path) -> Result<Self, RunFolderError> {
        let (config, seed) = RunFolder::read(folder)?;
        Ok(Self { folder: folder.to_owned(), config, seed, resume: Resume::read(folder)? })
    }

    /// Reads its data once more, from `data` where they are not part of the program.
    ///
    /// # Errors
    /// [`BrokenOffError`].
    pub fn prepare(
        self,
        data: Option<&Path>,
        outliers: Option<&Path>,
        corrupt: Corrupt,
    ) -> Result<(Prepared, Resume), BrokenOffError> {
        let Self { folder, config, seed, resume } = self;
        if let Some(selection) = resume.facts.selection {
            return Err(BrokenOffError::Selection { folder, selection });
        }
        if let (Some(data), Some(outliers)) = (data, outliers) {
            own::apart(data, outliers)?;
        }
        let prepared = Prepared::new(config, seed, data, corrupt)?;
        OtherData::check(&prepared, &folder, &resume.facts.data_sha256)?;
        Ok((prepared, resume))
    }
}
