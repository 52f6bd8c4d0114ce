//! Tests of the events for clients, and of the detection of drift.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use axum::body::Bytes;
use jiff::tz::TimeZone;
use nae_infer::Shape;
use serde_json::{Value, json};

use super::super::camera_name::CameraName;
use super::super::metrics::Metrics;
use super::super::regions::{Applied, Regions};
use super::super::zeros;
use super::*;

/// Its threshold is ½: with 99 energies, 1% of normal images are above the largest.
fn model() -> Model {
    zeros::model("1", Condition::Day, 0.5)
}

struct Watched {
    monitor: Monitor,
    model: Model,
    metrics: Arc<CameraMetrics>,
    quiet: Arc<Quiet>,
    sight: Arc<Sight>,
    _folder: tempfile::TempDir,
}

impl Watched {
    /// Two anomalies among the last three frames raise the alarm.
    fn new() -> Self {
        let (model, metrics) = (model(), Arc::new(Metrics::new().camera(&CameraName::default())));
        let alarm = AlarmSettings::new(2, 0, 3).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let quiet = Arc::new(Quiet::open(folder.path(), None, TimeZone::UTC, Moment::now()));
        let sight = Arc::new(Sight::open(folder.path(), Regions::default()));
        let monitor =
            Monitor::new(alarm, Arc::clone(&quiet), Arc::clone(&sight), Some(&model), Arc::clone(&metrics)).unwrap();
        Self { monitor, model, metrics, quiet, sight, _folder: folder }
    }

    fn frame(&self, energy: f32) -> Option<Arc<Shown>> {
        self.frame_of(energy, self.sight.applied())
    }

    /// A frame that the model has scored with these regions.
    fn frame_of(&self, energy: f32, regions: Arc<Applied>) -> Option<Arc<Shown>> {
        let frame =
            Frame { bytes: Bytes::from_static(b"image"), name: Some("a.png".to_owned()), taken: Instant::now() };
        let scored = Scored {
            energy,
            p_value: Some(0.25),
            verdict: Some(Verdict::of(energy, 0.5)),
            latent: None,
            error_map: Vec::new(),
            error_map_shape: Shape::new(1, 0, 0),
        };
        self.monitor.observe(&frame, scored, &self.model, Looked { regions, view: None })
    }
}

/// Every field of every kind of event, as programs read them.
#[test]
fn events_are_told_with_all_that_happened() {
    let watched = Watched::new();
    let mut events = watched.monitor.events();
    let mut next = || serde_json::to_value(events.try_recv().unwrap()).unwrap();
    let event = |number: u64, energy: f32, anomaly: bool, alarm: bool| {
        json!({
            "event": "frame", "number": number, "energy": energy, "p_value": 0.25, "threshold": 0.5,
            "anomaly": anomaly, "alarm": alarm, "drift": "steady", "name": "a.png",
        })
    };
    let frames = [(0.25, false, false), (0.75, true, false), (1.0, true, true), (2.0, true, true), (0.25, false, true)];
    for (number, (energy, anomaly, alarm)) in (1..).zip(frames) {
        let raised = watched.frame(energy);
        assert_eq!(next(), event(number, energy, anomaly, alarm));
        assert_eq!(raised.map(|shown| shown.frame.number), (number == 3).then_some(3), "an alarm is raised once");
    }
    watched.monitor.model_changed(Condition::Day, Some(&watched.model), false);
    assert_eq!(next(), json!({"event": "model"}));
    watched.frame(0.25);
    assert_eq!(next(), event(6, 0.25, false, false));
    for (event, expected) in [
        (Event::Unscored { number: 3, name: None }, json!({"event": "unscored", "number": 3, "name": null})),
        (
            Event::Unreadable { reason: "cut short".to_owned(), name: None },
            json!({"event": "unreadable", "reason": "cut short", "name": Value::Null}),
        ),
        (Event::Alarm { number: 3 }, json!({"event": "alarm", "number": 3})),
        (
            Event::Source { state: "lost", reason: Some("unplugged".to_owned()) },
            json!({"event": "source", "state": "lost", "reason": "unplugged"}),
        ),
    ] {
        watched.monitor.tell(event);
        assert_eq!(next(), expected);
    }
}

