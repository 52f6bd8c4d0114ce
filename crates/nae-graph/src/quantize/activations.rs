//! The values of a graph's tensors on given images.

use std::collections::BTreeMap;

use nae_core::layer::Activation;

use super::{QuantizeError, Scales};
use crate::{Graph, Op, TensorId};

/// The largest number of values kept of a tensor.
const KEPT: usize = 1 << 16;

/// The reason why a graph could not be run on an image.
pub type TraceError = Box<dyn std::error::Error + Send + Sync>;

/// Runs graphs of f32 and reports the values of their tensors.
pub trait Tracer {
    /// Runs `graph` on each of `images` (HWC), and calls `seen` with the image's number, the number of each tensor
    /// except the image, and that tensor's values (HWC).
    ///
    /// # Errors
    /// [`TraceError`] if the graph cannot be run, or an image does not fit it.
    fn trace(
        &self,
        graph: &Graph,
        images: &[Vec<f32>],
        seen: &mut dyn FnMut(usize, TensorId, &[f32]),
    ) -> Result<(), TraceError>;
}

/// Statistics of one tensor's values.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Least value.
    pub least: f32,
    /// Greatest value.
    pub greatest: f32,
    /// Evenly picked values.
    pub sample: Vec<f32>,
    /// Greatest absolute value in each channel.
    pub channels: Vec<f32>,
}

/// Statistics of each tensor; those of the image are empty.
#[derive(Clone, Debug)]
pub struct Activations {
    /// The statistics, by tensor number.
    pub tensors: Vec<Seen>,
}

/// Splits each fused activation off as a separate node. The numbers of tensors change, and with them those of `scales`.
pub fn split(graph: &Graph, scales: &Scales) -> (Graph, Scales) {
    let mut split = Graph { nodes: Vec::new(), latent: None, ..graph.clone() };
    let mut renamed = vec![0];
    let mut weights = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let mut layer = node.op.clone();
        let fused = match &mut layer {
            Op::Conv2d(layer) => std::mem::take(&mut layer.activation),
            Op::ConvTranspose2d(layer) => std::mem::take(&mut layer.activation),
            Op::Dense(layer) => std::mem::take(&mut layer.activation),
            Op::Add { other } | Op::Multiply { other } => {
                *other = renamed[*other];
                Activation::Identity
            }
            _ => Activation::Identity,
        };
        let mut tensor = match layer {
            // This activation does nothing, but may be needed as the last layer.
            Op::Activation(Activation::Identity) if index + 1 < graph.nodes.len() => renamed[node.input],
            layer => split.push_from(renamed[node.input], layer),
        };
        if let Some(scales) = scales.weights.get(&(index + 1)) {
            weights.insert(tensor, scales.clone());
        }
        if fused != Activation::Identity {
            tensor = split.push_from(tensor, fused);
        }
        renamed.push(tensor);
        if graph.latent == Some(index + 1) {
            split.latent = Some(tensor);
        }
    }
    let tensors = scales.tensors.iter().filter_map(|(&tensor, &scale)| Some((*renamed.get(tensor)?, scale))).collect();
    (split, Scales { tensors, weights })
}

impl Activations {
    /// Runs `graph`, whose activations are separate nodes, on `images`.
    ///
    /// # Errors
    /// [`QuantizeError`] if the graph cannot be written or run.
    pub fn observe(graph: &Graph, images: &[Vec<f32>], tracer: &dyn Tracer) -> Result<Self, QuantizeError> {
        let shapes = graph.shapes()?;
        let mut tensors: Vec<Seen> =
            shapes.iter().map(|shape| Seen { channels: vec![0.0; shape.channels], ..Seen::default() }).collect();
        let mut see = |image: usize, tensor: TensorId, values: &[f32]| {
            let Some(seen) = tensors.get_mut(tensor) else { return };
            // Values at regular steps over all images together, starting at another place in each.
            let step = (values.len() * images.len()).div_ceil(KEPT).max(1);
            seen.sample.extend(values.iter().skip(image % step).step_by(step));
            let channels = seen.channels.len();
            for (index, &value) in values.iter().enumerate() {
                seen.least = seen.least.min(value);
                seen.greatest = seen.greatest.max(value);
                let channel = &mut seen.channels[index % channels];
                *channel = channel.max(value.abs());
            }
        };
        tracer.trace(graph, images, &mut see).map_err(QuantizeError::Trace)?;
        Ok(Self { tensors })
    }
}
