//! A bounded queue between threads. When it is full, the oldest item makes room (frames of a camera: the
//! newest matters), or whoever brings the new one waits (files: they do not run away), or is refused
//! (requests: their sender is told).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A bounded queue between threads, with a rule for when it is full.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// The queue was full, or closed; the item comes back.
#[derive(Debug)]
pub(crate) enum Refused<T> {
    /// No room.
    Full(T),
    /// Nothing is taken any more.
    Closed(T),
}

impl<T> Queue<T> {
    /// An empty queue of at most `capacity` items.
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State { items: VecDeque::with_capacity(capacity.min(1024)), closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), capacity }
    }

    /// Nothing in here panics while it holds the lock, and half-done changes cannot be seen.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an item at the end; the oldest is dropped and given back where there is no room. On a
    /// closed queue the item itself comes back.
    pub(crate) fn push_dropping(&self, item: T) -> Option<T> {
        let mut state = self.lock();
        if state.closed {
            return Some(item);
        }
        let dropped = if state.items.len() >= self.capacity { state.items.pop_front() } else { None };
        state.items.push_back(item);
        self.changed.notify_all();
        dropped
    }

    /// Waits for room and puts an item at the end; a closed queue drops it.
    pub(crate) fn push_waiting(&self, item: T) {
        let mut state = self.lock();
        while state.items.len() >= self.capacity && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.closed {
            state.items.push_back(item);
            self.changed.notify_all();
        }
    }

    /// Puts an item at the end, if there is room.
    pub(crate) fn push(&self, item: T) -> Result<(), Refused<T>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refused::Closed(item));
        }
        if state.items.len() >= self.capacity {
            return Err(Refused::Full(item));
        }
        state.items.push_back(item);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for an item and takes it, with those behind it up to `most`; empty once the queue is closed
    /// and drained.
    pub(crate) fn pop_up_to(&self, most: usize) -> Vec<T> {
        let mut state = self.lock();
        while state.items.is_empty() && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.items.len().min(most);
        let items = state.items.drain(..count).collect();
        self.changed.notify_all();
        items
    }

    /// Waits for an item; `None` once the queue is closed and drained.
    pub(crate) fn pop(&self) -> Option<T> {
        self.pop_up_to(1).pop()
    }

    /// Items that wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Takes no more items; those that wait are still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until the queue is closed, for at most `time`; says whether it is.
    pub(crate) fn wait_closed(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while !state.closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn the_oldest_makes_room_or_the_newest_is_refused() {
        let queue = Queue::new(2);
        assert_eq!([1, 2, 3].map(|i| queue.push_dropping(i)), [None, None, Some(1)]);
        assert!(matches!(queue.push(4), Err(Refused::Full(4))));
        assert_eq!(queue.pop_up_to(8), [2, 3]);
        queue.push(5).unwrap();
        queue.close();
        assert!(matches!(queue.push(6), Err(Refused::Closed(6))));
        assert_eq!(queue.push_dropping(7), Some(7));
        assert_eq!((queue.pop(), queue.pop()), (Some(5), None));
    }

    #[test]
    fn whoever_waits_is_woken() {
        let queue = Arc::new(Queue::new(1));
        let other = Arc::clone(&queue);
        let waiting = thread::spawn(move || (other.pop(), other.pop(), other.pop()));
        queue.push_waiting(1);
        queue.push_waiting(2);
        queue.close();
        assert_eq!(waiting.join().unwrap(), (Some(1), Some(2), None));
        assert!(queue.wait_closed(Duration::ZERO));
    }
}
