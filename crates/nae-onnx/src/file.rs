//! Reads, writes and locks whole files. A file is written under a temporary name in the same folder and
//! then renamed, so that no reader sees an incomplete file and a failed run leaves nothing behind.
//!
//! The content of the files is not interpreted here.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The reason why a file could not be read or written. The message contains its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file is larger than the limit of its reader.
    #[error("cannot read {}: it has more than {limit} bytes, the most that is read", path.display())]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file is one of those that are read, and would be lost.
    #[error("cannot write {}: it is one of the files that are read; choose another name", path.display())]
    Input {
        /// The path.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl FileError {
    /// The kind of the system's error; `None` if the system refused nothing.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Read { error, .. } | Self::Write { error, .. } => Some(error.kind()),
            Self::TooLarge { .. } | Self::Input { .. } => None,
        }
    }
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// [`FileError::Read`] and [`FileError::TooLarge`].
pub fn read(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, FileError> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    read_stream(file, path, limit)
}

/// Reads a stream to its end, at most `limit` bytes; `name` is used in messages.
///
/// # Errors
/// [`FileError::Read`] and [`FileError::TooLarge`].
pub fn read_stream(stream: impl Read, name: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, FileError> {
    let path = name.as_ref();
    let mut bytes = Vec::new();
    // The size on disk is not used: a pipe has none, and it may change.
    let read = stream.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Writes a file completely, or leaves the old one.
///
/// The file gets the permissions of the one that it replaces, or the system's default permissions.
///
/// # Errors
/// [`FileError::Write`], also if the folder does not exist.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), FileError> {
    let path = path.as_ref();
    let fail = |error| FileError::Write { path: path.to_owned(), error };
    let (mut file, target) = temporary(path).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    // Before the rename: after a power failure, the name must not refer to an empty file.
    file.as_file().sync_all().map_err(fail)?;
    file.persist(&target).map_err(|e| fail(e.error))?;
    Ok(())
}

/// The start of the names of files that are not complete yet.
const TEMPORARY: &str = ".nae-";

/// Removes from `folder` the incomplete files of programs that were killed while they wrote. Only for a folder that no other
/// program writes to.
///
/// # Errors
/// The system's error if the folder cannot be listed, or a file cannot be removed.
pub fn remove_incomplete(folder: impl AsRef<Path>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Checks that [`write()`] can write to `path`, for a program that has the content only after long work. It makes a temporary
/// file beside `path` and removes it again.
///
/// # Errors
/// As those of [`write()`].
fn check_write(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    temporary(path).map(drop).map_err(|error| FileError::Write { path: path.to_owned(), error })
}

/// Checks that [`write()`] can write to `path`, and that `path` is none of the files that are read, which would be lost. Links
/// are followed.
///
/// # Errors
/// As those of [`write()`], and [`FileError::Input`].
pub fn check_output<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), FileError> {
    // A file that does not exist yet is not one of those that are read.
    if let Ok(target) = fs::canonicalize(path)
        && inputs.into_iter().any(|input| fs::canonicalize(input).is_ok_and(|input| input == target))
    {
        return Err(FileError::Input { path: path.to_owned() });
    }
    check_write(path)
}

/// Opens the file at `path`, makes it if there is none, and locks it until it is closed or the process ends. `None` if it is
/// locked already. The content of an existing file is not changed. A file system that cannot lock, such as some of networks, is
/// no error: the file is then not locked.
///
/// # Errors
/// The system's error if the file cannot be opened for writing.
pub fn lock(path: impl AsRef<Path>) -> io::Result<Option<File>> {
    // Not `File::create`, which would empty a user's file of this name.
    let file = File::options().create(true).write(true).truncate(false).open(path)?;
    let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    Ok((!is_taken).then_some(file))
}

/// Makes the temporary file that will become `path`; also returns the path with links resolved.
fn temporary(path: &Path) -> io::Result<(NamedTempFile, PathBuf)> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    if path.file_name().is_none() {
        return Err(invalid("this is not a file name"));
    }
    // A rename would replace a link, a device or a pipe by a file.
    let metadata = fs::metadata(path).ok();
    if metadata.as_ref().is_some_and(|m| !m.is_file()) {
        return Err(invalid(if path.is_dir() { "it is a folder" } else { "it is not a regular file" }));
    }
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(_) if path.is_symlink() => {
            return Err(invalid("it is a link to a file that does not exist; remove the link first"));
        }
        Err(_) => path.to_owned(),
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let problem = format!("the folder {} does not exist; make it first", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, problem));
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        // The mode of new files, which the umask restricts. A secret file is one from the start.
        options.mode(metadata.as_ref().map_or(0o666, |metadata| metadata.permissions().mode()));
    }
    // Not `tempfile_in`, whose errors name the temporary file: it means nothing to a reader.
    let file = tempfile::Builder::new().prefix(TEMPORARY).make_in(folder, |path| options.open(path))?;
    // The umask has no say in the permissions of a file that is replaced.
    #[cfg(unix)]
    if let Some(metadata) = metadata {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    Ok((file, target))
}

