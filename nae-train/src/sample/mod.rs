//! Negative samples: Langevin chains in the latent space and in image space.
//!
//! `frozen` is the interface to the network (energies and input gradients), `precision` the number format of the
//! computation. `langevin` is one chain; its parts are `annealing` of the noise, `gradient_clip`, `bounds` and the
//! `metropolis` correction. `start` lists the starts of chains: on the manifold, at perturbed data, at data (CD), at
//! the chains' previous states (PCD), in noise; `recovery` keeps chains near the data that they started from.
//! `replay_buffer` and `persistent` store states of earlier chains. `negatives` combines these (paper, algorithm 1),
//! `new_images` draws images from a trained model. All random numbers of a chain come from `noise`.
//!
//! The temperature is given for each draw; the training loop may learn it.

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
