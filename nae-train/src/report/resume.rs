//! The file a broken-off run goes on from: `resume.bin` in the run folder.
//!
//! A mark, the SHA-256 of the rest, and the rest as CBOR. Written whole or not at all, so that a run that is killed
//! finds the state of some update, never half a state.

use std::path::{Path, PathBuf};

use nae_onnx::file::{self, FileError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::clock::Taken;
use super::metrics::Lengths;
use crate::device::DeviceChoice;
use crate::engine::Engine;
use crate::methods::state::StateError;
use crate::train::snapshot::Snapshot;

/// The file's name in a run folder.
pub const RESUME: &str = "resume.bin";

/// Begins the file; the digit is the version of its form.
const MARK: &[u8; 8] = b"NAE-RUN1";
const DIGEST: usize = 32;
/// Far above what the largest network of the paper and a full replay buffer of its images need.
const LARGEST: u64 = 16 << 30;

/// What a run goes on from.
#[derive(Serialize, Deserialize)]
pub struct Resume {
    /// SHA-256 of the run's data, in hexadecimal.
    pub data_sha256: String,
    /// What computed gradients: another engine would round differently.
    pub engine: Engine,
    /// Where: another device would round, and draw, differently.
    #[serde(default)]
    pub device: DeviceChoice,
    /// What was chosen for the run and why, for its report.
    pub choices: Vec<String>,
    /// The set that training looks at in place of ConstantGray, by its name.
    #[serde(default)]
    pub selection: Option<String>,
    /// Time taken so far.
    pub taken: Taken,
    /// What has been measured so far.
    pub metrics: Lengths,
    /// The run itself.
    pub snapshot: Snapshot,
}

/// The same, to be written.
#[derive(Serialize)]
pub(super) struct Saved<'a> {
    pub(super) data_sha256: &'a str,
    pub(super) engine: Engine,
    pub(super) device: DeviceChoice,
    pub(super) choices: &'a [String],
    pub(super) selection: Option<&'a str>,
    pub(super) taken: Taken,
    pub(super) metrics: Lengths,
    pub(super) snapshot: &'a Snapshot,
}

/// A state that cannot be stored or gone on from.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is none.
    #[error(
        "{}: there is nothing to go on from: the run has ended, or it was broken off before its first checkpoint; \
         `nae-train export` writes the model of a run that has ended", path.display()
    )]
    None {
        /// The file.
        path: PathBuf,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The state cannot be put into bytes.
    #[error("{}: {cause}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: StateError,
    },
    /// The file is damaged, or of another version of this program.
    #[error("{}: {reason}; the run has to start anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl Resume {
    /// Reads the state in the run folder at `folder`.
    ///
    /// # Errors
    /// [`ResumeError`] names the file and what is wrong with it.
    pub fn read(folder: &Path) -> Result<Self, ResumeError> {
        let path = folder.join(RESUME);
        if !path.exists() {
            return Err(ResumeError::None { path });
        }
        let bytes = file::read(&path, LARGEST)?;
        let damaged = |reason: String| ResumeError::Damaged { path: path.clone(), reason };
        let Some((mark, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(damaged("it is too short for a state of a run".to_owned()));
        };
        if mark != MARK {
            return Err(damaged("it is no state of a run that this version can read".to_owned()));
        }
        match rest.split_first_chunk::<DIGEST>() {
            Some((digest, body)) if Sha256::digest(body)[..] == digest[..] => {
                ciborium::from_reader(body).map_err(|error| damaged(format!("it cannot be read: {error}")))
            }
            _ => Err(damaged("it is not as it was written: its checksum differs".to_owned())),
        }
    }
}

impl Saved<'_> {
    /// Writes the state into the run folder at `folder`, over the one before.
    pub(super) fn write(&self, folder: &Path) -> Result<(), ResumeError> {
        let path = folder.join(RESUME);
        let mut bytes = MARK.to_vec();
        bytes.resize(MARK.len() + DIGEST, 0);
        ciborium::into_writer(self, &mut bytes)
            .map_err(|error| ResumeError::State { path: path.clone(), cause: error.into() })?;
        let digest = Sha256::digest(&bytes[MARK.len() + DIGEST..]);
        bytes[MARK.len()..MARK.len() + DIGEST].copy_from_slice(&digest);
        Ok(file::write(path, &bytes)?)
    }
}
