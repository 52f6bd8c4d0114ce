//! The record of an experiment's folder, `experiment.json`: it prevents results of different program versions, scales
//! and devices from being mixed, and lets folders of several machines be [gathered](crate::gather). While a process works on
//! the folder, it holds a lock there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nae_onnx::file;
use nae_train::device::DeviceChoice;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scale;

/// The name of the file.
pub const RECORD: &str = "experiment.json";

/// The names of an experiment's results.
const RESULTS: [&str; 2] = ["cells.jsonl", "result.json"];

/// The name of the file that is locked.
const LOCK: &str = "lock";

/// The experiment of a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The name of the experiment.
    pub experiment: String,
    /// The scale.
    pub scale: Scale,
    /// The device.
    pub device: DeviceChoice,
    /// The version of the program.
    pub version: String,
    /// The text of the settings; empty for an illustration, whose settings are part of the program.
    pub settings: String,
    /// Whether the cells are candidates of a search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub search: bool,
    /// The settings that determine the result.
    pub recorded: Value,
}

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The folder or a file in it cannot be made, read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The path of the folder or file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The file is not a valid record.
    #[error("{}: {cause}; restore the file from a copy, or choose another folder with --out", path.display())]
    Form {
        /// The path of the file.
        path: PathBuf,
        /// The error, with its position.
        cause: serde_json::Error,
    },
    /// Another process works on the folder.
    #[error("{}: another process works on the experiment there; wait for it, or choose another folder with --out", .0.display())]
    Locked(PathBuf),
    /// The folder has no record, and a file that would be replaced.
    #[error("{}: it would be replaced, and its folder has no {RECORD}; choose an empty or a new folder with --out", .0.display())]
    Foreign(PathBuf),
    /// The folder contains results of another experiment.
    #[error("{}: its results are of {what} {found}, and this is {expected}; choose another folder with --out", path.display())]
    Other {
        /// The path of the folder.
        path: PathBuf,
        /// The property that differs.
        what: &'static str,
        /// The value in the folder.
        found: String,
        /// The value of this experiment.
        expected: String,
    },
}

impl Record {
    /// The record of an experiment with this version of the program.
    pub(super) fn new(experiment: &str, scale: Scale, device: DeviceChoice, settings: &str, recorded: Value) -> Self {
        let (experiment, settings) = (experiment.to_owned(), settings.to_owned());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { experiment, scale, device, version, settings, search: false, recorded }
    }

    /// Reads the record in the folder `path`; `None` if there is none.
    ///
    /// # Errors
    /// [`RecordError::Io`] or [`RecordError::Form`].
    pub fn read(path: &Path) -> Result<Option<Self>, RecordError> {
        let path = path.join(RECORD);
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|cause| RecordError::Form { path: path.clone(), cause })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(RecordError::Io { path: path.clone(), cause }),
        }
    }

    /// Makes the folder `path` where it is not there, [writes](Self::write) the record, and returns the lock of the folder,
    /// which lasts until it is dropped or the process ends.
    ///
    /// # Errors
    /// [`RecordError::Foreign`] if there is no record, and a file that the experiment would replace; [`RecordError::Locked`] if
    /// another process has the lock; and those of [`write`](Self::write).
    pub(super) fn claim(&self, path: &Path) -> Result<File, RecordError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |cause| RecordError::Io { path, cause }
        };
        fs::create_dir_all(path).map_err(io(path))?;
        refuse_foreign(path)?;
        let name = path.join(LOCK);
        let lock = file::lock(&name).map_err(io(&name))?.ok_or_else(|| RecordError::Locked(path.to_owned()))?;
        self.write(path)?;
        Ok(lock)
    }

    /// Writes the record to the folder `path`. Its settings may differ from those written before: models whose settings
    /// have not changed stay finished. A record of a folder without results, such as one that an experiment without data
    /// left, is replaced.
    ///
    /// # Errors
    /// [`RecordError::Other`] if the folder has results of another experiment, scale, device, program version or
    /// search; [`RecordError::Io`] or [`RecordError::Form`].
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        if let Some(found) = Self::read(path)? {
            if let Some((what, found, expected)) = found.difference(self)
                && has_results(path)?
            {
                return Err(RecordError::Other { path: path.to_owned(), what, found, expected });
            }
            if found == *self {
                return Ok(());
            }
        }
        let file = path.join(RECORD);
        let text = serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(io::Error::from);
        let written = text.and_then(|text| file::write(&file, text.as_bytes()).map_err(io::Error::other));
        written.map_err(|cause| RecordError::Io { path: file, cause })
    }

    /// The first difference from `other`, apart from the settings: the property, and both values.
    pub(crate) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let named = |record: &Self| {
            [
                ("experiment", record.experiment.clone()),
                ("scale", record.scale.name().to_owned()),
                ("device", record.device.to_string()),
                ("program version", record.version.clone()),
                ("cells", if record.search { "with candidates" } else { "without candidates" }.to_owned()),
            ]
        };
        let pairs = named(self).into_iter().zip(named(other));
        pairs.into_iter().find(|(own, other)| own != other).map(|((what, own), (_, other))| (what, own, other))
    }
}

