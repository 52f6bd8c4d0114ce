//! The writer of the `.nae` format, for hosts: a network as a list of layers with their weights,
//! checked, its arena planned, and turned into bytes. Reading ONNX is in `nae-onnx`.
//!
//! ```
//! use nae_core::{Shape, model::{Model, layer::{Activation, Padding}}};
//! use nae_core::model::writer::{Conv2d, Network, write};
//!
//! // A 3×3 box blur as the "autoencoder" of 4×4 images.
//! let blur = Conv2d::from_oihw(&[1.0 / 9.0; 9], [1, 1, 3, 3], None)?
//!     .with_padding(Padding::all(1))
//!     .with_activation(Activation::Relu);
//! let mut network = Network::new(Shape::new(1, 4, 4));
//! network.push(blur);
//! let bytes = write(&network)?;
//! assert_eq!(Model::parse(&bytes)?.arena_len(), 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod encode;
mod error;
mod fuse;
mod geometry;
mod int8;
mod layers;
mod pack;
mod plan;

pub use error::WriteError;
pub use int8::{Int8Layer, Int8Operation};
pub use layers::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, GroupNormalize, Layer, MaxPool2d};

use crate::Shape;
use crate::calibration::Calibration;
use crate::density::Temperature;
use crate::energy::Energy;
use crate::kernels::int8::Layout;
use crate::model::layer::Element;
use crate::model::{Model, Preprocessing};
use std::vec::Vec;

/// Number of a tensor: 0 is the input image, k + 1 the output of layer k.
pub type TensorId = usize;

/// A layer and the tensor it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it reads; a tensor of an earlier layer.
    pub input: TensorId,
    /// What it does.
    pub layer: Layer,
}

/// An autoencoder as a list of layers, and what else goes into the file.
///
/// The output of the last layer is the reconstruction; its shape must be the input's.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Shape of the image.
    pub input: Shape,
    /// Type of the image's values, and of the reconstruction's and the latent's.
    pub element: Element,
    /// The layers in the order in which they run.
    pub nodes: Vec<Node>,
    /// How 8-bit weights are laid out, where a layer's weights and factors allow it; else plain. All kernels
    /// read all layouts; [`Layout::Paired`] is for those with dual multiply-accumulate (Cortex-M4, M7, M33).
    pub layout: Layout,
    /// The tensor that holds the latent code, if it is wanted.
    pub latent: Option<TensorId>,
    /// Energy of an image and its reconstruction.
    pub energy: Energy,
    /// Temperature T of the density exp(−E/T)/Ω.
    pub temperature: Temperature,
    /// log Ω, when known.
    pub log_normalizer: Option<f32>,
    /// What the host does to an image first.
    pub preprocessing: Preprocessing,
    /// Energies of held-out normal data.
    pub calibration: Option<Calibration>,
    /// The rate the stored threshold is for. The file gets a threshold when this and the
    /// calibration are there.
    pub target_false_positive_rate: Option<f32>,
}

impl Network {
    /// A network without layers for images of this shape: squared L2 energy, T = 1, values in
    /// `[0, 1]`, no latent, no calibration.
    pub fn new(input: Shape) -> Self {
        Self {
            input,
            element: Element::F32,
            nodes: Vec::new(),
            layout: Layout::Paired,
            latent: None,
            energy: Energy::default(),
            temperature: Temperature::ONE,
            log_normalizer: None,
            preprocessing: Preprocessing::default(),
            calibration: None,
            target_false_positive_rate: None,
        }
    }

    /// Appends a layer that reads the output of the one before, or the image. Returns the tensor
    /// it writes.
    pub fn push(&mut self, layer: impl Into<Layer>) -> TensorId {
        self.push_from(self.nodes.len(), layer)
    }

    /// Appends a layer that reads `input`. Returns the tensor it writes.
    pub fn push_from(&mut self, input: TensorId, layer: impl Into<Layer>) -> TensorId {
        self.nodes.push(Node { input, layer: layer.into() });
        self.nodes.len()
    }

    /// Shapes of all tensors: the input's, then each layer's output.
    ///
    /// # Errors
    /// [`WriteError`] naming the first layer that does not fit its input.
    pub fn shapes(&self) -> Result<Vec<Shape>, WriteError> {
        let mut shapes = Vec::with_capacity(self.nodes.len() + 1);
        if self.input.is_empty() {
            return Err(WriteError::EmptyInput);
        }
        shapes.push(self.input);
        for (index, node) in self.nodes.iter().enumerate() {
            let input =
                *shapes.get(node.input).ok_or(WriteError::UnknownTensor { layer: index, tensor: node.input })?;
            if let Some(other) = node.layer.other() {
                match shapes.get(other) {
                    None => {
                        return Err(WriteError::UnknownTensor { layer: index, tensor: other });
                    }
                    Some(shape) if *shape != input => {
                        return Err(WriteError::InputShape { layer: index, expected: input, found: *shape });
                    }
                    Some(_) => {}
                }
            }
            shapes.push(node.layer.output_shape(index, input)?);
        }
        Ok(shapes)
    }

    /// Types of all tensors: the image's, then each layer's output.
    ///
    /// # Errors
    /// [`WriteError::Element`] where a layer reads the wrong type, [`WriteError::UnknownTensor`].
    pub fn elements(&self) -> Result<Vec<Element>, WriteError> {
        let mut elements = Vec::with_capacity(self.nodes.len() + 1);
        elements.push(self.element);
        for (layer, node) in self.nodes.iter().enumerate() {
            let of =
                |tensor: TensorId| elements.get(tensor).copied().ok_or(WriteError::UnknownTensor { layer, tensor });
            let other = node.layer.other().map(of).transpose()?;
            let element = match (&node.layer, of(node.input)?, other) {
                (Layer::Int8(int8), Element::I8(_), None | Some(Element::I8(_))) => Element::I8(int8.output),
                (Layer::Quantize(quantization), Element::F32, None) => Element::I8(*quantization),
                (Layer::Dequantize, Element::I8(_), None) => Element::F32,
                (Layer::Int8(_) | Layer::Quantize(_) | Layer::Dequantize, ..) => {
                    return Err(WriteError::Element { layer });
                }
                (_, Element::F32, None | Some(Element::F32)) => Element::F32,
                _ => return Err(WriteError::Element { layer }),
            };
            elements.push(element);
        }
        Ok(elements)
    }
}

/// The `.nae` file of a network: checked, activations fused into the layers before them, the
/// arena planned. The same network gives the same bytes.
///
/// # Errors
/// [`WriteError`] naming the layer or field that is wrong.
pub fn write(network: &Network) -> Result<Vec<u8>, WriteError> {
    write_steps(network, true)
}

/// As [`write()`], but activations stay layers of their own: layer k of the file is node k of the
/// network. For looking at every activation.
///
/// # Errors
/// As [`write()`].
pub fn write_node_by_node(network: &Network) -> Result<Vec<u8>, WriteError> {
    write_steps(network, false)
}

fn write_steps(network: &Network, fused: bool) -> Result<Vec<u8>, WriteError> {
    let shapes = network.shapes()?;
    let last = *shapes.last().unwrap_or(&network.input);
    if network.nodes.is_empty() {
        return Err(WriteError::NoLayers);
    }
    if last != network.input {
        return Err(WriteError::Reconstruction { expected: network.input, found: last });
    }
    let elements = network.elements()?;
    let steps = fuse::fuse(network, &shapes, &elements, fused)?;
    let bytes = encode::encode(network, &steps)?;
    // What the parser refuses must not leave the writer.
    Model::parse(&bytes).map_err(WriteError::Refused)?;
    Ok(bytes)
}
