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
mod layers;
mod pack;
mod plan;

pub use error::WriteError;
pub use layers::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, Layer, MaxPool2d};

use crate::Shape;
use crate::calibration::Calibration;
use crate::density::Temperature;
use crate::energy::Energy;
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
    /// The layers in the order in which they run.
    pub nodes: Vec<Node>,
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
            nodes: Vec::new(),
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
            if let Layer::Add { other } = node.layer {
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
}

/// The `.nae` file of a network: checked, activations fused into the layers before them, the
/// arena planned. The same network gives the same bytes.
///
/// # Errors
/// [`WriteError`] naming the layer or field that is wrong.
pub fn write(network: &Network) -> Result<Vec<u8>, WriteError> {
    let shapes = network.shapes()?;
    let last = *shapes.last().unwrap_or(&network.input);
    if network.nodes.is_empty() {
        return Err(WriteError::NoLayers);
    }
    if last != network.input {
        return Err(WriteError::Reconstruction { expected: network.input, found: last });
    }
    let steps = fuse::fuse(network, &shapes)?;
    let arena = plan::plan(&steps);
    let bytes = encode::encode(network, &steps, &arena)?;
    // What the parser refuses must not leave the writer.
    Model::parse(&bytes).map_err(WriteError::Refused)?;
    Ok(bytes)
}
