//! Limits a rate: a number of requests at once, and as many again over the period that follows (the generic cell rate
//! algorithm of ITU-T I.371, which stores one instant for each client).

use std::fmt;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::table::Passing;

/// A number of requests in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    count: NonZeroU32,
    period: Duration,
}

impl Rate {
    pub(crate) fn per_second(count: NonZeroU32) -> Self {
        Self { count, period: Duration::from_secs(1) }
    }

    pub(crate) fn per_minute(count: NonZeroU32) -> Self {
        Self { count, period: Duration::from_secs(60) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = if self.period == Duration::from_secs(1) { "second" } else { "minute" };
        write!(f, "{} a {period}", self.count)
    }
}

/// The requests of one client.
pub(super) struct Taken {
    /// The time at which the whole number is available again.
    whole: Instant,
}

impl Taken {
    /// No requests yet.
    pub(super) fn none(now: Instant) -> Self {
        Self { whole: now }
    }

    /// Counts a request, or returns the time to wait for it.
    pub(super) fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let whole = self.whole.max(now) + rate.period / rate.count.get();
        let wait = whole.saturating_duration_since(now + rate.period);
        if wait.is_zero() {
            self.whole = whole;
            Ok(())
        } else {
            Err(wait)
        }
    }
}

impl Passing for Taken {
    fn over(&self) -> Instant {
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_one_more_after_each_part_of_the_time() {
        let (rate, start) = (Rate::per_minute(NonZeroU32::new(6).unwrap()), Instant::now());
        let mut taken = Taken::none(start);
        for _ in 0..6 {
            assert_eq!(taken.take(rate, start), Ok(()));
        }
        assert_eq!(taken.take(rate, start), Err(Duration::from_secs(10)));
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(taken.take(rate, at(9)), Err(Duration::from_secs(1)));
        // A refused request is not counted.
        assert_eq!(taken.take(rate, at(10)), Ok(()));
        assert_eq!(taken.take(rate, at(10)), Err(Duration::from_secs(10)));
        // After a long time, six are available again, not more.
        let served = (0..20).filter(|_| taken.take(rate, at(10_000)).is_ok()).count();
        assert_eq!(served, 6);
        assert_eq!(taken.over(), at(10_060));
        assert_eq!(rate.to_string(), "6 a minute");
    }
}
