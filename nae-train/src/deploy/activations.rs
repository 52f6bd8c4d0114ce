//! What the tensors of a network hold on given images.

use std::collections::BTreeMap;

use nae_core::engine::Engine;
use nae_core::model::Model;
use nae_core::model::layer::Activation;
use nae_core::model::writer::{Layer, Network, write_node_by_node};
use nae_onnx::lower::Scales;

use super::QuantizeError;
use super::evaluate::Aligned;

/// Most values kept of a tensor.
const KEPT: usize = 1 << 16;

/// What was seen of one tensor.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Least value.
    pub least: f32,
    /// Greatest value.
    pub greatest: f32,
    /// Values, evenly picked.
    pub sample: Vec<f32>,
    /// Greatest absolute value in each channel.
    pub channels: Vec<f32>,
}

/// What was seen of each tensor; that of the image is empty.
#[derive(Clone, Debug)]
pub struct Activations {
    /// By tensor number.
    pub tensors: Vec<Seen>,
}

/// The same network with each fused activation as a node of its own. Tensor numbers change, those of `scales` with
/// them.
pub fn split(network: &Network, scales: &Scales) -> (Network, Scales) {
    let mut split = Network { nodes: Vec::new(), latent: None, ..network.clone() };
    let mut renamed = vec![0];
    let mut weights = BTreeMap::new();
    for (index, node) in network.nodes.iter().enumerate() {
        let mut layer = node.layer.clone();
        let fused = match &mut layer {
            Layer::Conv2d(layer) => std::mem::take(&mut layer.activation),
            Layer::ConvTranspose2d(layer) => std::mem::take(&mut layer.activation),
            Layer::Dense(layer) => std::mem::take(&mut layer.activation),
            Layer::Add { other } | Layer::Multiply { other } => {
                *other = renamed[*other];
                Activation::Identity
            }
            _ => Activation::Identity,
        };
        let mut tensor = match layer {
            // It does nothing, but may be needed as the last layer.
            Layer::Activation(Activation::Identity) if index + 1 < network.nodes.len() => renamed[node.input],
            layer => split.push_from(renamed[node.input], layer),
        };
        if let Some(scales) = scales.weights.get(&(index + 1)) {
            weights.insert(tensor, scales.clone());
        }
        if fused != Activation::Identity {
            tensor = split.push_from(tensor, fused);
        }
        renamed.push(tensor);
        if network.latent == Some(index + 1) {
            split.latent = Some(tensor);
        }
    }
    let tensors = scales.tensors.iter().filter_map(|(&tensor, &scale)| Some((*renamed.get(tensor)?, scale))).collect();
    (split, Scales { tensors, weights })
}

impl Activations {
    /// Runs `network`, whose activations are nodes of their own, on `images`.
    ///
    /// # Errors
    /// [`QuantizeError`] where the network cannot be written or run.
    pub fn observe(network: &Network, images: &[Vec<f32>]) -> Result<Self, QuantizeError> {
        let file = Aligned::new(&write_node_by_node(network)?);
        let model = Model::parse(file.bytes())?;
        let engine = Engine::new(&model)?;
        let mut arena = vec![0.0; model.arena_len()];
        let shapes = network.shapes()?;
        let mut tensors: Vec<Seen> =
            shapes.iter().map(|shape| Seen { channels: vec![0.0; shape.channels], ..Seen::default() }).collect();
        for (number, image) in images.iter().enumerate() {
            engine.observe(image, &mut arena, |layer, values| {
                let seen = &mut tensors[layer + 1];
                // Every so many-th value of all images together, from another place in each.
                let step = (values.len() * images.len()).div_ceil(KEPT);
                seen.sample.extend(values.iter().skip(number % step).step_by(step));
                let channels = seen.channels.len();
                for (index, &value) in values.iter().enumerate() {
                    seen.least = seen.least.min(value);
                    seen.greatest = seen.greatest.max(value);
                    let channel = &mut seen.channels[index % channels];
                    *channel = channel.max(value.abs());
                }
            })?;
        }
        Ok(Self { tensors })
    }
}
