//! One layer in the file: the meaning of its 80 bytes, with parser and writer side by side. [`crate::model`] checks
//! that layers fit together.

use super::bytes::{all_zero, f32_at, put_f32, put_u16, put_u32, u16_at, u32_at};
use super::operation::{Geometry, Int8Linear, Int8Pair, Linear, Operation, Pair, Span};
use super::{FieldRange, Kind, Kinds, LayerFault};
use crate::Shape;
use crate::kernels::Rows;
use crate::kernels::int8::{self, Layout};
use crate::layer::{Activation, Element, Padding};
use crate::quantization::Quantization;

/// Length of a record in bytes.
pub const RECORD_LEN: usize = 80;

/// The offset of each field. The table in the [format's documentation](super) describes their contents.
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

/// [Mode](field::MODE) of an 8-bit dense layer whose outputs share one multiplier.
const SHARED_MULTIPLIER: u8 = 1;

/// One layer of a parsed model. See the [format](super) for the fields.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Record {
    /// The tensor that the layer reads.
    pub input: usize,
    /// Shape of the output.
    pub output: Shape,
    /// Type of the output's values.
    pub element: Element,
    /// The start of the output in the arena, in words of four bytes.
    pub offset: usize,
    /// The layer's operation.
    pub operation: Operation,
}

type Bytes = [u8; RECORD_LEN];

