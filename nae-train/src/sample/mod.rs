//! Negative samples: Langevin chains in the latent space and in the space of images.
//!
//! [`frozen`] is the border to the network (energies and input gradients, however they are computed), [`precision`] the
//! numbers behind it. [`langevin`] is
//! one chain; its parts are [`annealing`] of the noise, [`gradient_clip`], [`bounds`] and the [`metropolis`]
//! correction. [`start`] names where chains begin: on the manifold, at perturbed data, at data (CD), where they were
//! (PCD), in noise. [`replay_buffer`] and [`persistent`] remember old chains. [`negatives`] puts it all together
//! (paper, algorithm 1), [`new_images`] draws from a trained model. Every random number of a chain comes from
//! [`noise`].
//!
//! The temperature is given at each draw; learning it is the training loop's part.

pub mod annealing;
pub mod bounds;
pub mod frozen;
pub mod gradient_clip;
pub mod langevin;
pub mod metropolis;
pub mod negatives;
pub mod new_images;
pub mod noise;
pub mod persistent;
pub mod precision;
pub mod replay_buffer;
pub mod start;

pub use annealing::Annealing;
pub use bounds::{Bounds, Leaving};
pub use frozen::{BurnFrozen, EnergyGradient, FrozenEnergy};
pub use gradient_clip::{ClipBy, GradientClip};
pub use langevin::{ChainEnd, Langevin};
pub use metropolis::Metropolis;
pub use negatives::{Acceptance, NegativeSampler, SamplerConfig};
pub use new_images::NewImages;
pub use noise::{ChainNoise, NoiseSource};
pub use precision::{Precision, PrecisionUnavailable};
pub use replay_buffer::ReplayConfig;
pub use start::Start;
