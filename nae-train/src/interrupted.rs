//! Resumes a run that was interrupted, for example by Ctrl-C or a power failure. The resulting model is the same as
//! without the interruption.

use std::path::{Path, PathBuf};

use nae_data::own::Corrupt;

use crate::config::Config;
use crate::own::{self, OwnError};
use crate::recorded::OtherData;
use crate::report::{Resume, RunFolder, RunFolderError};
use crate::run::{Prepared, RunError};

/// An interrupted run, as read from its folder.
pub struct InterruptedRun {
    /// The run folder.
    pub folder: PathBuf,
    /// The run's settings.
    pub config: Config,
    /// The run's seed.
    pub seed: u64,
    /// The state from which the run continues.
    pub resume: Resume,
}

/// An error that prevents the resumption of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterruptedRunError {
    /// The run's selection set is not available here.
    #[error(
        "{}: the run selects by the set \"{selection}\", which only the experiment has; continue it by the same \
         `nae-train reproduce` that it was begun with", folder.display()
    )]
    Selection {
        /// The run folder.
        folder: PathBuf,
        /// The name of the selection set.
        selection: String,
    },
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// One of the outliers and the data contains the other.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// The data are not those of the run.
    #[error(transparent)]
    OtherData(#[from] OtherData),
    /// The data cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl InterruptedRun {
    /// Reads settings, seed and state from the run folder at `folder`.
    ///
    /// # Errors
    /// [`RunFolderError`] if there is no state to continue from.
    pub fn read(folder: &Path) -> Result<Self, RunFolderError> {
        let (config, seed) = RunFolder::read(folder)?;
        Ok(Self { folder: folder.to_owned(), config, seed, resume: Resume::read(folder)? })
    }

    /// Reads the run's data again, from `data` if they are not embedded.
    ///
    /// # Errors
    /// [`InterruptedRunError`] if the data cannot be read, are not those of the run, or overlap with `outliers`; or if the
    /// run has a selection set.
    pub fn prepare(
        self,
        data: Option<&Path>,
        outliers: Option<&Path>,
        corrupt: Corrupt,
    ) -> Result<(Prepared, Resume), InterruptedRunError> {
        let Self { folder, config, seed, resume } = self;
        if let Some(selection) = resume.facts.selection {
            return Err(InterruptedRunError::Selection { folder, selection });
        }
        if let (Some(data), Some(outliers)) = (data, outliers) {
            own::apart(data, outliers)?;
        }
        let mut prepared = Prepared::new(config, seed, data, corrupt)?;
        OtherData::check(&prepared, &folder, &resume.facts.data_sha256)?;
        match (&resume.facts.outliers, outliers) {
            (Some(missing), None) => prepared.warnings.push(format!(
                "the run was started with --outliers {missing}, which is not given now: the results are without these outliers; \
                 evaluate the run with them when it has ended: nae-train eval {}{} --outliers {missing}",
                folder.display(),
                data.map(|data| format!(" --data {}", data.display())).unwrap_or_default()
            )),
            (Some(before), Some(now)) if !is_same(Path::new(before), now) => prepared.warnings.push(format!(
                "the run was started with --outliers {before}; the results are of {} instead",
                now.display()
            )),
            _ => {}
        }
        Ok((prepared, resume))
    }
}

/// Whether two paths are of the same file or folder, however they are written.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}
