//! One layer as the file has it: what its 80 bytes mean, parsed and emitted side by side. How layers fit together is
//! for [`crate::model`].

use super::bytes::{all_zero, f32_at, put_f32, put_u16, put_u32, u16_at, u32_at};
use super::{FieldRange, LayerFault};
use crate::Shape;
use crate::kernels::Windows;
use crate::kernels::int8::{self, Layout};
use crate::layer::{Activation, Element, Padding};
use crate::quantization::Quantization;

/// Bytes of a record.
pub const RECORD_LEN: usize = 80;

/// Where each field starts. The table in the [format's documentation](super) says what they hold.
mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const ACTIVATION: usize = 1;
    pub(super) const MODE: usize = 2;
    pub(super) const ELEMENT: usize = 3;
    pub(super) const INPUT: usize = 4;
    pub(super) const OTHER: usize = 6;
    pub(super) const CHANNELS: usize = 8;
    pub(super) const HEIGHT: usize = 12;
    pub(super) const WIDTH: usize = 16;
    pub(super) const OFFSET: usize = 20;
    pub(super) const KERNEL: usize = 24;
    pub(super) const STRIDE: usize = 28;
    pub(super) const PADDING: usize = 32;
    pub(super) const OUTPUT_PADDING: usize = 40;
    pub(super) const PARAMETER: usize = 44;
    pub(super) const WEIGHTS: usize = 48;
    pub(super) const BIAS: usize = 56;
    pub(super) const SCALE: usize = 64;
    pub(super) const ZERO_POINT: usize = 68;
    pub(super) const CLAMP: usize = 69;
    pub(super) const LAYOUT: usize = 71;
    pub(super) const MULTIPLIERS: usize = 72;
    pub(super) const SCRATCH: usize = 76;
    pub(super) const END: usize = super::RECORD_LEN;
}

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

/// [Mode](Record::mode) of an 8-bit dense layer with one multiplier for all outputs.
pub const UNIFORM: u8 = 1;

impl Kind {
    /// The kind with this number.
    pub const fn from_id(id: u8) -> Option<Self> {
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
    pub const fn works_in_place(self) -> bool {
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
    pub const fn has_other(self) -> bool {
        matches!(self, Self::Add | Self::Multiply)
    }

    /// Whether its 8-bit form keeps the scale and zero point of its input.
    pub const fn keeps_quantization(self) -> bool {
        matches!(
            self,
            Self::MaxPool2d | Self::AveragePool2d | Self::ResizeNearest | Self::ResizeBilinear | Self::Reshape
        )
    }

    /// Whether it multiplies its input with weights.
    pub const fn has_weights(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::Dense)
    }

    /// Whether it has weights and biases, [of outputs](Self::has_weights) or of channels.
    pub const fn has_parameters(self) -> bool {
        self.has_weights() || matches!(self, Self::GroupNormalize)
    }

    /// Whether its `f32` form has an epsilon.
    pub const fn has_epsilon(self) -> bool {
        matches!(self, Self::L2Normalize | Self::GroupNormalize)
    }

    /// Whether it has a kernel, a stride and padding.
    pub const fn has_windows(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::MaxPool2d | Self::AveragePool2d)
    }
}

