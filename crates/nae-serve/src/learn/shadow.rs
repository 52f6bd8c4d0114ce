//! A model that scores live frames beside the one in use, or alone if there is none, in a separate thread at the lowest
//! priority: its energies are shown, and raise no alarm. A frame that arrives while it scores another is skipped, so
//! that scoring does not wait for it; a model that does not return blocks only this thread.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use nae_infer::input::decode;
use serde::Serialize;

use super::super::child;
use super::super::history::{History, Point, Slice};
use super::super::model::Model;
use super::super::regions::Applied;

/// A model that is tested beside the one in use, until this is dropped.
pub(super) struct Shadow {
    sender: SyncSender<Offered>,
    seen: Arc<Mutex<Seen>>,
    threshold: Option<f32>,
}

/// A frame, and whether the model in use calls it an anomaly, if there is one.
struct Offered {
    image: Bytes,
    regions: Arc<Applied>,
    taken: Instant,
    anomaly: Option<bool>,
}

#[derive(Default)]
struct Seen {
    counts: Counts,
    history: History,
}

/// The verdicts of both models on the same frames, since the test or the service started.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Counts {
    frames: u64,
    /// The number of frames that a model in use has also scored; without one, there is nothing to compare with.
    compared: u64,
    /// The anomalies of the model in use, among the compared frames.
    before: u64,
    /// The anomalies of the new model, among all frames.
    after: u64,
    /// The compared frames on which the two models disagree.
    differ: u64,
    /// The frames on which the new model failed; the next field: the last reason.
    failures: u64,
    failure: Option<String>,
}

/// The state of the test for clients.
#[derive(Debug, Serialize)]
pub(crate) struct ShadowStatus {
    threshold: Option<f32>,
    #[serde(flatten)]
    counts: Counts,
}

impl Shadow {
    /// Starts to score with `model`.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(model: Arc<Model>) -> io::Result<Self> {
        let (sender, frames) = sync_channel(1);
        let seen = Arc::new(Mutex::default());
        let threshold = model.detector.threshold();
        let own = Arc::clone(&seen);
        thread::Builder::new().name("shadow".into()).spawn(move || score(&model, &frames, &own))?;
        Ok(Self { sender, seen, threshold })
    }

    /// Submits a frame, unless another is being scored.
    pub(super) fn offer(&self, image: &Bytes, regions: &Arc<Applied>, taken: Instant, anomaly: Option<bool>) {
        let offered = Offered { image: image.clone(), regions: Arc::clone(regions), taken, anomaly };
        let _ = self.sender.try_send(offered);
    }

    pub(super) fn status(&self) -> ShadowStatus {
        ShadowStatus { threshold: self.threshold, counts: lock(&self.seen).counts.clone() }
    }

    /// The energies of the past `span`, in at most `most` slices.
    pub(super) fn slices(&self, span: Duration, most: usize) -> Vec<Slice> {
        lock(&self.seen).history.slices(span, most)
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    // After a panic, the state may be wrong by one frame, which does no harm.
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn score(model: &Model, frames: &Receiver<Offered>, seen: &Mutex<Seen>) {
    child::lowest_priority();
    while let Ok(Offered { image, regions, taken, anomaly }) = frames.recv() {
        // Outside the lock, since this takes time.
        let scored = decode(&image)
            .map_err(|error| error.to_string())
            .and_then(|pixels| regions.look(pixels).map_err(|error| error.to_string()))
            .and_then(|seen| seen.score(&model.detector).map_err(|error| error.to_string()));
        let mut seen = lock(seen);
        match scored {
            Ok(scored) => {
                let after = scored.verdict.is_some_and(|verdict| verdict.is_anomaly());
                seen.counts.frames += 1;
                seen.counts.after += u64::from(after);
                if let Some(before) = anomaly {
                    seen.counts.compared += 1;
                    seen.counts.before += u64::from(before);
                    seen.counts.differ += u64::from(before != after);
                }
                seen.history.keep(Point { at: taken, energy: scored.energy });
            }
            Err(reason) => {
                seen.counts.failures += 1;
                seen.counts.failure = Some(reason);
            }
        }
    }
}
