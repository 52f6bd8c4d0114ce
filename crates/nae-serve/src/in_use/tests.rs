//! Tests which of two models is in use as conditions and models change, and what happens to an active alarm.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use axum::body::Bytes;
use jiff::tz::TimeZone;
use nae_core::drift::Drift;
use nae_core::verdict::{AlarmSettings, Verdict};
use nae_infer::{Scored, Shape};

use super::super::camera_name::CameraName;
use super::super::metrics::{CameraMetrics, Metrics};
use super::super::monitor::Event;
use super::super::quiet::{Moment, Quiet};
use super::super::regions::{Regions, Sight};
use super::super::scorer::{LaneSettings, Scorer};
use super::super::shown::Looked;
use super::super::source::Frame;
use super::super::zeros;
use super::*;
use Condition::{Day, Night};

/// A model of a condition, named after its threshold.
fn model(condition: Condition, threshold: f32) -> Option<Arc<Model>> {
    Some(Arc::new(zeros::model(&threshold.to_string(), condition, threshold)))
}

/// A camera without a model; two anomalies of two frames raise the alarm, none clears it.
struct Watched {
    _folder: tempfile::TempDir,
    in_use: InUse,
    current: Arc<Current>,
    monitor: Arc<Monitor>,
    sight: Arc<Sight>,
    metrics: Arc<CameraMetrics>,
}

impl Watched {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let quiet = Arc::new(Quiet::open(folder.path(), None, TimeZone::UTC, Moment::now()));
        let sight = Arc::new(Sight::open(folder.path(), Regions::default()));
        let metrics = Arc::new(Metrics::new().camera(&CameraName::default()));
        let alarm = AlarmSettings::new(2, 0, 2).unwrap();
        let monitor = Monitor::new(alarm, quiet, Arc::clone(&sight), None, Arc::clone(&metrics)).unwrap();
        let (monitor, current) = (Arc::new(monitor), Arc::new(Current::empty()));
        let in_use = InUse::new(Arc::clone(&current), Arc::clone(&monitor), None);
        Self { _folder: folder, in_use, current, monitor, sight, metrics }
    }

    /// With a model of the day whose threshold is ½, and one of the night whose threshold is 4.
    fn with_both() -> Self {
        let this = Self::new();
        this.in_use.put(Day, model(Day, 0.5), true);
        this.in_use.put(Night, model(Night, 4.0), true);
        this
    }

    fn stand(&self, condition: Condition) -> bool {
        self.in_use.stand(Some(Standing { condition, by: "brightness" }))
    }

    /// The model in use, which must be the same for all components.
    fn in_use(&self) -> String {
        let digest = |model: Option<Arc<Model>>| model.map_or_else(|| "none".to_owned(), |model| model.digest.clone());
        let scored_by = digest(self.current.load_full());
        assert_eq!(digest(self.in_use.of(self.in_use.model_for())), scored_by);
        assert_eq!(self.monitor.day_night(), self.in_use.day_night());
        scored_by
    }

    /// Observes a frame that this model has scored. Returns whether it raises an alarm.
    fn frame_by(&self, model: &Model, energy: f32) -> bool {
        let frame = Frame { bytes: Bytes::from_static(b"frame"), name: None, taken: Instant::now() };
        let threshold = model.detector.threshold().unwrap();
        let scored = Scored {
            energy,
            p_value: None,
            verdict: Some(Verdict::of(energy, threshold)),
            latent: None,
            error_map: Vec::new(),
            error_map_shape: Shape::new(1, 0, 0),
        };
        let looked = Looked { regions: self.sight.applied(), view: None };
        self.monitor.observe(&frame, scored, model, looked).is_some()
    }

    fn frame(&self, energy: f32) -> bool {
        self.frame_by(&self.current.load_full().unwrap(), energy)
    }

    fn is_up(&self) -> bool {
        let (up, _) = self.monitor.alarm_and_drift();
        assert_eq!(self.metrics.alarm.get(), i64::from(up));
        up
    }
}

