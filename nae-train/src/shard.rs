//! A batch cut into shards that run side by side on threads of their own.
//!
//! Samples do not depend on each other, and one layer of a small network is too little work to divide. Shards are of
//! fixed size and results stay in order, so nothing depends on the number of threads.

use std::cell::Cell;
use std::num::NonZero;

use burn::tensor::Tensor;
pub use nae_simd::threads::{count, map, with_threads};

use crate::device::on_processor;

/// Samples in a shard.
pub const SHARD: usize = 32;

/// `batch` `[N, …]` in shards of [`SHARD`] samples, the last of which may be smaller; whole within [`undivided`], and
/// where it is not the processor that computes.
pub fn shards(batch: Tensor<4>) -> Vec<Tensor<4>> {
    if UNDIVIDED.get() || !on_processor(&batch.device()) { vec![batch] } else { batch.split(SHARD, 0) }
}

thread_local! {
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
