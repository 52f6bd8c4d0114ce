#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | `backbone` | the frozen network, its outputs, the grid of places they are brought to: [`Backbone`] |
//! | `whitening` | the linear map to features of variance 1 that do not correlate: [`Projection`] |
//! | `front` | both as one graph, run on images: [`Front`] |
//! | `embedding` | a network that gives one vector for an image: [`Embedding`] |
//! | `frechet` | how far two sets of vectors are apart: [`frechet_distance`] |
//! | `places` | a network of vectors as one that sees a vector in each place: [`per_place`] |

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
pub use front::Front;
pub use places::{NotOfVectors, per_place};
pub use whitening::{Moments, Projection};
