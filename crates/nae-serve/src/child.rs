//! Common behaviour of the service's child processes: they end with the service, do not inherit its settings, and their
//! last lines are kept as the reason of a failure. `source` starts ffmpeg, `learn` starts nae-train.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The prefix of the environment variables with settings.
pub(crate) const VARIABLES: &str = "NAE_INFER_";
/// The maximum length of a line that is kept, in bytes.
const MAX_LINE: u64 = 500;

/// Prepares a command as a child of the service: it does not receive the terminal's signals, does not inherit the
/// service's settings, and on Linux is killed when the thread that starts it ends, for whatever reason. That thread
/// must therefore outlive the child.
pub(crate) fn of_service(command: &mut Command) {
    // Ctrl-C on a terminal is meant for the service, which then ends the child.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    // The settings include secrets.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(VARIABLES)) {
        command.env_remove(name);
    }
    #[cfg(target_os = "linux")]
    die_with_parent(command);
}

/// Makes Linux kill the child when the thread that started it ends, for whatever reason.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the call.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: between fork and exec in a process with several threads, only functions that are safe in a signal handler
    // may be called. These are two system calls; they allocate nothing and take no lock.
    unsafe { command.pre_exec(before_exec) };
}

/// Gives this thread, and the threads and processes that it starts from now on, the lowest priority, so that scoring
/// comes first.
pub(crate) fn lowest_priority() {
    // `None` means the calling thread on Linux; on other systems it would mean the whole service.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::warn!(%error, "the priority of a thread cannot be lowered");
    }
}

/// The last lines that a child printed, without direct repetitions.
pub(crate) struct LastLines {
    most: usize,
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Is disconnected when no more lines will come.
    end: Mutex<Option<Receiver<()>>>,
}

impl LastLines {
    /// An empty list that keeps at most `most` lines.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, lines: Arc::default(), end: Mutex::default() }
    }

    /// Reads the child's output in a separate thread until it ends.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn listen(&self, printed: impl Read + Send + 'static) -> io::Result<()> {
        let (ended, end) = channel();
        let (lines, most) = (Arc::clone(&self.lines), self.most);
        let work = move || {
            keep(printed, &lines, most);
            drop::<std::sync::mpsc::Sender<()>>(ended);
        };
        thread::Builder::new().name("last lines".into()).spawn(work)?;
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        Ok(())
    }

    /// Waits up to `time` until no more lines will come.
    pub(crate) fn wait(&self, time: Duration) {
        if let Some(end) = &*self.end.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = end.recv_timeout(time);
        }
    }

    /// The lines, the oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Keeps the last `most` lines of the output.
fn keep(printed: impl Read, lines: &Mutex<VecDeque<String>>, most: usize) {
    let mut printed = BufReader::new(printed);
    let mut line = Vec::new();
    while printed.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        // Removes the prefix in which ffmpeg names its component and an address in memory: `[rtsp @ 0x55…] `.
        let text = text.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(&*text, |(_, text)| text);
        let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !text.is_empty() && lines.back() != Some(&text) {
            if lines.len() == most {
                lines.pop_front();
            }
            lines.push_back(text);
        }
        line.clear();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_no_more_of_them() {
        let printed = [
            b"first\n[rtsp @ 0x55aa] method DESCRIBE failed\n\n\x1b[31mred\n".as_slice(),
            &[b'x'; 3000],
            b"\nagain\nagain\nlast without end",
        ];
        let lines = Mutex::default();
        keep(Cursor::new(printed.concat()), &lines, 3);
        let lines: Vec<String> = lines.into_inner().unwrap().into();
        assert_eq!(lines, ["x".repeat(500).as_str(), "again", "last without end"]);
        let lines = Mutex::default();
        keep(Cursor::new(printed[0]), &lines, 3);
        assert_eq!(lines.into_inner().unwrap(), ["first", "method DESCRIBE failed", "[31mred"]);
    }
}
