//! A training that is to be run: what a preset, a user's data or a run that was broken off come to.

use nae_train::engine::Engine;
use nae_train::report::Resume;
use nae_train::run::Prepared;

/// A run that is about to start.
pub(crate) struct Job {
    pub(crate) prepared: Prepared,
    pub(crate) engine: Engine,
    /// What was chosen for it and why, one sentence each; nothing where a preset says all.
    pub(crate) choices: Vec<String>,
    /// Where it goes on from.
    pub(crate) resume: Option<Resume>,
}
