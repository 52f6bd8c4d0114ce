#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`experiments`] | the paper's tables and pictures, and a study of what to stop training by |
//! | [`density`] | densities in the plane, where Ω can be integrated |
//! | [`compare`] | the NAE beside a plain autoencoder that got the same time |
//! | [`gather`] | what several machines have found, in one table |
//! | [`paper`] | where each equation, table row and algorithm line of the paper is, and which test proves it |

pub mod compare;
pub mod density;
pub mod experiments;
pub mod gather;
pub mod paper;
mod seeds;

pub use seeds::{Seeds, SeedsError};
