//! An engine that a method keeps: with the device of its tensors, and with memory that is reused from one update to the
//! next.

use burn::optim::GradientsParams;
use burn::tensor::Device;
use nae_core::Shape;
use nae_simd::Workspace;

use super::layers::CpuLayers;
use super::parameters::{WeightGradients, register};
use super::{CpuEngine, Engine};
use crate::arch::Autoencoder;
use crate::arch::layer::Sequential;
use crate::sample::{BurnFrozen, FrozenEnergy, Precision};

/// Computes the gradients of a method. Weights are laid out again for every update; memory is allocated in the first
/// update.
pub(crate) struct KeptEngine {
    engine: Engine,
    device: Device,
    workspace: Workspace,
}

impl KeptEngine {
    /// Uses `engine`; results are tensors on `device`, without autodiff.
    pub(crate) fn new(engine: Engine, device: &Device) -> Self {
        Self { engine, device: device.clone(), workspace: Workspace::default() }
    }

    pub(crate) const fn engine(&self) -> Engine {
        self.engine
    }

    pub(crate) const fn device(&self) -> &Device {
        &self.device
    }

    /// The CPU engine with the weights of `model`, for images of `shape` (channels, rows, columns).
    pub(crate) fn autoencoder(&self, model: &Autoencoder, shape: [usize; 3]) -> CpuEngine {
        CpuEngine::in_workspace(&self.workspace, model, shape, &self.device)
    }

    /// The CPU engine for a sequence of layers; if `on_sphere`, its outputs are normalized to unit length.
    pub(crate) fn layers(&self, layers: &Sequential, input: Shape, on_sphere: bool) -> CpuLayers {
        CpuLayers::new(&self.workspace, layers, input, on_sphere, &self.device)
    }

    /// Freezes `model` for chains, for images of `shape` (channels, rows, columns); chains are on the manifold of
    /// another autoencoder, if given, whose D_z may be another. burn computes precisions below f32.
    pub(crate) fn freeze(
        &self,
        model: &Autoencoder,
        manifold: Option<&Autoencoder>,
        shape: [usize; 3],
        precision: Precision,
    ) -> Box<dyn FrozenEnergy> {
        match (self.engine, precision) {
            (Engine::Cpu, Precision::F32) => Box::new(self.autoencoder(model, shape).on_manifold_of(manifold, shape)),
            (Engine::Cpu | Engine::Burn, _) => Box::new(BurnFrozen::new(model, precision).on_manifold_of(manifold)),
        }
    }

    /// Adds gradients of layers to `gradients`, the form that burn's optimizers use.
    pub(crate) fn register(&self, parts: impl IntoIterator<Item = WeightGradients>, gradients: &mut GradientsParams) {
        parts.into_iter().for_each(|part| register(part, gradients, &self.device));
    }
}