#[cfg(test)]
mod tests {
    use super::{FileError, TEMPORARY, check_output, check_write, lock, read, remove_incomplete, write};

    #[test]
    fn files_of_killed_programs_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        for name in [format!("{TEMPORARY}x1"), "model.onnx".into(), ".hidden".into()] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join(format!("{TEMPORARY}folder"))).unwrap();
        remove_incomplete(folder.path()).unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".hidden", ".nae-folder", "model.onnx"]);
    }

    #[test]
    fn replaces_whole_files_and_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        write(&path, b"one").unwrap();
        write(&path, b"another").unwrap();
        assert_eq!(read(&path, 7).unwrap(), b"another");
        assert!(matches!(read(&path, 6), Err(FileError::TooLarge { limit: 6, .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");

        let missing = folder.path().join("no").join("model.onnx");
        let message = write(&missing, b"x").unwrap_err().to_string();
        assert!(message.contains("no/model.onnx"), "{message}");
        let message = write(folder.path(), b"x").unwrap_err().to_string();
        assert!(message.contains("it is a folder"), "{message}");
        let message = read(&missing, 1).unwrap_err().to_string();
        assert!(message.contains("no/model.onnx"), "{message}");
    }

    #[test]
    fn a_check_says_what_writing_would_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        check_write(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write(&path, b"one").unwrap();
        check_write(&path).unwrap();
        assert_eq!(read(&path, 7).unwrap(), b"one");
        assert!(check_write(folder.path()).unwrap_err().to_string().contains("it is a folder"));
        let message = check_write(folder.path().join("no/model.onnx")).unwrap_err().to_string();
        assert!(message.contains("no/model.onnx: the folder") && message.ends_with("make it first"), "{message}");
        #[cfg(unix)]
        assert!(check_write("/dev/null").unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn a_lock_is_held_once_and_leaves_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, b"a user's notes").unwrap();
        let held = lock(&path).unwrap().expect("nobody else has it");
        assert!(lock(&path).unwrap().is_none());
        drop(held);
        assert_eq!(std::fs::read(&path).unwrap(), b"a user's notes");
        assert!(lock(&path).unwrap().is_some());
        assert!(lock(folder.path().join("new")).unwrap().is_some());
        assert!(lock(folder.path().join("no/lock")).is_err());
    }

    /// The message names the file that was asked for, and not the temporary one.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_is_that_of_the_file_itself() {
        // No file can be made there, by root neither.
        let message = check_write("/proc/model.onnx").unwrap_err().to_string();
        assert!(message.starts_with("cannot write /proc/model.onnx: ") && !message.contains(".nae-"), "{message}");
    }

    #[test]
    fn an_output_is_none_of_the_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let [input, output, missing] = ["in.onnx", "out.onnx", "no/out.onnx"].map(|name| folder.path().join(name));
        write(&input, b"one").unwrap();
        let inputs = || [missing.as_path(), &input];
        check_output(&output, inputs()).unwrap();
        write(&output, b"two").unwrap();
        check_output(&output, inputs()).unwrap();
        let again = folder.path().join(".").join("in.onnx");
        let message = check_output(&again, inputs()).unwrap_err().to_string();
        assert!(message.ends_with("in.onnx: it is one of the files that are read; choose another name"), "{message}");
        assert!(matches!(check_output(&missing, inputs()), Err(FileError::Write { .. })));
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&input, &link).unwrap();
            assert!(matches!(check_output(&link, inputs()), Err(FileError::Input { .. })));
            assert!(matches!(check_output(&input, [link.as_path()]), Err(FileError::Input { .. })));
        }
    }

    #[cfg(unix)]
    #[test]
    fn follows_links_and_keeps_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, b"one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        // With the second, the usual umask would take the group's right to write.
        for mode in [0o640, 0o664] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            write(&link, b"two").unwrap();
            assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(std::fs::read(&file).unwrap(), b"two");
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, mode);
        }
        std::fs::remove_file(&file).unwrap();
        let message = write(&link, b"three").unwrap_err().to_string();
        assert!(message.contains("a link to a file that does not exist"), "{message}");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
