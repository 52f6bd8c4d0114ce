//! The graph itself: layers in the order in which they run, each with the tensor it reads, and their contract. The
//! layers' operations are in [`op`](crate::op).

use nae_core::Shape;
use nae_core::contract::Contract;
use nae_core::kernels::int8::Layout;
use nae_core::layer::Element;

use crate::GraphError;
use crate::op::Op;
use crate::readers::Readers;

/// Number of a tensor: 0 is the input image, k + 1 the output of node k.
pub type TensorId = usize;

/// A layer and the tensor it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The tensor it reads, which an earlier node writes.
    pub input: TensorId,
    /// The node's operation.
    pub op: Op,
}

/// An autoencoder as a list of layers with their weights, and the other data that its energies need.
///
/// The output of the last node is the reconstruction; its shape must be that of the input if the graph is
/// [emitted](crate::emit()).
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The image that the network takes, its energy, and its calibration.
    pub contract: Contract,
    /// Type of the image's values, and of the reconstruction's and the latent's.
    pub element: Element,
    /// The layers in the order in which they run.
    pub nodes: Vec<Node>,
    /// The layout of 8-bit weights in a `.nae` file, if a layer's weights and factors allow it; else plain. All
    /// kernels read all layouts; [`Layout::Paired`] is for those with dual multiply-accumulate (Cortex-M4, M7, M33).
    pub layout: Layout,
    /// The tensor that contains the latent code, if it is marked.
    pub latent: Option<TensorId>,
    /// Whether samples are made by steps that a `.nae` file does not contain ([`Header::prepared`](nae_core::format::Header)).
    pub prepared: bool,
}

impl Graph {
    /// Returns a graph without layers for images of this shape: squared L2 energy, T = 1, values in `[0, 1]`, no
    /// latent, no calibration.
    pub fn new(input: Shape) -> Self {
        Self {
            contract: Contract::new(input),
            element: Element::F32,
            nodes: Vec::new(),
            layout: Layout::Paired,
            latent: None,
            prepared: false,
        }
    }

    /// Shape of the image.
    pub const fn input(&self) -> Shape {
        self.contract.input
    }

    /// Appends a layer that reads the output of the previous one, or the image. Returns the tensor it writes.
    pub fn push(&mut self, op: impl Into<Op>) -> TensorId {
        self.push_from(self.nodes.len(), op)
    }

    /// Appends a layer that reads `input`. Returns the tensor it writes.
    pub fn push_from(&mut self, input: TensorId, op: impl Into<Op>) -> TensorId {
        self.nodes.push(Node { input, op: op.into() });
        self.nodes.len()
    }

    /// The readers of each tensor. The reconstruction and the latent are read once more, at the end.
    pub fn readers(&self) -> Readers {
        let reads = self.nodes.iter().map(|node| [Some(node.input), node.op.other()]);
        Readers::new(reads, [Some(self.nodes.len()), self.latent])
    }

    /// Shapes of all tensors: the input's, then each layer's output.
    ///
    /// # Errors
    /// [`GraphError`] that names the first layer that does not fit its input.
    pub fn shapes(&self) -> Result<Vec<Shape>, GraphError> {
        let mut shapes = Vec::with_capacity(self.nodes.len() + 1);
        if self.input().is_empty() {
            return Err(GraphError::EmptyInput);
        }
        shapes.push(self.input());
        for (index, node) in self.nodes.iter().enumerate() {
            let input =
                *shapes.get(node.input).ok_or(GraphError::UnknownTensor { layer: index, tensor: node.input })?;
            let other = node
                .op
                .other()
                .map(|tensor| shapes.get(tensor).copied().ok_or(GraphError::UnknownTensor { layer: index, tensor }));
            shapes.push(node.op.output_shape(index, input, other.transpose()?)?);
        }
        Ok(shapes)
    }

    /// Checks that all weights and parameters are finite. This is separate from shapes, since training may examine a
    /// network that diverges.
    ///
    /// # Errors
    /// [`GraphError::NonFinite`] that names the first layer with a value that is not finite.
    pub fn check_finite(&self) -> Result<(), GraphError> {
        match self.nodes.iter().position(|node| !node.op.is_finite()) {
            Some(layer) => Err(GraphError::NonFinite { layer }),
            None => Ok(()),
        }
    }

    /// Types of all tensors: the image's, then each layer's output.
    ///
    /// # Errors
    /// [`GraphError::Element`] if a layer reads the wrong type; [`GraphError::UnknownTensor`] if a tensor does not
    /// exist yet.
    pub fn elements(&self) -> Result<Vec<Element>, GraphError> {
        let mut elements = Vec::with_capacity(self.nodes.len() + 1);
        elements.push(self.element);
        for (layer, node) in self.nodes.iter().enumerate() {
            let of =
                |tensor: TensorId| elements.get(tensor).copied().ok_or(GraphError::UnknownTensor { layer, tensor });
            let other = node.op.other().map(of).transpose()?;
            let element = match (&node.op, of(node.input)?, other) {
                (Op::Int8(int8), Element::I8(_), None | Some(Element::I8(_))) => Element::I8(int8.output),
                (Op::Quantize(quantization), Element::F32, None) => Element::I8(*quantization),
                (Op::Dequantize, Element::I8(_), None) => Element::F32,
                (Op::Int8(_) | Op::Quantize(_) | Op::Dequantize, ..) => {
                    return Err(GraphError::Element { layer });
                }
                (_, Element::F32, None | Some(Element::F32)) => Element::F32,
                _ => return Err(GraphError::Element { layer }),
            };
            elements.push(element);
        }
        Ok(elements)
    }
}
