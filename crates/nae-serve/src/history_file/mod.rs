//! The history on disk: energies and alarms of all cameras in one SQLite file, `history.sqlite` in the state folder.
//! There is one file, so that one thread writes it, one limit applies to it, and one query covers all cameras. A
//! `recorder` receives a camera's data, the `writer` puts them into the `store`, `retention` removes old data,
//! `reading` answers queries; `interval` defines a row. The energies of the last hour, frame by frame, are in memory,
//! in [`history`](super::history).
//!
//! Neither scoring nor an alarm waits for this file: data that cannot be written are dropped and counted. The
//! [`journal`](super::journal) guarantees that no alarm is lost; the last alarms are read from it at the next start.

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
use std::sync::{Arc, Mutex, PoisonError};
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

/// The number of messages that may wait to be gathered: more than a minute of ten cameras with five frames per second.
const QUEUE: usize = 4096;
/// The number of queries that are answered at the same time.
const QUESTIONS: usize = 2;

/// The history of all cameras.
pub(crate) struct History {
    path: PathBuf,
    kept: Option<Kept>,
    /// The permits to read; a reader has to acquire one.
    pub(crate) places: Arc<Semaphore>,
}

struct Kept {
    limits: HistoryLimits,
    messages: SyncSender<Message>,
    /// Set until the writer takes it.
    received: Mutex<Option<Receiver<Message>>>,
}

/// The metrics of the history.
#[derive(Clone)]
pub(crate) struct HistoryFigures {
    /// The number of energies and alarms of each camera that were not kept.
    pub(crate) dropped: Vec<Counter>,
    /// 1 while the file is being written.
    pub(crate) writing: Gauge,
    pub(crate) bytes: Gauge,
}

impl History {
    /// A history in this folder; without limits, none is kept.
    pub(crate) fn new(folder: &Path, limits: Option<HistoryLimits>) -> Self {
        let kept = limits.map(|limits| {
            let (messages, received) = sync_channel(QUEUE);
            Kept { limits, messages, received: Mutex::new(Some(received)) }
        });
        Self { path: schema::file_in(folder), kept, places: Arc::new(Semaphore::new(QUESTIONS)) }
    }

    /// Whether a history is kept.
    pub(crate) const fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// The recorder of a camera, given by its index in the settings.
    pub(crate) fn recorder(&self, camera: usize, dropped: Counter) -> Recorder {
        let kept = self.kept.as_ref();
        kept.map(|kept| Recorder::new(camera, kept.messages.clone(), dropped)).unwrap_or_default()
    }

    /// Opens the file and starts to write. The arguments include the names of the cameras, and the alarms in their
    /// journals.
    ///
    /// # Errors
    /// If the system cannot start a thread.
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

    /// Makes the writer store what it has received, and end. May block.
    pub(crate) fn stop(&self) {
        if let Some(kept) = &self.kept {
            // An error means that the writer has ended already.
            let _ = kept.messages.send(Message::Stop);
        }
    }

    /// Opens the file to read the data of a camera.
    ///
    /// # Errors
    /// If there is no file, or it cannot be read.
    pub(crate) fn past(&self, camera: &str) -> rusqlite::Result<Past> {
        Past::open(&self.path, camera)
    }
}

/// The current time in milliseconds of Unix time.
pub(crate) fn now() -> i64 {
    writer::now()
}

#[cfg(test)]
mod tests;
