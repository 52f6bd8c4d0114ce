//! The number of connections, in total and per client, so that a client with many does not exclude others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::limits::Client;

/// The maximum number of simultaneous connections, including those that are not encrypted yet.
const ALL: usize = 512;
/// The maximum for one client. A browser has about ten, and many people may share one address.
const OF_ONE: usize = 256;

/// The occupied places.
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Arc<Taken>,
}

/// The number of connections of each client; clients without any are not stored.
#[derive(Default)]
struct Taken(Mutex<HashMap<Client, usize>>);

/// The place of a connection, until it is dropped.
pub(super) struct Place {
    _counted: Option<Counted>,
    _free: Option<OwnedSemaphorePermit>,
}

/// One of the connections of a client.
struct Counted {
    client: Client,
    taken: Arc<Taken>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(ALL)), taken: Arc::default() }
    }

    /// Waits for a place for a connection; `None` if the client has reached its maximum. Without a client, as for a
    /// proxy with many clients, only the total counts.
    pub(super) async fn take(&self, client: Option<Client>) -> Option<Place> {
        let counted = match client {
            Some(client) => Some(self.taken.count(client)?),
            None => None,
        };
        // The semaphore is never closed.
        let free = Arc::clone(&self.free).acquire_owned().await.ok();
        Some(Place { _counted: counted, _free: free })
    }
}

impl Taken {
    fn lock(&self) -> MutexGuard<'_, HashMap<Client, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(self: &Arc<Self>, client: Client) -> Option<Counted> {
        let mut taken = self.lock();
        let number = taken.entry(client).or_default();
        (*number < OF_ONE).then(|| {
            *number += 1;
            Counted { client, taken: Arc::clone(self) }
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(number) = taken.get_mut(&self.client) {
            *number -= 1;
            if *number == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use super::*;

    fn client(number: u8) -> Option<Client> {
        Some(Client::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))))
    }

    #[tokio::test]
    async fn one_client_has_half_of_the_places_and_others_the_rest() {
        let places = Places::new();
        let mut held = Vec::new();
        for _ in 0..OF_ONE {
            held.push(places.take(client(1)).await.unwrap());
        }
        assert!(places.take(client(1)).await.is_none());
        held.push(places.take(client(2)).await.unwrap());
        // A place that was returned can be taken by another client or by the same one.
        held.remove(0);
        held.push(places.take(client(1)).await.unwrap());
        assert!(places.take(client(1)).await.is_none());
        drop(held);
        assert!(places.taken.lock().is_empty(), "nothing is remembered of whoever has gone");
    }

    #[tokio::test]
    async fn there_are_so_many_places_and_whoever_comes_then_waits() {
        let places = Places::new();
        let mut held = Vec::new();
        for number in 0..ALL {
            let proxy = if number % 2 == 0 { None } else { client(number as u8) };
            held.push(places.take(proxy).await.unwrap());
        }
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, places.take(client(250))).await.is_err());
        held.pop();
        assert!(tokio::time::timeout(soon, places.take(client(250))).await.unwrap().is_some());
        assert_eq!(places.taken.lock().get(&client(250).unwrap()), None, "nor of a client that waited without success");
    }
}
