//! Whether a camera raises alarms now: not while someone has paused or snoozed them, nor outside the hours of the settings. The
//! rule is given the times, so that it does not depend on a clock; `hours` (of the crate) has the hours, `kept` what is on disk. Who asks, and
//! clears an alarm that is up, is the `monitor`: frames are scored and shown all the same.

mod kept;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nae_onnx::file::FileError;
use serde::Serialize;

use super::hours::WeekHours;

/// The longest snooze.
pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A moment by two clocks: the one on the wall, by which hours go, and the one that does not jump, by which spans do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: Timestamp,
    pub(crate) steady: Instant,
}

/// What someone asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    Nothing,
    Pause,
    Snooze { until: Instant },
}

/// Why no alarms are raised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Off {
    Paused,
    Snoozed { until: Instant },
    BySchedule,
}

/// Whether alarms are raised, as clients are told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum AlarmState {
    On,
    Paused,
    Snoozed {
        seconds_left: f64,
    },
    OffBySchedule {
        /// As RFC 3339, in the zone of the hours.
        on_at: Option<String>,
    },
}

impl AlarmState {
    pub(crate) fn is_on(&self) -> bool {
        *self == Self::On
    }

    /// One word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Paused => "paused",
            Self::Snoozed { .. } => "snoozed",
            Self::OffBySchedule { .. } => "off_by_schedule",
        }
    }
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { wall: Timestamp::now(), steady: Instant::now() }
    }

    /// The moment that was `steady`, before this one.
    fn at(self, steady: Instant) -> Self {
        let ago = self.steady.saturating_duration_since(steady);
        Self { wall: self.wall.checked_sub(ago).unwrap_or(self.wall), steady }
    }
}

/// What is decided by.
#[derive(Debug)]
struct Rule {
    asked: Asked,
    /// When it was asked for; frames of before are of another time.
    since: Option<Instant>,
    hours: Option<WeekHours>,
    zone: TimeZone,
}

impl Rule {
    /// Why no alarms are raised at this moment, if none are.
    fn off(&self, at: Moment) -> Option<Off> {
        match self.asked {
            Asked::Pause => return Some(Off::Paused),
            Asked::Snooze { until } if at.steady < until => return Some(Off::Snoozed { until }),
            Asked::Snooze { .. } | Asked::Nothing => {}
        }
        let hours = self.hours.as_ref()?;
        (!hours.contain(self.zone.to_datetime(at.wall))).then_some(Off::BySchedule)
    }

    /// Whether a frame that was taken at `taken` may count for an alarm now: neither then nor now may alarms be off.
    fn counts(&self, taken: Instant, now: Moment) -> bool {
        self.since.is_none_or(|since| taken >= since) && self.off(now).is_none() && self.off(now.at(taken)).is_none()
    }

    fn state(&self, now: Moment) -> AlarmState {
        match self.off(now) {
            None => AlarmState::On,
            Some(Off::Paused) => AlarmState::Paused,
            Some(Off::Snoozed { until }) => {
                AlarmState::Snoozed { seconds_left: until.saturating_duration_since(now.steady).as_secs_f64() }
            }
            Some(Off::BySchedule) => {
                let next = self.hours.as_ref().and_then(|hours| hours.next(now.wall, &self.zone));
                let text = |moment: Timestamp| moment.display_with_offset(self.zone.to_offset(moment)).to_string();
                AlarmState::OffBySchedule { on_at: next.map(text) }
            }
        }
    }
}

/// Whether a camera raises alarms, and what was asked for, which is kept.
pub(crate) struct Quiet {
    rule: Mutex<Rule>,
    /// Locked while it is written, so that it has what was asked for last; frames do not wait for the disk.
    file: Mutex<PathBuf>,
}

impl Quiet {
    /// As what is kept in `folder` says. If that cannot be read alarms are raised: one too many is better than none.
    pub(crate) fn open(folder: &Path, hours: Option<WeekHours>, zone: TimeZone, now: Moment) -> Self {
        let file = folder.join("alarms-paused.json");
        let asked = kept::read(&file, now).unwrap_or_else(|error| {
            tracing::error!(error, "whether alarms were paused is not known: they are raised");
            Asked::Nothing
        });
        Self { rule: Mutex::new(Rule { asked, since: None, hours, zone }), file: Mutex::new(file) }
    }

    fn rule(&self) -> MutexGuard<'_, Rule> {
        // Each of its fields is whole at any time.
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No alarms for this time, at most [`LONGEST`], or until they are resumed.
    ///
    /// # Errors
    /// It cannot be kept, and holds until the service stops.
    pub(crate) fn pause(&self, length: Option<Duration>, now: Moment) -> Result<(), FileError> {
        self.ask(length.map_or(Asked::Pause, |length| Asked::Snooze { until: now.steady + length.min(LONGEST) }), now)
    }

    /// Alarms again, in the hours of the settings.
    ///
    /// # Errors
    /// It cannot be kept, and holds until the service stops.
    pub(crate) fn resume(&self, now: Moment) -> Result<(), FileError> {
        self.ask(Asked::Nothing, now)
    }

    fn ask(&self, asked: Asked, now: Moment) -> Result<(), FileError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut rule = self.rule();
            if rule.asked != asked {
                rule.since = Some(now.steady);
            }
            rule.asked = asked;
        }
        kept::write(&file, asked, now)
    }

    /// Why no alarms are raised now, if none are.
    pub(crate) fn off(&self, now: Moment) -> Option<Off> {
        self.rule().off(now)
    }

    /// Whether a frame that was taken at `taken` may count for an alarm now.
    pub(crate) fn counts(&self, taken: Instant, now: Moment) -> bool {
        self.rule().counts(taken, now)
    }

    /// Whether alarms are raised now, and until when not.
    pub(crate) fn state(&self, now: Moment) -> AlarmState {
        self.rule().state(now)
    }
}

#[cfg(test)]
mod tests;
