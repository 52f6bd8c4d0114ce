//! What a long command has done so far, one JSON object a line, so that it can go on where it was broken off.
//!
//! Each line carries a digest of what was asked for; lines of something else are left alone. A last line without its
//! end was being written when the program was killed: it is passed over, and taken away before the next is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use nae_data::digest::hex;

use super::error::RunFolderError;

/// Appends entries to a file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    digest: String,
    #[serde(flatten)]
    entry: T,
}

/// Any line: whose entry it is has to be known before the entry can be read.
#[derive(Deserialize)]
struct Owner {
    digest: String,
}

/// SHA-256 of `parts`, in hexadecimal.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(hash)
}

/// The entries of `path` that were written under `digest`; none where there is no file.
///
/// # Errors
/// [`RunFolderError`] names the file and the line.
pub fn read<T: DeserializeOwned>(path: &Path, digest: &str) -> Result<Vec<T>, RunFolderError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(RunFolderError::at(path, cause)),
    };
    let mut entries = Vec::new();
    let whole = &text[..whole(text.as_bytes())];
    for (index, text) in whole.lines().enumerate() {
        let failed = |cause: serde_json::Error| {
            let todo = "remove the line, and what it holds is done again";
            RunFolderError::new(format_args!("{}, line {}: {cause}; {todo}", path.display(), index + 1))
        };
        let Owner { digest: owner } = serde_json::from_str(text).map_err(failed)?;
        if owner == digest {
            let line: Line<T> = serde_json::from_str(text).map_err(failed)?;
            entries.push(line.entry);
        }
    }
    Ok(entries)
}

impl Journal {
    /// Opens `path` for more entries under `digest`, making it where there is none.
    ///
    /// # Errors
    /// [`RunFolderError`].
    pub fn open(path: &Path, digest: String) -> Result<Self, RunFolderError> {
        let io = |cause: io::Error| RunFolderError::at(path, cause);
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).and_then(|_| file.set_len(whole(&bytes) as u64)).map_err(io)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), digest })
    }

    /// Writes `entry` to the end, from any thread.
    ///
    /// # Errors
    /// [`RunFolderError`].
    pub fn append(&self, entry: &impl Serialize) -> Result<(), RunFolderError> {
        let io = |cause: io::Error| RunFolderError::at(&self.path, cause);
        let line = Line { digest: self.digest.clone(), entry };
        let text = serde_json::to_string(&line).map_err(|error| io(error.into()))? + "\n";
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(io)
    }
}

/// Length of the lines that have an end.
fn whole(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Entry {
        number: u32,
    }

    #[test]
    fn entries_come_back_and_those_of_others_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.jsonl");
        assert_eq!(read::<Entry>(&path, "a").expect("no file is no entry"), []);
        for (owner, number) in [("a", 1), ("b", 2), ("a", 3)] {
            Journal::open(&path, owner.to_owned()).expect("opens").append(&Entry { number }).expect("writes");
        }
        assert_eq!(read::<Entry>(&path, "a").expect("reads"), [Entry { number: 1 }, Entry { number: 3 }]);
        fs::write(&path, "{\"digest\": \"a\", \"number\": -1}\n").expect("writes");
        let message = read::<Entry>(&path, "a").expect_err("no u32").to_string();
        assert!(message.contains("journal.jsonl, line 1"), "{message}");
    }

    #[test]
    fn a_line_that_was_cut_off_is_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.jsonl");
        let append = |number| Journal::open(&path, "a".to_owned()).expect("opens").append(&Entry { number });
        append(1).expect("writes");
        let mut text = fs::read(&path).expect("reads");
        text.extend_from_within(..text.len() / 2);
        fs::write(&path, text).expect("writes");
        assert_eq!(read::<Entry>(&path, "a").expect("reads"), [Entry { number: 1 }]);
        append(2).expect("writes");
        assert_eq!(read::<Entry>(&path, "a").expect("reads"), [Entry { number: 1 }, Entry { number: 2 }]);
    }

    #[test]
    fn a_digest_tells_where_parts_end() {
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
        assert_eq!(digest(["ab", "c"]).len(), 64);
    }
}
