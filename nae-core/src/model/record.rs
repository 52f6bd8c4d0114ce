//! One layer as the file has it: decoding the 64 bytes and what can be said of them alone.
//! How layers fit together is in `validate`.

use super::RECORD_LEN;
use super::error::LayerFault;
use super::layer::{Activation, Padding};
use crate::Shape;

/// Kind of a layer in the file, numbered from 1 (convolution) to 11 (addition) in this order.
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
}

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
            _ => return None,
        })
    }

    /// Whether the output may lie exactly on the (first) input.
    pub(super) const fn works_in_place(self) -> bool {
        matches!(self, Self::Activation | Self::L2Normalize | Self::Reshape | Self::Add)
    }

    pub(super) const fn has_weights(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::Dense)
    }

    pub(super) const fn has_windows(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::MaxPool2d | Self::AveragePool2d)
    }
}

/// A range of `f32` among the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Span {
    /// First value.
    pub start: usize,
    /// Number of values.
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
    /// Second tensor it reads (addition).
    pub other: usize,
    /// Shape of the output.
    pub output: Shape,
    /// Where in the arena the output starts, in `f32`.
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
    /// Weights.
    pub weights: Span,
    /// Biases.
    pub bias: Span,
}

impl Record {
    /// Reads a record; checks ids, numbers and that unused fields are zero.
    pub(super) const fn decode(bytes: &[u8]) -> Result<Self, LayerFault> {
        if bytes.len() != RECORD_LEN || bytes[3] != 0 {
            return Err(LayerFault::Reserved);
        }
        let Some(kind) = Kind::from_id(bytes[0]) else {
            return Err(LayerFault::Kind);
        };
        let parameter = f32_at(bytes, 44);
        if !parameter.is_finite() {
            return Err(LayerFault::Parameter);
        }
        let normalizes = matches!(kind, Kind::L2Normalize);
        let activation = match bytes[1] {
            0 => Activation::Identity,
            1 => Activation::Relu,
            2 => Activation::LeakyRelu { slope: parameter },
            3 => Activation::Sigmoid,
            4 => Activation::Tanh,
            _ => return Err(LayerFault::Activation),
        };
        let activates = kind.has_weights() || matches!(kind, Kind::Activation);
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
        let record = Self {
            kind,
            activation,
            mode: bytes[2],
            input: u16_at(bytes, 4),
            other: u16_at(bytes, 6),
            output: Shape::new(u32_at(bytes, 8), u32_at(bytes, 12), u32_at(bytes, 16)),
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
            bias: Span { start: u32_at(bytes, 56), len: u32_at(bytes, 60) },
        };
        if !kind.has_windows() && !all_zero(bytes, 24, 44)
            || !matches!(kind, Kind::ConvTranspose2d) && !all_zero(bytes, 40, 44)
            || !kind.has_weights() && !all_zero(bytes, 48, 64)
            || !matches!(kind, Kind::Add) && record.other != 0
        {
            return Err(LayerFault::Reserved);
        }
        Ok(record)
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
