//! One layer as the file has it: what its 80 bytes mean. Whether they are valid by themselves is
//! in `fields`, how layers fit together in `validate`.

use super::RECORD_LEN;
use super::fields::{f32_at, u16_at, u32_at};
use super::layer::{Activation, Element, Padding};
use crate::Shape;
use crate::kernels::int8::{self, Layout, Windows};
use crate::quantization::Quantization;

/// Kind of a layer in the file, numbered from 1 (convolution) to 16 (group normalisation) in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum Kind {
    /// Convolution.
    Conv2d = 1,
    /// Transposed convolution.
    ConvTranspose2d = 2,
    /// Fully connected.
    Dense = 3,
    /// Maximum over windows.
    MaxPool2d = 4,
    /// Mean over windows.
    AveragePool2d = 5,
    /// Nearest neighbour at another size.
    ResizeNearest = 6,
    /// Bilinear interpolation at another size.
    ResizeBilinear = 7,
    /// A function of every value.
    Activation = 8,
    /// Division by the norm.
    L2Normalize = 9,
    /// The same values under another shape.
    Reshape = 10,
    /// The sum of two tensors.
    Add = 11,
    /// The product of two tensors, value by value.
    Multiply = 12,
    /// From `f32` to `i8`.
    Quantize = 13,
    /// From `i8` to `f32`.
    Dequantize = 14,
    /// From `i8` to `i8` of another scale.
    Requantize = 15,
    /// Groups of channels brought to mean 0 and variance 1.
    GroupNormalize = 16,
}

/// Mode of an 8-bit dense layer with one multiplier for all outputs.
pub(crate) const UNIFORM: u8 = 1;

/// No parameters.
#[cfg(feature = "std")]
pub(super) const NO_SPAN: Span = Span { start: 0, len: 0 };

impl Kind {
    pub(super) const fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            1 => Self::Conv2d,
            2 => Self::ConvTranspose2d,
            3 => Self::Dense,
            4 => Self::MaxPool2d,
            5 => Self::AveragePool2d,
            6 => Self::ResizeNearest,
            7 => Self::ResizeBilinear,
            8 => Self::Activation,
            9 => Self::L2Normalize,
            10 => Self::Reshape,
            11 => Self::Add,
            12 => Self::Multiply,
            13 => Self::Quantize,
            14 => Self::Dequantize,
            15 => Self::Requantize,
            16 => Self::GroupNormalize,
            _ => return None,
        })
    }

    /// Whether the output may lie exactly on the (first) input.
    pub(super) const fn works_in_place(self) -> bool {
        matches!(
            self,
            Self::Activation
                | Self::L2Normalize
                | Self::Reshape
                | Self::Add
                | Self::Multiply
                | Self::Requantize
                | Self::GroupNormalize
        )
    }

    /// Whether it reads two tensors.
    pub(super) const fn has_other(self) -> bool {
        matches!(self, Self::Add | Self::Multiply)
    }

    /// Whether its 8-bit form keeps the scale and zero point of its input.
    pub(super) const fn keeps_quantization(self) -> bool {
        matches!(
            self,
            Self::MaxPool2d | Self::AveragePool2d | Self::ResizeNearest | Self::ResizeBilinear | Self::Reshape
        )
    }

    pub(super) const fn has_weights(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::Dense)
    }

    /// Whether it has weights and biases, [of outputs](Self::has_weights) or of channels.
    pub(super) const fn has_parameters(self) -> bool {
        self.has_weights() || matches!(self, Self::GroupNormalize)
    }

    /// Whether its `f32` form has an epsilon.
    pub(super) const fn has_epsilon(self) -> bool {
        matches!(self, Self::L2Normalize | Self::GroupNormalize)
    }

    pub(super) const fn has_windows(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::MaxPool2d | Self::AveragePool2d)
    }
}

/// A range of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Span {
    /// Where it starts, in words of four bytes.
    pub start: usize,
    /// Number of values, whatever their size.
    pub len: usize,
}

