//! The reasons why a graph is not valid, or cannot be written.

use core::fmt;

use nae_core::Shape;
use nae_core::format::{FieldRange, ModelError};

/// The reason why a graph is not valid, or cannot be written. Layers are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GraphError {
    /// The input shape contains no value.
    EmptyInput,
    /// There is no layer.
    NoLayers,
    /// A layer reads a tensor that does not exist yet.
    UnknownTensor {
        /// The layer.
        layer: usize,
        /// The tensor that it reads.
        tensor: usize,
    },
    /// A layer's input has another shape (or number of values) than the layer takes.
    InputShape {
        /// The layer.
        layer: usize,
        /// The shape that it takes; zeros mean any size.
        expected: Shape,
        /// The shape of its input.
        found: Shape,
    },
    /// The kernel does not fit the padded input, or the output would be empty.
    EmptyOutput {
        /// The layer.
        layer: usize,
        /// The shape of its input.
        input: Shape,
    },
    /// A kernel size or stride is zero, a padding is as large as the kernel, an output padding is as large as the
    /// stride, or groups do not divide the channels.
    Geometry {
        /// The layer.
        layer: usize,
    },
    /// The number of weights does not match the layer's shape.
    WeightsLength {
        /// The number that follows from the shape.
        expected: usize,
        /// The number of weights.
        found: usize,
    },
    /// The number of biases is not the number of outputs.
    BiasLength {
        /// Number of outputs.
        expected: usize,
        /// The number of biases.
        found: usize,
    },
    /// A weight, bias or parameter of a layer is NaN or infinite.
    NonFinite {
        /// The layer.
        layer: usize,
    },
    /// A layer reads `f32` where it takes 8-bit values, or the reverse.
    Element {
        /// The layer.
        layer: usize,
    },
    /// A reshape of channels-first data moves values, for which a `.nae` file has no layer.
    ChannelsFirst {
        /// The layer.
        layer: usize,
    },
    /// A `.nae` file has no form for a layer.
    NotInFile {
        /// The layer.
        layer: usize,
        /// The kind of the layer.
        what: &'static str,
    },
    /// A layer's scales give a factor beyond the range of multipliers, or their number is not that of its outputs.
    Multiplier {
        /// The layer.
        layer: usize,
    },
    /// The last layer's output has another shape than the input.
    Reconstruction {
        /// The input's shape.
        expected: Shape,
        /// The shape of the last output.
        found: Shape,
    },
    /// The latent tensor is the image, or does not exist.
    Latent {
        /// The number of the latent tensor.
        tensor: usize,
    },
    /// A size does not fit its field in the format.
    TooLarge,
    /// The parser refuses the file: a size is beyond the engine's limits.
    Refused(ModelError),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyInput => f.write_str("the input shape holds no value"),
            Self::NoLayers => f.write_str("the graph has no layers"),
            Self::UnknownTensor { layer, tensor } => {
                write!(f, "layer {layer} reads tensor {tensor}, which no earlier layer writes")
            }
            Self::InputShape { layer, expected, found } => {
                write!(f, "layer {layer} takes {expected} (CxHxW) but gets {found}")
            }
            Self::EmptyOutput { layer, input } => {
                write!(f, "layer {layer} gives nothing for an input of {input} (CxHxW)")
            }
            Self::Geometry { layer } => write!(
                f,
                "layer {layer}: kernel and stride must not be zero, padding less than the kernel, output padding less than \
                 the stride; groups must divide the channels, and in a .nae file be 255 at most"
            ),
            Self::WeightsLength { expected, found } => {
                write!(f, "the layer takes {expected} weights but gets {found}")
            }
            Self::BiasLength { expected, found } => {
                write!(f, "the layer takes {expected} biases but gets {found}")
            }
            Self::NonFinite { layer } => {
                write!(f, "layer {layer} has a weight or parameter that is NaN or infinite")
            }
            Self::Element { layer } => {
                write!(f, "layer {layer} reads f32 where it takes 8-bit values, or the reverse")
            }
            Self::ChannelsFirst { layer } => {
                write!(
                    f,
                    "layer {layer} reshapes channels-first data, which moves values: reorder the weights before it"
                )
            }
            Self::NotInFile { layer, what } => {
                write!(f, "layer {layer} is a {what}, which a .nae file has no form for")
            }
            Self::Multiplier { layer } => {
                write!(
                    f,
                    "layer {layer}: its scales give a factor that is negative, not finite or too large (2^30 or more), or are \
                     not as many as its outputs"
                )
            }
            Self::Reconstruction { expected, found } => {
                write!(f, "the reconstruction is {found} (CxHxW) but the image is {expected}")
            }
            Self::Latent { tensor } => write!(f, "tensor {tensor} cannot be the latent code"),
            Self::TooLarge => f.write_str("a size does not fit its field in the format"),
            Self::Refused(error) => write!(f, "the engine cannot take this graph: {error}"),
        }
    }
}

impl core::error::Error for GraphError {}

impl From<FieldRange> for GraphError {
    fn from(FieldRange: FieldRange) -> Self {
        Self::TooLarge
    }
}