/// All combinations of conditions and existing models.
#[test]
fn the_model_of_the_day_stands_in_for_that_of_the_night_and_not_the_other_way() {
    let watched = Watched::new();
    assert_eq!((watched.in_use(), watched.in_use.day_night()), ("none".into(), None));
    watched.in_use.put(Night, model(Night, 4.0), true);
    assert_eq!(watched.in_use(), "none", "no camera without a night uses that");
    watched.in_use.put(Day, model(Day, 0.5), true);
    assert_eq!(watched.in_use(), "0.5");
    assert!(watched.stand(Night));
    assert_eq!((watched.in_use(), watched.metrics.night.get(), watched.metrics.threshold.get()), ("4".into(), 1, 4.0));
    let now = watched.in_use.day_night().unwrap();
    assert_eq!((now.condition, now.model_for, now.night_model_missing), (Night, Night, None));
    assert!(!watched.stand(Night), "that is nothing new");
    // The model was taken back.
    watched.in_use.put(Night, None, true);
    assert_eq!((watched.in_use(), watched.metrics.night.get()), ("0.5".into(), 1));
    assert_eq!(watched.metrics.night_model_in_use.get(), 0);
    let now = watched.in_use.day_night().unwrap();
    assert_eq!((now.condition, now.model_for), (Night, Day));
    assert!(now.night_model_missing.unwrap().contains("no model for the night yet"));
    assert!(!watched.stand(Day), "it is the same model");
    watched.stand(Night);
    // A model that was learned in the night.
    watched.in_use.put(Night, model(Night, 8.0), true);
    assert_eq!((watched.in_use(), watched.metrics.night_model_in_use.get()), ("8".into(), 1));
    watched.in_use.put(Day, None, true);
    assert_eq!(watched.in_use(), "8");
    assert!(watched.stand(Day));
    assert_eq!(watched.in_use(), "none", "by day that of the night would call all anomalies");
    watched.in_use.put(Night, None, true);
    watched.stand(Night);
    assert_eq!((watched.in_use(), watched.in_use.model_for()), ("none".into(), Night));
    assert!(watched.in_use.stand(None));
    assert_eq!((watched.in_use.day_night(), watched.metrics.night.get()), (None, 0));
}

#[test]
fn why_the_night_has_none_is_said_until_it_has_one() {
    let Watched { current, monitor, .. } = Watched::new();
    let in_use = InUse::new(current, monitor, Some("it is damaged".to_owned()));
    in_use.stand(Some(Standing { condition: Day, by: "schedule" }));
    let missing = || in_use.day_night().unwrap().night_model_missing;
    assert_eq!(missing(), Some("it is damaged".to_owned()));
    in_use.put(Night, model(Night, 4.0), true);
    assert_eq!(missing(), None);
    in_use.put(Night, None, true);
    assert!(missing().unwrap().contains("no model for the night yet"), "what was damaged is of the past");
}

/// Another model raised it in another light; earlier frames do not count for the next alarm.
#[test]
fn an_alarm_that_is_up_is_cleared_when_another_model_is_in_use() {
    for (from, to, strange) in [(Day, Night, 5.0), (Night, Day, 5.0)] {
        let watched = Watched::with_both();
        watched.stand(from);
        assert!(!watched.frame(strange) && watched.frame(strange) && watched.is_up());
        let mut events = watched.monitor.events();
        watched.stand(to);
        assert!(!watched.is_up());
        let Event::DayNight { day_night } = events.try_recv().unwrap() else { panic!("another event") };
        assert_eq!(day_night.unwrap().condition, to);
        assert!(!watched.frame(strange) && !watched.is_up(), "one is not two");
        assert!(watched.frame(strange) && watched.is_up());
        // And back: those two frames do not count for an alarm of the first model.
        watched.stand(from);
        assert!(!watched.is_up() && !watched.frame(strange));
    }
    // If it is the same model, the alarm continues.
    let watched = Watched::new();
    watched.in_use.put(Day, model(Day, 0.5), true);
    watched.stand(Day);
    assert!(!watched.frame(1.0) && watched.frame(1.0));
    watched.stand(Night);
    assert!(watched.is_up(), "the model of the day goes on");
    watched.in_use.put(Night, model(Night, 4.0), true);
    assert!(!watched.is_up(), "until there is one of the night");
}

