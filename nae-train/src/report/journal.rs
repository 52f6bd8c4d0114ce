//! Records the completed parts of a long command, one JSON object in each line, so that it can continue after an
//! interruption.
//!
//! Each line contains a digest of the command's settings; lines with another digest are ignored. If the last line is
//! incomplete, since the program was killed while writing it, it is ignored and removed before the next line is
//! written.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use nae_data::digest::hex;
use nae_onnx::file;

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

/// The digest of any line, which is read before the entry.
#[derive(Deserialize)]
struct Owner {
    digest: String,
}

/// The SHA-256 of `parts`, in hexadecimal.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(hash)
}

/// Reads the entries of `path` that were written with `digest`; empty if the file does not exist.
///
/// # Errors
/// [`RunFolderError`] with the file and the line.
pub fn read<T: DeserializeOwned>(path: &Path, digest: &str) -> Result<Vec<T>, RunFolderError> {
    let mut entries = Vec::new();
    for (index, text) in complete(path)?.unwrap_or_default().lines().enumerate() {
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

/// Removes the entries of `path` that were written with one of `digests`, and the file if no others are left.
///
/// # Errors
/// [`RunFolderError`] if the file cannot be read, or not be written again without them.
pub fn remove(path: &Path, digests: &[String]) -> Result<(), RunFolderError> {
    let Some(text) = complete(path)? else { return Ok(()) };
    // A line without a digest is left for its owner to find.
    let is_other = |line: &&str| serde_json::from_str(line).map_or(true, |Owner { digest }| !digests.contains(&digest));
    let others: String = text.lines().filter(is_other).flat_map(|line| [line, "\n"]).collect();
    if others.is_empty() {
        return fs::remove_file(path).map_err(|cause| RunFolderError::at(path, cause));
    }
    Ok(file::write(path, others.as_bytes())?)
}

impl Journal {
    /// Opens `path` for more entries with `digest`, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`RunFolderError`] if it cannot be opened.
    pub fn open(path: &Path, digest: String) -> Result<Self, RunFolderError> {
        Self::of(opened(path)?, path, digest)
    }

    /// Removes an incomplete last line.
    fn of(mut file: File, path: &Path, digest: String) -> Result<Self, RunFolderError> {
        let io = |cause: io::Error| RunFolderError::at(path, cause);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).and_then(|_| file.set_len(whole(&bytes) as u64)).map_err(io)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), digest })
    }

    /// Same as [`open`](Self::open), but no other process can open `path` so until this is dropped. Where a file system cannot
    /// lock, it can.
    ///
    /// # Errors
    /// [`RunFolderError`] if it cannot be opened, or another process has opened it so.
    pub fn open_alone(path: &Path, digest: String) -> Result<Self, RunFolderError> {
        // Before anything of the file is read: the other process may be about to append a line.
        let file = opened(path)?;
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let problem = "another process writes to this file; wait for its end, or give another file";
            return Err(RunFolderError::at(path, problem));
        }
        Self::of(file, path, digest)
    }

    /// Later entries are written with `digest`.
    pub fn change_digest(&mut self, digest: String) {
        self.digest = digest;
    }

    /// Appends `entry`, from any thread.
    ///
    /// # Errors
    /// [`RunFolderError`] if it cannot be written.
    pub fn append(&self, entry: &impl Serialize) -> Result<(), RunFolderError> {
        let io = |cause: io::Error| RunFolderError::at(&self.path, cause);
        let line = Line { digest: self.digest.clone(), entry };
        let text = serde_json::to_string(&line).map_err(|error| io(error.into()))? + "\n";
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let before = file.metadata().map_err(io)?.len();
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(|cause| {
            // A part of a line, to which the next entry would be added, makes the whole file unreadable.
            let _ = file.set_len(before);
            io(cause)
        })
    }
}

/// Opens the file for reading and appending, and makes it if there is none.
fn opened(path: &Path) -> Result<File, RunFolderError> {
    let file = OpenOptions::new().create(true).read(true).append(true).open(path);
    file.map_err(|cause| RunFolderError::at(path, cause))
}

/// The complete lines of the file at `path`; `None` if there is no file. The last line may end within a character.
fn complete(path: &Path) -> Result<Option<String>, RunFolderError> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(RunFolderError::at(path, cause)),
    };
    bytes.truncate(whole(&bytes));
    String::from_utf8(bytes).map(Some).map_err(|cause| RunFolderError::at(path, cause))
}

/// The length of the complete lines.
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
        let complete = fs::read(&path).expect("reads");
        // The second ends within the letter é.
        for cut in [&complete[..complete.len() / 2], b"{\"digest\": \"\xc3"] {
            fs::write(&path, [&complete, cut].concat()).expect("writes");
            assert_eq!(read::<Entry>(&path, "a").expect("reads"), [Entry { number: 1 }]);
            append(2).expect("writes");
            assert_eq!(read::<Entry>(&path, "a").expect("reads"), [Entry { number: 1 }, Entry { number: 2 }]);
            fs::write(&path, [&complete, cut].concat()).expect("writes");
            remove(&path, &["b".to_owned()]).expect("removes nothing");
            assert_eq!(fs::read(&path).expect("reads"), complete);
        }
    }

    #[test]
    fn a_file_is_written_by_one_command_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("parts.jsonl");
        let mut first = Journal::open_alone(&path, "a".to_owned()).expect("opens");
        // As if the first was about to write the rest of a line.
        fs::write(&path, "{\"digest\": ").expect("writes");
        let message = Journal::open_alone(&path, "b".to_owned()).expect_err("is taken").to_string();
        assert_eq!(fs::read_to_string(&path).expect("reads"), "{\"digest\": ", "it is left as it is");
        fs::write(&path, "").expect("writes");
        assert!(message.contains("parts.jsonl: another process writes to this file"), "{message}");
        first.append(&Entry { number: 1 }).expect("writes");
        first.change_digest("c".to_owned());
        first.append(&Entry { number: 2 }).expect("writes");
        drop(first);
        Journal::open_alone(&path, "b".to_owned()).expect("opens").append(&Entry { number: 3 }).expect("writes");
        let numbers = |owner: &str| read::<Entry>(&path, owner).expect("reads");
        assert_eq!(["a", "b", "c"].map(numbers), [1, 3, 2].map(|number| vec![Entry { number }]));
    }

    #[test]
    fn a_digest_tells_where_parts_end() {
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
        assert_eq!(digest(["ab", "c"]).len(), 64);
    }

    /// Of several commands that keep their parts in one file.
    #[test]
    fn entries_of_others_stay_when_some_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("parts.jsonl");
        for (owner, number) in [("a", 1), ("b", 2), ("c", 3), ("a", 4)] {
            Journal::open(&path, owner.to_owned()).expect("opens").append(&Entry { number }).expect("writes");
        }
        let numbers = |owner: &str| -> Vec<u32> {
            read::<Entry>(&path, owner).expect("reads").into_iter().map(|entry| entry.number).collect()
        };
        remove(&path, &["a".to_owned(), "c".to_owned()]).expect("removes");
        assert_eq!([numbers("a"), numbers("b"), numbers("c")], [vec![], vec![2], vec![]]);
        remove(&path, &["b".to_owned()]).expect("removes");
        assert!(!path.exists());
        remove(&path, &["b".to_owned()]).expect("there is nothing to remove");
    }
}
