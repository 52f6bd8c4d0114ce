//! Cuts a batch into shards that are processed in parallel on several threads.
//!
//! Samples do not depend on each other, and one layer of a small network is too little work to divide. Shards have a
//! fixed size and results stay in order, so the results do not depend on the number of threads.

use std::cell::Cell;
use std::num::NonZero;

use burn::tensor::Tensor;
pub use nae_simd::threads::{count, map, with_threads};

use crate::device::on_processor;

/// The number of samples in a shard.
pub const SHARD: usize = 32;

/// Cuts `batch` `[N, …]` into shards of [`SHARD`] samples, the last of which may be smaller. The batch stays whole
/// within [`undivided`], and on devices other than the CPU.
pub fn shards(batch: Tensor<4>) -> Vec<Tensor<4>> {
    if UNDIVIDED.get() || !on_processor(&batch.device()) { vec![batch] } else { batch.split(SHARD, 0) }
}

thread_local! {
    static UNDIVIDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` on this thread alone, without division of batches by [`shards`]. This is for networks so small that even a
/// whole batch is little work, when whole runs are made in parallel.
pub fn undivided<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the previous value, also after a panic.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNDIVIDED.set(self.0);
        }
    }
    let _restore = Restore(UNDIVIDED.replace(true));
    with_threads(NonZero::<usize>::MIN, f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_the_batch() {
        let batch = Tensor::<4>::ones([70, 1, 2, 2], &burn::tensor::Device::flex());
        let sizes = |batch| shards(batch).iter().map(|s| s.dims()[0]).collect::<Vec<_>>();
        assert_eq!(sizes(batch.clone()), [32, 32, 6]);
        assert_eq!(undivided(|| sizes(batch.clone())), [70]);
        assert_eq!(sizes(batch), [32, 32, 6]);
    }
}
