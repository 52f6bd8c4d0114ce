//! The CPU engine: energies of an autoencoder, their gradient with respect to the input, and with respect to the
//! weights, channels last, forward and backward written together for each layer.
//!
//! Langevin chains ask for hundreds of input gradients between two updates, so the weights are laid out once an update
//! ([`kernel`]) and shards of the batch run on threads of their own. [`correlate`] has the three loops the time goes
//! into, [`plane`] the activations, [`pointwise`] and [`resample`] the layers without weights, [`network`] an
//! autoencoder put together from them. The results are those of burn to rounding; the tests hold the two together.
//!
//! Instruction sets are chosen at run time by [`pulp`]; there is no `unsafe` here.

pub mod correlate;
pub mod cpu;
pub mod kernel;
pub mod network;
pub mod plane;
pub mod pointwise;
pub mod resample;

pub use cpu::CpuEngine;
