//! Negative samples: Langevin chains in the latent space and in the space of images.
//!
//! `frozen` is the border to the network (energies and input gradients, however they are computed), `precision` the
//! numbers behind it. `langevin` is
//! one chain; its parts are `annealing` of the noise, `gradient_clip`, `bounds` and the `metropolis`
//! correction. `start` names where chains begin: on the manifold, at perturbed data, at data (CD), where they were
//! (PCD), in noise; `recovery` holds chains near the data that they started from. `replay_buffer` and `persistent`
//! remember old chains. `negatives` puts it all together (paper, algorithm 1), `new_images` draws from a trained model.
//! Every random number of a chain comes from `noise`.
//!
//! The temperature is given at each draw; learning it is the training loop's part.

pub(crate) mod annealing;
pub(crate) mod bounds;
pub(crate) mod frozen;
pub(crate) mod gradient_clip;
pub(crate) mod langevin;
pub(crate) mod metropolis;
pub(crate) mod negatives;
pub(crate) mod new_images;
pub(crate) mod noise;
pub(crate) mod persistent;
pub(crate) mod precision;
pub(crate) mod recovery;
pub(crate) mod replay_buffer;
pub(crate) mod start;

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
pub use recovery::Recovery;
pub use replay_buffer::{ReplayBuffer, ReplayConfig};
pub use start::Start;
