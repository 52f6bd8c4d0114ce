//! Converts a network of vectors to one of maps that is applied in each place: dense layers become 1×1 convolutions.

use nae_core::Shape;
use nae_core::layer::Padding;
use nae_graph::{Conv2d, Graph, Node, Op, TensorId};

/// The network has a layer that does not work on vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layer {node} of the network works on more than a vector: it cannot be run in each place of an image")]
pub struct NotOfVectors {
    /// The position of the layer.
    pub node: usize,
}

/// Appends `network`, whose input is a vector, to `graph`, where it is applied to the vectors in the places of `tensor`. Returns
/// the output tensor, and the tensor in `graph` for each tensor of the network.
///
/// # Errors
/// [`NotOfVectors`] names the layer.
pub fn per_place(graph: &mut Graph, tensor: TensorId, network: &Graph) -> Result<TensorId, NotOfVectors> {
    let mut tensors = vec![tensor];
    for (index, Node { input, op }) in network.nodes.iter().enumerate() {
        let op = match op {
            Op::Dense(dense) if dense.output == Shape::vector(dense.output.len()) => Op::Conv2d(Conv2d {
                in_channels: dense.inputs,
                out_channels: dense.output.len(),
                kernel: [1, 1],
                stride: [1, 1],
                padding: Padding::NONE,
                weights: dense.weights.clone(),
                bias: dense.bias.clone(),
                activation: dense.activation,
            }),
            Op::Activation(activation) => Op::Activation(*activation),
            Op::Softmax => Op::Softmax,
            Op::L2Normalize { epsilon } => Op::L2NormalizePlaces { epsilon: *epsilon },
            Op::Add { other } => Op::Add { other: tensors[*other] },
            Op::Multiply { other } => Op::Multiply { other: tensors[*other] },
            Op::Concatenate { other } => Op::Concatenate { other: tensors[*other] },
            _ => return Err(NotOfVectors { node: index }),
        };
        tensors.push(graph.push_from(tensors[*input], op));
    }
    Ok(tensors.pop().unwrap_or(tensor))
}
