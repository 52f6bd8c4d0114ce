//! Distributes work among threads, as many as the machine has processors or as the caller sets.
//!
//! Results are in the order of the items, so they do not depend on the number of threads.
//!
//! rayon's pool is not used: burn's automatic differentiation holds locks, and a pool thread that waits inside one may
//! be given another piece of work that needs the same lock.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

thread_local! {
    static THREADS: Cell<Option<NonZero<usize>>> = const { Cell::new(None) };
}

/// Runs `f` with [`map`] on exactly `threads` threads instead of one per processor, if there are enough items. Applies
/// to calls of [`map`] on this thread.
pub fn with_threads<R>(threads: NonZero<usize>, f: impl FnOnce() -> R) -> R {
    /// Restores the old number, after a panic too.
    struct Restore(Option<NonZero<usize>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            THREADS.set(self.0);
        }
    }
    let _restore = Restore(THREADS.replace(Some(threads)));
    f()
}

/// The number of threads: as many as the machine has processors, or as [`with_threads`] sets.
pub fn count() -> NonZero<usize> {
    THREADS.get().or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN)
}

/// Returns `f` of every item, in order, computed on [`count`] threads.
pub fn map<S: Send, R: Send>(items: Vec<S>, f: impl Fn(S) -> R + Sync) -> Vec<R> {
    let threads = count().get().min(items.len());
    if threads <= 1 {
        return items.into_iter().map(f).collect();
    }
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(next).map(|(index, item)| (index, f(item))).collect::<Vec<(usize, R)>>();
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut results = work();
        for other in others {
            match other.join() {
                Ok(part) => results.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_are_in_order() {
        assert_eq!(map((0..37).collect(), |i: usize| i * i), (0..37).map(|i| i * i).collect::<Vec<_>>());
        assert!(map(Vec::<usize>::new(), |i| i).is_empty());
    }

    #[test]
    fn the_number_of_threads_is_as_asked_for() {
        for threads in [1, 3, 5] {
            // Items wait for each other, as many at a time as there are threads: with fewer threads they would wait for
            // ever.
            let meeting = Barrier::new(threads);
            let ids = with_threads(NonZero::new(threads).expect("not zero"), || {
                map(vec![(); 2 * threads], |()| {
                    meeting.wait();
                    thread::current().id()
                })
            });
            assert_eq!(ids.into_iter().collect::<HashSet<_>>().len(), threads);
        }
        assert_eq!(THREADS.get(), None, "the old number is back");
    }
}
