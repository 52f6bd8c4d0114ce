//! What the broker retains of the service: whether it is there, and the state of alarm and camera. Everyone who subscribes, at
//! whatever time, is told the last of each.

use jiff::Timestamp;
use nae_core::drift::Drift;
use serde_json::json;

use super::super::day_night::DayNightState;
use super::super::monitor::{Event, Monitor};
use super::super::source::SourceState;

/// The topics, which depend on the settings alone: what is retained under a topic that changes with every start stays at the
/// broker for good.
#[derive(Debug, Clone)]
pub(super) struct Topics {
    /// [`ONLINE`] or [`OFFLINE`]; the broker says the latter when the service is gone.
    pub(super) availability: String,
    /// [`Status`] as JSON.
    pub(super) state: String,
    /// The energy of the last frame, a number; at most one a second.
    pub(super) energy: String,
    /// The frame of the last alarm, as JPEG.
    pub(super) image: String,
}

/// The service is there.
pub(super) const ONLINE: &str = "online";
/// It is not.
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
    /// Whether alarms are raised, in a word.
    alarms: &'static str,
    drift: Drift,
    /// None where day and night are not told apart.
    day_night: Option<DayNightState>,
    source: &'static str,
    reason: Option<String>,
}

impl Status {
    /// As it is now.
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
        }
    }

    /// As it is after the event, which may have been some time ago: an alarm that was raised and cleared meanwhile is told as
    /// both.
    pub(super) fn after(&self, event: &Event, monitor: &Monitor) -> Self {
        match event {
            Event::Frame { alarm, drift, .. } => Self { alarm: *alarm, drift: *drift, ..self.clone() },
            Event::Alarms { alarms } => {
                Self { alarm: self.alarm && alarms.is_on(), alarms: alarms.name(), ..self.clone() }
            }
            Event::Source { state, reason } => Self { source: state, reason: reason.clone(), ..self.clone() },
            // The alarm begins anew.
            Event::Model | Event::Regions | Event::DayNight { .. } => Self::of(monitor),
            Event::Unscored { .. } | Event::Unreadable { .. } | Event::Alarm { .. } | Event::Stopping => self.clone(),
        }
    }

    pub(super) fn json(&self) -> String {
        let Self { alarm, alarms, drift, day_night, source, reason } = self;
        let day_night = day_night.as_ref();
        json!({
            "alarm": alarm,
            "alarms": alarms,
            "source": source,
            "reason": reason,
            "drift": drift,
            "condition": day_night.map(|now| now.condition),
            "model_for": day_night.map(|now| now.model_for),
            "time": Timestamp::now().to_string(),
        })
        .to_string()
    }
}
