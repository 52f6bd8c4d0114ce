//! The scales of a QDQ-quantized model, assigned to tensors and weights of the graph. [`nae_graph::quantize`] uses
//! them.

use std::collections::BTreeMap;

use nae_core::Shape;
use nae_graph::quantize::Scales;
use nae_graph::{Dense, GraphError, TensorId};

use super::{Lowering, Place};
use crate::check::graph::{Dim, OnnxNode, Stored};

impl Lowering<'_> {
    pub(super) fn scales(&self) -> Scales {
        let mut tensors = BTreeMap::new();
        // After a reshape, a value is in the same tensor under another name; the scale of the first one is used.
        let mut places: Vec<_> = self.done.iter().collect();
        places.sort_unstable_by_key(|(value, _)| **value);
        for (&value, place) in places {
            if let Some(Stored::Activation(quantization)) = self.graph.values[value].stored {
                tensors.entry(place.tensor).or_insert(quantization);
            }
        }
        Scales { tensors, weights: self.weight_scales.clone() }
    }

    /// Stores the scales of a node's weights for the layer at `place`, if there is one for all or they differ along
    /// the axis of the outputs. The layer's weights are the node's times `factor`.
    pub(super) fn keep_scales(&mut self, node: &OnnxNode, outputs: usize, factor: f32, place: Place) {
        let Some(weights) = node.inputs.get(1).map(|&value| &self.graph.values[value]) else { return };
        let (Some(Stored::Weights { scales, axis }), Some(&Dim::Fixed(count))) =
            (&weights.stored, weights.shape.get(outputs))
        else {
            return;
        };
        let scales = match axis {
            None => vec![scales[0] * factor.abs(); count],
            Some(axis) if *axis == outputs => scales.iter().map(|scale| scale * factor.abs()).collect(),
            Some(_) => return,
        };
        self.weight_scales.insert(place.tensor, scales);
    }

    /// Reorders scales as [`Dense::before_reshape_chw`] reorders the outputs.
    pub(super) fn reorder_scales(&mut self, tensor: TensorId, output: Shape) -> Result<(), GraphError> {
        if let Some(scales) = self.weight_scales.get_mut(&tensor) {
            *scales = Dense::from_out_in(scales, [scales.len(), 1], None)?.before_reshape_chw(output)?.weights;
        }
        Ok(())
    }
}
