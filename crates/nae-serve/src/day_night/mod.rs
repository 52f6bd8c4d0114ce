//! Determines whether it is day or night at a camera, so that each can have its own model: by hours, by the light of
//! the frames, or as a user sets it. `rule` has the possible rules, `light` measures a frame, `judge` decides by the
//! light, `kept` stores the state on disk. The rules receive times as arguments, so that they do not depend on a clock.
//! `in_use` determines which model is used.

mod judge;
mod kept;
mod light;
mod rule;

use std::fmt;
use std::ops::{Index, IndexMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use jiff::tz::TimeZone;
use nae_infer::input::decode;
use nae_onnx::file::FileError;
use serde::{Deserialize, Serialize};

use super::hours;
use super::quiet::Moment;
use judge::Judge;
use kept::Kept;
pub(crate) use light::Light;
pub(crate) use rule::{HOLD, HOLDS, Levels, Measure, Rule, RuleText};

/// The minimum time between two frames whose light is measured, since decoding one may take as long as scoring it.
const LOOK: Duration = Duration::from_secs(1);

/// A condition of a camera's scene, each with its own model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    #[default]
    Day,
    Night,
}

impl Condition {
    pub(crate) const ALL: [Self; 2] = [Self::Day, Self::Night];

    /// Its name, one word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Night => "night",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value for each of the two conditions.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerCondition<T> {
    pub(crate) day: T,
    pub(crate) night: T,
}

impl<T> Index<Condition> for PerCondition<T> {
    type Output = T;

    fn index(&self, condition: Condition) -> &T {
        match condition {
            Condition::Day => &self.day,
            Condition::Night => &self.night,
        }
    }
}

impl<T> IndexMut<Condition> for PerCondition<T> {
    fn index_mut(&mut self, condition: Condition) -> &mut T {
        match condition {
            Condition::Day => &mut self.day,
            Condition::Night => &mut self.night,
        }
    }
}

/// The current condition and the rule that determined it, by [`Rule::name`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    pub(crate) condition: Condition,
    pub(crate) by: &'static str,
}

/// The state of day and night, as clients receive it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DayNightState {
    /// The current condition.
    pub(crate) condition: Condition,
    /// The condition whose model is in use: that of the day also at night, if there is none for the night.
    pub(crate) model_for: Condition,
    /// The rule: `schedule`, `brightness`, `colour`, or the condition set by a user, `day` or `night`.
    pub(crate) by: &'static str,
    /// The reason why there is no model for the night.
    pub(crate) night_model_missing: Option<String>,
}

/// The origin of the rule in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// The settings.
    Settings,
    /// A user set it on the page or by HTTP.
    Kept,
}

/// Distinguishes day from night at a camera, and stores the rule that a user set.
pub(crate) struct DayNight {
    of_settings: Option<Rule>,
    state: Mutex<State>,
    /// Locked while the file is written, so that the last state is in it; frames do not wait for the disk.
    file: Mutex<PathBuf>,
}

/// A measurement of a frame, which ends when this is dropped.
struct Look(Arc<DayNight>);

impl Drop for Look {
    fn drop(&mut self) {
        self.0.lock().looking = false;
    }
}

struct State {
    /// The rule that replaces that of the settings.
    set: Option<Rule>,
    judge: Judge,
    /// The light of the last measured frame.
    light: Option<Light>,
    /// When the last measured frame was taken; the next field: whether a measurement is in progress.
    looked: Option<Instant>,
    looking: bool,
    /// The time zone of the hours; determined when hours are first needed.
    zone: Option<TimeZone>,
    /// Whether the condition differs from that on disk.
    changed: bool,
}

impl State {
    fn rule<'a>(&'a self, of_settings: &'a Option<Rule>) -> Option<&'a Rule> {
        self.set.as_ref().or(of_settings.as_ref())
    }

    /// The state to store. Only the rule by light needs the previous condition.
    fn kept(&self, of_settings: &Option<Rule>) -> Kept {
        let by_light = matches!(self.rule(of_settings), Some(Rule::Light(..)));
        Kept { rule: self.set.clone(), condition: by_light.then_some(self.judge.condition) }
    }
}

