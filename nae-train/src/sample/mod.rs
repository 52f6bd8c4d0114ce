//! Negative samples: Langevin chains in the latent space and in the space of images.
//!
//! [`frozen`] is the border to the network (energies and input gradients, however they are computed), [`langevin`]
//! one chain, [`replay_buffer`] the memory of old chains, [`negatives`] the two chains in a row (paper, algorithm 1),
//! [`noise`] where every random number of a chain comes from. Metropolis–Hastings, CD and PCD are not here yet.

pub mod frozen;
pub mod langevin;
pub mod negatives;
pub mod noise;
pub mod replay_buffer;

pub use frozen::{BurnFrozen, EnergyGradient, FrozenEnergy};
pub use langevin::{Annealing, Langevin};
pub use negatives::{NegativeSampler, SamplerConfig, Start};
pub use noise::NoiseSource;
