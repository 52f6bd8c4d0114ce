//! The error of all functions that read data. It has no cases, since callers only show it to the user.

use std::fmt;
use std::io;
use std::path::Path;

use nae_input::table::TableError;
use nae_onnx::file::FileError;

use crate::image_set::ImageSetError;

/// An error for data that cannot be read or used. Its text contains the file, folder or data set, what was expected,
/// what was found and, if possible, what to do.
#[derive(Debug)]
pub struct DataError {
    text: Box<str>,
    /// Of the error of the operating system that is the cause.
    kind: Option<io::ErrorKind>,
}

impl DataError {
    /// An error that is not about a particular file.
    pub(crate) fn new(problem: impl fmt::Display) -> Self {
        Self { text: problem.to_string().into(), kind: None }
    }

    /// An error about a file or folder.
    pub(crate) fn at(path: &Path, problem: impl fmt::Display) -> Self {
        Self::new(format_args!("{}: {problem}", path.display()))
    }

    /// The same error, caused by one of the operating system.
    pub(crate) fn of_system(self, kind: impl Into<Option<io::ErrorKind>>) -> Self {
        Self { kind: kind.into(), ..self }
    }

    /// An error of the operating system about a file or folder.
    pub(crate) fn io(path: &Path, cause: &io::Error) -> Self {
        Self::at(path, cause).of_system(cause.kind())
    }

    /// The same error, followed by what to do.
    pub fn with_remedy(self, remedy: &str) -> Self {
        Self { text: format!("{}; {remedy}", self.text).into(), ..self }
    }

    /// The kind of the error of the operating system that is the cause, such as a file that is not there. `None` if the file
    /// was read, and its content cannot be used.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        self.kind
    }

    /// An error for images of the set called `title` that cannot be converted to the requested form.
    pub fn form(title: &str, cause: &ImageSetError) -> Self {
        Self::new(format_args!("{title}: {cause}"))
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for DataError {}

impl From<FileError> for DataError {
    fn from(error: FileError) -> Self {
        Self::new(&error).of_system(error.kind())
    }
}

impl From<TableError> for DataError {
    fn from(error: TableError) -> Self {
        let kind = if let TableError::File(error) = &error { error.kind() } else { None };
        Self::new(&error).of_system(kind)
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn what_the_system_refuses_has_a_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = folder.path().join("absent");
        let kinds = |path: &Path| {
            let images = crate::own::choose(path, crate::own::Corrupt::Skip).expect_err("nothing").kind();
            let idx = crate::idx::load(path, path, &mut Sha256::new()).expect_err("nothing").kind();
            (images, idx)
        };
        assert_eq!(kinds(&absent), (Some(io::ErrorKind::NotFound), Some(io::ErrorKind::NotFound)));
        let table = nae_input::table::read(&absent.join("a.csv")).expect_err("nothing");
        assert_eq!(DataError::from(table).kind(), Some(io::ErrorKind::NotFound));
        std::fs::write(&absent, "text").expect("writes");
        assert_eq!(crate::own::choose(&absent, crate::own::Corrupt::Skip).expect_err("no image").kind(), None);
    }
}