impl Record {
    /// Reads a record and checks identifiers and numbers, and that unused fields are zero.
    /// [`Model::parse`](crate::model::Model::parse) checks the parameters, and that records fit together.
    ///
    /// # Errors
    /// [`LayerFault`] that names the first invalid field.
    pub const fn parse(bytes: &Bytes) -> Result<Self, LayerFault> {
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
        // 8-bit activations are tables, and 8-bit normalization has no epsilon.
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
            Kind::Dense if !is_f32 => mode <= SHARED_MULTIPLIER,
            Kind::GroupNormalize => mode > 0,
            _ => mode == 0,
        };
        if !is_mode {
            return Err(LayerFault::Kind);
        }
        if Layout::from_tag(bytes[field::LAYOUT]).is_none() {
            return Err(LayerFault::Kind);
        }
        if !unused_fields_are_zero(bytes, kind, is_f32) {
            return Err(LayerFault::Reserved);
        }
        let [min, max] = clamp(bytes);
        // Both are 0 if the kind has none.
        if min > max {
            return Err(LayerFault::Quantization);
        }
        Ok(Self::read(bytes, Kinds::ALL))
    }

    /// Reads a record that [`parse`](Self::parse) has accepted before, of a kind among `kinds`. For any other kind it
    /// still returns a record, with a meaningless operation. So running a checked model links no checks, and if `kinds`
    /// is constant, no code for other kinds.
    #[inline(always)]
    pub(crate) const fn read(bytes: &Bytes, kinds: Kinds) -> Self {
        Self {
            input: u16_at(bytes, field::INPUT),
            output: Shape::new(
                u32_at(bytes, field::CHANNELS),
                u32_at(bytes, field::HEIGHT),
                u32_at(bytes, field::WIDTH),
            ),
            element: if is_f32(bytes) {
                Element::F32
            } else {
                Element::I8(Quantization::from_checked(f32_at(bytes, field::SCALE), bytes[field::ZERO_POINT] as i8))
            },
            offset: u32_at(bytes, field::OFFSET),
            operation: operation(bytes, kinds),
        }
    }

    /// Returns the bytes of the record. Values are written unchecked; parsing the whole file checks them.
    ///
    /// # Errors
    /// [`FieldRange`] if a number does not fit its field.
    pub fn emit(&self) -> Result<Bytes, FieldRange> {
        let mut bytes = [0; RECORD_LEN];
        bytes[field::KIND] = self.operation.kind() as u8;
        bytes[field::ELEMENT] = u8::from(self.element != Element::F32);
        put_u16(&mut bytes, field::INPUT, self.input)?;
        put_u32(&mut bytes, field::CHANNELS, self.output.channels)?;
        put_u32(&mut bytes, field::HEIGHT, self.output.height)?;
        put_u32(&mut bytes, field::WIDTH, self.output.width)?;
        put_u32(&mut bytes, field::OFFSET, self.offset)?;
        if let Element::I8(quantization) = self.element {
            put_f32(&mut bytes, field::SCALE, quantization.scale());
            bytes[field::ZERO_POINT] = quantization.zero_point() as u8;
        }
        match &self.operation {
            Operation::Conv2d(geometry, linear) => {
                put_geometry(&mut bytes, geometry)?;
                put_linear(&mut bytes, linear)?;
            }
            Operation::ConvTranspose2d { geometry, output_padding, linear } => {
                put_geometry(&mut bytes, geometry)?;
                put_pair(&mut bytes, field::OUTPUT_PADDING, *output_padding)?;
                put_linear(&mut bytes, linear)?;
            }
            Operation::Dense(linear) => put_linear(&mut bytes, linear)?,
            Operation::MaxPool2d(geometry) => put_geometry(&mut bytes, geometry)?,
            Operation::AveragePool2d { geometry, count_include_padding } => {
                put_geometry(&mut bytes, geometry)?;
                bytes[field::MODE] = u8::from(*count_include_padding);
            }
            Operation::ResizeBilinear { half_pixel } => bytes[field::MODE] = u8::from(*half_pixel),
            Operation::Activation(activation) => put_activation(&mut bytes, *activation),
            Operation::Table(table) => put_span(&mut bytes, field::WEIGHTS, *table)?,
            Operation::L2Normalize { epsilon } => put_f32(&mut bytes, field::PARAMETER, *epsilon),
            Operation::GroupNormalize { groups, epsilon, scale, shift } => {
                bytes[field::MODE] = *groups;
                put_f32(&mut bytes, field::PARAMETER, *epsilon);
                put_span(&mut bytes, field::WEIGHTS, *scale)?;
                put_span(&mut bytes, field::BIAS, *shift)?;
            }
            Operation::Add(pair) | Operation::Multiply(pair) => {
                put_u16(&mut bytes, field::OTHER, pair.other)?;
                if let Some(int8) = pair.int8 {
                    put_u32(&mut bytes, field::MULTIPLIERS, int8.multipliers)?;
                    put_clamp(&mut bytes, int8.clamp);
                }
            }
            Operation::Requantize { multiplier } => put_u32(&mut bytes, field::MULTIPLIERS, *multiplier)?,
            Operation::ResizeNearest | Operation::Reshape | Operation::Quantize | Operation::Dequantize => {}
        }
        Ok(bytes)
    }

    /// Returns the same layer with its output at word `offset` of the arena and its scratch memory at word `scratch`.
    #[must_use]
    pub const fn placed(mut self, offset: usize, scratch: usize) -> Self {
        self.offset = offset;
        if let Operation::Conv2d(_, Linear::I8(linear))
        | Operation::ConvTranspose2d { linear: Linear::I8(linear), .. }
        | Operation::Dense(Linear::I8(linear)) = &mut self.operation
        {
            linear.scratch = scratch;
        }
        self
    }

    /// The words of the arena that the kernel may write to besides the output; `input` is the shape of the tensor that
    /// the layer reads.
    pub const fn scratch(&self, input: Shape) -> Span {
        match &self.operation {
            Operation::Conv2d(geometry, Linear::I8(linear)) => {
                let windows = geometry.windows(input, self.output);
                Span { start: linear.scratch, len: int8::conv2d_scratch_words(linear.layout, &windows) }
            }
            Operation::ConvTranspose2d { geometry, linear: Linear::I8(linear), .. } => {
                let windows = geometry.windows(input, self.output);
                Span { start: linear.scratch, len: int8::conv_transpose2d_scratch_words(linear.layout, &windows) }
            }
            Operation::Dense(Linear::I8(linear)) => {
                Span { start: linear.scratch, len: int8::dense_scratch_words(linear.layout, input.len()) }
            }
            _ => Span { start: 0, len: 0 },
        }
    }

    /// The number of words by which the input, of this shape, must begin after the start of the output, if the output
    /// lies over rows of the input that have been read, and `rows` rows or more are written before the next rows are
    /// read. `None` if output and input must lie apart, which holds for all layers except 8-bit convolutions and 8-bit
    /// transposed convolutions of stride 1 down.
    pub const fn lead(&self, input: Shape, rows: usize) -> Option<usize> {
        let all = match &self.operation {
            Operation::Conv2d(geometry, Linear::I8(_)) => Rows::of(geometry.windows(input, self.output)),
            Operation::ConvTranspose2d { geometry, linear: Linear::I8(_), .. } => {
                Rows::of_transposed(geometry.windows(input, self.output))
            }
            _ => return None,
        };
        match all.lead(rows) {
            Some(values) => Some(values.div_ceil(4)),
            None => None,
        }
    }
}