/// The page and the broker show no frame as normal while frames cannot be scored.
#[test]
fn a_frame_that_is_not_scored_leaves_its_reason_until_the_next_score() {
    let watched = Watched::new();
    let failed = |reason: &str| {
        let frame = Frame { bytes: Bytes::from_static(b"x"), name: Some("a.png".to_owned()), taken: Instant::now() };
        watched.monitor.failed(&frame, reason.to_owned());
        watched.monitor.failure()
    };
    let mut events = watched.monitor.events();
    assert_eq!(watched.monitor.failure(), None);
    assert_eq!(failed("too large").as_deref(), Some("too large"));
    let event = Event::Unreadable { reason: "too large".to_owned(), name: Some("a.png".to_owned()) };
    assert_eq!(events.try_recv().unwrap(), event);
    watched.frame(0.25);
    assert_eq!(watched.monitor.failure(), None);
    // Another threshold does not help; another network may.
    for (other_network, expected) in [(false, Some("not finite")), (true, None)] {
        failed("not finite");
        watched.monitor.model_changed(Condition::Day, Some(&watched.model), other_network);
        assert_eq!(watched.monitor.failure().as_deref(), expected);
    }
    failed("the regions exclude the whole image");
    watched.monitor.regions_changed(&PerCondition::default());
    assert_eq!(watched.monitor.failure(), None);
}

/// A camera that sends uncompressed frames would otherwise take gigabytes.
#[test]
fn recent_frames_are_limited_in_number_and_in_bytes() {
    let mut memory = Memory::default();
    let kept = |memory: &mut Memory, frames: usize, bytes: usize| {
        let image = Bytes::from(vec![0; bytes]);
        (0..frames).for_each(|_| memory.remember(Recent { image: image.clone(), normal: true }));
        memory.recent.len()
    };
    assert_eq!(kept(&mut memory, 40, 1 << 20), 32);
    assert_eq!(kept(&mut memory, 40, 6 << 20), 10);
    assert_eq!(kept(&mut memory, 2, 100 << 20), 1, "one is always kept");
    assert_eq!(kept(&mut memory, 40, 1 << 10), 32);
}

/// Energies are still recorded; anomalies during the pause do not count for an alarm after it.
#[test]
fn while_alarms_are_paused_none_is_up_and_none_is_raised() {
    let watched = Watched::new();
    let up = || (watched.monitor.alarm_and_drift().0, watched.metrics.alarm.get(), watched.metrics.alarms_on.get());
    assert!(watched.frame(1.0).is_none() && watched.frame(1.0).is_some());
    assert_eq!(up(), (true, 1, 1));
    let mut events = watched.monitor.events();
    let mut next = || serde_json::to_value(events.try_recv().unwrap()).unwrap();
    watched.quiet.pause(None, Moment::now()).unwrap();
    watched.monitor.attend(Moment::now());
    assert_eq!(up(), (false, 0, 0));
    assert_eq!(next(), json!({"event": "alarms", "alarms": {"state": "paused"}}));
    for _ in 0..4 {
        assert!(watched.frame(1.0).is_none());
        let frame = next();
        assert_eq!(
            (&frame["event"], &frame["anomaly"], &frame["alarm"]),
            (&json!("frame"), &json!(true), &json!(false))
        );
    }
    watched.monitor.attend(Moment::now());
    watched.quiet.resume(Moment::now()).unwrap();
    // Also if a frame is the first occasion to notice.
    assert!(watched.frame(1.0).is_none(), "the four of before do not count");
    assert_eq!(next(), json!({"event": "alarms", "alarms": {"state": "on"}}));
    assert_eq!(next()["event"], "frame");
    assert_eq!(up(), (false, 0, 1));
    assert!(watched.frame(1.0).is_some());
    assert_eq!(up(), (true, 1, 1));
    assert_eq!(watched.monitor.energies(Condition::Day, 3600.0, 0.0).len(), 8);
}

