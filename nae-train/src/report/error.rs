//! The one error of reading and writing run folders and journals. Callers cannot act on its cases: they show it.

use std::fmt;
use std::path::Path;

use nae_onnx::file::FileError;

use crate::config::text::TextError;

/// A run folder or a journal that cannot be read or written. It prints the file, what was expected, what was found, and
/// what to do where there is something.
#[derive(Debug)]
pub struct RunFolderError(Box<str>);

impl RunFolderError {
    pub(super) fn new(problem: impl fmt::Display) -> Self {
        Self(problem.to_string().into())
    }

    /// Of a file or folder.
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
