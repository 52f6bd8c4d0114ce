//! How Python watches a run: a callback for every step and every look at the model, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nae_train::methods::Model;
use nae_train::train::{Look, Observer, Phase, Progress};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Time between two looks for Ctrl-C: who presses it does not wait, and the lock is not taken for every update.
const PATIENCE: Duration = Duration::from_millis(50);

/// Why a run ends early: it outlives the watchers of its models.
#[derive(Default)]
pub(crate) struct End {
    /// Set where it does.
    pub(crate) stop: AtomicBool,
    /// Ctrl-C was pressed.
    pub(crate) interrupted: AtomicBool,
    /// What the callback raised.
    raised: Mutex<Option<PyErr>>,
}

impl End {
    /// What the callback raised, once.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Tells a callback, and stops the run where it says so.
pub(crate) struct Watch<'a> {
    callback: Option<Py<PyAny>>,
    end: &'a End,
    total: usize,
    checked: Instant,
}

impl<'a> Watch<'a> {
    /// `callback` gets a dictionary; where it returns `False`, the run ends with what is there.
    pub(crate) fn new(callback: Option<Py<PyAny>>, end: &'a End) -> Self {
        Self { callback, end, total: 0, checked: Instant::now() }
    }

    /// Runs `tell`; an exception ends the run.
    fn with_python(&mut self, tell: impl FnOnce(Python<'_>) -> PyResult<()>) {
        if let Err(error) = Python::attach(tell) {
            self.end.stop.store(true, Ordering::Relaxed);
            if Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) {
                self.end.interrupted.store(true, Ordering::Relaxed);
            } else {
                self.end.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    }

    fn tell(&mut self, phase: &'static str, step: usize, figures: &serde_json::Value) {
        let Some(callback) = self.callback.take() else { return };
        let (stop, total) = (&self.end.stop, self.total);
        self.with_python(|py| {
            let event = PyDict::new(py);
            event.set_item("phase", phase)?;
            event.set_item("step", step)?;
            event.set_item("total", total)?;
            for (name, value) in figures.as_object().into_iter().flatten() {
                // `step` and `phase` again, and figures that are no numbers in a short run.
                if let (Some(value), false) = (value.as_f64(), name == "step" || name == "update") {
                    event.set_item(name, value)?;
                }
            }
            // NumPy's false is one, too; what is no truth value goes on.
            if matches!(callback.bind(py).call1((event,))?.extract(), Ok(false)) {
                stop.store(true, Ordering::Relaxed);
            }
            Ok(())
        });
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

    /// Asked after each update: epochs may take minutes. Nothing is stored here.
    fn wants_snapshot(&mut self, _last: bool) -> bool {
        if self.checked.elapsed() >= PATIENCE {
            self.checked = Instant::now();
            self.with_python(|py| py.check_signals());
        }
        false
    }

    fn look(&mut self, look: &Look, _model: &dyn Model) {
        if self.callback.is_some() {
            self.tell("look", look.update, &serde_json::to_value(look).unwrap_or_default());
        }
    }
}
