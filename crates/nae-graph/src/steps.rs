//! Converts the nodes of a graph to steps to be run: activations move into the layer before them if nothing else reads
//! that layer's output, and the tensors are renumbered. A `.nae` file and a program for the processor are made of the
//! same steps.

use nae_core::Shape;
use nae_core::layer::{Activation, Element};

use crate::op::Op;
use crate::readers::Readers;
use crate::{Graph, GraphError, TensorId};

/// One step. Step k writes tensor k + 1; tensor 0 is the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'a> {
    /// The first node that it was made from: the node with its weights.
    pub node: usize,
    /// The step's operation.
    pub op: &'a Op,
    /// The activation within it: that of the operation, or one that followed it.
    pub activation: Activation,
    /// The tensor it reads.
    pub input: TensorId,
    /// The second tensor it reads.
    pub other: Option<TensorId>,
    /// Shape of the tensor it reads.
    pub from: Shape,
    /// Shape of the tensor it writes.
    pub output: Shape,
    /// Type of the values it writes.
    pub element: Element,
    /// Whether it writes the latent code.
    pub is_latent: bool,
}

impl Graph {
    /// Returns the steps of the graph. `fuses` returns whether an activation may move into the operation before it,
    /// which must have weights and no activation yet.
    ///
    /// # Errors
    /// [`GraphError`] that names the first node that does not fit, or a latent tensor that does not exist.
    pub fn steps(&self, fuses: impl Fn(Activation) -> bool) -> Result<Vec<Step<'_>>, GraphError> {
        if let Some(tensor) = self.latent
            && (tensor == 0 || tensor > self.nodes.len())
        {
            return Err(GraphError::Latent { tensor });
        }
        let (shapes, elements, readers) = (self.shapes()?, self.elements()?, self.readers());
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(self.nodes.len());
        // New number of each old tensor.
        let mut renamed: Vec<TensorId> = vec![0];
        for (index, node) in self.nodes.iter().enumerate() {
            let input = renamed[node.input];
            if let Op::Activation(activation) = node.op
                && fuses(activation)
                && let Some(step) = input.checked_sub(1).and_then(|i| steps.get_mut(i))
                && readers.only(node.input) == Some(index)
                && step.activation == Activation::Identity
                && step.op.has_weights()
            {
                step.activation = activation;
                step.is_latent = self.latent == Some(index + 1);
                renamed.push(input);
                continue;
            }
            steps.push(Step {
                node: index,
                op: &node.op,
                activation: node.op.activation(),
                input,
                other: node.op.other().map(|other| renamed[other]),
                from: shapes[node.input],
                output: shapes[index + 1],
                element: elements[index + 1],
                is_latent: self.latent == Some(index + 1),
            });
            renamed.push(steps.len());
        }
        Ok(steps)
    }
}

/// The readers of the tensors of `steps`; the last output and the latent are read once more, at the end.
pub fn readers(steps: &[Step<'_>]) -> Readers {
    let latent = steps.iter().position(|step| step.is_latent).map(|step| step + 1);
    Readers::new(steps.iter().map(|step| [Some(step.input), step.other]), [Some(steps.len()), latent])
}
