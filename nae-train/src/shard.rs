//! A batch cut into shards that run side by side on threads of their own.
//!
//! Samples do not depend on each other, and one layer of a small network is too little work to divide. Shards are of
//! fixed size and results stay in order, so nothing depends on the number of threads.
//!
//! Not on rayon's pool: burn's automatic differentiation holds locks, and a pool thread that waits inside one may be
//! handed another shard that wants the same lock.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

use burn::tensor::Tensor;

use crate::device::on_processor;

/// Samples in a shard.
pub const SHARD: usize = 32;

/// `batch` `[N, …]` in shards of [`SHARD`] samples, the last of which may be smaller; whole within [`undivided`], and
/// where it is not the processor that computes.
pub fn shards(batch: Tensor<4>) -> Vec<Tensor<4>> {
    if UNDIVIDED.get() || !on_processor(&batch.device()) { vec![batch] } else { batch.split(SHARD, 0) }
}

thread_local! {
    static THREADS: Cell<Option<NonZero<usize>>> = const { Cell::new(None) };
    static UNDIVIDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` on this thread alone, with batches left whole by [`shards`]: for networks so small that even a whole batch
/// is little work, where whole runs go side by side.
pub fn undivided<R>(f: impl FnOnce() -> R) -> R {
    /// Puts the old value back, after a panic too.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNDIVIDED.set(self.0);
        }
    }
    let _restore = Restore(UNDIVIDED.replace(true));
    with_threads(NonZero::<usize>::MIN, f)
}

/// Runs `f` with [`map`] on exactly `threads` threads instead of one a processor, where there are items enough. Holds
/// for calls of [`map`] on this thread.
pub fn with_threads<R>(threads: NonZero<usize>, f: impl FnOnce() -> R) -> R {
    /// Puts the old number back, after a panic too.
    struct Restore(Option<NonZero<usize>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            THREADS.set(self.0);
        }
    }
    let _restore = Restore(THREADS.replace(Some(threads)));
    f()
}

/// `f` of every item, in order, on as many threads as the machine has processors or [`with_threads`] says.
pub fn map<S: Send, R: Send>(items: Vec<S>, f: impl Fn(S) -> R + Sync) -> Vec<R> {
    let threads = THREADS.get().map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), NonZero::get);
    let threads = threads.min(items.len());
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
            // Items meet, as many at a time as there are threads: with fewer threads they would wait for ever.
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

    #[test]
    fn shards_are_the_batch() {
        let batch = Tensor::<4>::ones([70, 1, 2, 2], &burn::tensor::Device::flex());
        let sizes = |batch| shards(batch).iter().map(|s| s.dims()[0]).collect::<Vec<_>>();
        assert_eq!(sizes(batch.clone()), [32, 32, 6]);
        assert_eq!(undivided(|| sizes(batch.clone())), [70]);
        assert_eq!(sizes(batch), [32, 32, 6]);
    }
}
