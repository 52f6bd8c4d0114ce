//! The rules that distinguish day from night, and their form in settings and requests.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::hours::WeekHours;
use super::Condition;

/// The default time for which the light has to be beyond a level: longer than headlights pass.
pub(crate) const HOLD: Duration = Duration::from_secs(30);
/// The shortest and the longest permitted time, in seconds.
pub(crate) const HOLDS: (f64, f64) = (0.1, 3600.0);

/// A rule that determines the condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rule {
    /// A condition set by a user.
    Always(Condition),
    /// Night is in these hours of the week.
    Schedule { night: WeekHours, text: String },
    /// The condition follows from a measure of the frames and two levels.
    Light(Measure, Levels),
}

/// The measure of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Brightness,
    Colour,
}

/// Two levels with a range between them in which nothing changes, so that a value near one of them does not switch back
/// and forth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Levels {
    /// Values below this are night.
    below: f32,
    /// Values above this are day.
    above: f32,
    hold: Duration,
}

impl Levels {
    /// # Errors
    /// A description of what was expected.
    pub(crate) fn new(below: f32, above: f32, hold: Duration) -> Result<Self, String> {
        // Also false for NaN.
        if below > 0.0 && below < above && above < 255.0 {
            return Ok(Self { below, above, hold });
        }
        Err("two levels above 0 and below 255, the first the smaller: night is below the first, day above the second"
            .into())
    }

    /// Parses `30-50`.
    ///
    /// # Errors
    /// A description of what was expected.
    pub(crate) fn parse(text: &str, hold: Duration) -> Result<Self, String> {
        let levels = text
            .split_once('-')
            .and_then(|(below, above)| Some((below.trim().parse::<f32>().ok()?, above.trim().parse::<f32>().ok()?)));
        let (below, above) = levels.ok_or_else(|| {
            "two levels of 255 such as `30-50`: night is below the first, day above the second".to_owned()
        })?;
        Self::new(below, above, hold)
    }

    /// The condition of a value; `None` between the levels.
    pub(super) fn says(&self, value: f32) -> Option<Condition> {
        if value < self.below {
            Some(Condition::Night)
        } else if value > self.above {
            Some(Condition::Day)
        } else {
            None
        }
    }

    pub(super) fn hold(&self) -> Duration {
        self.hold
    }
}

/// A rule in JSON: in requests, in answers, and in the file that stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RuleText {
    // The braces make serde refuse unknown fields.
    Day {},
    Night {},
    Schedule {
        night: String,
    },
    Brightness {
        night_below: f32,
        day_above: f32,
        #[serde(default = "usual_hold")]
        hold: f64,
    },
    Colour {
        night_below: f32,
        day_above: f32,
        #[serde(default = "usual_hold")]
        hold: f64,
    },
}

fn usual_hold() -> f64 {
    HOLD.as_secs_f64()
}

impl TryFrom<RuleText> for Rule {
    /// What was expected, and what was found.
    type Error = String;

    fn try_from(text: RuleText) -> Result<Self, String> {
        let levels = |below: f32, above: f32, hold: f64| {
            if !(HOLDS.0..=HOLDS.1).contains(&hold) {
                return Err(format!("`hold`: expected seconds from {} to {}, found {hold}", HOLDS.0, HOLDS.1));
            }
            let found =
                |expected| format!("`night_below` and `day_above`: expected {expected}; found {below}, {above}");
            Levels::new(below, above, Duration::from_secs_f64(hold)).map_err(found)
        };
        Ok(match text {
            RuleText::Day {} => Self::Always(Condition::Day),
            RuleText::Night {} => Self::Always(Condition::Night),
            RuleText::Schedule { night } => {
                let hours = night.parse().map_err(|expected| format!("`night`: expected {expected}"))?;
                Self::Schedule { night: hours, text: night }
            }
            RuleText::Brightness { night_below, day_above, hold } => {
                Self::Light(Measure::Brightness, levels(night_below, day_above, hold)?)
            }
            RuleText::Colour { night_below, day_above, hold } => {
                Self::Light(Measure::Colour, levels(night_below, day_above, hold)?)
            }
        })
    }
}

impl Rule {
    /// Its name, one word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Always(condition) => condition.name(),
            Self::Schedule { .. } => "schedule",
            Self::Light(Measure::Brightness, _) => "brightness",
            Self::Light(Measure::Colour, _) => "colour",
        }
    }

    pub(crate) fn text(&self) -> RuleText {
        match self {
            Self::Always(Condition::Day) => RuleText::Day {},
            Self::Always(Condition::Night) => RuleText::Night {},
            Self::Schedule { text, .. } => RuleText::Schedule { night: text.clone() },
            Self::Light(measure, Levels { below, above, hold }) => {
                let (night_below, day_above, hold) = (*below, *above, hold.as_secs_f64());
                match measure {
                    Measure::Brightness => RuleText::Brightness { night_below, day_above, hold },
                    Measure::Colour => RuleText::Colour { night_below, day_above, hold },
                }
            }
        }
    }
}
