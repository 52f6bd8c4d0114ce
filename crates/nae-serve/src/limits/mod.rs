//! How much one client may ask: wrong tokens, changes, scores. What is remembered of clients has a bound, however many there
//! are. Not here: who a client is when a proxy asks for it (`http`), and what it is answered.

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

/// Clients that each limit remembers: some hundred kilobytes.
const CLIENTS: usize = 4096;

/// What is limited; none is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LimitSettings {
    /// Wrong tokens from which on a client has to wait.
    pub(crate) wrong_tokens: Option<NonZeroU32>,
    /// Requests that change something.
    pub(crate) changes: Option<Rate>,
    /// Requests that have something scored.
    pub(crate) scores: Option<Rate>,
}

/// What is remembered of all clients.
pub(crate) struct Limits {
    settings: LimitSettings,
    guesses: Mutex<Table<Guesses>>,
    changes: Mutex<Table<Taken>>,
    scores: Mutex<Table<Taken>>,
    hashed: RandomState,
}

/// What became of a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tried<T> {
    /// It is one of the service's.
    Right(T),
    /// It is not; with the lock-out that begins.
    Wrong(Option<Duration>),
    /// Nobody looked at it, and nobody will for so long.
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

    /// Has a token looked at, unless too many of the client's were wrong. Then the right one is not looked at either: else
    /// whoever guesses would go on, and know the right one by the answer.
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
        // Held meanwhile, so that guesses side by side are counted one by one.
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

    /// Takes one of the changes that a client may make.
    ///
    /// # Errors
    /// What is allowed, and how long to wait.
    pub(crate) fn change(&self, client: Client, now: Instant) -> Result<(), (Rate, Duration)> {
        take(&self.changes, self.settings.changes, client, now)
    }

    /// Takes one of the requests to score that a client may send.
    ///
    /// # Errors
    /// What is allowed, and how long to wait.
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
