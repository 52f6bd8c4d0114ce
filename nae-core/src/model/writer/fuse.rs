//! From the network's nodes to the steps of the file: activations move into the layer before
//! them where nothing else reads that layer's output, and the tensors are numbered anew.

use super::layers::Layer;
use super::{Network, TensorId, WriteError};
use crate::Shape;
use crate::model::layer::{Activation, Element};
use std::vec;
use std::vec::Vec;

/// One layer of the file to be. It writes tensor index + 1.
pub(super) struct Step<'a> {
    pub(super) layer: &'a Layer,
    pub(super) activation: Activation,
    pub(super) input: TensorId,
    pub(super) other: Option<TensorId>,
    pub(super) output: Shape,
    pub(super) element: Element,
    /// Whether it writes the latent code.
    pub(super) is_latent: bool,
}

pub(super) fn fuse<'a>(
    network: &'a Network,
    shapes: &[Shape],
    elements: &[Element],
    fused: bool,
) -> Result<Vec<Step<'a>>, WriteError> {
    if let Some(tensor) = network.latent
        && (tensor == 0 || tensor > network.nodes.len())
    {
        return Err(WriteError::Latent { tensor });
    }
    let readers = count_readers(network);
    let mut steps: Vec<Step<'a>> = Vec::new();
    // New number of each old tensor.
    let mut renamed: Vec<TensorId> = vec![0];
    for (index, node) in network.nodes.iter().enumerate() {
        let input = renamed[node.input];
        if fused
            && let Layer::Activation(activation) = node.layer
            && let Some(step) = input.checked_sub(1).and_then(|i| steps.get_mut(i))
            && readers[node.input] == 1
            && !step.is_latent
            && takes_activation(step)
        {
            step.activation = activation;
            step.is_latent = network.latent == Some(index + 1);
            renamed.push(input);
            continue;
        }
        steps.push(Step {
            layer: &node.layer,
            activation: own_activation(&node.layer),
            input,
            other: node.layer.other().map(|other| renamed[other]),
            output: shapes[index + 1],
            element: elements[index + 1],
            is_latent: network.latent == Some(index + 1),
        });
        renamed.push(steps.len());
    }
    Ok(steps)
}

/// How many layers read each tensor; the reconstruction is read once more at the end.
fn count_readers(network: &Network) -> Vec<usize> {
    let mut readers = vec![0; network.nodes.len() + 1];
    for node in &network.nodes {
        readers[node.input] += 1;
        if let Some(other) = node.layer.other() {
            readers[other] += 1;
        }
    }
    readers[network.nodes.len()] += 1;
    readers
}

fn takes_activation(step: &Step<'_>) -> bool {
    step.activation == Activation::Identity
        && matches!(step.layer, Layer::Conv2d(_) | Layer::ConvTranspose2d(_) | Layer::Dense(_))
}

fn own_activation(layer: &Layer) -> Activation {
    match layer {
        Layer::Conv2d(layer) => layer.activation,
        Layer::ConvTranspose2d(layer) => layer.activation,
        Layer::Dense(layer) => layer.activation,
        Layer::Activation(activation) => *activation,
        _ => Activation::Identity,
    }
}
