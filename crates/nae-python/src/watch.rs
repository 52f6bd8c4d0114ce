//! Connects work that runs without the interpreter's lock to Python: a callback that is called for every step and every
//! look at the model and can end the work, and Ctrl-C.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nae_train::methods::Model;
use nae_train::shard;
use nae_train::train::{Look, Observer, Phase, Progress};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The time between two checks for Ctrl-C: short enough for users, and long enough that the cost of taking the lock is
/// negligible.
const PATIENCE: Duration = Duration::from_millis(50);

/// Checks for Ctrl-C, at most every [`PATIENCE`].
pub(crate) struct Signals {
    checked: Instant,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self { checked: Instant::now() }
    }

    /// Checks for signals.
    ///
    /// # Errors
    /// The exception that a signal handler raised, usually `KeyboardInterrupt`.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.checked.elapsed() < PATIENCE {
            return Ok(());
        }
        self.checked = Instant::now();
        Python::attach(|py| py.check_signals())
    }
}

/// The reasons for an early end of a run; shared by the watchers of its models.
#[derive(Default)]
pub(crate) struct End {
    /// Set if the run is to end.
    pub(crate) stop: AtomicBool,
    /// Whether Ctrl-C was pressed.
    pub(crate) interrupted: AtomicBool,
    /// The exception that the callback raised.
    raised: Mutex<Option<PyErr>>,
}

impl End {
    /// Takes the exception that the callback raised.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the run because of `error`.
    fn raise(&self, error: PyErr) {
        self.stop.store(true, Ordering::Relaxed);
        if Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) {
            self.interrupted.store(true, Ordering::Relaxed);
        } else {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Runs `work`, which has no callback, in another thread, while this one checks for Ctrl-C: only Python's main
    /// thread handles signals. `work` has to end when `stop` is set.
    pub(crate) fn watching<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        // The number of threads is a setting of the calling thread.
        let threads = shard::count();
        let mut signals = Signals::new();
        thread::scope(|scope| {
            let worker = scope.spawn(|| shard::with_threads(threads, work));
            while !worker.is_finished() {
                thread::sleep(PATIENCE);
                if let Err(error) = signals.check() {
                    self.raise(error);
                }
            }
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// Calls a callback, and ends the run if it returns `False`.
pub(crate) struct Watch<'a> {
    callback: Option<Py<PyAny>>,
    end: &'a End,
    total: usize,
    signals: Signals,
}

impl<'a> Watch<'a> {
    /// `callback` receives a dictionary; if it returns `False`, the run ends with its current state.
    pub(crate) fn new(callback: Option<Py<PyAny>>, end: &'a End) -> Self {
        Self { callback, end, total: 0, signals: Signals::new() }
    }

    fn tell(&mut self, phase: &'static str, step: usize, figures: &serde_json::Value) {
        let Some(callback) = self.callback.take() else { return };
        let (stop, total) = (&self.end.stop, self.total);
        let told = Python::attach(|py| {
            let event = PyDict::new(py);
            event.set_item("phase", phase)?;
            event.set_item("step", step)?;
            event.set_item("total", total)?;
            for (name, value) in figures.as_object().into_iter().flatten() {
                // `step` and `phase` are set already; figures of a short run may not be numbers.
                if let (Some(value), false) = (value.as_f64(), name == "step" || name == "update") {
                    event.set_item(name, value)?;
                }
            }
            // NumPy's false also ends the run; a value that is not a truth value does not.
            if matches!(callback.bind(py).call1((event,))?.extract(), Ok(false)) {
                stop.store(true, Ordering::Relaxed);
            }
            Ok(())
        });
        if let Err(error) = told {
            self.end.raise(error);
        }
        self.callback = Some(callback);
    }
}

impl Observer for Watch<'_> {
    fn begin(&mut self, _phase: Phase, _done: usize, total: usize) {
        self.total = total;
    }

    fn progress(&mut self, progress: &Progress) {
        if self.callback.is_some() {
            let figures = serde_json::to_value(&progress.figures).unwrap_or_default();
            self.tell(progress.phase.name(), progress.step, &figures);
        }
    }

    /// Called after each update, since epochs may take minutes. No state is stored here.
    fn wants_snapshot(&mut self, _last: bool) -> bool {
        if let Err(error) = self.signals.check() {
            self.end.raise(error);
        }
        false
    }

    fn look(&mut self, look: &Look, _model: &dyn Model) {
        if self.callback.is_some() {
            self.tell("look", look.update, &serde_json::to_value(look).unwrap_or_default());
        }
    }
}
