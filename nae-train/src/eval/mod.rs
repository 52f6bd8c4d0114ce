//! How well energies tell outliers from normal data.
//!
//! `metrics` has the areas under the curves, `interval` how sure they are, `scoring` the energies of a set,
//! `evaluation` those of all sets under all models, `table` the comparison of the plain autoencoder with the NAE
//! that every run ends with, `trace` the same along training; `fid` how far new images are from the data,
//! `reconstruction` what autoencoders make of images, for the eye.

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