impl DayNight {
    /// Opens the state stored in `folder`; the rule is that of the settings if none is stored. A file that cannot be
    /// read is treated as missing.
    pub(crate) fn open(folder: &Path, of_settings: Option<Rule>) -> Self {
        let file = folder.join("day-night.json");
        let kept = kept::read(&file).unwrap_or_else(|error| {
            tracing::error!(error, "what was set of day and night is not known: the settings hold");
            Kept::default()
        });
        if let Some(rule) = &kept.rule {
            tracing::info!(
                by = rule.name(),
                "day and night are told as was set on the page or by HTTP, whatever the settings say"
            );
        }
        let judge = Judge::new(kept.condition);
        let state =
            State { set: kept.rule, judge, light: None, looked: None, looking: false, zone: None, changed: false };
        Self { of_settings, state: Mutex::new(state), file: Mutex::new(file) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is consistent at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rule and its origin; `None` if day and night are not distinguished.
    pub(crate) fn rule(&self) -> Option<(Rule, Origin)> {
        let state = self.lock();
        let origin = if state.set.is_some() { Origin::Kept } else { Origin::Settings };
        state.rule(&self.of_settings).cloned().map(|rule| (rule, origin))
    }

    /// The current condition; `None` if the two are not distinguished.
    pub(crate) fn standing(&self, now: Moment) -> Option<Standing> {
        self.standing_in(now, hours::local_zone)
    }

    /// The same with a time zone that is requested only once.
    fn standing_in(&self, now: Moment, zone: impl FnOnce() -> TimeZone) -> Option<Standing> {
        let mut state = self.lock();
        let rule = state.rule(&self.of_settings)?.clone();
        let condition = match &rule {
            Rule::Always(condition) => *condition,
            Rule::Schedule { night, .. } => {
                let local = state.zone.get_or_insert_with(zone).to_datetime(now.wall);
                if night.contain(local) { Condition::Night } else { Condition::Day }
            }
            Rule::Light(..) => state.judge.condition,
        };
        Some(Standing { condition, by: rule.name() })
    }

    /// Measures the light of a frame if the rule needs that and enough time has passed. This takes place in a separate
    /// thread: frames do not wait for it, and a decoder that hangs or panics does not stop the camera.
    pub(crate) fn look(self: &Arc<Self>, image: &Bytes, taken: Instant) {
        let Some(look) = self.begin_look(taken) else { return };
        let image = image.clone();
        let work = move || {
            // A frame that cannot be decoded has no light; scoring reports the error.
            if let Ok(pixels) = decode(&image)
                && let Some(light) = Light::of(&pixels)
            {
                look.0.see(light, taken);
            }
        };
        // If the system cannot start a thread, the next frame tries again.
        let _ = thread::Builder::new().name("light".into()).spawn(work);
    }

    /// Starts a measurement if none is in progress and enough time has passed; `None` otherwise, or if the rule does
    /// not need the light.
    fn begin_look(self: &Arc<Self>, taken: Instant) -> Option<Look> {
        let mut state = self.lock();
        let due = state.looked.is_none_or(|last| taken.saturating_duration_since(last) >= LOOK);
        if state.looking || !due || !matches!(state.rule(&self.of_settings), Some(Rule::Light(..))) {
            return None;
        }
        (state.looking, state.looked) = (true, Some(taken));
        Some(Look(Arc::clone(self)))
    }

    /// Takes the measured light of a frame.
    fn see(&self, light: Light, taken: Instant) {
        let mut state = self.lock();
        let Some(Rule::Light(measure, levels)) = state.rule(&self.of_settings) else { return };
        let value = match measure {
            Measure::Brightness => light.brightness,
            Measure::Colour => light.colour,
        };
        let levels = *levels;
        state.light = Some(light);
        state.changed |= state.judge.see(&levels, value, taken);
    }

    /// The light of the last measured frame.
    pub(crate) fn light(&self) -> Option<Light> {
        self.lock().light
    }

    /// Sets the rule from now on; `None` restores that of the settings.
    ///
    /// # Errors
    /// If it cannot be stored; it holds until the service stops.
    pub(crate) fn set(&self, rule: Option<Rule>) -> Result<(), FileError> {
        {
            let mut state = self.lock();
            if state.rule(&self.of_settings) != rule.as_ref().or(self.of_settings.as_ref()) {
                // With another rule, the first frame decides; until then, the condition stays.
                state.judge = state.judge.restarted();
                (state.light, state.looked) = (None, None);
            }
            state.set = rule;
            state.changed = true;
        }
        self.keep()
    }

    /// Stores the current condition, if it differs from that on disk.
    ///
    /// # Errors
    /// If it cannot be stored; the next call tries again.
    pub(crate) fn keep(&self) -> Result<(), FileError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = {
            let mut state = self.lock();
            if !std::mem::take(&mut state.changed) {
                return Ok(());
            }
            state.kept(&self.of_settings)
        };
        kept::write(&file, &kept).inspect_err(|_| self.lock().changed = true)
    }

    /// Whether the state has to be stored.
    pub(crate) fn has_changed(&self) -> bool {
        self.lock().changed
    }
}

#[cfg(test)]
mod tests;
