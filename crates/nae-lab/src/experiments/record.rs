//! What the folder of an experiment says of itself, in `experiment.json`: so that results of one program version, scale and
//! device are not mixed with others', and folders of several machines can be [gathered](crate::gather).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nae_onnx::file;
use nae_train::device::DeviceChoice;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scale;

/// The file's name.
pub const RECORD: &str = "experiment.json";

/// What a folder is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The experiment.
    pub experiment: String,
    /// How much work.
    pub scale: Scale,
    /// Where it is computed.
    pub device: DeviceChoice,
    /// Version of the program.
    pub version: String,
    /// The text of its settings.
    pub settings: String,
    /// Whether it is the search that they have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub search: bool,
    /// What of them decides the result.
    pub recorded: Value,
}

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        cause: io::Error,
    },
    /// It is no record.
    #[error("{}: {cause}; remove the file where the folder is of this experiment", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Where and what.
        cause: serde_json::Error,
    },
    /// The folder has something else.
    #[error("{}: its results are of {what} {found}, and this is {expected}; choose another folder with --out", path.display())]
    Other {
        /// The folder.
        path: PathBuf,
        /// In what they differ.
        what: &'static str,
        /// The folder's.
        found: String,
        /// This one's.
        expected: String,
    },
}

impl Record {
    /// Of this program.
    pub(super) fn new(experiment: &str, scale: Scale, device: DeviceChoice, settings: &str, recorded: Value) -> Self {
        let (experiment, settings) = (experiment.to_owned(), settings.to_owned());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { experiment, scale, device, version, settings, search: false, recorded }
    }

    /// That of the folder `path`; `None` where it has none.
    ///
    /// # Errors
    /// [`RecordError::Io`] and [`RecordError::Form`].
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

    /// Writes it into the folder `path`. Settings may be other ones than before: what they leave as it was stays finished.
    ///
    /// # Errors
    /// [`RecordError::Other`] where the folder has results of another experiment, scale, device or program.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        if let Some(found) = Self::read(path)? {
            if let Some((what, found, expected)) = found.difference(self) {
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

    /// In what `other` differs, but for the settings: what it is, and each one's.
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
}
