//! Which frames that were not scored are logged: a camera of 25 frames a second would otherwise write as many lines. The
//! first frame of each reason is logged, then at most one line a minute with the number of frames.

use std::time::{Duration, Instant};

/// The minimum time between two lines about reasons that were logged before; and how long frames have to be scored
/// before that is logged, since a camera may also send a damaged frame now and then.
const MINUTE: Duration = Duration::from_secs(60);
/// The maximum number of reasons with a line of their own: some contain numbers that differ from frame to frame.
const REASONS: usize = 8;

/// The failures since frames were last scored for a minute.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The reasons that were logged.
    reasons: Vec<String>,
    /// The number of frames that are in no line yet.
    untold: u64,
    /// The time of the last line about several frames, or of the first failure.
    told: Option<Instant>,
    last: Option<Instant>,
}

/// A line of the log.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// A frame was not scored, for a reason that was not logged before.
    One,
    /// This number of frames were not scored.
    Several(u64),
    /// Frames are scored again; this number of frames that were not are in no line yet.
    Again(u64),
}

impl Failures {
    /// Takes a frame that was not scored.
    pub(super) fn failed(&mut self, reason: &str, now: Instant) -> Option<Line> {
        self.last = Some(now);
        let told = *self.told.get_or_insert(now);
        if self.reasons.len() < REASONS && self.reasons.iter().all(|logged| logged != reason) {
            self.reasons.push(reason.to_owned());
            return Some(Line::One);
        }
        self.untold += 1;
        if now.saturating_duration_since(told) < MINUTE {
            return None;
        }
        self.told = Some(now);
        Some(Line::Several(std::mem::take(&mut self.untold)))
    }

    /// Takes a frame that was scored.
    pub(super) fn scored(&mut self, now: Instant) -> Option<Line> {
        let last = self.last?;
        if now.saturating_duration_since(last) < MINUTE {
            return None;
        }
        Some(Line::Again(std::mem::take(self).untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time for each frame of a camera of 25 frames a second.
    fn frames(seconds: u64) -> impl Iterator<Item = Instant> {
        let begin = Instant::now();
        (0..25 * seconds).map(move |number| begin + Duration::from_millis(40 * number))
    }

    #[test]
    fn a_reason_is_logged_once_and_then_the_number_of_frames_each_minute() {
        let mut failures = Failures::default();
        let lines: Vec<_> = frames(181).filter_map(|now| failures.failed("hidden", now)).collect();
        assert_eq!(lines, [Line::One, Line::Several(1500), Line::Several(1500), Line::Several(1500)]);
    }

    #[test]
    fn another_reason_is_logged_at_once_but_not_any_number_of_them() {
        let mut failures = Failures::default();
        let reason = |number: usize| format!("damaged at byte {number}");
        let lines: Vec<_> = frames(61).enumerate().map(|(n, now)| failures.failed(&reason(n), now)).collect();
        let of_one = lines.iter().filter(|line| **line == Some(Line::One)).count();
        assert_eq!((of_one, lines.iter().flatten().count()), (REASONS, REASONS + 1));
    }

    #[test]
    fn frames_are_scored_again_once_they_are_scored_for_a_minute() {
        let mut failures = Failures::default();
        // Every second frame is damaged.
        let alternating = frames(59).enumerate();
        let lines: Vec<_> = alternating
            .filter_map(|(n, now)| if n % 2 == 0 { failures.failed("cut", now) } else { failures.scored(now) })
            .collect();
        assert_eq!(lines, [Line::One]);
        let begin = Instant::now();
        let mut failures = Failures::default();
        assert_eq!(failures.failed("cut", begin), Some(Line::One));
        assert_eq!(failures.failed("cut", begin), None);
        let lines: Vec<_> = (1..1000).filter_map(|second| failures.scored(begin + second * MINUTE / 60)).collect();
        assert_eq!(lines, [Line::Again(1)]);
        assert_eq!(failures.failed("cut", begin + 20 * MINUTE), Some(Line::One));
    }
}
