//! Determines the condition from the light of the frames, with two levels and a time for which one of them has to be
//! passed. Times are arguments, from the monotonic clock, so that no clock is needed here.

use std::time::Instant;

use super::Condition;
use super::rule::Levels;

/// The state of the decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge {
    pub(super) condition: Condition,
    /// The time since which all measured frames belong to the other condition.
    since: Option<Instant>,
    /// Whether a frame was measured, or the condition is known from before; otherwise, the first frame decides.
    knows: bool,
}

impl Judge {
    /// Starts with the condition that held before, if it is known.
    pub(super) fn new(before: Option<Condition>) -> Self {
        Self { condition: before.unwrap_or_default(), since: None, knows: before.is_some() }
    }

    /// Keeps the condition until the first frame is measured with other levels.
    pub(super) fn restarted(self) -> Self {
        Self { condition: self.condition, since: None, knows: false }
    }

    /// Takes the value of a frame taken at `at`. Returns whether another condition holds from now on.
    pub(super) fn see(&mut self, levels: &Levels, value: f32, at: Instant) -> bool {
        let knew = std::mem::replace(&mut self.knows, true);
        // A value between the levels belongs to the current condition.
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
