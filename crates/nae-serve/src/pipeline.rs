//! The thread that processes a camera's frames, one at a time: it has each scored, observed by the
//! monitor, and raises alarms.

mod failures;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::camera::Camera;
use super::largest_image::LargestImage;
use super::metrics::Origin;
use super::quiet::Moment;
use super::scorer::{Answer, Failure, Input, NoAnswer};
use super::shown::Looked;
use super::source::Frame;
use failures::{Failures, Line};

/// What became of a frame.
#[derive(Debug, PartialEq)]
enum Outcome {
    Scored,
    /// There is no model yet.
    Unscored,
    /// The reason why it could not be scored.
    Failed(String),
}

/// Starts the thread, which runs until the queue of frames is closed and empty.
///
/// # Errors
/// If the system cannot start a thread.
pub(crate) fn start(camera: Arc<Camera>, largest: LargestImage) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("frames".into()).spawn(move || {
        let _entered = camera.span.enter();
        let mut failures = Failures::default();
        while let Some(frame) = camera.frames.pop() {
            let outcome = guarded(|| match largest.check(&frame.bytes) {
                Ok(()) => take(&camera, &frame),
                Err(error) => Outcome::Failed(error.to_string()),
            });
            match outcome {
                Outcome::Scored => {
                    if let Some(Line::Again(more)) = failures.scored(Instant::now()) {
                        tracing::info!(more_were_not = more, "frames have been scored again for a minute");
                    }
                }
                Outcome::Unscored => {}
                Outcome::Failed(reason) => pass_over(&camera, &frame, reason, &mut failures),
            }
        }
    })
}

/// A panic fails this frame only: without the thread, nobody would watch the camera, and nothing would show it. What a
/// panic may leave incomplete is valid: each lock of this crate is taken again after a panic, and says why it may be.
fn guarded(process: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(process)).unwrap_or_else(|_| {
        Outcome::Failed("the program has an error: please report the message about a panic in its log".into())
    })
}

fn take(camera: &Camera, frame: &Frame) -> Outcome {
    let _on_its_way = camera.on_its_way();
    camera.before(frame, Moment::now());
    let regions = camera.sight.applied();
    // Learns for the current condition, even if it has no model of its own.
    let learn = &camera.of(camera.in_use.condition()).learn;
    learn.offer(&frame.bytes, &regions);
    // Another model may be taken into use before the frame is scored. A failure could then belong to
    // either, and counts for neither.
    let by = camera.model.load_full();
    let failed = |failure: &str| {
        if let Some(model) = &by {
            camera.scored(&model.digest, Some(failure));
        }
    };
    let (sender, receiver) = sync_channel(1);
    let turn = camera.lane.submit(Input::Image(frame.bytes.clone(), Some(Arc::clone(&regions))), move |answer| {
        // There is room for the one answer, unless the receiver has stopped waiting.
        let _ = sender.try_send(answer);
    });
    // Longer than the scorer waits, so that the scorer reports the timeout first.
    match turn.wait(&receiver, 2 * camera.config.score_timeout) {
        Ok(Ok(Answer { scored, model, view })) => {
            let seconds = frame.taken.elapsed().as_secs_f64();
            let (energy, threshold) = (scored.energy, model.detector.threshold());
            camera.scored(&model.digest, None);
            learn.shadow_offer(
                &frame.bytes,
                &regions,
                frame.taken,
                Some(scored.verdict.is_some_and(|verdict| verdict.is_anomaly())),
            );
            if let Some(shown) = camera.monitor.observe(frame, scored, &model, Looked { regions, view }) {
                camera.alarms.raise(&shown, &model, &camera.monitor);
            }
            // Comes last: whoever sees that the frame was counted finds all its results.
            camera.metrics.scored(Origin::Source, seconds, energy, threshold);
            Outcome::Scored
        }
        // This is expected until a model is learned, and was logged at the start.
        Ok(Err(Failure::NoModel(_))) => {
            learn.shadow_offer(&frame.bytes, &regions, frame.taken, None);
            camera.monitor.observe_unscored(frame);
            Outcome::Unscored
        }
        Ok(Err(failure)) => {
            if failure.is_of_model() {
                failed(&failure.to_string());
            }
            Outcome::Failed(failure.to_string())
        }
        Err(reason) => {
            // A frame that was not begun says nothing of the model.
            if reason == NoAnswer::NotEnded {
                failed("it does not return");
            }
            Outcome::Failed(reason.to_string())
        }
    }
}

fn pass_over(camera: &Camera, frame: &Frame, reason: String, failures: &mut Failures) {
    camera.metrics.failed(Origin::Source);
    match failures.failed(&reason, Instant::now()) {
        Some(Line::Several(frames)) => tracing::warn!(frames, last = frame.name, reason, "frames were not scored"),
        Some(_) => tracing::warn!(frame = frame.name, reason, "a frame was not scored"),
        None => {}
    }
    camera.monitor.failed(frame, reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_fails_its_frame_and_no_other() {
        let outcomes = [1, 0, 2].map(|divisor: u32| {
            guarded(|| {
                assert_ne!(divisor, 0, "as an error of the program would");
                Outcome::Scored
            })
        });
        assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Scored, &Outcome::Scored));
        assert!(matches!(&outcomes[1], Outcome::Failed(reason) if reason.contains("panic")));
    }
}
