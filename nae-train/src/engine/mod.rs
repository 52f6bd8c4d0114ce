//! The CPU engine: energies of an autoencoder, their gradient with respect to the input, and with respect to the weights,
//! by programs of [`nae_simd`].
//!
//! Langevin chains ask for hundreds of input gradients between two updates, so the weights are laid out once an update
//! and shards of the batch run on threads of their own. `arch::graph` describes both halves of an
//! autoencoder as graphs, `network` puts their programs together, `parameters` has the gradients of their weights,
//! `chain` a Langevin chain in it, `cpu` the engine behind burn's tensors, `layers` one half of an autoencoder there, for
//! losses that burn differentiates, `kept` what a method keeps of the engine from one update to the next. It has every layer of [`crate::arch`], and
//! squared L2 and L1 for the energy: `support` says so, and chooses the engine. The results are those of burn to
//! rounding; the tests hold the two together. `ENGINE.md` beside the crate has what was measured.

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

/// What computes gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// The engine of this module, for the processor.
    #[default]
    Cpu,
    /// burn's automatic differentiation, for any device.
    Burn,
}

impl Engine {
    /// `model` as the chains see it, for images of `shape` (channels, rows, columns). [`Engine::Cpu`] is for
    /// networks that it [supports], and for f32: lower precisions are burn's.
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
