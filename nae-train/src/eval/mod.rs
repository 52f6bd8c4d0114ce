//! How well energies tell outliers from normal data.
//!
//! [`metrics`] has the areas under the curves, [`interval`] how sure they are, [`scoring`] the energies of a set,
//! [`evaluation`] those of all sets under all models, [`table`] the comparison of the plain autoencoder with the NAE
//! that every run ends with, [`trace`] the same along training.

pub mod evaluation;
pub mod interval;
pub mod metrics;
pub mod scoring;
pub mod table;
pub mod trace;
