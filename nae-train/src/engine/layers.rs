//! A sequence of layers with its weights laid out, as a differentiable function of a batch: its outputs, and the
//! gradients of inputs and weights from those of the outputs. It is for losses that use latents and reconstructions in
//! their own ways.

use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use nae_simd::program::Trace;
use nae_simd::{Gradients, Planes, Size, Workspace};

use super::cpu::shards;
use super::network::Half;
use super::parameters::WeightGradients;
use crate::arch::layer::Sequential;
use crate::shard;

/// A sequence of layers.
pub(crate) struct CpuLayers {
    half: Half,
    workspace: Workspace,
    device: Device,
}

/// The data of a forward pass that the backward pass needs: the input and the activations of each shard.
pub(crate) struct Passed(Vec<(Planes, Trace)>);

impl CpuLayers {
    /// Lays out the weights of `layers` for inputs of this shape; if `on_sphere`, the outputs are normalized to unit
    /// length. Results are tensors on `device`.
    pub(crate) fn new(
        workspace: &Workspace,
        layers: &Sequential,
        input: Shape,
        on_sphere: bool,
        device: &Device,
    ) -> Self {
        let half = Half::new(layers, input, on_sphere);
        Self { half, workspace: workspace.clone(), device: device.clone() }
    }

    /// Computes the outputs for `input` `[N, C, H, W]`.
    pub(crate) fn forward(&self, input: Tensor<4>) -> (Tensor<4>, Passed) {
        let passed = shard::map(shards(&self.workspace, input), |input| {
            let trace = self.half.program.trace(&input);
            (input, trace)
        });
        let output = self.gathered(passed.iter().map(|(input, trace)| trace.output(input)));
        (output, Passed(passed))
    }

    /// Converts the gradient of a loss at the outputs of a batch to that at its inputs and at the weights.
    pub(crate) fn backward(&self, passed: Passed, gradient: Tensor<4>) -> (Tensor<4>, WeightGradients) {
        let (inputs, weights) = self.back(&passed, gradient, true, true);
        (self.gathered(inputs.iter()), self.half.summed(&self.workspace, weights))
    }

    /// Same as [`backward`](Self::backward), only for the inputs.
    pub(crate) fn inputs(&self, passed: &Passed, gradient: Tensor<4>) -> Tensor<4> {
        self.gathered(self.back(passed, gradient, true, false).0.iter())
    }

    /// Same as [`backward`](Self::backward), only for the weights: the sum over batches.
    pub(crate) fn weights(&self, batches: impl IntoIterator<Item = (Passed, Tensor<4>)>) -> WeightGradients {
        let each = |(passed, gradient): (Passed, Tensor<4>)| self.back(&passed, gradient, false, true).1;
        self.half.summed(&self.workspace, batches.into_iter().flat_map(each).collect())
    }

    /// The gradient at the inputs of each shard, empty unless `to_input`, and that of the weights, none unless
    /// `to_weights`.
    fn back(
        &self,
        passed: &Passed,
        gradient: Tensor<4>,
        to_input: bool,
        to_weights: bool,
    ) -> (Vec<Planes>, Vec<Gradients>) {
        let pairs = passed.0.iter().zip(shards(&self.workspace, gradient)).collect();
        let parts = shard::map(pairs, |((input, trace), gradient): (&(Planes, Trace), Planes)| {
            let mut weights = to_weights.then(|| self.half.program.gradients());
            let gradient = self.half.program.backward(input, trace, gradient, to_input, weights.as_mut());
            (gradient, weights)
        });
        let (inputs, weights): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (inputs, weights.into_iter().flatten().collect())
    }

    fn gathered<'a>(&self, shards: impl Iterator<Item = &'a Planes>) -> Tensor<4> {
        let (mut values, mut size, mut n) = (Vec::new(), Size::default(), 0);
        for shard in shards {
            values.extend(shard.to_channels_first());
            size = shard.size;
            n += shard.n;
        }
        let Size { h, w, c } = size;
        Tensor::from_data(TensorData::new(values, [n, c, h, w]), &self.device)
    }
}
