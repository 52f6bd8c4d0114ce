//! Whether the layers of a file fit together: shapes, weights, and the arena plan. All `const`.

use super::error::LayerFault;
use super::layer::Padding;
use super::record::{Kind, Record, Span};
use super::{MAX_SIDE, MAX_VALUES};
use crate::Shape;

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

/// Checks one layer against its input's shape: geometry, output shape, weights inside `weights`
/// values, output inside `arena` values.
pub(super) const fn layer(record: &Record, input: Shape, weights: usize, arena: usize) -> Result<(), LayerFault> {
    let Some(len) = volume(record.output) else {
        return Err(LayerFault::Shape);
    };
    if !inside(Span { start: record.offset, len }, arena) {
        return Err(LayerFault::Arena);
    }
    if record.kind.has_windows() && !windows_are_valid(record) {
        return Err(LayerFault::Geometry);
    }
    let expected = match output_shape(record, input) {
        Some(shape) => shape,
        None => return Err(LayerFault::Geometry),
    };
    if !same(expected, record.output) {
        return Err(LayerFault::Shape);
    }
    if record.kind.has_weights() {
        let taps = match record.kind {
            Kind::Dense => input.len(),
            _ => Shape::new(input.channels, record.kernel[0], record.kernel[1]).len(),
        };
        let outputs = match record.kind {
            Kind::Dense => len,
            _ => record.output.channels,
        };
        if record.weights.len != outputs.saturating_mul(taps)
            || record.bias.len != outputs
            || !inside(record.weights, weights)
            || !inside(record.bias, weights)
        {
            return Err(LayerFault::Weights);
        }
    }
    Ok(())
}

const fn inside(span: Span, len: usize) -> bool {
    span.start <= len && span.len <= len - span.start
}

/// Kernel and stride above zero; padding below the kernel, so that every window meets the input;
/// output padding below the stride.
const fn windows_are_valid(record: &Record) -> bool {
    let Padding { top, left, bottom, right } = record.padding;
    let [height, width] = record.kernel;
    let [down, across] = record.stride;
    down > 0
        && across > 0
        && top < height
        && bottom < height
        && left < width
        && right < width
        && (record.output_padding[0] < down && record.output_padding[1] < across
            || !matches!(record.kind, Kind::ConvTranspose2d))
}

const fn same(a: Shape, b: Shape) -> bool {
    a.channels == b.channels && a.height == b.height && a.width == b.width
}

/// The shape the layer gives for `input`, whose volume is valid. Sides are below 2^16 and
/// channels below 2^29, so nothing here overflows 32 bits but what is checked.
const fn output_shape(record: &Record, input: Shape) -> Option<Shape> {
    let Padding { top, left, bottom, right } = record.padding;
    let [kh, kw] = record.kernel;
    let [sh, sw] = record.stride;
    Some(match record.kind {
        Kind::Conv2d | Kind::MaxPool2d | Kind::AveragePool2d => {
            let rows = input.height + top + bottom;
            let columns = input.width + left + right;
            if rows < kh || columns < kw {
                return None;
            }
            let channels = match record.kind {
                Kind::Conv2d => record.output.channels,
                _ => input.channels,
            };
            Shape::new(channels, (rows - kh) / sh + 1, (columns - kw) / sw + 1)
        }
        Kind::ConvTranspose2d => {
            // At most 32,766 × 65,535 + 3 × 65,535: below 2^32.
            let rows = (input.height - 1) * sh + kh + record.output_padding[0];
            let columns = (input.width - 1) * sw + kw + record.output_padding[1];
            if rows <= top + bottom || columns <= left + right {
                return None;
            }
            Shape::new(record.output.channels, rows - top - bottom, columns - left - right)
        }
        Kind::Dense => record.output,
        Kind::ResizeNearest | Kind::ResizeBilinear => {
            Shape::new(input.channels, record.output.height, record.output.width)
        }
        Kind::Reshape => {
            if record.output.len() != input.len() {
                return None;
            }
            record.output
        }
        Kind::Activation | Kind::L2Normalize | Kind::Add => input,
    })
}

/// Whether layer `writer` may write where it does, given a tensor that an earlier layer wrote
/// and the last layer that reads it (the number of layers, for what is read at the end).
pub(super) const fn may_overwrite(
    writer: &Record,
    writer_index: usize,
    tensor: usize,
    tensor_record: &Record,
    last_read: usize,
) -> bool {
    let (a, a_len) = (writer.offset, writer.output.len());
    let (b, b_len) = (tensor_record.offset, tensor_record.output.len());
    if a + a_len <= b || b + b_len <= a || last_read < writer_index {
        return true;
    }
    // It overlaps a tensor that this layer or a later one reads.
    last_read == writer_index
        && writer.kind.works_in_place()
        && writer.input == tensor
        && a == b
        && a_len == b_len
        && !(matches!(writer.kind, Kind::Add) && writer.other == tensor)
}
