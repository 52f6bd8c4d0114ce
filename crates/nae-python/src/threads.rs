//! The argument `threads` of the package's functions: its range, and work by that number of threads.

use std::num::NonZero;

use nae_train::shard;

use crate::guard::Failure;

/// The number of threads that was asked for; `None` if the caller leaves the choice to the library.
///
/// # Errors
/// If it is less than 1.
pub(crate) fn checked(threads: Option<i64>) -> Result<Option<NonZero<usize>>, Failure> {
    let check = |count| {
        let valid = usize::try_from(count).ok().and_then(NonZero::new);
        valid.ok_or_else(|| format!("threads: expected 1 or more, found {count}").into())
    };
    threads.map(check).transpose()
}

/// Trains by the number of threads that was asked for, or by the library's default.
///
/// # Errors
/// If the number is less than 1, and those of `work`.
pub(crate) fn train_by<T>(threads: Option<i64>, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match checked(threads)? {
        Some(threads) => shard::with_threads(threads, work),
        None => work(),
    }
}
