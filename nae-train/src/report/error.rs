//! The error of all functions that read or write run folders and journals. It has no cases, since callers only show it.

use std::fmt;
use std::path::Path;

use nae_onnx::file::FileError;

use crate::config::text::TextError;

/// An error for a run folder or a journal that cannot be read or written. Its text contains the file, what was
/// expected, what was found and, if possible, what to do.
#[derive(Debug)]
pub struct RunFolderError(Box<str>);

impl RunFolderError {
    pub(super) fn new(problem: impl fmt::Display) -> Self {
        Self(problem.to_string().into())
    }

    /// An error about a file or folder.
    pub(super) fn at(path: &Path, problem: impl fmt::Display) -> Self {
        Self::new(format_args!("{}: {problem}", path.display()))
    }
}

impl fmt::Display for RunFolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunFolderError {}

impl From<FileError> for RunFolderError {
    fn from(error: FileError) -> Self {
        Self::new(error)
    }
}

impl From<TextError> for RunFolderError {
    fn from(error: TextError) -> Self {
        Self::new(error)
    }
}