/// Changes to the model that is not in use do not affect the other.
#[test]
fn a_change_to_the_model_that_is_not_in_use_clears_nothing() {
    let watched = Watched::with_both();
    watched.stand(Day);
    assert!(!watched.frame(1.0) && watched.frame(1.0));
    watched.in_use.put(Night, model(Night, 8.0), true);
    assert!(watched.is_up() && watched.in_use() == "0.5");
    assert_eq!(watched.monitor.energies(Day, 60.0, 0.0), [1.0, 1.0]);
    watched.in_use.put(Day, model(Day, 0.25), false);
    assert!(!watched.is_up() && watched.in_use() == "0.25");
}

/// The two models' scores are on different scales, and drift takes longer than a day.
#[test]
fn each_model_remembers_its_own_frames() {
    let watched = Watched::with_both();
    watched.stand(Day);
    for _ in 0..60 {
        watched.frame(0.1);
    }
    for _ in 0..100 {
        watched.frame(0.45);
    }
    assert_eq!((watched.monitor.alarm_and_drift().1, watched.metrics.drift.get()), (Drift::Rising, 1));
    watched.stand(Night);
    assert_eq!((watched.monitor.alarm_and_drift().1, watched.metrics.drift.get()), (Drift::Steady, 0));
    for _ in 0..3 {
        watched.frame(2.0);
    }
    assert_eq!(watched.monitor.energies(Night, 60.0, 0.0), [2.0; 3]);
    assert_eq!(watched.monitor.energies(Day, 60.0, 0.0).len(), 160);
    assert_eq!((watched.monitor.recent(Night).len(), watched.monitor.recent(Day).len()), (3, 32));
    assert_eq!(watched.monitor.what_if(1.0).frames, 3);
    watched.stand(Day);
    assert_eq!((watched.monitor.alarm_and_drift().1, watched.metrics.drift.get()), (Drift::Rising, 1));
    assert_eq!(watched.monitor.what_if(1.0).frames, 160);
}

/// A frame during a change is counted for the model that scored it, and does not count for an alarm of the other.
#[test]
fn a_frame_scored_by_the_model_of_before_is_counted_and_alarms_nobody() {
    let watched = Watched::with_both();
    watched.stand(Day);
    let of_day = watched.current.load_full().unwrap();
    watched.stand(Night);
    assert!(!watched.frame(5.0));
    assert!(!watched.frame_by(&of_day, 5.0) && !watched.is_up());
    assert_eq!(watched.monitor.energies(Day, 60.0, 0.0), [5.0]);
    assert_eq!(watched.monitor.latest().unwrap().frame().number, 2);
}

/// A page that asks for the state when it is told of another model would otherwise show that nothing is scored.
#[test]
fn another_model_is_scored_although_the_one_before_was_given_up() {
    let watched = Watched::with_both();
    let camera = CameraName::default();
    let model_of_lane = Arc::clone(&watched.current);
    let settings = LaneSettings { camera, model: model_of_lane, timeout: Duration::from_secs(1) };
    let (_scorer, mut lanes) = Scorer::start(vec![settings], 1).unwrap();
    let lane = Arc::new(lanes.remove(0));
    let watched = Watched { in_use: watched.in_use.scored_in(Arc::clone(&lane)), ..watched };
    watched.stand(Day);
    let given_up = || {
        lane.give_up();
        assert!(!lane.is_working());
    };
    given_up();
    watched.in_use.put(Day, model(Day, 0.25), false);
    assert!(!lane.is_working(), "with another threshold it is the same model");
    watched.in_use.put(Day, model(Day, 0.75), true);
    assert!(lane.is_working());
    given_up();
    watched.stand(Night);
    assert!(lane.is_working());
}