/// A range of the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// A layer of this kind that reads tensor `input` and writes `output`; all that the kind may have is still zero.
    pub const fn new(kind: Kind, input: usize, output: Shape, element: Element) -> Self {
        Self {
            kind,
            activation: Activation::Identity,
            mode: 0,
            input,
            other: 0,
            output,
            element,
            offset: 0,
            kernel: [0; 2],
            stride: [0; 2],
            padding: Padding::NONE,
            output_padding: [0; 2],
            epsilon: 0.0,
            weights: Span { start: 0, len: 0 },
            layout: Layout::Plain,
            bias: Span { start: 0, len: 0 },
            multipliers: 0,
            scratch: 0,
            clamp: [0; 2],
        }
    }

    /// Reads a record; checks ids, numbers and that unused fields are zero. How records fit together, and their
    /// parameters, is for [`Model::parse`](crate::model::Model::parse).
    ///
    /// # Errors
    /// [`LayerFault`] names the first field that is wrong.
    pub const fn parse(bytes: &[u8; RECORD_LEN]) -> Result<Self, LayerFault> {
        let Some(kind) = Kind::from_id(bytes[field::KIND]) else {
            return Err(LayerFault::Kind);
        };
        let parameter = f32_at(bytes, field::PARAMETER);
        if !parameter.is_finite() {
            return Err(LayerFault::Parameter);
        }
        if bytes[field::ELEMENT] > 1 {
            return Err(LayerFault::Element);
        }
        let is_f32 = bytes[field::ELEMENT] == 0;
        if !is_f32 && Quantization::new(f32_at(bytes, field::SCALE), bytes[field::ZERO_POINT] as i8).is_err() {
            return Err(LayerFault::Quantization);
        }
        // 8-bit activations are tables, and 8-bit normalisation has no epsilon.
        let activates = is_f32 && (kind.has_weights() || matches!(kind, Kind::Activation));
        if bytes[field::ACTIVATION] > 5 || bytes[field::ACTIVATION] != 0 && !activates {
            return Err(LayerFault::Activation);
        }
        let normalizes = is_f32 && kind.has_epsilon();
        let parameter_used = normalizes || matches!(bytes[field::ACTIVATION], 2 | 5);
        if (!parameter_used && parameter.to_bits() != 0) || (normalizes && parameter <= 0.0) {
            return Err(LayerFault::Parameter);
        }
        let mode = bytes[field::MODE];
        let is_mode = match kind {
            Kind::AveragePool2d | Kind::ResizeBilinear => mode < 2,
            Kind::Dense if !is_f32 => mode <= UNIFORM,
            Kind::GroupNormalize => mode > 0,
            _ => mode == 0,
        };
        if !is_mode {
            return Err(LayerFault::Kind);
        }
        if Layout::from_tag(bytes[field::LAYOUT]).is_none() {
            return Err(LayerFault::Weights);
        }
        let record = Self::read(bytes);
        if !record.unused_fields_are_zero(bytes) {
            return Err(LayerFault::Reserved);
        }
        if !is_f32 && record.clamps() && record.clamp[0] > record.clamp[1] {
            return Err(LayerFault::Quantization);
        }
        Ok(record)
    }

    /// Whether the kind leaves no field it does not use other than zero; `bytes` are those of the record.
    const fn unused_fields_are_zero(&self, bytes: &[u8; RECORD_LEN]) -> bool {
        let kind = self.kind;
        let is_f32 = matches!(self.element, Element::F32);
        let is_table = !is_f32 && matches!(kind, Kind::Activation);
        (kind.has_windows() || all_zero(bytes, field::KERNEL, field::PARAMETER))
            && (matches!(kind, Kind::ConvTranspose2d) || all_zero(bytes, field::OUTPUT_PADDING, field::PARAMETER))
            && (kind.has_parameters() || is_table || all_zero(bytes, field::WEIGHTS, field::BIAS))
            && (kind.has_parameters() || all_zero(bytes, field::BIAS, field::SCALE))
            && (kind.has_other() || self.other == 0)
            && (!is_f32 || all_zero(bytes, field::SCALE, field::END))
            && (self.clamps() || all_zero(bytes, field::CLAMP, field::LAYOUT))
            && (kind.has_weights() || bytes[field::LAYOUT] == 0 && all_zero(bytes, field::SCRATCH, field::END))
            && (self.multiplier_count() != 0 || all_zero(bytes, field::MULTIPLIERS, field::SCRATCH))
    }

    /// Whether the 8-bit form of the layer has a least and a greatest value.
    pub const fn clamps(&self) -> bool {
        !matches!(self.element, Element::F32) && (self.kind.has_weights() || self.kind.has_other())
    }

    /// Reads a record that [`parse`](Self::parse) has accepted before. Of any other it makes a record all the same, with
    /// the last of what an unknown number could stand for: so that running a checked model links no checks.
    pub(crate) const fn read(bytes: &[u8; RECORD_LEN]) -> Self {
        let parameter = f32_at(bytes, field::PARAMETER);
        let kind = match Kind::from_id(bytes[field::KIND]) {
            Some(kind) => kind,
            None => Kind::Requantize,
        };
        let is_f32 = bytes[field::ELEMENT] == 0;
        Self {
            kind,
            activation: match bytes[field::ACTIVATION] {
                0 => Activation::Identity,
                1 => Activation::Relu,
                2 => Activation::LeakyRelu { slope: parameter },
                3 => Activation::Sigmoid,
                5 => Activation::Elu { alpha: parameter },
                _ => Activation::Tanh,
            },
            mode: bytes[field::MODE],
            input: u16_at(bytes, field::INPUT),
            other: u16_at(bytes, field::OTHER),
            output: Shape::new(
                u32_at(bytes, field::CHANNELS),
                u32_at(bytes, field::HEIGHT),
                u32_at(bytes, field::WIDTH),
            ),
            element: if is_f32 {
                Element::F32
            } else {
                Element::I8(Quantization::from_checked(f32_at(bytes, field::SCALE), bytes[field::ZERO_POINT] as i8))
            },
            offset: u32_at(bytes, field::OFFSET),
            kernel: [u16_at(bytes, field::KERNEL), u16_at(bytes, field::KERNEL + 2)],
            stride: [u16_at(bytes, field::STRIDE), u16_at(bytes, field::STRIDE + 2)],
            padding: Padding {
                top: u16_at(bytes, field::PADDING),
                left: u16_at(bytes, field::PADDING + 2),
                bottom: u16_at(bytes, field::PADDING + 4),
                right: u16_at(bytes, field::PADDING + 6),
            },
            output_padding: [u16_at(bytes, field::OUTPUT_PADDING), u16_at(bytes, field::OUTPUT_PADDING + 2)],
            epsilon: if is_f32 && kind.has_epsilon() { parameter } else { 0.0 },
            weights: Span { start: u32_at(bytes, field::WEIGHTS), len: u32_at(bytes, field::WEIGHTS + 4) },
            layout: match Layout::from_tag(bytes[field::LAYOUT]) {
                Some(layout) => layout,
                None => Layout::Plain,
            },
            bias: Span { start: u32_at(bytes, field::BIAS), len: u32_at(bytes, field::BIAS + 4) },
            multipliers: u32_at(bytes, field::MULTIPLIERS),
            scratch: u32_at(bytes, field::SCRATCH),
            clamp: [bytes[field::CLAMP] as i8, bytes[field::CLAMP + 1] as i8],
        }
    }

    /// The bytes of the record. Values are written as they are; parsing the whole file checks them.
    ///
    /// # Errors
    /// [`FieldRange`] where a number does not fit its field.
    pub fn emit(&self) -> Result<[u8; RECORD_LEN], FieldRange> {
        let mut bytes = [0; RECORD_LEN];
        let (activation, parameter) = match self.activation {
            Activation::Identity => (0, 0.0),
            Activation::Relu => (1, 0.0),
            Activation::LeakyRelu { slope } => (2, slope),
            Activation::Sigmoid => (3, 0.0),
            Activation::Tanh => (4, 0.0),
            Activation::Elu { alpha } => (5, alpha),
        };
        bytes[field::KIND] = self.kind as u8;
        bytes[field::ACTIVATION] = activation;
        bytes[field::MODE] = self.mode;
        bytes[field::ELEMENT] = u8::from(self.element != Element::F32);
        put_u16(&mut bytes, field::INPUT, self.input)?;
        put_u16(&mut bytes, field::OTHER, self.other)?;
        for (at, value) in [
            (field::CHANNELS, self.output.channels),
            (field::HEIGHT, self.output.height),
            (field::WIDTH, self.output.width),
            (field::OFFSET, self.offset),
            (field::WEIGHTS, self.weights.start),
            (field::WEIGHTS + 4, self.weights.len),
            (field::BIAS, self.bias.start),
            (field::BIAS + 4, self.bias.len),
            (field::MULTIPLIERS, self.multipliers),
            (field::SCRATCH, self.scratch),
        ] {
            put_u32(&mut bytes, at, value)?;
        }
        let Padding { top, left, bottom, right } = self.padding;
        for (at, values) in [
            (field::KERNEL, self.kernel),
            (field::STRIDE, self.stride),
            (field::PADDING, [top, left]),
            (field::PADDING + 4, [bottom, right]),
            (field::OUTPUT_PADDING, self.output_padding),
        ] {
            put_u16(&mut bytes, at, values[0])?;
            put_u16(&mut bytes, at + 2, values[1])?;
        }
        put_f32(&mut bytes, field::PARAMETER, if self.kind.has_epsilon() { self.epsilon } else { parameter });
        if let Element::I8(quantization) = self.element {
            put_f32(&mut bytes, field::SCALE, quantization.scale());
            bytes[field::ZERO_POINT] = quantization.zero_point() as u8;
        }
        bytes[field::CLAMP] = self.clamp[0] as u8;
        bytes[field::CLAMP + 1] = self.clamp[1] as u8;
        bytes[field::LAYOUT] = self.layout as u8;
        Ok(bytes)
    }

    /// Where the layer's windows lie, for an input of this shape.
    pub const fn windows(&self, input: Shape) -> Windows {
        Windows { input, output: self.output, kernel: self.kernel, stride: self.stride, padding: self.padding }
    }

    /// How many multipliers an 8-bit layer has beside its channels.
    pub const fn multiplier_count(&self) -> usize {
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
    pub const fn scratch_len(&self, input: Shape) -> usize {
        match (self.element, self.kind) {
            (Element::I8(_), Kind::Conv2d) => int8::conv2d_scratch_words(self.layout, &self.windows(input)),
            (Element::I8(_), Kind::ConvTranspose2d) => {
                int8::conv_transpose2d_scratch_words(self.layout, &self.windows(input))
            }
            (Element::I8(_), Kind::Dense) => int8::dense_scratch_words(self.layout, input.len()),
            _ => 0,
        }
    }
}
