//! The CPU engine: energies of an autoencoder, their gradient with respect to the input, and with respect to the weights,
//! by programs of [`nae_simd`].
//!
//! Langevin chains ask for hundreds of input gradients between two updates, so the weights are laid out once an update
//! and shards of the batch run on threads of their own. `arch::graph` describes both halves of an
//! autoencoder as graphs, `network` puts their programs together, `parameters` has the gradients of their weights,
//! `chain` a Langevin chain in it, `cpu` the engine behind burn's tensors, `layers` one half of an autoencoder there, for
//! losses that burn differentiates. It has every layer of [`crate::arch`], and
//! squared L2 and L1 for the energy: `support` says so, and chooses the engine. The results are those of burn to
//! rounding; the tests hold the two together. `ENGINE.md` beside the crate has what was measured.

pub(crate) mod chain;
pub(crate) mod cpu;
pub(crate) mod layers;
pub(crate) mod network;
pub(crate) mod parameters;
pub(crate) mod support;

pub use cpu::CpuEngine;
pub use support::{EngineChoice, Unsupported, supports};

use burn::tensor::Device;
use nae_simd::Workspace;
use serde::{Deserialize, Serialize};

use crate::arch::Autoencoder;
use crate::sample::{BurnFrozen, FrozenEnergy, Precision};

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
        self.freeze_in(&Workspace::default(), model, None, shape, precision, device)
    }

    /// As [`freeze`](Self::freeze), in memory that is used again after the next update, and for chains on the manifold of
    /// another autoencoder of the same architecture, where one is given.
    pub fn freeze_in(
        self,
        workspace: &Workspace,
        model: &Autoencoder,
        manifold: Option<&Autoencoder>,
        shape: [usize; 3],
        precision: Precision,
        device: &Device,
    ) -> Box<dyn FrozenEnergy> {
        match (self, precision) {
            (Self::Cpu, Precision::F32) => {
                let engine = CpuEngine::in_workspace(workspace, model, shape, device);
                Box::new(engine.on_manifold_of(manifold, shape))
            }
            (Self::Cpu | Self::Burn, _) => Box::new(BurnFrozen::new(model, precision).on_manifold_of(manifold)),
        }
    }
}
