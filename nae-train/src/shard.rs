//! A batch cut into shards that run side by side on threads of their own.
//!
//! Samples do not depend on each other, and one layer of a small network is too little work to divide. Shards are of
//! fixed size and results stay in order, so nothing depends on the number of threads.
//!
//! Not on rayon's pool: burn's automatic differentiation holds locks, and a pool thread that waits inside one may be
//! handed another shard that wants the same lock.

use std::cell::Cell;
use std::num::NonZero;
use std::thread;

use burn::tensor::Tensor;

/// Samples in a shard.
pub const SHARD: usize = 32;

/// `batch` `[N, …]` in shards of [`SHARD`] samples; the last may be smaller.
pub fn shards(batch: Tensor<4>) -> Vec<Tensor<4>> {
    batch.split(SHARD, 0)
}

thread_local! {
    static THREADS: Cell<Option<NonZero<usize>>> = const { Cell::new(None) };
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
    let mut lanes: Vec<Vec<(usize, S)>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, item) in items.into_iter().enumerate() {
        lanes[index % threads].push((index, item));
    }
    let work =
        |lane: Vec<(usize, S)>| -> Vec<(usize, R)> { lane.into_iter().map(|(index, item)| (index, f(item))).collect() };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let own = lanes.pop().unwrap_or_default();
        let others: Vec<_> = lanes.into_iter().map(|lane| scope.spawn(|| work(lane))).collect();
        let mut results = work(own);
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
    use super::*;

    #[test]
    fn results_are_in_order() {
        assert_eq!(map((0..37).collect(), |i: usize| i * i), (0..37).map(|i| i * i).collect::<Vec<_>>());
        assert!(map(Vec::<usize>::new(), |i| i).is_empty());
    }

    #[test]
    fn the_number_of_threads_is_as_asked_for() {
        let used = |threads| {
            let ids = with_threads(threads, || {
                map(vec![(); 12], |()| {
                    thread::sleep(std::time::Duration::from_millis(1));
                    thread::current().id()
                })
            });
            ids.into_iter().collect::<std::collections::HashSet<_>>().len()
        };
        for threads in [1, 3, 5] {
            assert_eq!(used(NonZero::new(threads).expect("not zero")), threads);
        }
        assert_eq!(THREADS.get(), None, "the old number is back");
    }

    #[test]
    fn shards_are_the_batch() {
        let batch = Tensor::<4>::ones([70, 1, 2, 2], &burn::tensor::Device::flex());
        assert_eq!(shards(batch).iter().map(|s| s.dims()[0]).collect::<Vec<_>>(), [32, 32, 6]);
    }
}
