//! The state of clients, in memory that does not grow with their number.

use std::collections::HashMap;
use std::time::Instant;

use super::client::Client;

/// A value that expires.
pub(super) trait Passing {
    /// The time at which the value has no effect any more.
    fn over(&self) -> Instant;
}

/// Values of a bounded number of clients. If there are more, the one that expires first is removed: other clients are
/// still served, and a limit for each address would not restrict a client with more addresses than that anyway.
pub(super) struct Table<V> {
    of: HashMap<Client, V>,
    most: usize,
}

impl<V: Passing> Table<V> {
    pub(super) fn new(most: usize) -> Self {
        Self { of: HashMap::new(), most }
    }

    pub(super) fn get(&self, client: Client) -> Option<&V> {
        self.of.get(&client)
    }

    /// The value of the client, or `new`.
    pub(super) fn of(&mut self, client: Client, now: Instant, new: impl FnOnce() -> V) -> &mut V {
        if !self.of.contains_key(&client) && self.of.len() >= self.most {
            self.make_room(now);
        }
        self.of.entry(client).or_insert_with(new)
    }

    fn make_room(&mut self, now: Instant) {
        self.of.retain(|_, value| value.over() > now);
        if self.of.len() < self.most {
            return;
        }
        if let Some(first) = self.of.iter().min_by_key(|(_, value)| value.over()).map(|(client, _)| *client) {
            self.of.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use super::*;

    struct Until(Instant);

    impl Passing for Until {
        fn over(&self) -> Instant {
            self.0
        }
    }

    fn client(number: u32) -> Client {
        Client::from(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn many_clients_take_no_more_room() {
        let (mut table, now) = (Table::new(8), Instant::now());
        // The first value expires last.
        table.of(client(0), now, || Until(now + Duration::from_secs(1000)));
        for number in 1..10_000 {
            table.of(client(number), now, || Until(now + Duration::from_millis(u64::from(number))));
            assert!(table.of.len() <= 8);
        }
        assert!(table.get(client(0)).is_some() && table.get(client(9_999)).is_some());
        assert!(table.get(client(1)).is_none());
    }

    #[test]
    fn what_is_over_goes_first_and_all_of_it() {
        let (mut table, now) = (Table::new(3), Instant::now());
        let later = now + Duration::from_secs(10);
        table.of(client(1), now, || Until(later + Duration::from_secs(1)));
        table.of(client(2), now, || Until(later));
        table.of(client(3), now, || Until(now));
        table.of(client(4), later, || Until(later + Duration::from_secs(9)));
        assert_eq!([1, 2, 3, 4].map(|number| table.get(client(number)).is_some()), [true, false, false, true]);
    }
}
