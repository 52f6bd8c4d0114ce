//! The file for resuming an interrupted run: `resume.bin` in the run folder.
//!
//! It consists of a mark, the SHA-256 of the rest, and the rest as CBOR. It is written atomically, so that a run that
//! is killed always leaves a complete state of some update.

use std::collections::BTreeMap;
use std::path::Path;

use ciborium::Value;
use nae_onnx::file;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::clock::Taken;
use super::error::RunFolderError;
use super::folder::{CONFIG, config_sha256};
use super::metrics::Lengths;
use crate::device::DeviceChoice;
use crate::engine::Engine;
use crate::methods::state::StateError;
use crate::train::snapshot::Snapshot;

/// The file's name in a run folder.
pub const RESUME: &str = "resume.bin";

/// The mark at the start of the file; the digit is the version of the format.
const MARK: &[u8; 8] = b"NAE-RUN2";
/// The mark of the first version, which is read but not written.
const MARK_1: &[u8; 8] = b"NAE-RUN1";
const DIGEST: usize = 32;
/// The size limit in bytes, far above the needs of the paper's largest network with a full replay buffer of its images.
const LARGEST: u64 = 16 << 30;

/// The facts that are the same at every update of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The SHA-256 of the run's data, in hexadecimal.
    pub data_sha256: String,
    /// The engine that computes gradients; another engine would round differently.
    pub engine: Engine,
    /// The device of the computation; another device would round, and draw random numbers, differently.
    #[serde(default)]
    pub device: DeviceChoice,
    /// The settings that were chosen for the run and the reasons, for its report.
    pub choices: Vec<String>,
    /// The name of the selection set that training uses in place of ConstantGray, if any.
    #[serde(default)]
    pub selection: Option<String>,
    /// The path of the outliers that the run was started with, for its evaluation, if any.
    #[serde(default)]
    pub outliers: Option<String>,
    /// The SHA-256 of the outliers in files of an experiment, by set, one of which may be the selection set; states of other
    /// runs and of earlier versions do not have them.
    #[serde(default)]
    pub outliers_sha256: Option<BTreeMap<String, String>>,
}

/// The state for resuming a run. For writing, `F` and `S` are references.
#[derive(Serialize, Deserialize)]
pub struct Resume<F = Facts, S = Snapshot> {
    /// The facts of the run.
    pub facts: F,
    /// The SHA-256 of the run's `config.toml`, in hexadecimal; states of earlier versions do not have it.
    #[serde(default)]
    pub config_sha256: Option<String>,
    /// The time taken so far.
    pub taken: Taken,
    /// The lengths of the files of measurements so far.
    pub metrics: Lengths,
    /// The state of the training.
    pub snapshot: S,
}

impl Resume {
    /// Reads the state in the run folder at `folder`, whose settings must be those that the run was started with.
    ///
    /// # Errors
    /// [`RunFolderError`] with the file and the problem.
    pub fn read(folder: &Path) -> Result<Self, RunFolderError> {
        let path = folder.join(RESUME);
        if !path.exists() {
            return Err(RunFolderError::at(
                &path,
                "there is nothing to resume: the run has ended, or it was interrupted before its first checkpoint; \
                 `nae-train export` writes the model of a run that has ended",
            ));
        }
        let bytes = file::read(&path, LARGEST)?;
        let damaged = |what: &str| RunFolderError::at(&path, format_args!("{what}; the run has to start again"));
        let Some((mark, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(damaged("it is too short for a state of a run"));
        };
        if mark != MARK && mark != MARK_1 {
            return Err(damaged("it is no state of a run that this version can read"));
        }
        let body = match rest.split_first_chunk::<DIGEST>() {
            Some((digest, body)) if Sha256::digest(body)[..] == digest[..] => body,
            _ => return Err(damaged("it is not as it was written: its checksum differs")),
        };
        let read = if mark == MARK_1 {
            read_version_1(body)
        } else {
            ciborium::from_reader(body).map_err(|error| error.to_string())
        };
        let resume: Self = read.map_err(|error| damaged(&format!("it cannot be read: {error}")))?;
        match &resume.config_sha256 {
            Some(begun) if *begun != config_sha256(folder)? => {
                let problem = "it was changed since the run was begun, and the rest of the run would be of other settings; put it \
                               back, or begin another run by a copy of it: nae-train --preset COPY.toml";
                Err(RunFolderError::at(&folder.join(CONFIG), problem))
            }
            _ => Ok(resume),
        }
    }
}

/// Reads the first version of the format, in which the facts are on the same level as the other entries.
fn read_version_1(body: &[u8]) -> Result<Resume, String> {
    let value: Value = ciborium::from_reader(body).map_err(|error| error.to_string())?;
    let entries = value.into_map().map_err(|_| "it is no map".to_owned())?;
    let is_fact = |key: &Value| !matches!(key.as_text(), Some("taken" | "metrics" | "snapshot"));
    let (facts, mut rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| is_fact(key));
    rest.push((Value::from("facts"), Value::Map(facts)));
    Value::Map(rest).deserialized().map_err(|error| error.to_string())
}

impl<F: Serialize, S: Serialize> Resume<F, S> {
    /// Writes the state into the run folder at `folder`, and replaces the previous one.
    pub(super) fn write(&self, folder: &Path) -> Result<(), RunFolderError> {
        let path = folder.join(RESUME);
        let mut bytes = MARK.to_vec();
        bytes.resize(MARK.len() + DIGEST, 0);
        ciborium::into_writer(self, &mut bytes).map_err(|error| RunFolderError::at(&path, StateError::from(error)))?;
        let digest = Sha256::digest(&bytes[MARK.len() + DIGEST..]);
        bytes[MARK.len()..MARK.len() + DIGEST].copy_from_slice(&digest);
        Ok(file::write(path, &bytes)?)
    }
}