/// The expected values are from the sums of the Page-Hinkley test in float64, with a quarter of the threshold as
/// tolerance and five thresholds as limit; energies above the threshold count as if at it.
#[test]
fn drift_is_told_on_the_frame_on_which_it_is() {
    for (before, after, expected, gauge) in [(0.1f32, 0.45f32, Drift::Rising, 1), (0.45, 0.1, Drift::Falling, -1)] {
        for after in [after, if after > before { 3.0 } else { after }] {
            let watched = Watched::new();
            let (mut mean, mut sums) = (0f64, [0f64; 2]);
            let mut first = None;
            // Until the mean has followed, and the sum has fallen below the limit again.
            for n in 1..=600 {
                let energy = if n <= 60 { before } else { after };
                watched.frame(energy);
                let x = f64::from(energy.min(0.5));
                mean += (x - mean) / f64::from(n);
                sums[0] = (sums[0] + x - mean - 0.125).max(0.0);
                sums[1] = (sums[1] - (x - mean) - 0.125).max(0.0);
                let is_over = sums[usize::from(expected == Drift::Falling)] > 2.5;
                if is_over {
                    first = first.or(Some(n));
                }
                let (_, drift) = watched.monitor.alarm_and_drift();
                assert_eq!(drift, if is_over { expected } else { Drift::Steady }, "{before}, {after}: frame {n}");
                assert_eq!(watched.metrics.drift.get(), if is_over { gauge } else { 0 });
            }
            assert_eq!(watched.monitor.alarm_and_drift().1, Drift::Steady, "{before}, {after}: the mean has followed");
            assert!(first.is_some_and(|n| (65..200).contains(&n)), "{before}, {after}: {first:?}");
            watched.monitor.model_changed(Condition::Day, Some(&watched.model), false);
            assert_eq!(watched.monitor.alarm_and_drift(), (false, Drift::Steady), "a new threshold starts over");
        }
    }
}

/// A frame that was being scored when the regions changed.
#[test]
fn a_frame_of_other_regions_counts_for_nothing() {
    let watched = Watched::new();
    let before = watched.sight.applied();
    (0..2).for_each(|_| drop(watched.frame(1.0)));
    assert!(watched.monitor.alarm_and_drift().0);
    let half = r#"[{"kind": "ignore", "vertices": [[0, 0], [1, 0], [1, 1]]}]"#;
    watched.sight.set(Some(Regions::from_json(half).unwrap()), Some("1")).unwrap();
    let mut events = watched.monitor.events();
    watched.monitor.regions_changed(&PerCondition { day: Some(Arc::new(model())), night: None });
    assert_eq!(serde_json::to_value(events.try_recv().unwrap()).unwrap(), json!({"event": "regions", "alarm": false}));
    assert_eq!((watched.monitor.alarm_and_drift().0, watched.metrics.alarm.get()), (false, 0), "the alarm is cleared");
    assert_eq!(
        (watched.monitor.energies(Condition::Day, 3600.0, 0.0).len(), watched.monitor.recent(Condition::Day).len()),
        (0, 0)
    );
    assert!(watched.frame_of(1.0, before).is_none() && watched.frame(1.0).is_none());
    assert_eq!(watched.monitor.energies(Condition::Day, 3600.0, 0.0).len(), 1, "the second is of them");
    assert!(!watched.monitor.alarm_and_drift().0);
    assert!(watched.frame(1.0).is_some(), "two of them raise it");
}

