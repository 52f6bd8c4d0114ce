//! The wait for a frame's answer, which tells a model that does not return from a frame whose turn did not come.

use std::sync::OnceLock;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The turn of a frame: the time at which its scoring began, or `None` if it was withdrawn before.
#[derive(Debug, Default)]
pub(crate) struct Turn(OnceLock<Option<Instant>>);

/// The reason why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The scoring did not begin in time.
    #[error("it waited too long: the threads that score were busy with other images")]
    NotBegun,
    /// The scoring did not end in time.
    #[error("the model did not return")]
    NotEnded,
}

impl Turn {
    /// Begins the turn; false if the frame was withdrawn.
    pub(super) fn begin(&self) -> bool {
        self.0.set(Some(Instant::now())).is_ok()
    }

    /// Waits for the answer: up to `limit` until the scoring begins, and as long until it ends. A frame whose turn did
    /// not come is withdrawn: it is not scored any more.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub(crate) fn wait<T>(&self, answer: &Receiver<T>, limit: Duration) -> Result<T, NoAnswer> {
        if let Ok(answer) = answer.recv_timeout(limit) {
            return Ok(answer);
        }
        let begun = self.0.get_or_init(|| None).ok_or(NoAnswer::NotBegun)?;
        answer.recv_timeout(limit.saturating_sub(begun.elapsed())).map_err(|_| NoAnswer::NotEnded)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    #[test]
    fn a_frame_that_never_began_is_withdrawn_and_one_that_began_late_has_its_time() {
        let (sender, answer) = channel();
        let turn = Turn::default();
        assert_eq!(turn.wait(&answer, LIMIT), Err(NoAnswer::NotBegun));
        assert!(!turn.begin());
        let turn = Turn::default();
        assert!(turn.begin());
        assert_eq!(turn.wait(&answer, LIMIT), Err(NoAnswer::NotEnded));
        let turn = Turn::default();
        let answered = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(LIMIT / 2);
                assert!(turn.begin());
                thread::sleep(LIMIT * 3 / 4);
                let _ = sender.send(7);
            });
            turn.wait(&answer, LIMIT)
        });
        assert_eq!(answered, Ok(7));
    }
}
