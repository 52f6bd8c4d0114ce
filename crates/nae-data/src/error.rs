//! The error of all functions that read data. It has no cases, since callers only show it to the user.

use std::fmt;
use std::path::Path;

use nae_input::table::TableError;
use nae_onnx::file::FileError;

use crate::image_set::ImageSetError;

/// An error for data that cannot be read or used. Its text contains the file, folder or data set, what was expected,
/// what was found and, if possible, what to do.
#[derive(Debug)]
pub struct DataError(Box<str>);

impl DataError {
    /// An error that is not about a particular file.
    pub(crate) fn new(problem: impl fmt::Display) -> Self {
        Self(problem.to_string().into())
    }

    /// An error about a file or folder.
    pub(crate) fn at(path: &Path, problem: impl fmt::Display) -> Self {
        Self::new(format_args!("{}: {problem}", path.display()))
    }

    /// An error for images of the set called `title` that cannot be converted to the requested form.
    pub fn form(title: &str, cause: &ImageSetError) -> Self {
        Self::new(format_args!("{title}: {cause}"))
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DataError {}

impl From<FileError> for DataError {
    fn from(error: FileError) -> Self {
        Self::new(error)
    }
}

impl From<TableError> for DataError {
    fn from(error: TableError) -> Self {
        Self::new(error)
    }
}
