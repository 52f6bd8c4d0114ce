//! Whether the layers of a file fit together: shapes, weights, and the arena plan. All `const`.

use super::parameters;
use super::{Geometry, Kind, LayerFault, Operation, Record, Span};
use crate::Shape;
use crate::format::{MAX_SIDE, MAX_VALUES};
use crate::layer::{Element, Padding};
use crate::quantization::Quantization;

/// Greatest stride of an 8-bit transposed convolution.
const MAX_INT8_STRIDE: usize = 16;

/// Shape and type of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    pub(super) shape: Shape,
    pub(super) element: Element,
}

/// Number of values of a shape that the engine can take; `None` when empty or too large.
pub(super) const fn volume(shape: Shape) -> Option<usize> {
    if shape.height > MAX_SIDE || shape.width > MAX_SIDE {
        return None;
    }
    match shape.len() {
        len @ 1..=MAX_VALUES => Some(len),
        _ => None,
    }
}

/// Checks one layer against its input: types, geometry, output shape, parameters inside `words`
/// and valid, output inside `arena` words.
pub(super) const fn layer(record: &Record, input: Tensor, words: &[u8], arena: usize) -> Result<(), LayerFault> {
    let Some(len) = volume(record.output) else {
        return Err(LayerFault::Shape);
    };
    if !inside(Span { start: record.offset, len: record.element.words(len) }, arena) {
        return Err(LayerFault::Arena);
    }
    if let Err(fault) = types(record, input.element) {
        return Err(fault);
    }
    if !geometry_is_valid(record) {
        return Err(LayerFault::Geometry);
    }
    let expected = match output_shape(record, input.shape) {
        Some(shape) => shape,
        None => return Err(LayerFault::Geometry),
    };
    if !same(expected, record.output) {
        return Err(LayerFault::Shape);
    }
    let scratch = record.scratch(input.shape);
    if scratch.len == 0 && scratch.start != 0 {
        return Err(LayerFault::Reserved);
    }
    if !inside(scratch, arena) {
        return Err(LayerFault::Arena);
    }
    if meet(scratch, place(record)) {
        return Err(LayerFault::Overlap);
    }
    parameters::check(record, input.shape, words)
}

/// The words of the arena that a layer's output takes.
const fn place(record: &Record) -> Span {
    Span { start: record.offset, len: record.element.words(record.output.len()) }
}

const fn meet(a: Span, b: Span) -> bool {
    a.len > 0 && b.len > 0 && a.start < b.start + b.len && b.start < a.start + a.len
}

