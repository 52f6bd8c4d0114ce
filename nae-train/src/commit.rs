//! The commit of the running program's source, for the records of runs and experiments. The program tells it once, at its start;
//! this library alone does not know it.

use std::sync::OnceLock;

static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Sets the commit that [`get`] returns from now on, in the whole process: the first digits of its hash, with `-modified` if the
/// source differs from it. Calls after the first have no effect.
pub fn set(commit: &'static str) {
    // A second commit would belong to the same program.
    let _ = COMMIT.set(commit);
}

/// The commit of the running program; `None` if it is not known.
pub fn get() -> Option<String> {
    COMMIT.get().map(|&commit| commit.to_owned())
}