const fn is_f32(bytes: &Bytes) -> bool {
    bytes[field::ELEMENT] == 0
}

/// Whether all fields that this kind and type do not use are zero in a record.
const fn unused_fields_are_zero(bytes: &Bytes, kind: Kind, is_f32: bool) -> bool {
    let is_table = !is_f32 && matches!(kind, Kind::Activation);
    let clamps = kind.has_weights() || kind.has_other();
    let multiplies = clamps && !kind.has_weights()
        || matches!(kind, Kind::Requantize)
        || matches!(kind, Kind::Dense) && bytes[field::MODE] == SHARED_MULTIPLIER;
    (kind.has_windows() || all_zero(bytes, field::KERNEL, field::PARAMETER))
        && (matches!(kind, Kind::ConvTranspose2d) || all_zero(bytes, field::OUTPUT_PADDING, field::PARAMETER))
        && (kind.has_parameters() || is_table || all_zero(bytes, field::WEIGHTS, field::BIAS))
        && (kind.has_parameters() || all_zero(bytes, field::BIAS, field::SCALE))
        && (kind.has_other() || all_zero(bytes, field::OTHER, field::CHANNELS))
        && (!is_f32 || all_zero(bytes, field::SCALE, field::END))
        && (clamps || all_zero(bytes, field::CLAMP, field::LAYOUT))
        && (kind.has_weights() || bytes[field::LAYOUT] == 0 && all_zero(bytes, field::SCRATCH, field::END))
        && (multiplies || all_zero(bytes, field::MULTIPLIERS, field::SCRATCH))
}

/// Reads the layer's operation; for a kind that is not among `kinds`, the result is meaningless.
#[inline(always)]
const fn operation(bytes: &Bytes, kinds: Kinds) -> Operation {
    match Kind::from_id(bytes[field::KIND]) {
        Some(Kind::Conv2d) if kinds.contains(Kind::Conv2d) => Operation::Conv2d(geometry(bytes), linear(bytes)),
        Some(Kind::ConvTranspose2d) if kinds.contains(Kind::ConvTranspose2d) => Operation::ConvTranspose2d {
            geometry: geometry(bytes),
            output_padding: pair(bytes, field::OUTPUT_PADDING),
            linear: linear(bytes),
        },
        Some(Kind::Dense) if kinds.contains(Kind::Dense) => Operation::Dense(linear(bytes)),
        Some(Kind::MaxPool2d) if kinds.contains(Kind::MaxPool2d) => Operation::MaxPool2d(geometry(bytes)),
        Some(Kind::AveragePool2d) if kinds.contains(Kind::AveragePool2d) => {
            Operation::AveragePool2d { geometry: geometry(bytes), count_include_padding: bytes[field::MODE] == 1 }
        }
        Some(Kind::ResizeNearest) if kinds.contains(Kind::ResizeNearest) => Operation::ResizeNearest,
        Some(Kind::ResizeBilinear) if kinds.contains(Kind::ResizeBilinear) => {
            Operation::ResizeBilinear { half_pixel: bytes[field::MODE] == 1 }
        }
        Some(Kind::Activation) if kinds.contains(Kind::Activation) && is_f32(bytes) => {
            Operation::Activation(activation(bytes))
        }
        Some(Kind::Activation) if kinds.contains(Kind::Activation) => Operation::Table(span(bytes, field::WEIGHTS)),
        Some(Kind::L2Normalize) if kinds.contains(Kind::L2Normalize) => {
            Operation::L2Normalize { epsilon: f32_at(bytes, field::PARAMETER) }
        }
        Some(Kind::Add) if kinds.contains(Kind::Add) => Operation::Add(operands(bytes)),
        Some(Kind::Multiply) if kinds.contains(Kind::Multiply) => Operation::Multiply(operands(bytes)),
        Some(Kind::Quantize) if kinds.contains(Kind::Quantize) => Operation::Quantize,
        Some(Kind::Dequantize) if kinds.contains(Kind::Dequantize) => Operation::Dequantize,
        Some(Kind::GroupNormalize) if kinds.contains(Kind::GroupNormalize) => Operation::GroupNormalize {
            groups: bytes[field::MODE],
            epsilon: f32_at(bytes, field::PARAMETER),
            scale: span(bytes, field::WEIGHTS),
            shift: span(bytes, field::BIAS),
        },
        Some(Kind::Requantize) if kinds.contains(Kind::Requantize) => {
            Operation::Requantize { multiplier: u32_at(bytes, field::MULTIPLIERS) }
        }
        _ => Operation::Reshape,
    }
}

