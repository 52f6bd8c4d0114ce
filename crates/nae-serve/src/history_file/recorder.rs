//! Passes a camera's energies and alarms to the thread that writes them. No caller waits for the disk: if the queue is
//! full, new data are dropped and counted.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use prometheus_client::metrics::counter::Counter;

use super::interval::Point;

/// A past alarm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AlarmRecord {
    /// Unique among all alarms.
    pub(crate) id: String,
    /// Its number in the journal.
    pub(crate) number: u64,
    /// When it was raised, in milliseconds of Unix time.
    pub(crate) time: i64,
    pub(crate) energy: f32,
    pub(crate) threshold: Option<f32>,
    /// The digest of the model.
    pub(crate) model: String,
    /// Whether that was the model for the night.
    pub(crate) night: bool,
}

/// A message to the writer.
#[derive(Debug)]
pub(super) enum Message {
    Energy {
        camera: usize,
        point: Point,
    },
    Raised {
        camera: usize,
        alarm: AlarmRecord,
    },
    /// The active alarm was cleared.
    Cleared {
        camera: usize,
        time: i64,
    },
    /// No more messages will come.
    Stop,
}

/// Records the data of one camera. [`Default`] gives a recorder that records nothing.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Option<Arc<Queue>>);

struct Queue {
    /// The index of the camera.
    camera: usize,
    messages: SyncSender<Message>,
    dropped: Counter,
}

impl Recorder {
    pub(super) fn new(camera: usize, messages: SyncSender<Message>, dropped: Counter) -> Self {
        Self(Some(Arc::new(Queue { camera, messages, dropped })))
    }

    fn tell(&self, message: impl FnOnce(usize) -> Message) {
        if let Some(queue) = &self.0
            && queue.messages.try_send(message(queue.camera)).is_err()
        {
            queue.dropped.inc();
        }
    }

    /// Records the score of a frame.
    pub(crate) fn energy(&self, time: i64, energy: f32, threshold: Option<f32>, model: &str, night: bool) {
        // A mean with NaN would be NaN.
        if energy.is_finite() {
            let threshold = threshold.filter(|threshold| threshold.is_finite());
            self.tell(|camera| Message::Energy {
                camera,
                point: Point { time, energy, threshold, model: model.to_owned(), night },
            });
        }
    }

    /// Records an alarm.
    pub(crate) fn raised(&self, alarm: AlarmRecord) {
        self.tell(|camera| Message::Raised { camera, alarm });
    }

    /// Records that the active alarm was cleared.
    pub(crate) fn cleared(&self, time: i64) {
        self.tell(|camera| Message::Cleared { camera, time });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// Nobody reads the queue here: a blocking call would wait forever.
    #[test]
    fn a_full_queue_keeps_nobody_waiting_and_is_counted() {
        let (messages, received) = sync_channel(2);
        let dropped = Counter::default();
        let recorder = Recorder::new(3, messages, dropped.clone());
        recorder.energy(0, f32::NAN, None, "model", false);
        recorder.energy(1, 0.5, Some(f32::INFINITY), "model", false);
        recorder.cleared(2);
        recorder.cleared(3);
        recorder.energy(4, 0.5, None, "model", false);
        assert_eq!(dropped.get(), 2);
        let energy = received.recv().unwrap();
        assert!(
            matches!(energy, Message::Energy { camera: 3, point: Point { time: 1, threshold: None, .. } }),
            "{energy:?}"
        );
        drop(received);
        recorder.energy(5, 0.5, None, "model", false);
        assert_eq!(dropped.get(), 3, "nor does a writer that has ended");
    }
}
