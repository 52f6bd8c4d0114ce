//! The state of the service that the broker retains: whether it is online, and the state of alarm and camera. Every
//! subscriber receives the last message of each, whenever it subscribes.

use jiff::Timestamp;
use nae_core::drift::Drift;
use serde_json::json;

use super::super::day_night::DayNightState;
use super::super::monitor::{Event, Monitor};
use super::super::source::SourceState;

/// The topics, which depend only on the settings: a retained message under a topic that changes with every start would
/// stay at the broker permanently.
#[derive(Debug, Clone)]
pub(super) struct Topics {
    /// [`ONLINE`] or [`OFFLINE`]; the broker publishes the latter when the service is gone.
    pub(super) availability: String,
    /// [`Status`] as JSON.
    pub(super) state: String,
    /// The energy of the last frame, a number, published at most once per second.
    pub(super) energy: String,
    /// The frame of the last alarm, as JPEG.
    pub(super) image: String,
}

/// The service is online.
pub(super) const ONLINE: &str = "online";
/// The service is offline.
pub(super) const OFFLINE: &str = "offline";

impl Topics {
    pub(super) fn new(begin: &str) -> Self {
        Self {
            availability: format!("{begin}/availability"),
            state: format!("{begin}/state"),
            energy: format!("{begin}/energy"),
            image: format!("{begin}/image"),
        }
    }
}

/// The state of alarm and camera.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Status {
    alarm: bool,
    /// Whether alarms are raised, in one word.
    alarms: &'static str,
    drift: Drift,
    /// `None` if day and night are not distinguished.
    day_night: Option<DayNightState>,
    source: &'static str,
    reason: Option<String>,
    /// Why the last frame could not be scored.
    failure: Option<String>,
}

impl Status {
    /// The current state.
    pub(super) fn of(monitor: &Monitor) -> Self {
        let (alarm, drift) = monitor.alarm_and_drift();
        let source = monitor.source();
        let reason = match &source {
            SourceState::Lost(reason) => Some(reason.clone()),
            _ => None,
        };
        Self {
            alarm,
            alarms: monitor.alarms().name(),
            drift,
            day_night: monitor.day_night(),
            source: source.name(),
            reason,
            failure: monitor.failure(),
        }
    }

    /// The state after the event, which may be some time ago: an alarm that was raised and cleared meanwhile is
    /// published as both.
    pub(super) fn after(&self, event: &Event, monitor: &Monitor) -> Self {
        match event {
            Event::Frame { alarm, drift, .. } => Self { alarm: *alarm, drift: *drift, failure: None, ..self.clone() },
            Event::Unscored { .. } => Self { failure: None, ..self.clone() },
            Event::Unreadable { reason, .. } => Self { failure: Some(reason.clone()), ..self.clone() },
            Event::Alarms { alarms } => {
                Self { alarm: self.alarm && alarms.is_on(), alarms: alarms.name(), ..self.clone() }
            }
            Event::Source { state, reason } => Self { source: state, reason: reason.clone(), ..self.clone() },
            // The alarm filter starts over.
            Event::Model | Event::Regions { .. } | Event::DayNight { .. } => Self::of(monitor),
            Event::Alarm { .. } | Event::Stopping => self.clone(),
        }
    }

    pub(super) fn json(&self) -> String {
        let Self { alarm, alarms, drift, day_night, source, reason, failure } = self;
        let day_night = day_night.as_ref();
        json!({
            "alarm": alarm,
            "alarms": alarms,
            "source": source,
            "reason": reason,
            "failure": failure,
            "drift": drift,
            "condition": day_night.map(|now| now.condition),
            "model_for": day_night.map(|now| now.model_for),
            "time": Timestamp::now().to_string(),
        })
        .to_string()
    }
}
