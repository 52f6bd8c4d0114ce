#![doc = include_str!("../README.md")]
//!
//! | module | contents |
//! |---|---|
//! | [`experiments`] | the paper's tables and pictures, and a study of when to stop training |
//! | [`density`] | densities in the plane, where Ω can be integrated |
//! | [`compare`] | the NAE compared with a plain autoencoder of the same training time |
//! | [`gather`] | the results of several machines in one table |
//! | [`paper`] | for each equation, table row and algorithm line of the paper, its implementation and the test that verifies it |

pub mod compare;
pub mod density;
pub mod experiments;
pub mod gather;
#[cfg(test)]
mod one_image_mnist;
pub mod paper;
mod seeds;

pub use seeds::{Seeds, SeedsError};
