#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | `backbone` | [`Backbone`]: the frozen network, its outputs, and the grid of places they are resampled to |
//! | `whitening` | [`Projection`]: the linear map to uncorrelated features of variance 1 |
//! | `front` | [`Front`]: both as one graph that runs on images |
//! | `embedding` | [`Embedding`]: a network that computes one vector for an image |
//! | `frechet` | [`frechet_distance`] of two sets of vectors |
//! | `places` | [`per_place`]: applies a network of vectors to the vector in each place of a map |

mod backbone;
mod embedding;
mod frechet;
mod front;
mod parallel;
mod places;
mod whitening;

pub use backbone::{Backbone, BackboneError};
pub use embedding::Embedding;
pub use frechet::frechet_distance;
pub use front::{Front, FrontError};
pub use places::{NotOfVectors, per_place};
pub use whitening::{Moments, Projection};
