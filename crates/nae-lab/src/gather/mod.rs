//! Combines the results of several machines in one table: cells and seeds of an experiment, or seeds of one run, each
//! in a separate folder.
//!
//! This file finds the folders and determines their kind; `experiment` and `runs` combine those that belong together
//! and refuse others. Nothing is trained here.

mod experiment;
mod runs;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::experiments::detection::{DetectionError, SettingsError};
use crate::experiments::gaussians8::{self, ExperimentError};
use crate::experiments::pictures;
use crate::experiments::record::{RECORD, Record, RecordError};
use nae_train::report::{CONFIG, RESUME};

/// The combined results.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The results, for programs.
    pub json: Value,
    /// The table, for a terminal.
    pub text: String,
    /// The runs that have not ended, and are not in the table.
    pub unfinished: Vec<PathBuf>,
}

/// Folders that cannot be combined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatherError {
    /// A folder cannot be read.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The folder contains neither an experiment nor a run.
    #[error(
        "{}: expected the folder of an experiment, with {RECORD}, or of a run, with {CONFIG}, or one that holds such \
         folders; found neither", .0.display()
    )]
    Nothing(PathBuf),
    /// The folder contains an illustration, of which there is nothing to combine.
    #[error("{}: expected an experiment with cells or seeds, found the illustration {name}; leave the folder out", path.display())]
    Illustration {
        /// The path of the folder.
        path: PathBuf,
        /// The name of the illustration.
        name: String,
    },
    /// A file cannot be used.
    #[error("{}: {problem}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// A description of the error.
        problem: String,
    },
    /// Two folders do not belong together.
    #[error("{} and {} do not belong in one table: {what} is {one} in the first and {other} in the second", folders[0].display(), folders[1].display())]
    Apart {
        /// The folders.
        folders: [PathBuf; 2],
        /// The property that differs.
        what: String,
        /// The value of the first folder.
        one: String,
        /// The value of the second folder.
        other: String,
    },
    /// Two folders contain different results for the same model.
    #[error(
        "{what} is in {} and in {}, with other figures: keep one of them", folders[0].display(), folders[1].display()
    )]
    Twice {
        /// A cell and its seed, or a seed.
        what: String,
        /// The folders.
        folders: [PathBuf; 2],
    },
    /// None of the runs has ended.
    #[error("{}: the run has not ended, nor has any other of {number}: continue it by `nae-train --resume`", first.display())]
    Unfinished {
        /// The first of the folders.
        first: PathBuf,
        /// The number of folders.
        number: usize,
    },
    /// No folder was given.
    #[error("expected folders of runs or of an experiment, found none")]
    NoFolders,
    /// The record of a folder cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The settings of an experiment of detection are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The settings of an experiment on densities are invalid.
    #[error(transparent)]
    DensitySettings(#[from] gaussians8::SettingsError),
    /// The results of an experiment of detection cannot be read.
    #[error(transparent)]
    Detection(#[from] DetectionError),
    /// The results of an experiment on densities cannot be read.
    #[error(transparent)]
    Density(#[from] ExperimentError),
}

/// Reads `folders`, each that of an experiment or of a run, or one that contains such folders. Illustrations among those
/// are passed over.
///
/// # Errors
/// [`GatherError`], with the folders that do not belong together, and the property that differs.
pub fn gather(folders: &[PathBuf]) -> Result<Gathered, GatherError> {
    let mut found = Found::default();
    for folder in folders {
        if let Some(name) = illustration(folder) {
            return Err(GatherError::Illustration { path: folder.clone(), name });
        }
        if !found.add(folder) {
            let mut inner = inner(folder)?;
            inner.retain(|inner| illustration(inner).is_none() && found.add(inner));
            if inner.is_empty() {
                return Err(GatherError::Nothing(folder.clone()));
            }
        }
    }
    match (found.experiments.as_slice(), found.runs.as_slice()) {
        ([], []) => Err(GatherError::NoFolders),
        ([], runs) => runs::gather(runs),
        (experiments, []) => experiment::gather(experiments),
        ([experiment, ..], [run, ..]) => Err(GatherError::Apart {
            folders: [experiment.clone(), run.clone()],
            what: "the folder".to_owned(),
            one: "of an experiment".to_owned(),
            other: "of a run".to_owned(),
        }),
    }
}

/// The name of the illustration in `folder`, if it contains one. What is wrong with a record is said where it is used.
fn illustration(folder: &Path) -> Option<String> {
    let name = Record::read(folder).ok()??.experiment;
    pictures::NAMES.contains(&name.as_str()).then_some(name)
}

#[derive(Default)]
struct Found {
    experiments: Vec<PathBuf>,
    runs: Vec<PathBuf>,
}

impl Found {
    /// Adds `folder` if it is that of an experiment or of a run. Returns whether it is. A repeated folder counts once.
    fn add(&mut self, folder: &Path) -> bool {
        let list = if folder.join(RECORD).is_file() {
            &mut self.experiments
        } else if folder.join(CONFIG).is_file() {
            &mut self.runs
        } else {
            return false;
        };
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if list.iter().all(|other| real(other) != real(folder)) {
            list.push(folder.to_owned());
        }
        true
    }
}

/// The folders in `folder`, in the order of their names.
fn inner(folder: &Path) -> Result<Vec<PathBuf>, GatherError> {
    let io = |cause| GatherError::Io { path: folder.to_owned(), cause };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

/// Each model or run once, even if it is in several folders with the same results.
fn once<'a, M>(
    all: impl IntoIterator<Item = (&'a PathBuf, M)>,
    name: impl Fn(&M) -> String,
    same: impl Fn(&M, &M) -> bool,
) -> Result<Vec<M>, GatherError> {
    let mut kept: Vec<(&'a PathBuf, M)> = Vec::new();
    for (folder, model) in all {
        match kept.iter().find(|(_, other)| name(other) == name(&model)) {
            None => kept.push((folder, model)),
            Some((_, other)) if same(other, &model) => {}
            Some((first, _)) => {
                let folders = [first.to_path_buf(), folder.clone()];
                return Err(GatherError::Twice { what: name(&model), folders });
            }
        }
    }
    Ok(kept.into_iter().map(|(_, model)| model).collect())
}

/// Whether the run in `folder` has a saved state, which means that it has not ended.
fn is_unfinished(folder: &Path) -> bool {
    folder.join(RESUME).is_file()
}

/// The first difference between two settings: its key, and both values.
fn difference(one: &Value, other: &Value) -> Option<(String, String, String)> {
    let text = |value: Option<&Value>| value.map_or_else(|| "not there".to_owned(), Value::to_string);
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            keys.into_iter().find_map(|key| match (one.get(key), other.get(key)) {
                (Some(one), Some(other)) => {
                    let (inner, one, other) = difference(one, other)?;
                    Some((if inner.is_empty() { key.clone() } else { format!("{key}.{inner}") }, one, other))
                }
                (one, other) => Some((key.clone(), text(one), text(other))),
            })
        }
        (one, other) if one == other => None,
        (one, other) => Some((String::new(), text(Some(one)), text(Some(other)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_folders_make_no_table() {
        assert!(matches!(gather(&[]), Err(GatherError::NoFolders)));
    }

    #[test]
    fn the_place_where_settings_differ_is_named() {
        let one = json!({"a": {"b": 1, "c": [1, 2]}, "d": 3});
        assert_eq!(difference(&one, &one), None);
        let said = |other| difference(&one, &other).expect("differs");
        assert_eq!(said(json!({"a": {"b": 2, "c": [1, 2]}, "d": 3})), ("a.b".into(), "1".into(), "2".into()));
        assert_eq!(said(json!({"a": {"b": 1, "c": [1]}, "d": 3})), ("a.c".into(), "[1,2]".into(), "[1]".into()));
        assert_eq!(said(json!({"a": {"b": 1, "c": [1, 2]}})), ("d".into(), "3".into(), "not there".into()));
        let more = json!({"a": {"b": 1, "c": [1, 2], "e": 0}, "d": 3});
        assert_eq!(said(more), ("a.e".into(), "not there".into(), "0".into()));
    }
}
