//! Reads and writes whole files. A file is written under a temporary name in the same folder and
//! then renamed, so that no reader sees an incomplete file and a failed run leaves nothing behind.
//!
//! The content of the files is not interpreted here.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

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
    /// The file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
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
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file name"))),
    };
    // A rename would replace a link, a device or a pipe by a file.
    let metadata = fs::metadata(path).ok();
    if metadata.as_ref().is_some_and(|m| !m.is_file()) {
        let what = if path.is_dir() { "it is a folder" } else { "it is not a regular file" };
        return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(folder);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".nae-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // tempfile creates private files; this mode is subject to the umask, as for any new file.
        builder.permissions(metadata.map_or_else(|| fs::Permissions::from_mode(0o666), |m| m.permissions()));
    }
    let mut file =
        builder.tempfile_in(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    // Before the rename: after a power failure, the name must not refer to an empty file.
    file.as_file().sync_all().map_err(fail)?;
    file.persist(&path).map_err(|e| fail(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FileError, read, write};

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

    #[cfg(unix)]
    #[test]
    fn follows_links_and_keeps_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, b"one").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, b"two").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
