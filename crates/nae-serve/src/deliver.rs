//! Sends alarms to their receivers in order, each at least once: for every receiver, a thread takes them from the
//! [`journal`](super::journal), tries until it succeeds, and acknowledges.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::Span;

use super::config::Config;
use super::journal::Journal;
use super::receiver::Receiver;
use super::webhook::Webhook;

/// The timeout of one delivery.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first and the longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Called after every attempt with the receiver's name and whether the alarm was delivered.
pub(crate) type Attempted = Arc<dyn Fn(&str, bool) + Send + Sync>;

/// The receivers that the settings define for one camera, except for the broker, whose connection has further tasks.
pub(crate) fn receivers(config: &Config) -> Vec<Box<dyn Receiver>> {
    let mut receivers: Vec<Box<dyn Receiver>> = Vec::new();
    if let Some(url) = &config.webhook {
        receivers.push(Box::new(Webhook::new(url.clone(), config.webhook_signer.clone(), PATIENCE)));
    }
    if let Some(path) = &config.alarm_log {
        // Alarms wait for it, so that this is no reason not to start.
        if let Err(error) = opened(path) {
            tracing::warn!(%error, "cannot write to the alarm log {}: alarms wait until it can be written", path.display());
        }
        receivers.push(Box::new(Log(path.clone())));
    }
    receivers
}

/// Starts to send pending alarms to a receiver, until the journal is closed.
///
/// # Errors
/// If the system cannot start a thread, or the journal cannot be written.
pub(crate) fn start(
    mut receiver: Box<dyn Receiver>,
    journal: Arc<Journal>,
    attempted: Attempted,
) -> std::io::Result<JoinHandle<()>> {
    let (name, key) = (receiver.name(), receiver.key());
    journal.subscribe(&key, &receiver.key_before())?;
    let span = Span::current();
    thread::Builder::new().name("alarms".into()).spawn(move || {
        let _entered = span.enter();
        let (shortest, longest) = PAUSES;
        let mut pause = shortest;
        while !journal.wait_closed(Duration::ZERO) {
            let Some((number, alarm)) = journal.next_for(&key, Duration::from_secs(3600)) else { continue };
            match receiver.send(&alarm) {
                Ok(()) => {
                    // If this fails, the alarm is sent again after a restart: delivery is at least once.
                    if let Err(error) = journal.acknowledge(&key, number) {
                        tracing::error!(%error, "the journal of alarms");
                    }
                    attempted(&name, true);
                    pause = shortest;
                }
                Err(reason) => {
                    attempted(&name, false);
                    tracing::warn!(receiver = name, alarm = number, reason, again_in = ?pause, "alarm not delivered");
                    journal.wait_closed(pause);
                    pause = (2 * pause).min(longest);
                }
            }
        }
    })
}

/// Appends each alarm as a line to a file.
struct Log(PathBuf);

impl Receiver for Log {
    fn name(&self) -> String {
        format!("file {}", self.0.display())
    }

    fn send(&mut self, alarm: &str) -> Result<(), String> {
        let write = || {
            let mut file = opened(&self.0)?;
            // Several cameras may share this file. If the file system does not support locks, each line is still
            // appended whole.
            let _ = file.lock();
            // A line that was cut off by a full disk or a crash is ended first.
            let line = if ends_in_newline(&mut file)? { format!("{alarm}\n") } else { format!("\n{alarm}\n") };
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        write().map_err(|error: std::io::Error| format!("{}: {error}", self.0.display()))
    }
}

/// Opens an alarm log.
fn opened(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// Whether a file is empty or ends in a newline.
fn ends_in_newline(file: &mut File) -> std::io::Result<bool> {
    let mut last = *b"\n";
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last == *b"\n")
}
