//! Determines whether a camera raises alarms now: not during a pause or snooze, nor outside the hours of the settings.
//! The rule receives times as arguments, so that it does not depend on a clock. The crate's module `hours` has the
//! hours, `kept` stores the state on disk. The `monitor` uses the result and clears an active alarm; frames are always
//! scored and shown.

mod kept;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nae_onnx::file::FileError;
use serde::Serialize;

use super::hours::WeekHours;

/// How often the remaining time of a snooze is stored: seldom enough for a memory card, of which the history is written
/// much more often.
const REWRITE: Duration = Duration::from_secs(60);
/// The longest snooze.
pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A moment by two clocks: the wall clock, which hours refer to, and the monotonic clock, which durations refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: Timestamp,
    pub(crate) steady: Instant,
}

/// The pause or snooze that a user set.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    Nothing,
    Pause,
    Snooze { until: Instant },
}

/// The reason why no alarms are raised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Off {
    Paused,
    Snoozed { until: Instant },
    BySchedule,
}

/// Whether alarms are raised, in the form for clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum AlarmState {
    On,
    Paused,
    Snoozed {
        seconds_left: f64,
    },
    OffBySchedule {
        /// As RFC 3339, in the time zone of the hours.
        on_at: Option<String>,
    },
}

impl AlarmState {
    pub(crate) fn is_on(&self) -> bool {
        *self == Self::On
    }

    /// Its name, one word.
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

    /// The earlier moment that was `steady` on the monotonic clock.
    fn at(self, steady: Instant) -> Self {
        let ago = self.steady.saturating_duration_since(steady);
        Self { wall: self.wall.checked_sub(ago).unwrap_or(self.wall), steady }
    }
}

/// The rule that decides whether alarms are raised.
#[derive(Debug)]
struct Rule {
    asked: Asked,
    /// The time at which the pause or snooze was set or ended; earlier frames do not count.
    since: Option<Instant>,
    /// The time at which the file was last written.
    written: Option<Instant>,
    hours: Option<WeekHours>,
    zone: TimeZone,
}

impl Rule {
    /// The reason why no alarms are raised at this moment; `None` if they are.
    fn off(&self, at: Moment) -> Option<Off> {
        match self.asked {
            Asked::Pause => return Some(Off::Paused),
            Asked::Snooze { until } if at.steady < until => return Some(Off::Snoozed { until }),
            Asked::Snooze { .. } | Asked::Nothing => {}
        }
        let hours = self.hours.as_ref()?;
        (!hours.contain(self.zone.to_datetime(at.wall))).then_some(Off::BySchedule)
    }

    /// Whether the file has a snooze with more time than is left, by more than [`REWRITE`] or beyond its end: with a
    /// wall clock that is behind after each start, it would start over.
    fn is_outdated(&self, now: Moment) -> bool {
        let Asked::Snooze { until } = self.asked else { return false };
        self.written.is_none_or(|written| written < until && now.steady >= until.min(written + REWRITE))
    }

    /// Whether a frame that was taken at `taken` may count for an alarm now: alarms must be on both then and now.
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

/// Determines whether a camera raises alarms, and stores what a user set.
pub(crate) struct Quiet {
    rule: Mutex<Rule>,
    /// Locked while the file is written, so that the last state is in it; frames do not wait for the disk.
    file: Mutex<PathBuf>,
}

impl Quiet {
    /// Opens the state stored in `folder`. If it cannot be read, alarms are raised: one too many is better than none.
    pub(crate) fn open(folder: &Path, hours: Option<WeekHours>, zone: TimeZone, now: Moment) -> Self {
        let file = folder.join("alarms-paused.json");
        let asked = kept::read(&file, now).unwrap_or_else(|error| {
            tracing::error!(error, "whether alarms were paused is not known: they are raised");
            Asked::Nothing
        });
        Self { rule: Mutex::new(Rule { asked, since: None, written: None, hours, zone }), file: Mutex::new(file) }
    }

    fn rule(&self) -> MutexGuard<'_, Rule> {
        // Each field is consistent at any time.
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Suspends alarms for this time, at most [`LONGEST`], or until they are resumed if `None`.
    ///
    /// # Errors
    /// If it cannot be stored; it holds until the service stops.
    pub(crate) fn pause(&self, length: Option<Duration>, now: Moment) -> Result<(), FileError> {
        self.ask(length.map_or(Asked::Pause, |length| Asked::Snooze { until: now.steady + length.min(LONGEST) }), now)
    }

    /// Resumes alarms, in the hours of the settings.
    ///
    /// # Errors
    /// If it cannot be stored; it holds until the service stops.
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
            rule.written = Some(now.steady);
        }
        kept::write(&file, asked, now)
    }

    /// Whether the remaining time of a snooze has to be stored again.
    pub(crate) fn is_outdated(&self, now: Moment) -> bool {
        self.rule().is_outdated(now)
    }

    /// Stores the remaining time of a snooze.
    ///
    /// # Errors
    /// If it cannot be stored; it is outdated again after [`REWRITE`].
    pub(crate) fn keep(&self, now: Moment) -> Result<(), FileError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = {
            let mut rule = self.rule();
            rule.written = Some(now.steady);
            rule.asked
        };
        kept::write(&file, asked, now)
    }

    /// The reason why no alarms are raised now; `None` if they are.
    pub(crate) fn off(&self, now: Moment) -> Option<Off> {
        self.rule().off(now)
    }

    /// Whether a frame that was taken at `taken` may count for an alarm now.
    pub(crate) fn counts(&self, taken: Instant, now: Moment) -> bool {
        self.rule().counts(taken, now)
    }

    /// Whether alarms are raised now, and when they resume.
    pub(crate) fn state(&self, now: Moment) -> AlarmState {
        self.rule().state(now)
    }
}

#[cfg(test)]
mod tests;
