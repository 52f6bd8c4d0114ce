//! The operation of a layer, with the fields that its kind has and no others. The bytes that contain them are in
//! [`record`](super::record).

use super::Kind;
use crate::Shape;
use crate::kernels::Windows;
use crate::kernels::int8::Layout;
use crate::layer::{Activation, Padding};

/// A range of the parameters, or of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Span {
    /// The start, in words of four bytes.
    pub start: usize,
    /// Number of values, of any size.
    pub len: usize,
}

/// The size of a kernel and its movement over the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Geometry {
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Stride down and across.
    pub stride: [usize; 2],
    /// Padding.
    pub padding: Padding,
}

impl Geometry {
    /// The windows over a tensor of shape `input` that give one of shape `output`.
    pub const fn windows(self, input: Shape, output: Shape) -> Windows {
        Windows { input, output, kernel: self.kernel, stride: self.stride, padding: self.padding }
    }
}

/// Weights and biases of a layer that multiplies its input with weights.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Linear {
    /// Weights and biases in `f32`.
    F32 {
        /// Weights.
        weights: Span,
        /// Biases, one per output.
        bias: Span,
        /// The activation that is applied to the result.
        activation: Activation,
    },
    /// Weights in 8 bits.
    I8(Int8Linear),
}

impl Linear {
    /// The layer's weights: values of `f32`, or bytes.
    pub const fn weights(&self) -> Span {
        match self {
            Self::F32 { weights, .. } => *weights,
            Self::I8(linear) => linear.weights,
        }
    }

    /// The layer's biases, or channels.
    pub const fn bias(&self) -> Span {
        match self {
            Self::F32 { bias, .. } => *bias,
            Self::I8(linear) => linear.bias,
        }
    }
}

/// Weights and biases of an 8-bit layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Int8Linear {
    /// The order in which the weights are stored.
    pub layout: Layout,
    /// Weights, in bytes.
    pub weights: Span,
    /// One [channel](crate::kernels::int8::Channel) per output, or one bias per output if the outputs share a
    /// multiplier.
    pub bias: Span,
    /// The start of the [multiplier](crate::kernels::int8::Multiplier) that all outputs of a dense layer share, in
    /// words; `None` if each output has its own.
    pub shared_multiplier: Option<usize>,
    /// Least and greatest value of the output.
    pub clamp: [i8; 2],
    /// The start of the kernel's scratch memory in the arena, in words.
    pub scratch: usize,
}

/// Two tensors combined value by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pair {
    /// The second tensor; the first is the [record's input](super::Record::input).
    pub other: usize,
    /// The numbers for combining 8-bit values; `None` for `f32`.
    pub int8: Option<Int8Pair>,
}

/// The numbers for combining two 8-bit tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Int8Pair {
    /// The start of the [multipliers](crate::kernels::int8::Multiplier), in words: three for a sum, one for a product.
    pub multipliers: usize,
    /// Least and greatest value of the output.
    pub clamp: [i8; 2],
}

/// The operation of a layer, with the fields of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Operation {
    /// Convolution.
    Conv2d(Geometry, Linear),
    /// Transposed convolution.
    ConvTranspose2d {
        /// Kernel, stride and padding of the convolution whose gradient it computes.
        geometry: Geometry,
        /// Output padding down and across.
        output_padding: [usize; 2],
        /// Weights and biases.
        linear: Linear,
    },
    /// Fully connected.
    Dense(Linear),
    /// Maximum over windows.
    MaxPool2d(Geometry),
    /// Mean over windows.
    AveragePool2d {
        /// The windows.
        geometry: Geometry,
        /// Whether padding counts in the divisor.
        count_include_padding: bool,
    },
    /// Nearest neighbour at another size.
    ResizeNearest,
    /// Bilinear interpolation at another size.
    ResizeBilinear {
        /// Half-pixel centres; otherwise aligned corners.
        half_pixel: bool,
    },
    /// A function of every value.
    Activation(Activation),
    /// A function of every 8-bit value, as a table of 256 bytes.
    Table(Span),
    /// Division by the norm.
    L2Normalize {
        /// Added to the norm; 0 in 8 bits.
        epsilon: f32,
    },
    /// Groups of channels brought to mean 0 and variance 1.
    GroupNormalize {
        /// Number of groups.
        groups: u8,
        /// Added to the variance.
        epsilon: f32,
        /// A factor for each channel.
        scale: Span,
        /// A shift for each channel.
        shift: Span,
    },
    /// The same values under another shape.
    Reshape,
    /// The sum of two tensors.
    Add(Pair),
    /// The product of two tensors, value by value.
    Multiply(Pair),
    /// Conversion from `f32` to `i8`.
    Quantize,
    /// Conversion from `i8` to `f32`.
    Dequantize,
    /// Conversion from `i8` to `i8` of another scale.
    Requantize {
        /// The start of the [multiplier](crate::kernels::int8::Multiplier), in words.
        multiplier: usize,
    },
}

impl Operation {
    /// The kind, which is a number in the file.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Conv2d(..) => Kind::Conv2d,
            Self::ConvTranspose2d { .. } => Kind::ConvTranspose2d,
            Self::Dense(_) => Kind::Dense,
            Self::MaxPool2d(_) => Kind::MaxPool2d,
            Self::AveragePool2d { .. } => Kind::AveragePool2d,
            Self::ResizeNearest => Kind::ResizeNearest,
            Self::ResizeBilinear { .. } => Kind::ResizeBilinear,
            Self::Activation(_) | Self::Table(_) => Kind::Activation,
            Self::L2Normalize { .. } => Kind::L2Normalize,
            Self::GroupNormalize { .. } => Kind::GroupNormalize,
            Self::Reshape => Kind::Reshape,
            Self::Add(_) => Kind::Add,
            Self::Multiply(_) => Kind::Multiply,
            Self::Quantize => Kind::Quantize,
            Self::Dequantize => Kind::Dequantize,
            Self::Requantize { .. } => Kind::Requantize,
        }
    }

    /// Weights and biases, if the layer multiplies its input with weights.
    pub const fn linear(&self) -> Option<&Linear> {
        match self {
            Self::Conv2d(_, linear) | Self::ConvTranspose2d { linear, .. } | Self::Dense(linear) => Some(linear),
            _ => None,
        }
    }

    /// The second tensor that the layer reads, if there is one.
    pub const fn other(&self) -> Option<usize> {
        match self {
            Self::Add(pair) | Self::Multiply(pair) => Some(pair.other),
            _ => None,
        }
    }

    /// The activation that is applied to the result of a layer of `f32`.
    pub const fn activation(&self) -> Activation {
        match self {
            Self::Activation(activation) => *activation,
            Self::Conv2d(_, Linear::F32 { activation, .. })
            | Self::ConvTranspose2d { linear: Linear::F32 { activation, .. }, .. }
            | Self::Dense(Linear::F32 { activation, .. }) => *activation,
            _ => Activation::Identity,
        }
    }
}
