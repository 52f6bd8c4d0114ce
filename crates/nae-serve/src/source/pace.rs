//! Limits the rate at which frames are taken. Frames of a camera do not come at exactly equal times: a frame is due one
//! interval after the previous one was due, not after it came, so that a camera whose rate is the limit loses none.

use std::time::{Duration, Instant};

/// When the next frame is due.
pub(super) struct Pace {
    interval: Duration,
    /// `None` before the first frame.
    due: Option<Instant>,
}

impl Pace {
    /// One frame in each interval, in the long run.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, due: None }
    }

    /// The time from `now` until the next frame is due; `None` if it is.
    pub(super) fn early(&self, now: Instant) -> Option<Duration> {
        let early = self.due?.saturating_duration_since(now);
        (!early.is_zero()).then_some(early)
    }

    /// A frame is taken. After a pause, one frame more than in the long run may follow it at once, and no burst.
    pub(super) fn take(&mut self, now: Instant) {
        self.due = Some(self.due.map_or(now + self.interval, |due| (due + self.interval).max(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of frames that are taken of those that come at these times, in milliseconds, at 10 frames a second.
    fn taken(times: impl IntoIterator<Item = u64>) -> usize {
        let (start, mut pace) = (Instant::now(), Pace::new(Duration::from_millis(100)));
        let is_taken = |time: u64| {
            let now = start + Duration::from_millis(time);
            let is_due = pace.early(now).is_none();
            if is_due {
                pace.take(now);
            }
            is_due
        };
        times.into_iter().map(is_taken).filter(|is_taken| *is_taken).count()
    }

    /// From 0 to 20 milliseconds, in no order.
    fn jitter(number: u64) -> u64 {
        number * 10 % 21
    }

    #[test]
    fn a_camera_of_the_permitted_rate_loses_no_frame_however_they_jitter() {
        assert_eq!(taken((0..1000).map(|n| 100 * n)), 1000);
        for first in 0..21 {
            let kept = taken((0..1000).map(|n| 100 * n + jitter(n + first)));
            assert!(kept >= 999, "{kept} from {first} on: none but the second, after a first one that came late");
        }
        // As if they came by two, as small ones may over a network.
        let kept = taken((0..1000).map(|n| 200 * (n / 2) + n % 2));
        assert!(kept >= 999, "{kept}");
    }

    #[test]
    fn of_a_faster_camera_as_many_are_taken_as_are_permitted() {
        assert_eq!(taken((0..1000).map(|n| 50 * n)), 500);
        for (spacing, expected) in [(50, 500), (40, 400), (10, 100), (90, 900)] {
            let kept = taken((0..1000).map(|n| spacing * n + jitter(n)));
            assert!(kept.abs_diff(expected) <= 2, "{kept} of 1000, one each {spacing} ms");
        }
    }

    #[test]
    fn after_a_pause_no_burst_is_taken() {
        // Two seconds without a frame, then 20 at once, then as before.
        let times = (0..10).map(|n| 100 * n).chain((0..20).map(|n| 3000 + n)).chain((31..41).map(|n| 100 * n));
        assert_eq!(taken(times), 10 + 2 + 10);
    }

    #[test]
    fn without_a_limit_all_are_taken() {
        let now = Instant::now();
        let mut pace = Pace::new(Duration::ZERO);
        for _ in 0..10 {
            assert_eq!(pace.early(now), None);
            pace.take(now);
        }
    }
}
