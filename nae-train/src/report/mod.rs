//! The output of a run. For people: `folder` is the run folder, `metrics` and `tensorboard` record measurements,
//! [`figure`] is the main picture, [`page`] the report for a browser, [`images`] draws images, [`progress`] shows bars
//! on the terminal, [`warnings`] lists what affects how far a model can be trusted, `conclusion` completes a run and
//! `summary` has the texts on it. For resuming after an interruption: `resume` is the state of a run, `clock` the time
//! it has taken, [`journal`] the completed parts of long commands.

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
pub use folder::{AUTOENCODER, CHECKPOINT, CONFIG, FinishedRun, GivenOutliers, RESULT, RunFolder, RunResults};
pub use metrics::METRICS;
pub use resume::{Facts, RESUME, Resume};
pub use summary::Summary;
pub use warnings::{no_better_than_the_mean, warnings};
