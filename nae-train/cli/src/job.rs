//! A training to be run, made from a preset, a user's data, or an interrupted run.

use nae_train::engine::Engine;
use nae_train::report::Resume;
use nae_train::run::Prepared;

/// A run that is about to start.
pub(crate) struct Job {
    pub(crate) prepared: Prepared,
    pub(crate) engine: Engine,
    /// The settings that were chosen for it and why, one sentence each; empty if a preset
    /// determines everything.
    pub(crate) choices: Vec<String>,
    /// The state from which it continues; `None` for a new run.
    pub(crate) resume: Option<Resume>,
}