/// Clients take the new names, and do not take the alarm for cleared.
#[test]
fn regions_with_other_names_clear_no_alarm() {
    let watched = Watched::new();
    (0..2).for_each(|_| drop(watched.frame(1.0)));
    let mut events = watched.monitor.events();
    let mut next = || serde_json::to_value(events.try_recv().unwrap()).unwrap();
    watched.monitor.regions_renamed();
    assert_eq!(next(), json!({"event": "regions", "alarm": true}));
    assert_eq!((watched.monitor.alarm_and_drift().0, watched.metrics.alarm.get()), (true, 1));
    watched.monitor.model_changed(Condition::Day, Some(&watched.model), false);
    assert_eq!(next(), json!({"event": "model"}));
    watched.monitor.regions_renamed();
    assert_eq!(next(), json!({"event": "regions", "alarm": false}));
}

/// A camera that is gone would otherwise write thousands of lines a day.
#[test]
fn a_source_that_stays_lost_is_logged_once_for_each_reason() {
    let watched = Watched::new();
    let lost = |reason: &str| SourceState::Lost(reason.to_owned());
    let news = |state: &SourceState| watched.monitor.lock().is_news(state);
    let frame = || Frame { bytes: Bytes::from_static(b"x"), name: None, taken: Instant::now() };
    assert!(news(&SourceState::Opening) && news(&lost("refused")));
    let again = [lost("refused"), lost("no route"), lost("refused"), lost("no route"), SourceState::Connected];
    assert_eq!(again.map(|state| news(&state)), [false, true, false, false, true]);
    assert!(!news(&SourceState::Connected), "it opens, and no frame comes");
    let fails = || watched.monitor.failed(&frame(), "cut short".to_owned());
    let comes: [&dyn Fn(); 3] = [&|| drop(watched.frame(0.25)), &|| watched.monitor.observe_unscored(&frame()), &fails];
    for frame_comes in comes {
        frame_comes();
        assert!(news(&lost("refused")) && !news(&lost("refused")), "it was there in between");
    }
    // Reasons that differ each time take no room.
    assert!((0..100).all(|number| news(&lost(&format!("attempt {number}")))));
    assert_eq!(watched.monitor.lock().logged.len(), LOGGED);
}

/// A frame that arrived while there was no model, or whose model was removed, does not count for the next.
#[test]
fn a_frame_without_a_model_is_shown_and_counts_for_nothing() {
    let watched = Watched::new();
    watched.frame(0.25);
    assert!(watched.monitor.recent(Condition::Day).iter().all(|recent| recent.normal));
    watched.monitor.model_changed(Condition::Day, None, true);
    watched.monitor.uses(None, Condition::Day, None);
    assert!(watched.metrics.threshold.get().is_nan());
    let frame = Frame { bytes: Bytes::from_static(b"later"), name: None, taken: Instant::now() };
    watched.monitor.observe_unscored(&frame);
    let latest = watched.monitor.latest().unwrap();
    assert_eq!((latest.frame().number, latest.frame().image.as_ref()), (2, b"later".as_slice()));
    assert!(latest.scored().is_none() && watched.monitor.energies(Condition::Day, 3600.0, 0.0).is_empty());
    let recent = watched.monitor.recent(Condition::Day);
    assert!(recent.len() == 2 && recent.iter().all(|recent| !recent.normal));
}

/// A frame that was being scored by the previous model.
#[test]
fn a_frame_of_another_model_counts_for_nothing() {
    let watched = Watched::new();
    (0..2).for_each(|_| drop(watched.frame(1.0)));
    let other = Model { digest: "2".to_owned(), ..model() };
    watched.monitor.model_changed(Condition::Day, Some(&other), true);
    let recent = watched.monitor.recent(Condition::Day).len();
    for _ in 0..400 {
        assert!(watched.frame(1000.0).is_none());
    }
    assert_eq!(watched.monitor.alarm_and_drift(), (false, Drift::Steady));
    assert_eq!(watched.monitor.energies(Condition::Day, 3600.0, 0.0), [0.0; 0]);
    assert_eq!(
        (watched.monitor.recent(Condition::Day).len(), watched.monitor.latest().unwrap().frame().number),
        (recent, 2)
    );
    let watched = Watched { model: other, ..watched };
    assert!(watched.frame(1.0).is_none() && watched.frame(1.0).is_some(), "two of the new one raise the alarm");
}
