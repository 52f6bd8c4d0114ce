//! The CPU engine: energies of an autoencoder, their gradient with respect to the input, and with respect to the
//! weights, channels last, forward and backward written together for each layer.
//!
//! Langevin chains ask for hundreds of input gradients between two updates, so the weights are laid out once an update
//! ([`kernel`]) and shards of the batch run on threads of their own. [`correlate`] has the three loops the time goes
//! into, [`plane`] the activations, [`pointwise`] and [`resample`] the layers without weights, [`network`] an
//! autoencoder put together from them. It has the layers of Conv28 and of the small convolutional networks, not those of
//! every architecture: [`support`] says which, and chooses the engine. The results are those of burn to rounding; the tests hold the two together.
//!
//! Instruction sets are chosen at run time by [`pulp`]; there is no `unsafe` here.

pub mod correlate;
pub mod cpu;
pub mod kernel;
pub mod network;
pub mod plane;
pub mod pointwise;
pub mod resample;
pub mod support;

pub use cpu::CpuEngine;
pub use support::{EngineChoice, Unsupported, supports};

use burn::tensor::Device;

use crate::arch::Autoencoder;
use crate::sample::{BurnFrozen, FrozenEnergy};

/// What computes gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The engine of this module, for the processor.
    #[default]
    Cpu,
    /// burn's automatic differentiation, for any device.
    Burn,
}

impl Engine {
    /// `model` as the chains see it, for images of `size` (rows, columns).
    ///
    /// # Panics
    /// [`Engine::Cpu`] for a network that it does not [support](supports).
    pub fn freeze(self, model: &Autoencoder, size: [usize; 2], device: &Device) -> Box<dyn FrozenEnergy> {
        match self {
            Self::Cpu => Box::new(CpuEngine::new(model, size, device)),
            Self::Burn => Box::new(BurnFrozen::new(model)),
        }
    }
}
