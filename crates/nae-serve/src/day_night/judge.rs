//! Which condition holds by the light of the frames: with two levels, and a time for which one of them has to be passed. It is given
//! the times, by the clock that does not jump, so that it depends on none.

use std::time::Instant;

use super::Condition;
use super::rule::Levels;

/// What was seen so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge {
    pub(super) condition: Condition,
    /// Since when all frames that were looked at are of the other condition.
    since: Option<Instant>,
    /// Whether anything was seen, or is known of before: until then the first look decides.
    knows: bool,
}

impl Judge {
    /// With the condition that held before, if that is known.
    pub(super) fn new(before: Option<Condition>) -> Self {
        Self { condition: before.unwrap_or_default(), since: None, knows: before.is_some() }
    }

    /// The same condition, until the first look by other levels.
    pub(super) fn anew(self) -> Self {
        Self { condition: self.condition, since: None, knows: false }
    }

    /// A frame of this value was taken at `at`; whether another condition holds from now on.
    pub(super) fn see(&mut self, levels: &Levels, value: f32, at: Instant) -> bool {
        let knew = std::mem::replace(&mut self.knows, true);
        // What is between the levels is of the condition that holds.
        let Some(other) = levels.says(value).filter(|says| *says != self.condition) else {
            self.since = None;
            return false;
        };
        let since = *self.since.get_or_insert(at);
        if knew && at.saturating_duration_since(since) < levels.hold() {
            return false;
        }
        (self.condition, self.since) = (other, None);
        true
    }
}
