//! Sends alarms to their receivers, at least once each and in order: a thread for every receiver takes
//! them from the [`journal`](super::journal), tries until it succeeds, and acknowledges.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::Span;

use super::config::Config;
use super::journal::Journal;
use super::receiver::Receiver;
use super::webhook::Webhook;

/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Told of every attempt: the receiver and whether it has the alarm now.
pub(crate) type Attempted = Arc<dyn Fn(&str, bool) + Send + Sync>;

/// The receivers of the settings for one camera, but for the broker, whose connection does more.
pub(crate) fn receivers(config: &Config) -> Vec<Box<dyn Receiver>> {
    let mut receivers: Vec<Box<dyn Receiver>> = Vec::new();
    if let Some(url) = &config.webhook {
        receivers.push(Box::new(Webhook::new(url.clone(), config.webhook_signer.clone(), PATIENCE)));
    }
    if let Some(path) = &config.alarm_log {
        receivers.push(Box::new(Log(path.clone())));
    }
    receivers
}

/// Starts to send to a receiver what it does not have, until the journal is closed.
///
/// # Errors
/// If the system gives no thread, or the journal cannot be written.
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
                    // If this fails the alarm is sent again after a restart: at least once.
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

/// A line in a file.
struct Log(PathBuf);

impl Receiver for Log {
    fn name(&self) -> String {
        format!("file {}", self.0.display())
    }

    fn send(&mut self, alarm: &str) -> Result<(), String> {
        let write = || {
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(&self.0)?;
            // Of several cameras each has this file. Where a file system knows no locks, lines are appended whole all the same.
            let _ = file.lock();
            // A line that was cut off by a full disk or a crash gets an end of its own.
            let line = if ends_in_newline(&mut file)? { format!("{alarm}\n") } else { format!("\n{alarm}\n") };
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        write().map_err(|error: std::io::Error| format!("{}: {error}", self.0.display()))
    }
}

/// Whether a file is empty or its last line has an end.
fn ends_in_newline(file: &mut File) -> std::io::Result<bool> {
    let mut last = *b"\n";
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last == *b"\n")
}