/// One layer of a parsed model. See the [format](super) for the fields.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Record {
    /// Kind of layer.
    pub kind: Kind,
    /// Applied to the result.
    pub activation: Activation,
    /// Variant of the kind; of a group normalisation the number of groups.
    pub mode: u8,
    /// Tensor it reads.
    pub input: usize,
    /// Second tensor it reads (addition, multiplication).
    pub other: usize,
    /// Shape of the output.
    pub output: Shape,
    /// Type of the output's values.
    pub element: Element,
    /// Where in the arena the output starts, in words of four bytes.
    pub offset: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Stride down and across.
    pub stride: [usize; 2],
    /// Padding.
    pub padding: Padding,
    /// Output padding down and across.
    pub output_padding: [usize; 2],
    /// Epsilon of a normalisation, else 0.
    pub epsilon: f32,
    /// Weights: `f32`, or bytes; of an 8-bit activation its table.
    pub weights: Span,
    /// How 8-bit weights are laid out.
    pub layout: Layout,
    /// Biases; of an 8-bit layer its [channels](crate::kernels::int8::Channel), but for a dense one with one
    /// multiplier for all outputs.
    pub bias: Span,
    /// Where the [multipliers](crate::kernels::int8::Multiplier) of an 8-bit layer without channels start, in
    /// words.
    pub multipliers: usize,
    /// Where in the arena the kernel may write beside the output, in words.
    pub scratch: usize,
    /// Least and greatest value an 8-bit layer gives.
    pub clamp: [i8; 2],
}

impl Record {
    /// Reads a record that [`decode`](super::fields::decode) has accepted before. Of any other it makes a record all
    /// the same, with the last of what an unknown number could stand for: so that running a checked model links no
    /// checks.
    pub(super) const fn read(bytes: &[u8; RECORD_LEN]) -> Self {
        let parameter = f32_at(bytes, 44);
        let kind = match Kind::from_id(bytes[0]) {
            Some(kind) => kind,
            None => Kind::Requantize,
        };
        let is_f32 = bytes[3] == 0;
        Self {
            kind,
            activation: match bytes[1] {
                0 => Activation::Identity,
                1 => Activation::Relu,
                2 => Activation::LeakyRelu { slope: parameter },
                3 => Activation::Sigmoid,
                _ => Activation::Tanh,
            },
            mode: bytes[2],
            input: u16_at(bytes, 4),
            other: u16_at(bytes, 6),
            output: Shape::new(u32_at(bytes, 8), u32_at(bytes, 12), u32_at(bytes, 16)),
            element: if is_f32 {
                Element::F32
            } else {
                Element::I8(Quantization::from_checked(f32_at(bytes, 64), bytes[68] as i8))
            },
            offset: u32_at(bytes, 20),
            kernel: [u16_at(bytes, 24), u16_at(bytes, 26)],
            stride: [u16_at(bytes, 28), u16_at(bytes, 30)],
            padding: Padding {
                top: u16_at(bytes, 32),
                left: u16_at(bytes, 34),
                bottom: u16_at(bytes, 36),
                right: u16_at(bytes, 38),
            },
            output_padding: [u16_at(bytes, 40), u16_at(bytes, 42)],
            epsilon: if is_f32 && kind.has_epsilon() { parameter } else { 0.0 },
            weights: Span { start: u32_at(bytes, 48), len: u32_at(bytes, 52) },
            layout: match Layout::from_tag(bytes[71]) {
                Some(layout) => layout,
                None => Layout::Plain,
            },
            bias: Span { start: u32_at(bytes, 56), len: u32_at(bytes, 60) },
            multipliers: u32_at(bytes, 72),
            scratch: u32_at(bytes, 76),
            clamp: [bytes[69] as i8, bytes[70] as i8],
        }
    }

    /// How many multipliers an 8-bit layer has beside its channels.
    pub(super) const fn multiplier_count(&self) -> usize {
        match self.kind {
            _ if matches!(self.element, Element::F32) => 0,
            Kind::Add => 3,
            Kind::Multiply | Kind::Requantize => 1,
            Kind::Dense if self.mode == UNIFORM => 1,
            _ => 0,
        }
    }

    /// Words of the arena that the kernel may write to beside the output; `input` is the shape of the
    /// tensor it reads.
    pub(crate) const fn scratch_len(&self, input: Shape) -> usize {
        match (self.element, self.kind) {
            (Element::I8(_), Kind::Conv2d) => int8::conv2d_scratch_words(self.layout, &Windows::new(self, input)),
            (Element::I8(_), Kind::ConvTranspose2d) => {
                int8::conv_transpose2d_scratch_words(self.layout, &Windows::new(self, input))
            }
            (Element::I8(_), Kind::Dense) => int8::dense_scratch_words(self.layout, input.len()),
            _ => 0,
        }
    }
}
