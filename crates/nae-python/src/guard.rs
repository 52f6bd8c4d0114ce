//! Work without the interpreter's lock, and what becomes of what goes wrong there: an error is an exception with its
//! text, a panic too.

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nae_infer::input::InputError;
use nae_infer::input::table::TableError;
use nae_infer::{OpenError, ScoreError};
use nae_onnx::file::FileError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// What goes wrong without the lock, and which exception it is in Python.
#[derive(Debug)]
pub(crate) enum Failure {
    /// `ValueError`: what was given cannot be used.
    Value(String),
    /// `OSError`: a file cannot be read or written. With the system's error where there is one, Python chooses
    /// `FileNotFoundError` and the like.
    File(io::ErrorKind, String),
    /// `RuntimeError`: a bug, or a runtime that fails.
    Runtime(String),
    /// One that has been raised.
    Raised(PyErr),
}

impl Failure {
    /// With the texts of all causes, as the programs print them.
    pub(crate) fn value(error: &dyn Error) -> Self {
        Self::Value(chain(error))
    }

    /// The same, of a part of what was given.
    pub(crate) fn of(name: &str, error: &dyn Error) -> Self {
        Self::value(error).about(name)
    }

    /// The same, with what it is about before its text.
    pub(crate) fn about(self, name: &str) -> Self {
        let about = |text| format!("{name}: {text}");
        match self {
            Self::Value(text) => Self::Value(about(text)),
            Self::File(kind, text) => Self::File(kind, about(text)),
            Self::Runtime(text) => Self::Runtime(about(text)),
            Self::Raised(error) => Self::Raised(error),
        }
    }
}

/// An error's text with those of its causes: no error repeats what its source says.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Value(text)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let kind = match &error {
            FileError::Read { error, .. } | FileError::Write { error, .. } => error.kind(),
            _ => io::ErrorKind::Other,
        };
        Self::File(kind, error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::File(error) => error.into(),
            OpenError::Backend { .. } => Self::Runtime(chain(&error)),
            _ => Self::value(&error),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        match error {
            InputError::File(error) => error.into(),
            _ => Self::value(&error),
        }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::File(error) => error.into(),
            _ => Self::value(&error),
        }
    }
}

impl From<ScoreError> for Failure {
    fn from(error: ScoreError) -> Self {
        match error {
            ScoreError::Backend(_) => Self::Runtime(chain(&error)),
            _ => Self::value(&error),
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Value(text) => PyValueError::new_err(text),
            // An `io::Error` of this kind becomes the subclass of `OSError` that Python has for it.
            Failure::File(io::ErrorKind::Other, text) => PyOSError::new_err(text),
            Failure::File(kind, text) => io::Error::new(kind, text).into(),
            Failure::Runtime(text) => PyRuntimeError::new_err(text),
            Failure::Raised(error) => error,
        }
    }
}

/// Runs `work` without the interpreter's lock, so that other threads of Python go on; a panic is a `RuntimeError`.
pub(crate) fn unlocked<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    let done = py.detach(|| {
        // What a panic leaves half done belongs to `work`, and goes with it.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Failure::Runtime(format!("a bug: nae-edge panicked: {text}")))
        })
    });
    Ok(done?)
}
