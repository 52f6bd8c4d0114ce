//! One layer as the file has it: decoding the 80 bytes and what can be said of them alone.
//! How layers fit together is in `validate`.

use super::RECORD_LEN;
use super::error::LayerFault;
use super::layer::{Activation, Element, Padding};
use crate::Shape;
use crate::kernels::int8::{self, Layout, Windows};
use crate::quantization::Quantization;

/// Kind of a layer in the file, numbered from 1 (convolution) to 15 (requantize) in this order.
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
}

/// No parameters.
#[cfg(feature = "std")]
pub(super) const NO_SPAN: Span = Span { start: 0, len: 0 };

impl Kind {
    const fn from_id(id: u8) -> Option<Self> {
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
            _ => return None,
        })
    }

    /// Whether the output may lie exactly on the (first) input.
    pub(super) const fn works_in_place(self) -> bool {
        matches!(
            self,
            Self::Activation | Self::L2Normalize | Self::Reshape | Self::Add | Self::Multiply | Self::Requantize
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

    /// Multipliers that its 8-bit form has beside weights.
    pub(super) const fn multipliers(self) -> usize {
        match self {
            Self::Add => 3,
            Self::Multiply | Self::Requantize => 1,
            _ => 0,
        }
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
    /// Variant of the kind.
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
    /// Epsilon of the L2 normalisation, else 0.
    pub epsilon: f32,
    /// Weights: `f32`, or bytes; of an 8-bit activation its table.
    pub weights: Span,
    /// How 8-bit weights are laid out.
    pub layout: Layout,
    /// Biases; of an 8-bit layer its [channels](crate::kernels::int8::Channel).
    pub bias: Span,
    /// Where the [multipliers](crate::kernels::int8::Multiplier) of an 8-bit layer without weights
    /// start, in words.
    pub multipliers: usize,
    /// Where in the arena the kernel may write beside the output, in words.
    pub scratch: usize,
    /// Least and greatest value an 8-bit layer gives.
    pub clamp: [i8; 2],
}

impl Record {
    /// Reads a record; checks ids, numbers and that unused fields are zero.
    pub(super) const fn decode(bytes: &[u8]) -> Result<Self, LayerFault> {
        if bytes.len() != RECORD_LEN {
            return Err(LayerFault::Reserved);
        }
        let Some(kind) = Kind::from_id(bytes[0]) else {
            return Err(LayerFault::Kind);
        };
        let parameter = f32_at(bytes, 44);
        if !parameter.is_finite() {
            return Err(LayerFault::Parameter);
        }
        let element = match bytes[3] {
            0 => Element::F32,
            1 => match Quantization::new(f32_at(bytes, 64), bytes[68] as i8) {
                Ok(quantization) => Element::I8(quantization),
                Err(_) => return Err(LayerFault::Quantization),
            },
            _ => return Err(LayerFault::Element),
        };
        // 8-bit activations are tables, and 8-bit normalisation has no epsilon.
        let is_f32 = matches!(element, Element::F32);
        let normalizes = is_f32 && matches!(kind, Kind::L2Normalize);
        let activation = match bytes[1] {
            0 => Activation::Identity,
            1 => Activation::Relu,
            2 => Activation::LeakyRelu { slope: parameter },
            3 => Activation::Sigmoid,
            4 => Activation::Tanh,
            _ => return Err(LayerFault::Activation),
        };
        let activates = is_f32 && (kind.has_weights() || matches!(kind, Kind::Activation));
        if bytes[1] != 0 && !activates {
            return Err(LayerFault::Activation);
        }
        let parameter_used = normalizes || bytes[1] == 2;
        if (!parameter_used && parameter.to_bits() != 0) || (normalizes && parameter <= 0.0) {
            return Err(LayerFault::Parameter);
        }
        let modes = match kind {
            Kind::AveragePool2d | Kind::ResizeBilinear => 2,
            _ => 1,
        };
        if bytes[2] >= modes {
            return Err(LayerFault::Kind);
        }
        let Some(layout) = Layout::from_tag(bytes[71]) else {
            return Err(LayerFault::Weights);
        };
        let record = Self {
            kind,
            activation,
            mode: bytes[2],
            input: u16_at(bytes, 4),
            other: u16_at(bytes, 6),
            output: Shape::new(u32_at(bytes, 8), u32_at(bytes, 12), u32_at(bytes, 16)),
            element,
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
            epsilon: if normalizes { parameter } else { 0.0 },
            weights: Span { start: u32_at(bytes, 48), len: u32_at(bytes, 52) },
            layout,
            bias: Span { start: u32_at(bytes, 56), len: u32_at(bytes, 60) },
            multipliers: u32_at(bytes, 72),
            scratch: u32_at(bytes, 76),
            clamp: [bytes[69] as i8, bytes[70] as i8],
        };
        let is_table = !is_f32 && matches!(kind, Kind::Activation);
        let multiplies = !is_f32 && matches!(kind, Kind::Add | Kind::Multiply | Kind::Requantize);
        let clamps = !is_f32 && (kind.has_weights() || kind.has_other());
        if !kind.has_windows() && !all_zero(bytes, 24, 44)
            || !matches!(kind, Kind::ConvTranspose2d) && !all_zero(bytes, 40, 44)
            || !kind.has_weights() && !is_table && !all_zero(bytes, 48, 56)
            || !kind.has_weights() && !all_zero(bytes, 56, 64)
            || !kind.has_other() && record.other != 0
            || is_f32 && !all_zero(bytes, 64, 80)
            || !clamps && !all_zero(bytes, 69, 71)
            || !kind.has_weights() && (bytes[71] != 0 || !all_zero(bytes, 76, 80))
            || !multiplies && !all_zero(bytes, 72, 76)
        {
            return Err(LayerFault::Reserved);
        }
        if clamps && record.clamp[0] > record.clamp[1] {
            return Err(LayerFault::Quantization);
        }
        Ok(record)
    }
}

impl Record {
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

/// Little-endian u16; 0 beyond the end.
pub(super) const fn u16_at(bytes: &[u8], at: usize) -> usize {
    match bytes.split_at_checked(at) {
        Some((_, rest)) => match rest.first_chunk() {
            Some(chunk) => u16::from_le_bytes(*chunk) as usize,
            None => 0,
        },
        None => 0,
    }
}

/// Little-endian u32; 0 beyond the end.
pub(super) const fn u32_at(bytes: &[u8], at: usize) -> usize {
    match bytes.split_at_checked(at) {
        Some((_, rest)) => match rest.first_chunk() {
            Some(chunk) => u32::from_le_bytes(*chunk) as usize,
            None => 0,
        },
        None => 0,
    }
}

/// Little-endian f32; 0 beyond the end.
pub(super) const fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at) as u32)
}

/// Whether all bytes of `from..to` are zero.
pub(super) const fn all_zero(bytes: &[u8], from: usize, to: usize) -> bool {
    let mut i = from;
    while i < to && i < bytes.len() {
        if bytes[i] != 0 {
            return false;
        }
        i += 1;
    }
    true
}
