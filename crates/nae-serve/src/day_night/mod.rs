//! Whether it is day or night at a camera, so that each may have a model of its own: by hours, by the light of its frames, or as
//! somebody says. `rule` is by what it is decided, `light` what is measured of a frame, `judge` how that decides, `kept` what is on
//! disk. The rules are given the times, so that they do not depend on a clock. Which model is in use then is `in_use`'s matter.

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

/// The least time between two frames whose light is measured: to decode one may take as long as to score it.
const LOOK: Duration = Duration::from_secs(1);

/// What a camera sees, and the model that is for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    #[default]
    Day,
    Night,
}

impl Condition {
    pub(crate) const ALL: [Self; 2] = [Self::Day, Self::Night];

    /// One word.
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

/// Something that each of the two has for itself.
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

/// The condition that holds, and by what: a word of [`Rule::name`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    pub(crate) condition: Condition,
    pub(crate) by: &'static str,
}

/// How it is between day and night, as clients are told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DayNightState {
    /// What holds.
    pub(crate) condition: Condition,
    /// Whose model is in use: that of the day also at night, where there is none for the night.
    pub(crate) model_for: Condition,
    /// By what it is told: `schedule`, `brightness`, `colour`, or somebody's word, `day` or `night`.
    pub(crate) by: &'static str,
    /// Why there is no model for the night.
    pub(crate) night_model_missing: Option<String>,
}

/// Where the rule in use is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// The settings.
    Settings,
    /// Somebody set it on the page or by HTTP.
    Kept,
}

/// What tells day from night at a camera, and what was set, which is kept.
pub(crate) struct DayNight {
    of_settings: Option<Rule>,
    state: Mutex<State>,
    /// Locked while it is written, so that it has what was last; frames do not wait for the disk.
    file: Mutex<PathBuf>,
}

/// A look at a frame, until it is dropped.
struct Look(Arc<DayNight>);

impl Drop for Look {
    fn drop(&mut self) {
        self.0.lock().looking = false;
    }
}

struct State {
    /// In place of that of the settings.
    set: Option<Rule>,
    judge: Judge,
    /// Of the last frame that was measured.
    light: Option<Light>,
    /// When the last frame that was looked at was taken, and whether that goes on.
    looked: Option<Instant>,
    looking: bool,
    /// By which the hours are; asked for where there are some.
    zone: Option<TimeZone>,
    /// The condition is another than that on disk.
    changed: bool,
}

impl State {
    fn rule<'a>(&'a self, of_settings: &'a Option<Rule>) -> Option<&'a Rule> {
        self.set.as_ref().or(of_settings.as_ref())
    }

    /// What is to be on disk. Only the light has anything to be known of before.
    fn kept(&self, of_settings: &Option<Rule>) -> Kept {
        let by_light = matches!(self.rule(of_settings), Some(Rule::Light(..)));
        Kept { rule: self.set.clone(), condition: by_light.then_some(self.judge.condition) }
    }
}

impl DayNight {
    /// As what is kept in `folder` says, or else the settings. What is kept and cannot be read is as if it were not.
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
        // Each of its fields is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what day and night are told, and where that is from; none where they are not told apart.
    pub(crate) fn rule(&self) -> Option<(Rule, Origin)> {
        let state = self.lock();
        let origin = if state.set.is_some() { Origin::Kept } else { Origin::Settings };
        state.rule(&self.of_settings).cloned().map(|rule| (rule, origin))
    }

    /// Which condition holds; none where the two are not told apart.
    pub(crate) fn standing(&self, now: Moment) -> Option<Standing> {
        self.standing_in(now, hours::local_zone)
    }

    /// The same in a zone that is asked for once.
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

    /// Measures the light of a frame, where that decides and it is time to, in a thread of its own: frames do not wait for it, and a
    /// decoder that does not return from one, or panics, is not the end of the camera.
    pub(crate) fn look(self: &Arc<Self>, image: &Bytes, taken: Instant) {
        let Some(look) = self.begin_look(taken) else { return };
        let image = image.clone();
        let work = move || {
            // One that cannot be read says nothing of the light; scoring says so.
            if let Ok(pixels) = decode(&image)
                && let Some(light) = Light::of(&pixels)
            {
                look.0.see(light, taken);
            }
        };
        // Where the system gives no thread, the next frame asks again.
        let _ = thread::Builder::new().name("light".into()).spawn(work);
    }

    /// One look at a time, and not at every frame; none where the light does not decide.
    fn begin_look(self: &Arc<Self>, taken: Instant) -> Option<Look> {
        let mut state = self.lock();
        let due = state.looked.is_none_or(|last| taken.saturating_duration_since(last) >= LOOK);
        if state.looking || !due || !matches!(state.rule(&self.of_settings), Some(Rule::Light(..))) {
            return None;
        }
        (state.looking, state.looked) = (true, Some(taken));
        Some(Look(Arc::clone(self)))
    }

    /// Takes the light of such a frame.
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

    /// The light of the last frame that was measured.
    pub(crate) fn light(&self) -> Option<Light> {
        self.lock().light
    }

    /// Tells day from night by this rule from now on, or by that of the settings.
    ///
    /// # Errors
    /// It cannot be kept, and holds until the service stops.
    pub(crate) fn set(&self, rule: Option<Rule>) -> Result<(), FileError> {
        {
            let mut state = self.lock();
            if state.rule(&self.of_settings) != rule.as_ref().or(self.of_settings.as_ref()) {
                // The first look by another rule decides; until then it is as it was.
                state.judge = state.judge.anew();
                (state.light, state.looked) = (None, None);
            }
            state.set = rule;
            state.changed = true;
        }
        self.keep()
    }

    /// Brings to disk which condition holds, where that is another than there.
    ///
    /// # Errors
    /// It cannot be kept; it is tried again.
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

    /// Whether there is something to bring to disk.
    pub(crate) fn has_changed(&self) -> bool {
        self.lock().changed
    }
}

#[cfg(test)]
mod tests;
