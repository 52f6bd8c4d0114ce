//! Limits of what one client may request: wrong tokens, changes, scores. The memory for clients is bounded, however
//! many there are. `http` determines the client of a forwarded request, and sends the answer.

mod client;
mod guesses;
mod rate;
mod table;

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use client::Client;
use guesses::Guesses;
pub(crate) use rate::Rate;
use rate::Taken;
use table::Table;

/// The number of clients that each limit remembers, which takes some hundred kilobytes.
const CLIENTS: usize = 4096;

/// The limits; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LimitSettings {
    /// The number of wrong tokens from which on a client is locked out.
    pub(crate) wrong_tokens: Option<NonZeroU32>,
    /// Requests that change something.
    pub(crate) changes: Option<Rate>,
    /// Requests that score images.
    pub(crate) scores: Option<Rate>,
}

/// The state of all clients.
pub(crate) struct Limits {
    settings: LimitSettings,
    guesses: Mutex<Table<Guesses>>,
    changes: Mutex<Table<Taken>>,
    scores: Mutex<Table<Taken>>,
    hashed: RandomState,
}

/// The result of checking a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tried<T> {
    /// The token is valid.
    Right(T),
    /// The token is wrong; with the lock-out that begins, if any.
    Wrong(Option<Duration>),
    /// The token was not checked; with the remaining time of the lock-out.
    Locked(Duration),
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings) -> Self {
        Self {
            settings,
            guesses: Mutex::new(Table::new(CLIENTS)),
            changes: Mutex::new(Table::new(CLIENTS)),
            scores: Mutex::new(Table::new(CLIENTS)),
            hashed: RandomState::new(),
        }
    }

    /// Checks a token, unless the client is locked out. During a lock-out, a valid token is not accepted either:
    /// otherwise, an attacker could continue to guess, and recognize the valid token by the answer.
    pub(crate) fn token<T>(
        &self,
        client: Client,
        given: &str,
        now: Instant,
        look: impl FnOnce(&str) -> Option<T>,
    ) -> Tried<T> {
        let Some(free) = self.settings.wrong_tokens else {
            return look(given).map_or(Tried::Wrong(None), Tried::Right);
        };
        // The lock is held during the check, so that simultaneous guesses are counted one by one.
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = guesses.get(client).and_then(|guesses| guesses.locked(now)) {
            return Tried::Locked(left);
        }
        if let Some(right) = look(given) {
            return Tried::Right(right);
        }
        let guesses = guesses.of(client, now, || Guesses::none(now));
        Tried::Wrong(guesses.wrong(self.hashed.hash_one(given), free, now))
    }

    /// Counts a change by a client.
    ///
    /// # Errors
    /// The limit and the time to wait if the limit is reached.
    pub(crate) fn change(&self, client: Client, now: Instant) -> Result<(), (Rate, Duration)> {
        take(&self.changes, self.settings.changes, client, now)
    }

    /// Counts a scoring request of a client.
    ///
    /// # Errors
    /// The limit and the time to wait if the limit is reached.
    pub(crate) fn score(&self, client: Client, now: Instant) -> Result<(), (Rate, Duration)> {
        take(&self.scores, self.settings.scores, client, now)
    }
}

fn take(of: &Mutex<Table<Taken>>, rate: Option<Rate>, client: Client, now: Instant) -> Result<(), (Rate, Duration)> {
    let Some(rate) = rate else { return Ok(()) };
    let mut of = of.lock().unwrap_or_else(PoisonError::into_inner);
    of.of(client, now, || Taken::none(now)).take(rate, now).map_err(|wait| (rate, wait))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(number: u32) -> Client {
        Client::from(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    fn look(given: &str) -> Option<()> {
        (given == "right").then_some(())
    }

    #[test]
    fn after_wrong_tokens_the_right_one_of_the_same_client_waits_and_another_clients_does_not() {
        let settings = LimitSettings { wrong_tokens: NonZeroU32::new(2), ..LimitSettings::default() };
        let (limits, now) = (Limits::new(settings), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(limits.token(client(1), "a", now, look), Tried::Wrong(None));
        assert_eq!(limits.token(client(1), "right", now, look), Tried::Right(()), "it does not take the others back");
        assert_eq!(limits.token(client(1), "b", now, look), Tried::Wrong(Some(second)));
        assert_eq!(limits.token(client(1), "right", now, look), Tried::Locked(second));
        assert_eq!(limits.token(client(2), "right", now, look), Tried::Right(()));
        assert_eq!(limits.token(client(1), "right", now + second, look), Tried::Right(()));
        let off = Limits::new(LimitSettings::default());
        for number in 0..1000 {
            assert_eq!(off.token(client(1), &number.to_string(), now, look), Tried::Wrong(None));
        }
    }

    #[test]
    fn changes_and_scores_are_counted_apart_and_for_each_client() {
        let two = NonZeroU32::new(2).map(Rate::per_second);
        let settings = LimitSettings { wrong_tokens: None, changes: two, scores: two };
        let (limits, now) = (Limits::new(settings), Instant::now());
        for _ in 0..2 {
            assert_eq!((limits.change(client(1), now), limits.score(client(1), now)), (Ok(()), Ok(())));
        }
        let refused = Err((two.unwrap(), Duration::from_millis(500)));
        assert_eq!((limits.change(client(1), now), limits.score(client(1), now)), (refused, refused));
        assert_eq!((limits.change(client(2), now), limits.score(client(2), now)), (Ok(()), Ok(())));
        let off = Limits::new(LimitSettings::default());
        assert!((0..1000).all(|_| off.change(client(1), now).is_ok() && off.score(client(1), now).is_ok()));
    }
}
