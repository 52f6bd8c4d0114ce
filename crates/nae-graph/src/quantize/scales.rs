//! The scales that a model of 8 bits comes with.

use std::collections::BTreeMap;

use nae_core::quantization::Quantization;

use crate::TensorId;

/// Scales of a graph, by tensor; none where the model is not quantised.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scales {
    /// What the integers of a tensor stand for; 0 is the image.
    pub tensors: BTreeMap<TensorId, Quantization>,
    /// Of the weights of the layer that writes a tensor: one for each of its outputs. Its weights are that times
    /// integers from -128 to 127.
    pub weights: BTreeMap<TensorId, Vec<f32>>,
}

impl Scales {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.weights.is_empty()
    }
}
