//! The history on disk: energies and alarms of all cameras in one file of SQLite, `history.sqlite` in the folder of the state.
//! One file, so that one thread writes it, one limit holds for it, and one question goes over all cameras. Cameras tell by a
//! `recorder`, the `writer` puts it into the `store`, `retention` has go what is old, `reading` answers; `interval` is what a row
//! is. Energies of the last hour, frame by frame, are in memory, in [`history`](super::history).
//!
//! Nothing waits for this file, neither scoring nor an alarm: what cannot be written is dropped and counted. That no alarm is
//! lost is the promise of the [`journal`](super::journal), from which the last alarms come again at the next start.

mod interval;
mod reading;
mod recorder;
mod retention;
mod schema;
mod store;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;

pub(crate) use interval::text;
pub(crate) use reading::{Past, Span};
pub(crate) use recorder::{AlarmRecord, Recorder};
pub(crate) use retention::HistoryLimits;

use recorder::Message;
use writer::{Setup, Writer};

/// What may wait to be gathered: more than a minute of ten cameras of five frames a second.
const QUEUE: usize = 4096;
/// Questions that are answered at a time.
const QUESTIONS: usize = 2;

/// The history of all cameras.
pub(crate) struct History {
    path: PathBuf,
    kept: Option<Kept>,
    /// Who reads has one of these places.
    pub(crate) places: Semaphore,
}

struct Kept {
    limits: HistoryLimits,
    messages: SyncSender<Message>,
    /// Until the writer has it.
    received: Mutex<Option<Receiver<Message>>>,
}

/// Figures of the history.
#[derive(Clone)]
pub(crate) struct HistoryFigures {
    /// Energies and alarms of each camera that were not kept.
    pub(crate) dropped: Vec<Counter>,
    /// 1 while the file is written.
    pub(crate) writing: Gauge,
    pub(crate) bytes: Gauge,
}

impl History {
    /// In this folder; without limits none is kept.
    pub(crate) fn new(folder: &Path, limits: Option<HistoryLimits>) -> Self {
        let kept = limits.map(|limits| {
            let (messages, received) = sync_channel(QUEUE);
            Kept { limits, messages, received: Mutex::new(Some(received)) }
        });
        Self { path: schema::file_in(folder), kept, places: Semaphore::new(QUESTIONS) }
    }

    /// Whether one is kept.
    pub(crate) const fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// What takes down what becomes of a camera, by its place in the settings.
    pub(crate) fn recorder(&self, camera: usize, dropped: Counter) -> Recorder {
        let kept = self.kept.as_ref();
        kept.map(|kept| Recorder::new(camera, kept.messages.clone(), dropped)).unwrap_or_default()
    }

    /// Opens the file, and starts to write: of cameras by these names, whose journals have these alarms.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(
        &self,
        cameras: Vec<String>,
        alarms: Vec<Vec<AlarmRecord>>,
        HistoryFigures { dropped, writing, bytes }: HistoryFigures,
    ) -> io::Result<Option<JoinHandle<()>>> {
        let Some(Kept { limits, received, .. }) = &self.kept else { return Ok(None) };
        let received = received.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(received) = received else { return Ok(None) };
        let setup = Setup { path: self.path.clone(), cameras, limits: *limits, dropped, writing, bytes };
        let writer = Writer::new(setup, alarms);
        thread::Builder::new().name("history".into()).spawn(move || writer.run(&received)).map(Some)
    }

    /// Has the writer put in what has come, and end. May wait for it.
    pub(crate) fn stop(&self) {
        if let Some(kept) = &self.kept {
            // If it has ended, that is what was wanted.
            let _ = kept.messages.send(Message::Stop);
        }
    }

    /// Opens the file to read what is of a camera.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn past(&self, camera: &str) -> rusqlite::Result<Past> {
        Past::open(&self.path, camera)
    }
}

/// Milliseconds of Unix time.
pub(crate) fn now() -> i64 {
    writer::now()
}

#[cfg(test)]
mod tests;
