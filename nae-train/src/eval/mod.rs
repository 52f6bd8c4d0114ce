//! How well energies tell outliers from normal data.
//!
//! [`metrics`] has the area under the ROC curve, [`scoring`] the energies of a set, [`table`] the comparison of the
//! plain autoencoder with the NAE that every run ends with.

pub mod metrics;
pub mod scoring;
pub mod table;
