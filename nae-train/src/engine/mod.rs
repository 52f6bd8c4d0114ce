//! The CPU engine: computes energies of an autoencoder, and their gradients with respect to the input and to the
//! weights, with programs of [`nae_simd`].
//!
//! Langevin chains need hundreds of input gradients between two updates, so the weights are laid out once for each
//! update, and shards of the batch run in parallel threads. `arch::graph` describes both halves of an autoencoder as
//! graphs, `network` combines their programs, `parameters` has the gradients of their weights, `chain` runs a Langevin
//! chain, `cpu` is the engine behind burn's tensors, `layers` is one half of an autoencoder for losses that burn
//! differentiates, `kept` is the state that a method keeps from one update to the next. The engine supports every layer
//! of [`crate::arch`], and squared L2 and L1 as the energy; `support` checks this and chooses the engine. The results
//! are those of burn up to rounding, which the tests check. `ENGINE.md` in the crate's folder has measurements.

pub(crate) mod chain;
pub(crate) mod cpu;
pub(crate) mod kept;
pub(crate) mod layers;
pub(crate) mod network;
pub(crate) mod parameters;
pub(crate) mod support;

pub use cpu::CpuEngine;
pub use support::{EngineChoice, Unsupported, supports};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::arch::Autoencoder;
use crate::sample::{FrozenEnergy, Precision};
use kept::KeptEngine;

/// The implementation that computes gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// The engine of this module, for the CPU.
    #[default]
    Cpu,
    /// burn's automatic differentiation, for any device.
    Burn,
}

impl Engine {
    /// Freezes `model` for chains, for images of `shape` (channels, rows, columns). [`Engine::Cpu`] is for networks
    /// that it [supports], and for f32: burn computes lower precisions.
    pub fn freeze(
        self,
        model: &Autoencoder,
        shape: [usize; 3],
        precision: Precision,
        device: &Device,
    ) -> Box<dyn FrozenEnergy> {
        KeptEngine::new(self, device).freeze(model, None, shape, precision)
    }
}
