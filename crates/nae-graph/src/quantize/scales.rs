//! The scales of a model that is 8-bit already.

use std::collections::BTreeMap;

use nae_core::quantization::Quantization;

use crate::TensorId;

/// Scales of a graph, by tensor; empty if the model is not quantized.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scales {
    /// The map between the integers of a tensor and real values; 0 is the image.
    pub tensors: BTreeMap<TensorId, Quantization>,
    /// The scales of the weights of the layer that writes a tensor: one for each of its outputs. The weights are these
    /// scales times integers from -128 to 127.
    pub weights: BTreeMap<TensorId, Vec<f32>>,
}

impl Scales {
    /// Whether there are no scales.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.weights.is_empty()
    }
}