/// Refuses a folder `path` without a record that has results or pictures. Run folders are protected by themselves, and may have been
/// carried there.
fn refuse_foreign(path: &Path) -> Result<(), RecordError> {
    let io = |cause| RecordError::Io { path: path.to_owned(), cause };
    if path.join(RECORD).exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        let name = file.file_name().unwrap_or_default();
        let is_picture = file.extension().is_some_and(|end| end == "svg" || end == "png");
        if !file.is_dir() && (is_picture || RESULTS.iter().any(|result| name == *result)) {
            return Err(RecordError::Foreign(file));
        }
    }
    Ok(())
}

/// Whether the folder `path` has more than a record and its lock; hidden files do not count.
fn has_results(path: &Path) -> Result<bool, RecordError> {
    let io = |cause| RecordError::Io { path: path.to_owned(), cause };
    for entry in fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if name != RECORD && name != LOCK && !name.as_encoded_bytes().starts_with(b".") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_of_one_experiment_scale_device_and_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = Record::new("gaussians8", Scale::Smoke, DeviceChoice::Cpu, "a = 1", "a = 1".into());
        assert_eq!(Record::read(folder.path()).expect("none"), None);
        record.write(folder.path()).expect("writes");
        assert_eq!(Record::read(folder.path()).expect("reads"), Some(record.clone()));
        let other_settings = Record { settings: "a = 2".to_owned(), ..record.clone() };
        other_settings.write(folder.path()).expect("settings may change");
        std::fs::write(folder.path().join("cells.jsonl"), "").expect("results");
        for (other, said) in [
            (
                Record { experiment: "mnist-ood".to_owned(), ..record.clone() },
                "experiment gaussians8, and this is mnist-ood",
            ),
            (Record { scale: Scale::Cpu, ..record.clone() }, "scale smoke, and this is cpu"),
            (Record { version: "9.0.0".to_owned(), ..record.clone() }, "program version 0.1.0, and this is 9.0.0"),
            (Record { search: true, ..record.clone() }, "cells without candidates, and this is with candidates"),
        ] {
            let message = other.write(folder.path()).expect_err("refused").to_string();
            assert!(message.contains(said), "{message}");
        }
        assert_eq!(Record::read(folder.path()).expect("reads"), Some(other_settings), "as it was");
    }

    #[test]
    fn a_folder_without_results_is_free_for_another_experiment() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = |scale| Record::new("mnist-ood", scale, DeviceChoice::Cpu, "a = 1", "a = 1".into());
        drop(record(Scale::Smoke).claim(folder.path()).expect("free"));
        drop(record(Scale::Cpu).claim(folder.path()).expect("free, since nothing was made"));
        assert_eq!(Record::read(folder.path()).expect("reads"), Some(record(Scale::Cpu)));
        std::fs::create_dir(folder.path().join("mnist-0")).expect("a run");
        assert!(record(Scale::Smoke).claim(folder.path()).is_err());
    }
}
