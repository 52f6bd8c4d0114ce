//! The operation of a node of a graph.

use nae_core::Shape;
use nae_core::layer::{Activation, ResizeMode};
use nae_core::quantization::Quantization;

use crate::TensorId;
use crate::int8_op::Int8Layer;
use crate::layers::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, DepthwiseConv2d, GroupNormalize, MaxPool2d};

/// The operation of one node of a graph.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// Convolution.
    Conv2d(Conv2d),
    /// Transposed convolution.
    ConvTranspose2d(ConvTranspose2d),
    /// Convolution of each channel by itself; not in a `.nae` file.
    DepthwiseConv2d(DepthwiseConv2d),
    /// Fully connected layer.
    Dense(Dense),
    /// Maximum over windows.
    MaxPool2d(MaxPool2d),
    /// Mean over windows.
    AveragePool2d(AveragePool2d),
    /// Resizing to another height and width.
    Resize {
        /// New height.
        height: usize,
        /// New width.
        width: usize,
        /// The interpolation.
        mode: ResizeMode,
    },
    /// A function of every value.
    Activation(Activation),
    /// Every value clamped to `[min, max]`, as in ReLU6; not in a `.nae` file.
    Clamp {
        /// The least; finite.
        min: f32,
        /// The greatest; finite, not below `min`.
        max: f32,
    },
    /// x/max(‖x‖₂, `epsilon`) over all values of the sample: the unit sphere of the latent space.
    L2Normalize {
        /// The least norm to divide by; finite, above zero. 1e-12 in PyTorch's `normalize`.
        epsilon: f32,
    },
    /// As [`L2Normalize`](Self::L2Normalize), but over the channels of each place separately: vectors of unit length at
    /// every place of a map. It has no form in a `.nae` file.
    L2NormalizePlaces {
        /// The least norm to divide by; finite, above zero.
        epsilon: f32,
    },
    /// exp(x) divided by the sum of exp(x) over the channels of each place: shares that sum to 1. Not in a `.nae` file.
    Softmax,
    /// Group normalization; there is no 8-bit form.
    GroupNormalize(GroupNormalize),
    /// The same values, in HWC order, under another shape. A reshape of CHW data (ONNX, PyTorch) is equal to this only
    /// if both shapes have one channel or one pixel.
    Reshape(Shape),
    /// The same values, in CHW order, under another shape, as in ONNX and PyTorch. A `.nae` file supports it only if
    /// both orders are the same.
    ReshapeChannelsFirst(Shape),
    /// The sum of the input and another tensor of the same shape.
    Add {
        /// The other tensor.
        other: TensorId,
    },
    /// The product of the input and another tensor of the same shape, value by value.
    Multiply {
        /// The other tensor.
        other: TensorId,
    },
    /// The channels of the input, followed by those of another tensor of the same height and width. Not in a `.nae`
    /// file.
    Concatenate {
        /// The other tensor.
        other: TensorId,
    },
    /// Conversion from `f32` to 8 bits.
    Quantize(Quantization),
    /// Conversion from 8 bits to `f32`.
    Dequantize,
    /// A layer whose input and output are 8-bit.
    Int8(Int8Layer),
}

impl Op {
    /// The second tensor that the operation reads, if there is one.
    pub fn other(&self) -> Option<TensorId> {
        match self {
            Self::Add { other } | Self::Multiply { other } | Self::Concatenate { other } => Some(*other),
            Self::Int8(layer) => layer.operation.other(),
            _ => None,
        }
    }

    /// Whether it multiplies its `f32` input with weights, so that an activation can be part of it.
    pub const fn has_weights(&self) -> bool {
        matches!(self, Self::Conv2d(_) | Self::ConvTranspose2d(_) | Self::Dense(_))
    }

    /// The activation that is part of it, or that it consists of.
    pub const fn activation(&self) -> Activation {
        match self {
            Self::Conv2d(conv) => conv.activation,
            Self::ConvTranspose2d(conv) => conv.activation,
            Self::Dense(dense) => dense.activation,
            Self::Activation(activation) => *activation,
            _ => Activation::Identity,
        }
    }
}

impl From<Conv2d> for Op {
    fn from(layer: Conv2d) -> Self {
        Self::Conv2d(layer)
    }
}

impl From<ConvTranspose2d> for Op {
    fn from(layer: ConvTranspose2d) -> Self {
        Self::ConvTranspose2d(layer)
    }
}

impl From<DepthwiseConv2d> for Op {
    fn from(layer: DepthwiseConv2d) -> Self {
        Self::DepthwiseConv2d(layer)
    }
}

impl From<Dense> for Op {
    fn from(layer: Dense) -> Self {
        Self::Dense(layer)
    }
}

impl From<GroupNormalize> for Op {
    fn from(layer: GroupNormalize) -> Self {
        Self::GroupNormalize(layer)
    }
}

impl From<MaxPool2d> for Op {
    fn from(layer: MaxPool2d) -> Self {
        Self::MaxPool2d(layer)
    }
}

impl From<AveragePool2d> for Op {
    fn from(layer: AveragePool2d) -> Self {
        Self::AveragePool2d(layer)
    }
}

impl From<Int8Layer> for Op {
    fn from(layer: Int8Layer) -> Self {
        Self::Int8(layer)
    }
}

impl From<Activation> for Op {
    fn from(layer: Activation) -> Self {
        Self::Activation(layer)
    }
}
