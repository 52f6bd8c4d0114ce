//! What child processes of the service have in common: they end with it, get none of its settings, and their last lines are
//! kept as the reason of a failure. Which programs they are is elsewhere: `source` starts ffmpeg, `learn` nae-train.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What the names of variables with settings begin with.
pub(crate) const VARIABLES: &str = "NAE_INFER_";
/// The longest line that is kept, in bytes.
const MAX_LINE: u64 = 500;

/// Makes a command's process one of the service: out of reach of the terminal's keys, without the service's settings, and
/// killed by Linux when the thread that starts it ends, however it does. That thread therefore has to stay.
pub(crate) fn of_service(command: &mut Command) {
    // Ctrl-C on a terminal is for the service, which ends the child.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    // Settings, secrets among them.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(VARIABLES)) {
        command.env_remove(name);
    }
    #[cfg(target_os = "linux")]
    die_with_parent(command);
}

/// Has Linux kill the child when the thread that started it ends, however it does.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: after fork, in a process of several threads, only what is safe in a signal handler may be called. These are two
    // system calls; nothing is allocated, and no lock is taken.
    unsafe { command.pre_exec(before_exec) };
}

/// Gives this thread, and what it starts from now on, the lowest priority, so that scoring comes first.
pub(crate) fn lowest_priority() {
    // Without a process named, Linux means the thread that asks; elsewhere it would be the whole service.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::warn!(%error, "the priority of a thread cannot be lowered");
    }
}

/// The last lines that a child printed, each as often as it comes but not twice in a row.
pub(crate) struct LastLines {
    most: usize,
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Disconnected when there will be no more.
    end: Mutex<Option<Receiver<()>>>,
}

impl LastLines {
    /// At most `most`; none yet.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, lines: Arc::default(), end: Mutex::default() }
    }

    /// Reads what the child prints, in a thread of its own, until it ends.
    ///
    /// # Errors
    /// If the system gives no thread.
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

    /// Waits up to `time` until there will be no more.
    pub(crate) fn wait(&self, time: Duration) {
        if let Some(end) = &*self.end.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = end.recv_timeout(time);
        }
    }

    /// The oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Keeps the last `most` lines of what is printed.
fn keep(printed: impl Read, lines: &Mutex<VecDeque<String>>, most: usize) {
    let mut printed = BufReader::new(printed);
    let mut line = Vec::new();
    while printed.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        // Without ffmpeg's part that speaks and its address in memory: `[rtsp @ 0x55…] `.
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
