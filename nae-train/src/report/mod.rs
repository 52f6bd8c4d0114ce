//! What a run leaves behind for people: [`folder`] the run folder, [`progress`] the bars on the terminal.

pub mod folder;
pub mod progress;
