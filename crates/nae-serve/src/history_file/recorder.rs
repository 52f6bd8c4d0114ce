//! What hands a camera's energies and alarms to the thread that writes them. Nobody waits for the disk: where the queue is full,
//! what comes is dropped and counted.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use prometheus_client::metrics::counter::Counter;

use super::interval::Point;

/// An alarm of the past.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AlarmRecord {
    /// Which is no other alarm's.
    pub(crate) id: String,
    /// The journal's number.
    pub(crate) number: u64,
    /// When it was raised: milliseconds of Unix time.
    pub(crate) time: i64,
    pub(crate) energy: f32,
    pub(crate) threshold: Option<f32>,
    /// Digest of the model.
    pub(crate) model: String,
}

/// What the writer is told.
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
    /// The alarm that was up is not any more.
    Cleared {
        camera: usize,
        time: i64,
    },
    /// There will be no more.
    Stop,
}

/// Takes down what becomes of one camera. By [`Default`] it takes nothing down.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Option<Arc<Queue>>);

struct Queue {
    /// Its place among the cameras.
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

    /// A frame was scored.
    pub(crate) fn energy(&self, time: i64, energy: f32, threshold: Option<f32>, model: &str) {
        // There is no mean with a number that is none.
        if energy.is_finite() {
            let threshold = threshold.filter(|threshold| threshold.is_finite());
            self.tell(|camera| Message::Energy {
                camera,
                point: Point { time, energy, threshold, model: model.to_owned() },
            });
        }
    }

    /// An alarm was raised.
    pub(crate) fn raised(&self, alarm: AlarmRecord) {
        self.tell(|camera| Message::Raised { camera, alarm });
    }

    /// The alarm that was up is cleared.
    pub(crate) fn cleared(&self, time: i64) {
        self.tell(|camera| Message::Cleared { camera, time });
    }
}
