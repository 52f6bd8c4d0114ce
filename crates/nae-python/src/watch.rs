//! How Python watches a run: a callback for every step and every look at the model, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nae_train::methods::Model;
use nae_train::train::{Look, Observer, Phase, Progress};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

/// Time between two looks for Ctrl-C: who presses it does not wait, and the lock is not taken for every update.
const PATIENCE: Duration = Duration::from_millis(50);

/// Tells a callback, and stops the run where it says so.
pub(crate) struct Watch<'a> {
    callback: Option<Py<PyAny>>,
    stop: &'a AtomicBool,
    total: usize,
    checked: Instant,
    /// Whether Ctrl-C was pressed.
    pub(crate) interrupted: bool,
    /// What the callback raised.
    pub(crate) raised: Option<PyErr>,
}

impl<'a> Watch<'a> {
    /// `callback` gets a dictionary; where it returns `False`, the run ends with what is there.
    pub(crate) fn new(callback: Option<Py<PyAny>>, stop: &'a AtomicBool) -> Self {
        Self { callback, stop, total: 0, checked: Instant::now(), interrupted: false, raised: None }
    }

    /// Runs `tell`; an exception ends the run.
    fn with_python(&mut self, tell: impl FnOnce(Python<'_>) -> PyResult<()>) {
        if let Err(error) = Python::attach(tell) {
            self.stop.store(true, Ordering::Relaxed);
            if Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) {
                self.interrupted = true;
            } else {
                self.raised.get_or_insert(error);
            }
        }
    }

    fn tell(&mut self, phase: &'static str, step: usize, figures: &serde_json::Value) {
        let Some(callback) = self.callback.take() else { return };
        let (stop, total) = (self.stop, self.total);
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
            if callback.bind(py).call1((event,))?.is(PyBool::new(py, false)) {
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
        if self.checked.elapsed() >= PATIENCE {
            self.checked = Instant::now();
            self.with_python(|py| py.check_signals());
        }
        if self.callback.is_some() {
            let figures = serde_json::to_value(&progress.figures).unwrap_or_default();
            self.tell(progress.phase.name(), progress.step, &figures);
        }
    }

    fn look(&mut self, look: &Look, _model: &dyn Model) {
        if self.callback.is_some() {
            self.tell("look", look.update, &serde_json::to_value(look).unwrap_or_default());
        }
    }
}
