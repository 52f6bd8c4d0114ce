//! The wrong tokens of one client, and the time for which its tokens are then ignored.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::table::Passing;

/// The first lock-out, which doubles with each wrong token, and the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// After this time without a wrong token, the count starts over.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// The number of wrong tokens that are remembered: repeating one of them is not another guess, but a program that has
/// not received a new token.
const KNOWN: usize = 4;

/// The wrong tokens of a client, hashed with a random key of the process.
pub(super) struct Guesses {
    wrong: u32,
    known: [Option<u64>; KNOWN],
    last: Instant,
    locked: Instant,
}

impl Guesses {
    /// No wrong token yet.
    pub(super) fn none(now: Instant) -> Self {
        Self { wrong: 0, known: [None; KNOWN], last: now, locked: now }
    }

    /// The remaining time of a lock-out, if there is one.
    pub(super) fn locked(&self, now: Instant) -> Option<Duration> {
        Some(self.locked.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Counts a wrong token. Returns the lock-out that begins, from wrong token number `free` on.
    pub(super) fn wrong(&mut self, token: u64, free: NonZeroU32, now: Instant) -> Option<Duration> {
        if now >= self.over() {
            *self = Self::none(now);
        }
        if self.known.contains(&Some(token)) {
            return None;
        }
        self.known.rotate_right(1);
        self.known[0] = Some(token);
        self.wrong = self.wrong.saturating_add(1);
        self.last = now;
        let doubled = self.wrong.checked_sub(free.get())?;
        let lock_out = SHORTEST.saturating_mul(1 << doubled.min(16)).min(LONGEST);
        self.locked = now + lock_out;
        Some(lock_out)
    }
}

impl Passing for Guesses {
    fn over(&self) -> Instant {
        self.last + FORGOTTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_outs_begin_with_the_fifth_and_double_to_five_minutes() {
        let (free, mut now) = (NonZeroU32::new(5).unwrap(), Instant::now());
        let mut guesses = Guesses::none(now);
        let mut lock_outs = Vec::new();
        for token in 0..15 {
            assert_eq!(guesses.locked(now), None);
            let lock_out = guesses.wrong(token, free, now);
            assert_eq!(guesses.locked(now), lock_out, "after {token}");
            lock_outs.push(lock_out.map_or(0, |lock_out| lock_out.as_secs()));
            now += lock_out.unwrap_or_default();
        }
        assert_eq!(lock_outs, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        // An hour later, the count starts over.
        assert_eq!(guesses.wrong(99, free, now + FORGOTTEN), None);
    }

    #[test]
    fn a_token_that_is_sent_again_is_no_other_guess() {
        let (free, now) = (NonZeroU32::new(3).unwrap(), Instant::now());
        let mut guesses = Guesses::none(now);
        for _ in 0..100 {
            // Two programs with old tokens.
            assert_eq!((guesses.wrong(7, free, now), guesses.wrong(8, free, now)), (None, None));
        }
        assert_eq!(guesses.wrong(9, free, now), Some(SHORTEST));
    }
}