const fn geometry(bytes: &Bytes) -> Geometry {
    let ([top, left], [bottom, right]) = (pair(bytes, field::PADDING), pair(bytes, field::PADDING + 4));
    Geometry {
        kernel: pair(bytes, field::KERNEL),
        stride: pair(bytes, field::STRIDE),
        padding: Padding { top, left, bottom, right },
    }
}

fn put_geometry(bytes: &mut Bytes, geometry: &Geometry) -> Result<(), FieldRange> {
    let Padding { top, left, bottom, right } = geometry.padding;
    put_pair(bytes, field::KERNEL, geometry.kernel)?;
    put_pair(bytes, field::STRIDE, geometry.stride)?;
    put_pair(bytes, field::PADDING, [top, left])?;
    put_pair(bytes, field::PADDING + 4, [bottom, right])
}

const fn linear(bytes: &Bytes) -> Linear {
    let (weights, bias) = (span(bytes, field::WEIGHTS), span(bytes, field::BIAS));
    if is_f32(bytes) {
        return Linear::F32 { weights, bias, activation: activation(bytes) };
    }
    Linear::I8(Int8Linear {
        layout: match Layout::from_tag(bytes[field::LAYOUT]) {
            Some(layout) => layout,
            None => Layout::Plain,
        },
        weights,
        bias,
        shared_multiplier: match bytes[field::MODE] {
            SHARED_MULTIPLIER => Some(u32_at(bytes, field::MULTIPLIERS)),
            _ => None,
        },
        clamp: clamp(bytes),
        scratch: u32_at(bytes, field::SCRATCH),
    })
}

fn put_linear(bytes: &mut Bytes, linear: &Linear) -> Result<(), FieldRange> {
    match linear {
        Linear::F32 { weights, bias, activation } => {
            put_span(bytes, field::WEIGHTS, *weights)?;
            put_span(bytes, field::BIAS, *bias)?;
            put_activation(bytes, *activation);
        }
        Linear::I8(linear) => {
            put_span(bytes, field::WEIGHTS, linear.weights)?;
            put_span(bytes, field::BIAS, linear.bias)?;
            if let Some(multiplier) = linear.shared_multiplier {
                bytes[field::MODE] = SHARED_MULTIPLIER;
                put_u32(bytes, field::MULTIPLIERS, multiplier)?;
            }
            bytes[field::LAYOUT] = linear.layout as u8;
            put_clamp(bytes, linear.clamp);
            put_u32(bytes, field::SCRATCH, linear.scratch)?;
        }
    }
    Ok(())
}

const fn operands(bytes: &Bytes) -> Pair {
    let int8 = Int8Pair { multipliers: u32_at(bytes, field::MULTIPLIERS), clamp: clamp(bytes) };
    Pair { other: u16_at(bytes, field::OTHER), int8: if is_f32(bytes) { None } else { Some(int8) } }
}

const fn activation(bytes: &Bytes) -> Activation {
    let parameter = f32_at(bytes, field::PARAMETER);
    match bytes[field::ACTIVATION] {
        0 => Activation::Identity,
        1 => Activation::Relu,
        2 => Activation::LeakyRelu { slope: parameter },
        3 => Activation::Sigmoid,
        5 => Activation::Elu { alpha: parameter },
        _ => Activation::Tanh,
    }
}

fn put_activation(bytes: &mut Bytes, activation: Activation) {
    let (id, parameter) = match activation {
        Activation::Identity => (0, 0.0),
        Activation::Relu => (1, 0.0),
        Activation::LeakyRelu { slope } => (2, slope),
        Activation::Sigmoid => (3, 0.0),
        Activation::Tanh => (4, 0.0),
        Activation::Elu { alpha } => (5, alpha),
    };
    bytes[field::ACTIVATION] = id;
    put_f32(bytes, field::PARAMETER, parameter);
}

const fn clamp(bytes: &Bytes) -> [i8; 2] {
    [bytes[field::CLAMP] as i8, bytes[field::CLAMP + 1] as i8]
}

const fn put_clamp(bytes: &mut Bytes, [min, max]: [i8; 2]) {
    bytes[field::CLAMP] = min as u8;
    bytes[field::CLAMP + 1] = max as u8;
}

const fn pair(bytes: &Bytes, at: usize) -> [usize; 2] {
    [u16_at(bytes, at), u16_at(bytes, at + 2)]
}

