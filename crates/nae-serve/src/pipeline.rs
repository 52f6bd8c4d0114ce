//! The thread that processes a camera's frames, one at a time: it has each scored, observed by the
//! monitor, and raises alarms.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use super::camera::Camera;
use super::largest_image::LargestImage;
use super::metrics::Origin;
use super::monitor::Event;
use super::quiet::Moment;
use super::scorer::{Answer, Failure, Input};
use super::shown::Looked;
use super::source::Frame;

/// Starts the thread, which runs until the queue of frames is closed and empty.
///
/// # Errors
/// If the system cannot start a thread.
pub(crate) fn start(camera: Arc<Camera>, largest: LargestImage) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("frames".into()).spawn(move || {
        let _entered = camera.span.enter();
        while let Some(frame) = camera.frames.pop() {
            match largest.check(&frame.bytes) {
                Ok(()) => take(&camera, &frame),
                Err(error) => pass_over(&camera, &frame, error.to_string()),
            }
        }
    })
}

fn take(camera: &Camera, frame: &Frame) {
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
    camera.lane.submit(Input::Image(frame.bytes.clone(), Some(Arc::clone(&regions))), move |answer| {
        // There is room for the one answer, unless the receiver has stopped waiting.
        let _ = sender.try_send(answer);
    });
    // Longer than the scorer waits, so that the scorer reports the timeout first.
    let failure = match receiver.recv_timeout(2 * camera.config.score_timeout) {
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
            return camera.metrics.scored(Origin::Source, seconds, energy, threshold);
        }
        // This is expected until a model is learned, and was logged at the start.
        Ok(Err(Failure::NoModel(_))) => {
            learn.shadow_offer(&frame.bytes, &regions, frame.taken, None);
            return camera.monitor.observe_unscored(frame);
        }
        Ok(Err(failure)) => {
            match &failure {
                failure if failure.is_of_model() => failed(&failure.to_string()),
                // This was logged when the model was given up; logging it for every frame would fill the
                // log.
                Failure::GivenUp => return camera.metrics.failed(Origin::Source),
                _ => {}
            }
            failure.to_string()
        }
        Err(_) => {
            failed("it does not return");
            "the model did not return".to_owned()
        }
    };
    pass_over(camera, frame, failure);
}

fn pass_over(camera: &Camera, frame: &Frame, reason: String) {
    camera.metrics.failed(Origin::Source);
    tracing::warn!(frame = frame.name, reason, "a frame was not scored");
    camera.monitor.tell(Event::Unreadable { reason, name: frame.name.clone() });
}
