//! Runs work without the interpreter's lock, and converts its errors and panics to exceptions with their text.

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nae_infer::input::InputError;
use nae_infer::input::table::TableError;
use nae_infer::{OpenError, ScoreError};
use nae_onnx::file::FileError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// A failure without the lock, and its exception in Python.
#[derive(Debug)]
pub(crate) enum Failure {
    /// `ValueError`: an argument cannot be used.
    Value(String),
    /// `OSError`: a file cannot be read or written. If there is an error of the system, Python selects a subclass
    /// such as `FileNotFoundError`.
    File(io::ErrorKind, String),
    /// `RuntimeError`: a bug, or a failure of a runtime.
    Runtime(String),
    /// An exception that was already raised.
    Raised(PyErr),
}

impl Failure {
    /// A `ValueError` with the texts of all causes, as the programs print them.
    pub(crate) fn value(error: &dyn Error) -> Self {
        Self::Value(chain(error))
    }

    /// The same for a part of the arguments, whose name precedes the text.
    pub(crate) fn of(name: &str, error: &dyn Error) -> Self {
        Self::value(error).about(name)
    }

    /// The same failure with a name before its text.
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

/// The text of an error and of its causes; no error repeats the text of its source.
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
            // An `io::Error` of this kind is converted to the corresponding subclass of `OSError`.
            Failure::File(io::ErrorKind::Other, text) => PyOSError::new_err(text),
            Failure::File(kind, text) => io::Error::new(kind, text).into(),
            Failure::Runtime(text) => PyRuntimeError::new_err(text),
            Failure::Raised(error) => error,
        }
    }
}

/// Runs `work` without the interpreter's lock, so that other Python threads continue. A panic is converted to a
/// `RuntimeError`.
pub(crate) fn unlocked<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    let done = py.detach(|| {
        // An inconsistent state after a panic is confined to `work`, which is dropped.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Failure::Runtime(format!("a bug: nae-edge panicked: {text}")))
        })
    });
    Ok(done?)
}