fn put_pair(bytes: &mut Bytes, at: usize, [first, second]: [usize; 2]) -> Result<(), FieldRange> {
    put_u16(bytes, at, first)?;
    put_u16(bytes, at + 2, second)
}

const fn span(bytes: &Bytes, at: usize) -> Span {
    Span { start: u32_at(bytes, at), len: u32_at(bytes, at + 4) }
}

fn put_span(bytes: &mut Bytes, at: usize, span: Span) -> Result<(), FieldRange> {
    put_u32(bytes, at, span.start)?;
    put_u32(bytes, at + 4, span.len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: Span = Span { start: 70_001, len: 70_002 };
    const BIAS: Span = Span { start: 70_003, len: 70_004 };
    const GEOMETRY: Geometry =
        Geometry { kernel: [2, 3], stride: [4, 5], padding: Padding { top: 6, left: 7, bottom: 8, right: 9 } };

    fn float(activation: Activation) -> Linear {
        Linear::F32 { weights: WEIGHTS, bias: BIAS, activation }
    }

    fn int8(shared_multiplier: Option<usize>) -> Linear {
        let (layout, clamp) = (Layout::Paired, [-100, 101]);
        Linear::I8(Int8Linear { layout, weights: WEIGHTS, bias: BIAS, shared_multiplier, clamp, scratch: 70_005 })
    }

    /// One operation of every kind and type, with a different value in every field.
    fn operations() -> [(Operation, bool); 24] {
        let (geometry, output_padding) = (GEOMETRY, [10, 11]);
        let pair = |int8| Pair { other: 12, int8 };
        let combined = Some(Int8Pair { multipliers: 70_006, clamp: [-99, 98] });
        [
            (Operation::Conv2d(geometry, float(Activation::LeakyRelu { slope: 0.25 })), true),
            (Operation::Conv2d(geometry, int8(None)), false),
            (Operation::ConvTranspose2d { geometry, output_padding, linear: float(Activation::Tanh) }, true),
            (Operation::ConvTranspose2d { geometry, output_padding, linear: int8(None) }, false),
            (Operation::Dense(float(Activation::Elu { alpha: 0.5 })), true),
            (Operation::Dense(int8(None)), false),
            (Operation::Dense(int8(Some(70_007))), false),
            (Operation::MaxPool2d(geometry), true),
            (Operation::AveragePool2d { geometry, count_include_padding: true }, true),
            (Operation::AveragePool2d { geometry, count_include_padding: false }, false),
            (Operation::ResizeNearest, false),
            (Operation::ResizeBilinear { half_pixel: true }, true),
            (Operation::Activation(Activation::Sigmoid), true),
            (Operation::Table(WEIGHTS), false),
            (Operation::L2Normalize { epsilon: 1e-12 }, true),
            (Operation::L2Normalize { epsilon: 0.0 }, false),
            (Operation::GroupNormalize { groups: 3, epsilon: 1e-5, scale: WEIGHTS, shift: BIAS }, true),
            (Operation::Reshape, true),
            (Operation::Add(pair(None)), true),
            (Operation::Add(pair(combined)), false),
            (Operation::Multiply(pair(combined)), false),
            (Operation::Quantize, false),
            (Operation::Dequantize, true),
            (Operation::Requantize { multiplier: 70_008 }, false),
        ]
    }

    fn record(operation: Operation, is_f32: bool) -> Record {
        let quantization = Quantization::new(0.125, -5).unwrap();
        let element = if is_f32 { Element::F32 } else { Element::I8(quantization) };
        Record { input: 13, output: Shape::new(14, 15, 16), element, offset: 70_009, operation }
    }

    #[test]
    fn what_is_emitted_is_parsed() {
        for (operation, is_f32) in operations() {
            let record = record(operation, is_f32);
            assert_eq!(Record::parse(&record.emit().unwrap()), Ok(record));
        }
    }

    #[test]
    fn every_activation_is_parsed() {
        use Activation::{Elu, Identity, LeakyRelu, Relu, Sigmoid, Tanh};
        for activation in [Identity, Relu, LeakyRelu { slope: 0.25 }, Sigmoid, Tanh, Elu { alpha: 0.5 }] {
            let record = record(Operation::Dense(float(activation)), true);
            assert_eq!(Record::parse(&record.emit().unwrap()), Ok(record));
        }
    }

    #[test]
    fn scratch_memory_is_that_of_the_kernel() {
        let input = Shape::new(5, 6, 7);
        let scratch = |operation, is_f32| record(operation, is_f32).scratch(input);
        // Two words for each four of the 210 inputs.
        assert_eq!(scratch(Operation::Dense(int8(None)), false), Span { start: 70_005, len: 106 });
        let (geometry, output_padding) = (Geometry { stride: [1, 1], ..GEOMETRY }, [0, 0]);
        let windows = geometry.windows(input, Shape::new(14, 15, 16));
        for (operation, len) in [
            (Operation::Conv2d(geometry, int8(None)), int8::conv2d_scratch_words(Layout::Paired, &windows)),
            (
                Operation::ConvTranspose2d { geometry, output_padding, linear: int8(None) },
                int8::conv_transpose2d_scratch_words(Layout::Paired, &windows),
            ),
        ] {
            assert!(len > 0);
            assert_eq!(scratch(operation, false), Span { start: 70_005, len }, "{operation:?}");
        }
        assert_eq!(scratch(Operation::Dense(float(Activation::Relu)), true).len, 0);
    }

    /// Pixels of 6 values are computed from pixels of 4, eight in a row. The last of three rows ends 144 values after
    /// the output's start, and is computed from the input's last row, which starts 64 values after the input's start.
    #[test]
    fn an_output_may_lie_over_rows_that_have_been_read() {
        let lead = |operation, is_f32, rows| {
            Record { output: Shape::new(6, 3, 8), ..record(operation, is_f32) }.lead(Shape::new(4, 3, 8), rows)
        };
        let geometry = |stride| Geometry { kernel: [1, 1], stride: [stride, 1], padding: Padding::NONE };
        let transposed = |stride| Operation::ConvTranspose2d {
            geometry: geometry(stride),
            output_padding: [0, 0],
            linear: int8(None),
        };
        for operation in [Operation::Conv2d(geometry(1), int8(None)), transposed(1)] {
            assert_eq!(lead(operation, false, 1), Some(20), "{operation:?}");
            // If all rows are written before the next are read, the input begins at the end of the output.
            assert_eq!(lead(operation, false, 3), Some(36), "{operation:?}");
        }
        assert_eq!(lead(transposed(2), false, 1), None);
        assert_eq!(lead(Operation::Conv2d(geometry(1), float(Activation::Relu)), true, 1), None);
        assert_eq!(lead(Operation::Dense(int8(None)), false, 1), None);
    }

    #[test]
    fn a_byte_that_changes_nothing_is_refused() {
        for (operation, is_f32) in operations() {
            let record = record(operation, is_f32);
            let bytes = record.emit().unwrap();
            for at in 0..RECORD_LEN {
                let mut changed = bytes;
                changed[at] ^= 1;
                // Each field either has a meaning or must be zero.
                assert_ne!(Record::parse(&changed), Ok(record), "{operation:?}, byte {at}");
            }
        }
    }

    #[test]
    fn a_mode_that_its_kind_does_not_have_is_refused() {
        for (operation, is_f32) in operations() {
            let mut bytes = record(operation, is_f32).emit().unwrap();
            let modes = match operation {
                Operation::AveragePool2d { .. } | Operation::ResizeBilinear { .. } => 2,
                Operation::Dense(_) if !is_f32 => 2,
                // As many groups as fit a byte.
                Operation::GroupNormalize { .. } => 256,
                _ => 1,
            };
            if let Ok(mode) = u8::try_from(modes) {
                bytes[field::MODE] = mode;
                assert_eq!(Record::parse(&bytes), Err(LayerFault::Kind), "{operation:?}");
            }
        }
    }

    #[test]
    fn an_operation_has_what_its_kind_has() {
        for (operation, _) in operations() {
            let kind = operation.kind();
            assert_eq!(operation.linear().is_some(), kind.has_weights(), "{operation:?}");
            if let Some(linear) = operation.linear() {
                assert_eq!((linear.weights(), linear.bias()), (WEIGHTS, BIAS), "{operation:?}");
            }
            assert_eq!(operation.other(), kind.has_other().then_some(12), "{operation:?}");
            let activation = match operation {
                Operation::Conv2d(_, Linear::F32 { .. }) => Activation::LeakyRelu { slope: 0.25 },
                Operation::ConvTranspose2d { linear: Linear::F32 { .. }, .. } => Activation::Tanh,
                Operation::Dense(Linear::F32 { .. }) => Activation::Elu { alpha: 0.5 },
                Operation::Activation(_) => Activation::Sigmoid,
                _ => Activation::Identity,
            };
            assert_eq!(operation.activation(), activation, "{operation:?}");
        }
    }
}
