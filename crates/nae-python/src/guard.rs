//! Runs work without the interpreter's lock, and converts its errors and panics to exceptions with their text.

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nae_data::DataError;
use nae_infer::backend::BackendError;
use nae_infer::input::InputError;
use nae_infer::input::table::TableError;
use nae_infer::{OpenError, ScoreError};
use nae_lab::experiments::detection::DetectionError;
use nae_lab::experiments::gaussians8::ExperimentError;
use nae_lab::gather::GatherError;
use nae_onnx::file::FileError;
use nae_train::config::PresetError;
use nae_train::config::change::ChangeError;
use nae_train::form::FormError;
use nae_train::own::OwnError;
use nae_train::run::RunError;
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
    /// A failure with the texts of all causes, as the programs print them: an `OSError` if the system refused to read or
    /// write a file, otherwise a `ValueError`.
    pub(crate) fn new(error: &(dyn Error + 'static)) -> Self {
        match system(error) {
            Some(kind) => Self::File(kind, chain(error)),
            None => Self::Value(chain(error)),
        }
    }

    /// The same for a part of the arguments, whose name precedes the text.
    pub(crate) fn of(name: &str, error: &(dyn Error + 'static)) -> Self {
        Self::new(error).about(name)
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

/// The kind of the system's error that `error` is about. An error that only passes on another's text has that error's
/// sources, not the error itself among them; so each kind of error is asked for what it holds.
fn system(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    let kind = if let Some(error) = error.downcast_ref::<io::Error>() {
        Some(error.kind())
    } else if let Some(error) = error.downcast_ref::<FileError>() {
        error.kind()
    } else if let Some(error) = error.downcast_ref::<DataError>() {
        error.kind()
    } else if let Some(error) = error.downcast_ref::<PresetError>() {
        if let PresetError::Read { cause, .. } = error { Some(cause.kind()) } else { None }
    } else if let Some(ChangeError::Preset(error)) = error.downcast_ref() {
        system(error)
    } else if let Some(FormError::Data(error)) = error.downcast_ref() {
        system(error)
    } else if let Some(RunError::Data(error)) = error.downcast_ref() {
        system(error)
    } else if let Some(error) = error.downcast_ref::<OwnError>() {
        match error {
            OwnError::Given { cause, .. } => system(&**cause),
            OwnError::Run(error) => system(error),
            OwnError::Form(error) => system(error),
            _ => None,
        }
    } else if let Some(error) = error.downcast_ref::<DetectionError>() {
        match error {
            DetectionError::Run(error) => system(error),
            DetectionError::Outliers(error) => system(error),
            DetectionError::File(error) => system(error),
            _ => None,
        }
    } else if let Some(ExperimentError::Io { cause, .. }) = error.downcast_ref() {
        Some(cause.kind())
    } else if let Some(error) = error.downcast_ref::<GatherError>() {
        match error {
            GatherError::Io { cause, .. } => Some(cause.kind()),
            GatherError::Detection(error) => system(error),
            GatherError::Density(error) => system(error),
            _ => None,
        }
    } else {
        None
    };
    kind.or_else(|| system(error.source()?))
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Value(text)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::File(error.kind().unwrap_or(io::ErrorKind::Other), error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::File(error) => error.into(),
            OpenError::Backend { error: BackendError::Run { .. }, .. } => Self::Runtime(chain(&error)),
            _ => Self::new(&error),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        match error {
            InputError::File(error) => error.into(),
            _ => Self::new(&error),
        }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::File(error) => error.into(),
            _ => Self::new(&error),
        }
    }
}

impl From<ScoreError> for Failure {
    fn from(error: ScoreError) -> Self {
        match error {
            ScoreError::Backend(_) => Self::Runtime(chain(&error)),
            _ => Self::new(&error),
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
