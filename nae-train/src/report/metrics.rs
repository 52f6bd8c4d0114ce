//! All measurements during a run: `metrics.jsonl`, one JSON object in each line, and the same numbers for TensorBoard.
//!
//! A run that continues from a stored state truncates both files to their lengths at that state, and repeats the later
//! measurements.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clock::Taken;
use super::error::RunFolderError;
use super::tensorboard::{EVENTS, Events};

/// The file of the measurements, one JSON object in each line.
pub const METRICS: &str = "metrics.jsonl";

/// The lengths of the files, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    lines: u64,
    events: u64,
}

/// Writes both files.
pub(crate) struct Metrics {
    folder: PathBuf,
    lines: BufWriter<File>,
    events: Events,
}

impl Metrics {
    /// Creates both files in `folder`, and replaces existing ones.
    ///
    /// # Errors
    /// [`RunFolderError`] if they cannot be created.
    pub(crate) fn create(folder: &Path) -> Result<Self, RunFolderError> {
        let create = |name: &str| File::create(folder.join(name)).map_err(|cause| failed(folder, name, cause));
        let lines = BufWriter::new(create(METRICS)?);
        let events = Events::begin(create(EVENTS)?).map_err(|cause| failed(folder, EVENTS, cause))?;
        Ok(Self { folder: folder.to_owned(), lines, events })
    }

    /// Opens both files in `folder` and truncates them to `lengths`.
    ///
    /// # Errors
    /// [`RunFolderError`] if they cannot be opened or are shorter.
    pub(crate) fn reopen(folder: &Path, lengths: Lengths) -> Result<Self, RunFolderError> {
        let open = |name: &str, length| {
            let file = OpenOptions::new().append(true).open(folder.join(name));
            let cut = file.and_then(|file| {
                let found = file.metadata()?.len();
                if found < length {
                    let what = format!(
                        "it had {length} bytes when the state of the run was written, and has {found} now: the run cannot \
                         be continued; start over, with another --out"
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                file.set_len(length).map(|()| file)
            });
            cut.map_err(|cause| failed(folder, name, cause))
        };
        let lines = BufWriter::new(open(METRICS, lengths.lines)?);
        let events = Events::append(open(EVENTS, lengths.events)?);
        Ok(Self { folder: folder.to_owned(), lines, events })
    }

    /// Records `values`, an object: as a line with `kind` and the time `taken`, and each number in it under `group` and
    /// its own name, at `step`.
    ///
    /// # Errors
    /// [`RunFolderError`] if they cannot be written.
    pub(crate) fn record(
        &mut self,
        kind: &str,
        taken: Taken,
        group: &str,
        step: usize,
        values: &impl Serialize,
    ) -> Result<(), RunFolderError> {
        #[derive(Serialize)]
        struct Line<'a, T> {
            kind: &'a str,
            #[serde(flatten)]
            taken: Taken,
            #[serde(flatten)]
            values: &'a T,
        }
        let mut line = || -> io::Result<()> {
            serde_json::to_writer(&mut self.lines, &Line { kind, taken, values })?;
            self.lines.write_all(b"\n")
        };
        line().map_err(|cause| failed(&self.folder, METRICS, cause))?;
        let object = serde_json::to_value(values).map_err(|cause| failed(&self.folder, EVENTS, cause.into()))?;
        self.events.scalars(step, scalars(group, &object)).map_err(|cause| failed(&self.folder, EVENTS, cause))
    }

    /// Passes all data to the operating system and returns the lengths.
    ///
    /// # Errors
    /// [`RunFolderError`] if they cannot be written.
    pub(crate) fn flush(&mut self) -> Result<Lengths, RunFolderError> {
        let mut lines = || -> io::Result<u64> {
            self.lines.flush()?;
            Ok(self.lines.get_ref().metadata()?.len())
        };
        let lines = lines().map_err(|cause| failed(&self.folder, METRICS, cause))?;
        let events = self.events.flush().map_err(|cause| failed(&self.folder, EVENTS, cause))?;
        Ok(Lengths { lines, events })
    }

    /// Writes all data to the disk: a stored state could not be used if these files were shorter than it expects.
    ///
    /// # Errors
    /// [`RunFolderError`] if they cannot be written.
    pub(crate) fn sync(&mut self) -> Result<Lengths, RunFolderError> {
        let lengths = self.flush()?;
        self.lines.get_ref().sync_data().map_err(|cause| failed(&self.folder, METRICS, cause))?;
        self.events.sync().map_err(|cause| failed(&self.folder, EVENTS, cause))?;
        Ok(lengths)
    }
}

fn failed(folder: &Path, name: &str, cause: io::Error) -> RunFolderError {
    RunFolderError::at(&folder.join(name), cause)
}

/// The numbers of `values` by name, without step counts.
fn scalars(group: &str, values: &Value) -> Vec<(String, f64)> {
    let Value::Object(values) = values else { return Vec::new() };
    let own = values.iter().filter(|(key, _)| !["step", "update"].contains(&key.as_str()));
    own.flat_map(|(key, value)| match value {
        Value::Object(_) => scalars(&format!("{group}/{key}"), value),
        _ => value.as_f64().map(|number| (format!("{group}/{key}"), number)).into_iter().collect(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_measured_after_a_state_is_measured_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |name: &str| std::fs::read(folder.path().join(name)).expect("reads");
        let taken = |seconds: f64| Taken { seconds, processor_seconds: 2.0 * seconds };
        let mut metrics = Metrics::create(folder.path()).expect("makes");
        metrics.record("step", taken(1.0), "pretraining", 1, &json!({ "step": 1, "energy": 0.5 })).expect("writes");
        let lengths = metrics.flush().expect("writes");
        let kept = [read(METRICS), read(EVENTS)];
        metrics.record("step", taken(2.0), "pretraining", 2, &json!({ "step": 2, "energy": 0.4 })).expect("writes");
        metrics.flush().expect("writes");
        assert!(read(METRICS).len() > kept[0].len() && read(EVENTS).len() > kept[1].len());
        drop(metrics);
        let mut metrics = Metrics::reopen(folder.path(), lengths).expect("opens");
        assert_eq!([read(METRICS), read(EVENTS)], kept);
        metrics.record("look", taken(3.0), "look", 2, &json!({ "auroc": 1.0 })).expect("writes");
        metrics.flush().expect("writes");
        let text = String::from_utf8(read(METRICS)).expect("text");
        assert_eq!(text.lines().count(), 2);
        let line = r#"{"kind":"look","seconds":3.0,"processor_seconds":6.0,"auroc":1.0}"#;
        assert_eq!(text.lines().last(), Some(line));
        drop(metrics);
        std::fs::remove_file(folder.path().join(METRICS)).expect("removes");
        let error = Metrics::reopen(folder.path(), lengths).err().expect("is not there").to_string();
        assert!(error.contains(METRICS), "{error}");
    }

    #[test]
    fn numbers_get_names_and_steps_do_not() {
        let values = json!({ "update": 3, "phase": "x", "gap": null, "auroc": { "noise": 1.0, "halves": 0.5 } });
        let expected = [("outliers/auroc/halves".to_owned(), 0.5), ("outliers/auroc/noise".to_owned(), 1.0)];
        assert_eq!(scalars("outliers", &values), expected);
    }
}
