//! Measures how well energies separate outliers from normal data.
//!
//! `metrics` has the areas under the curves, `interval` their confidence intervals, `scoring` the energies of a set,
//! `evaluation` those of all sets under all models, `table` the final table of a run, `trace` the AUROCs during
//! training; `fid` the distance of new images from the data, `reconstruction` the reconstructions of autoencoders for
//! inspection.

pub(crate) mod evaluation;
pub(crate) mod fid;
pub(crate) mod interval;
pub(crate) mod metrics;
pub(crate) mod reconstruction;
pub(crate) mod scoring;
pub(crate) mod table;
pub(crate) mod trace;
pub use evaluation::{Evaluation, ScoredSet};
pub use fid::fid;
pub use metrics::auroc;
pub use reconstruction::{Reconstructed, reconstructed};
pub use scoring::{Scorer, decided, energies, share_above};
pub use table::{Column, FOOTNOTE, OutlierKind, OutlierSet, SELECTION_SETS, Table};
