//! The one error of reading data. Callers cannot act on its cases: they show it to the person who gave the data.

use std::fmt;
use std::path::Path;

use nae_input::table::TableError;
use nae_onnx::file::FileError;

use crate::image_set::ImageSetError;

/// Data that cannot be read or used. It prints the file, folder or data set, what was expected, what was found, and what
/// to do where there is something.
#[derive(Debug)]
pub struct DataError(Box<str>);

impl DataError {
    /// Of no file in particular.
    pub(crate) fn new(problem: impl fmt::Display) -> Self {
        Self(problem.to_string().into())
    }

    /// Of a file or folder.
    pub(crate) fn at(path: &Path, problem: impl fmt::Display) -> Self {
        Self::new(format_args!("{}: {problem}", path.display()))
    }

    /// Of images of the set called `title`, which cannot be brought to the form that is asked for.
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