/// Whether the output's type follows from the input's.
const fn types(record: &Record, input: Element) -> Result<(), LayerFault> {
    let fits = match (record.operation.kind(), input, record.element) {
        (Kind::Quantize, Element::F32, Element::I8(_)) | (Kind::Dequantize, Element::I8(_), Element::F32) => true,
        (Kind::Quantize | Kind::Dequantize, ..)
        | (Kind::Requantize, Element::F32, Element::F32)
        | (Kind::GroupNormalize, _, Element::I8(_)) => false,
        (_, Element::F32, Element::F32) => true,
        (kind, Element::I8(from), Element::I8(to)) => {
            if kind.keeps_quantization() && !from.is(to) || matches!(kind, Kind::L2Normalize) && !is_unit(to) {
                return Err(LayerFault::Quantization);
            }
            true
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(LayerFault::Element) }
}

/// Scale 1/128 and zero point 0: what 8-bit normalisation gives.
const fn is_unit(quantization: Quantization) -> bool {
    quantization.scale() == 1.0 / 128.0 && quantization.zero_point() == 0
}

/// Whether `span`, in words, lies inside `len` of them.
pub(super) const fn inside(span: Span, len: usize) -> bool {
    span.start <= len && span.len <= len - span.start
}

const fn geometry_is_valid(record: &Record) -> bool {
    match &record.operation {
        Operation::Conv2d(geometry, _) | Operation::MaxPool2d(geometry) | Operation::AveragePool2d { geometry, .. } => {
            every_window_meets_the_input(geometry)
        }
        Operation::ConvTranspose2d { geometry, output_padding, .. } => {
            let [down, across] = geometry.stride;
            // An 8-bit transposed convolution is down·across convolutions: not more than can be of use.
            let few = matches!(record.element, Element::F32) || down <= MAX_INT8_STRIDE && across <= MAX_INT8_STRIDE;
            every_window_meets_the_input(geometry) && few && output_padding[0] < down && output_padding[1] < across
        }
        _ => true,
    }
}

/// Kernel and stride above zero, and padding below the kernel.
const fn every_window_meets_the_input(geometry: &Geometry) -> bool {
    let Padding { top, left, bottom, right } = geometry.padding;
    let [height, width] = geometry.kernel;
    let [down, across] = geometry.stride;
    down > 0 && across > 0 && top < height && bottom < height && left < width && right < width
}

pub(super) const fn same(a: Shape, b: Shape) -> bool {
    a.channels == b.channels && a.height == b.height && a.width == b.width
}

/// The shape the layer gives for `input`, whose volume is valid. Sides are below 2^16 and
/// channels below 2^29, so nothing here overflows 32 bits but what is checked.
const fn output_shape(record: &Record, input: Shape) -> Option<Shape> {
    Some(match &record.operation {
        Operation::Conv2d(geometry, _) => return windows_shape(geometry, record.output.channels, input),
        Operation::MaxPool2d(geometry) | Operation::AveragePool2d { geometry, .. } => {
            return windows_shape(geometry, input.channels, input);
        }
        Operation::ConvTranspose2d { geometry, output_padding, .. } => {
            let Padding { top, left, bottom, right } = geometry.padding;
            let ([kh, kw], [down, across]) = (geometry.kernel, geometry.stride);
            // At most 32,766 × 65,535 + 3 × 65,535: below 2^32.
            let rows = (input.height - 1) * down + kh + output_padding[0];
            let columns = (input.width - 1) * across + kw + output_padding[1];
            if rows <= top + bottom || columns <= left + right {
                return None;
            }
            Shape::new(record.output.channels, rows - top - bottom, columns - left - right)
        }
        Operation::Dense(_) => record.output,
        Operation::ResizeNearest | Operation::ResizeBilinear { .. } => {
            Shape::new(input.channels, record.output.height, record.output.width)
        }
        Operation::Reshape => {
            if record.output.len() != input.len() {
                return None;
            }
            record.output
        }
        Operation::GroupNormalize { groups, .. } => match input.channels.checked_rem(*groups as usize) {
            Some(0) => input,
            _ => return None,
        },
        Operation::Activation(_)
        | Operation::Table(_)
        | Operation::L2Normalize { .. }
        | Operation::Add(_)
        | Operation::Multiply(_)
        | Operation::Quantize
        | Operation::Dequantize
        | Operation::Requantize { .. } => input,
    })
}

/// What windows over `input` give, each one value of every channel.
const fn windows_shape(geometry: &Geometry, channels: usize, input: Shape) -> Option<Shape> {
    let Padding { top, left, bottom, right } = geometry.padding;
    let ([kh, kw], [down, across]) = (geometry.kernel, geometry.stride);
    let rows = input.height + top + bottom;
    let columns = input.width + left + right;
    if rows < kh || columns < kw {
        return None;
    }
    // No stride is zero here; the compiler is told, so that no panic is linked.
    match ((rows - kh).checked_div(down), (columns - kw).checked_div(across)) {
        (Some(rows), Some(columns)) => Some(Shape::new(channels, rows + 1, columns + 1)),
        _ => None,
    }
}

/// Whether layer `writer`, which reads a tensor of shape `input`, may write where it does, given a
/// tensor that an earlier layer wrote and the last layer that reads it (the number of layers, for
/// what is read at the end).
pub(super) const fn may_overwrite(
    writer: &Record,
    input: Shape,
    writer_index: usize,
    tensor: usize,
    tensor_record: &Record,
    last_read: usize,
) -> bool {
    if last_read < writer_index {
        return true;
    }
    // This layer or a later one reads the tensor.
    let scratch = writer.scratch(input);
    let (a, b) = (place(writer), place(tensor_record));
    if meet(scratch, b) {
        return false;
    }
    if !meet(a, b) {
        return true;
    }
    let is_other = match writer.operation.other() {
        Some(other) => other == tensor,
        None => false,
    };
    if last_read != writer_index || writer.input != tensor || is_other {
        return false;
    }
    if writer.operation.kind().works_in_place() {
        return a.start == b.start && a.len == b.len;
    }
    // Row by row, behind what is still read.
    match writer.lead(input, 1) {
        Some(lead) => b.start >= a.start && b.start - a.start >= lead,
        None => false,
    }
}
