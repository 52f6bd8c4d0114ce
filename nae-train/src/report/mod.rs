//! What a run leaves behind for people: [`folder`] the run folder, [`figure`] its picture, [`progress`] the bars on the
//! terminal.

pub mod figure;
pub mod folder;
pub mod journal;
pub mod progress;
