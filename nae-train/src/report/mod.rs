//! What a run leaves behind: for people, `folder` the run folder, `metrics` and `tensorboard` what is measured on
//! the way, [`figure`] its picture, [`page`] all of it for a browser, [`images`] pictures of images, [`progress`] the
//! bars on the terminal, [`warnings`] what should be known before a model is believed, `conclusion` the end of a run and
//! `summary` what is said of it; for going on where it was broken
//! off, `resume` the state of a run, `clock` what it has taken, [`journal`] the finished parts of long commands.

pub(crate) mod clock;
mod conclusion;
mod error;
pub mod figure;
pub(crate) mod folder;
pub mod images;
pub mod journal;
pub(crate) mod metrics;
pub mod page;
pub mod progress;
pub(crate) mod resume;
mod summary;
pub(crate) mod tensorboard;
pub(crate) mod warnings;
pub use conclusion::{Conclusion, Finished, ReportError};
pub use error::RunFolderError;
pub use folder::{AUTOENCODER, CHECKPOINT, CONFIG, RESULT, RunFolder};
pub use metrics::METRICS;
pub use resume::{Facts, RESUME, Resume};
pub use summary::Summary;
pub use warnings::warnings;
