//! A bounded queue between threads. If it is full, either the oldest item is dropped (frames of a
//! camera, where the newest counts), or the sender waits (files, which stay available).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A bounded queue between threads.
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

impl<T> Queue<T> {
    /// Creates an empty queue of at most `capacity` items.
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State { items: VecDeque::with_capacity(capacity.min(1024)), closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), capacity }
    }

    /// No code panics while it holds the lock, and incomplete changes are never visible.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an item. If there is no room, the oldest item is dropped and returned; if the queue is
    /// closed, the new item is returned.
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

    /// Waits for room and appends an item; a closed queue drops it.
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

    /// Waits for an item; `None` once the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        while state.items.is_empty() && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let item = state.items.pop_front();
        self.changed.notify_all();
        item
    }

    /// The number of waiting items.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Closes the queue: it accepts no more items, but still returns those that wait.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits at most `time` for the queue to be closed. Returns whether it is.
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
    fn the_oldest_makes_room() {
        let queue = Queue::new(2);
        assert_eq!([1, 2, 3].map(|i| queue.push_dropping(i)), [None, None, Some(1)]);
        assert_eq!((queue.len(), queue.pop()), (2, Some(2)));
        queue.close();
        assert_eq!(queue.push_dropping(7), Some(7));
        assert_eq!((queue.pop(), queue.pop()), (Some(3), None));
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
