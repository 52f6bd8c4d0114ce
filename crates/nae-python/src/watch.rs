//! What Python hears of work that runs without its lock, and how it ends it: a callback that is called for every step and every
//! look at the model, and Ctrl-C.

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

/// Time between two checks for Ctrl-C: short enough for whoever presses it, long enough that taking the lock costs nothing.
const PATIENCE: Duration = Duration::from_millis(50);

/// Checks for Ctrl-C, at most every [`PATIENCE`].
pub(crate) struct Signals {
    checked: Instant,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self { checked: Instant::now() }
    }

    /// # Errors
    /// What the handler of a signal raised, usually `KeyboardInterrupt`.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.checked.elapsed() < PATIENCE {
            return Ok(());
        }
        self.checked = Instant::now();
        Python::attach(|py| py.check_signals())
    }
}

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

    /// Ends the run because of `error`.
    fn raise(&self, error: PyErr) {
        self.stop.store(true, Ordering::Relaxed);
        if Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) {
            self.interrupted.store(true, Ordering::Relaxed);
        } else {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Runs `work`, which tells nobody of its steps, in a thread of its own, while this one checks for Ctrl-C: signals are handled
    /// by Python's main thread alone. `work` has to end where `stop` is set.
    pub(crate) fn watching<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        // What the caller asked for holds for its own thread.
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

/// Tells a callback, and stops the run where it says so.
pub(crate) struct Watch<'a> {
    callback: Option<Py<PyAny>>,
    end: &'a End,
    total: usize,
    signals: Signals,
}

impl<'a> Watch<'a> {
    /// `callback` gets a dictionary; where it returns `False`, the run ends with what is there.
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

    /// Asked after each update: epochs may take minutes. Nothing is stored here.
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
