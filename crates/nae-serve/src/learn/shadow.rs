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
use super::super::history::{History, Past, Point};
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
    /// The digest of the regions of all these frames: one of other regions shows another picture, and counts for nothing.
    regions: String,
}

/// The verdicts of both models on the same frames, since the test or the service started, or the regions changed.
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
    /// Starts to score with `model` the frames of the regions with this digest.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(model: Arc<Model>, regions: &str) -> io::Result<Self> {
        let (sender, frames) = sync_channel(1);
        let seen = Arc::new(Mutex::new(Seen { regions: regions.to_owned(), ..Seen::default() }));
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

    /// Starts over, with frames of the regions with this digest.
    pub(super) fn begin_anew(&self, regions: &str) {
        *lock(&self.seen) = Seen { regions: regions.to_owned(), ..Seen::default() };
    }

    /// The energies of the past `span`.
    pub(super) fn past(&self, span: Duration) -> Past {
        lock(&self.seen).history.past(span)
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
        if seen.regions != regions.digest() {
            continue;
        }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::super::day_night::Condition;
    use super::super::super::regions::Regions;
    use super::super::super::zeros;
    use super::*;

    /// Has a white frame scored; waits for room, unlike `offer`.
    fn show(shadow: &Shadow, regions: &Arc<Applied>, anomaly: bool) {
        let image = Bytes::from_static(b"P5 2 2 255\n\xff\xff\xff\xff");
        let (regions, taken) = (Arc::clone(regions), Instant::now());
        shadow.sender.send(Offered { image, regions, taken, anomaly: Some(anomaly) }).unwrap();
    }

    fn wait_for(shadow: &Shadow, frames: u64) -> Counts {
        loop {
            let counts = shadow.status().counts;
            if counts.frames >= frames {
                return counts;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// With other regions, frames show another picture, and energies are on another scale.
    #[test]
    fn counts_and_energies_start_anew_with_other_regions() {
        let whole = Applied::new(Regions::default());
        let left = r#"[{"kind": "include", "vertices": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]}]"#;
        let left = Applied::new(Regions::from_json(left).unwrap());
        let shadow = Shadow::start(Arc::new(zeros::model("1", Condition::Day, 0.5)), whole.digest()).unwrap();
        (0..3).for_each(|_| show(&shadow, &whole, false));
        let counts = wait_for(&shadow, 3);
        assert_eq!((counts.frames, counts.after, counts.differ), (3, 3, 3));
        shadow.begin_anew(left.digest());
        let status = shadow.status();
        assert_eq!((status.counts, status.threshold), (Counts::default(), Some(0.5)));
        assert_eq!(shadow.past(Duration::from_secs(60)).energies().count(), 0);
        // One that was on its way, and the first of those that come then.
        show(&shadow, &whole, false);
        show(&shadow, &left, true);
        let counts = wait_for(&shadow, 1);
        assert_eq!((counts.frames, counts.before, counts.failures), (1, 1, 0));
        assert_eq!(shadow.past(Duration::from_secs(60)).energies().count(), 1);
    }
}
