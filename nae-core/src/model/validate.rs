//! Checks one layer: types, shapes, geometry, and its place in the arena. All functions are `const`.

use super::parameters;
use super::{Geometry, Kind, LayerFault, Operation, Record, Span};
use crate::Shape;
use crate::format::{MAX_SIDE, MAX_VALUES};
use crate::layer::{Element, Padding};
use crate::quantization::Quantization;

/// The largest window, in values, whose mean is taken in 8 bits: the sum is below 2^30.
const MAX_INT8_MEAN: usize = 1 << 23;
/// Greatest stride of an 8-bit transposed convolution.
const MAX_INT8_STRIDE: usize = 16;

/// Shape and type of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    pub(super) shape: Shape,
    pub(super) element: Element,
}

/// Number of values of a shape that the engine accepts; `None` if it is empty or too large.
pub(super) const fn volume(shape: Shape) -> Option<usize> {
    if shape.height > MAX_SIDE || shape.width > MAX_SIDE {
        return None;
    }
    match shape.len() {
        len @ 1..=MAX_VALUES => Some(len),
        _ => None,
    }
}

/// Checks one layer against its input: types, geometry, output shape, parameters that are valid and lie inside `words`,
/// output inside `arena` words.
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

/// The words of the arena that a layer's output occupies.
const fn place(record: &Record) -> Span {
    Span { start: record.offset, len: record.element.words(record.output.len()) }
}

const fn meet(a: Span, b: Span) -> bool {
    a.len > 0 && b.len > 0 && a.start < b.start + b.len && b.start < a.start + a.len
}

/// Checks that the output's type follows from the input's.
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

/// Whether the scale is 1/128 and the zero point 0: the output of 8-bit normalization.
const fn is_unit(quantization: Quantization) -> bool {
    quantization.scale() == 1.0 / 128.0 && quantization.zero_point() == 0
}

/// Whether `span`, in words, lies inside the first `len` words.
pub(super) const fn inside(span: Span, len: usize) -> bool {
    span.start <= len && span.len <= len - span.start
}

const fn geometry_is_valid(record: &Record) -> bool {
    match &record.operation {
        Operation::Conv2d(geometry, _) | Operation::MaxPool2d(geometry) => every_window_meets_the_input(geometry),
        Operation::AveragePool2d { geometry, .. } => {
            // Sides are below 2^16, so that the product is below 2^32.
            let [height, width] = geometry.kernel;
            let sum_fits = matches!(record.element, Element::F32) || height * width <= MAX_INT8_MEAN;
            every_window_meets_the_input(geometry) && sum_fits
        }
        Operation::ConvTranspose2d { geometry, output_padding, .. } => {
            let [down, across] = geometry.stride;
            // An 8-bit transposed convolution runs as down·across convolutions, so strides are limited.
            let few = matches!(record.element, Element::F32) || down <= MAX_INT8_STRIDE && across <= MAX_INT8_STRIDE;
            every_window_meets_the_input(geometry) && few && output_padding[0] < down && output_padding[1] < across
        }
        _ => true,
    }
}

/// Whether kernel and stride are above zero and the padding is below the kernel.
const fn every_window_meets_the_input(geometry: &Geometry) -> bool {
    let Padding { top, left, bottom, right } = geometry.padding;
    let [height, width] = geometry.kernel;
    let [down, across] = geometry.stride;
    down > 0 && across > 0 && top < height && bottom < height && left < width && right < width
}

pub(super) const fn same(a: Shape, b: Shape) -> bool {
    a.channels == b.channels && a.height == b.height && a.width == b.width
}

/// The shape that the layer gives for `input`, whose volume is valid. Sides are below 2^16 and channels below 2^29, so
/// only the numbers that are checked here could overflow 32 bits.
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

/// The shape that windows over `input` give, with `channels` values for each window.
const fn windows_shape(geometry: &Geometry, channels: usize, input: Shape) -> Option<Shape> {
    let Padding { top, left, bottom, right } = geometry.padding;
    let ([kh, kw], [down, across]) = (geometry.kernel, geometry.stride);
    let rows = input.height + top + bottom;
    let columns = input.width + left + right;
    if rows < kh || columns < kw {
        return None;
    }
    // No stride is zero here; the explicit check avoids linking a panic.
    match ((rows - kh).checked_div(down), (columns - kw).checked_div(across)) {
        (Some(rows), Some(columns)) => Some(Shape::new(channels, rows + 1, columns + 1)),
        _ => None,
    }
}

/// Whether layer `writer`, which reads a tensor of shape `input`, may write to its place in the arena, given a tensor
/// that an earlier layer wrote and the last layer that reads that tensor (the number of layers, if it is read at the
/// end).
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
    // The output may lie over rows of the input that are no longer read.
    match writer.lead(input, 1) {
        Some(lead) => b.start >= a.start && b.start - a.start >= lead,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::format::{Int8Linear, Linear, Pair};
    use crate::kernels::int8::Layout;
    use crate::layer::Activation;

    const NO_LINEAR: Linear = Linear::F32 { weights: span(0, 0), bias: span(0, 0), activation: Activation::Identity };
    const VALID: Geometry =
        Geometry { kernel: [3, 4], stride: [1, 1], padding: Padding { top: 2, left: 3, bottom: 2, right: 3 } };

    const fn span(start: usize, len: usize) -> Span {
        Span { start, len }
    }

    fn i8(scale: f32, zero_point: i8) -> Element {
        Element::I8(Quantization::new(scale, zero_point).unwrap())
    }

    fn record(operation: Operation, element: Element, output: Shape) -> Record {
        Record { input: 1, output, element, offset: 0, operation }
    }

    #[test]
    fn the_largest_tensor_is_taken_and_none_beyond() {
        for (shape, expected) in [
            (Shape::new(1, MAX_SIDE, 1), Some(MAX_SIDE)),
            (Shape::new(1, MAX_SIDE + 1, 1), None),
            (Shape::new(1, 1, MAX_SIDE), Some(MAX_SIDE)),
            (Shape::new(1, 1, MAX_SIDE + 1), None),
            (Shape::vector(MAX_VALUES), Some(MAX_VALUES)),
            (Shape::vector(MAX_VALUES + 1), None),
            (Shape::vector(0), None),
            (Shape::new(2, 3, 4), Some(24)),
        ] {
            assert_eq!(volume(shape), expected, "{shape}");
        }
    }

    #[test]
    fn spans_that_touch_do_not_meet() {
        for (a, b, expected) in [
            (span(0, 4), span(4, 4), false),
            (span(0, 5), span(4, 4), true),
            (span(2, 2), span(0, 8), true),
            (span(3, 3), span(3, 3), true),
            (span(2, 0), span(0, 8), false),
        ] {
            assert_eq!((meet(a, b), meet(b, a)), (expected, expected), "{a:?} {b:?}");
        }
        for (a, len, expected) in
            [(span(3, 5), 8, true), (span(8, 0), 8, true), (span(4, 5), 8, false), (span(9, 0), 8, false)]
        {
            assert_eq!(inside(a, len), expected, "{a:?} in {len}");
        }
    }

    #[test]
    fn the_type_of_a_layer_follows_from_its_input() {
        let (float, a, unit) = (Element::F32, i8(0.5, 3), i8(1.0 / 128.0, 0));
        let normalize = Operation::L2Normalize { epsilon: 0.0 };
        let groups = Operation::GroupNormalize { groups: 1, epsilon: 1.0, scale: span(0, 1), shift: span(1, 1) };
        let requantize = Operation::Requantize { multiplier: 0 };
        for (operation, from, to, expected) in [
            (Operation::Quantize, float, a, Ok(())),
            (Operation::Quantize, float, float, Err(LayerFault::Element)),
            (Operation::Quantize, a, a, Err(LayerFault::Element)),
            (Operation::Dequantize, a, float, Ok(())),
            (Operation::Dequantize, a, a, Err(LayerFault::Element)),
            (Operation::Dequantize, float, float, Err(LayerFault::Element)),
            (requantize, a, unit, Ok(())),
            (requantize, float, float, Err(LayerFault::Element)),
            (groups, float, float, Ok(())),
            (groups, a, a, Err(LayerFault::Element)),
            (Operation::Reshape, float, float, Ok(())),
            (Operation::Reshape, float, a, Err(LayerFault::Element)),
            (Operation::Reshape, a, float, Err(LayerFault::Element)),
            (Operation::Reshape, a, a, Ok(())),
            (Operation::Reshape, a, i8(0.5, 4), Err(LayerFault::Quantization)),
            (Operation::Reshape, a, i8(0.25, 3), Err(LayerFault::Quantization)),
            (normalize, a, unit, Ok(())),
            (normalize, a, i8(1.0 / 128.0, 1), Err(LayerFault::Quantization)),
            (normalize, a, i8(1.0 / 64.0, 0), Err(LayerFault::Quantization)),
        ] {
            let layer = record(operation, to, Shape::vector(1));
            assert_eq!(types(&layer, from), expected, "{operation:?} from {from:?} to {to:?}");
        }
    }

    #[test]
    fn windows_that_may_miss_the_input_are_refused() {
        assert!(every_window_meets_the_input(&VALID));
        let padding = |top, left, bottom, right| Geometry { padding: Padding { top, left, bottom, right }, ..VALID };
        for wrong in [
            Geometry { stride: [0, 1], ..VALID },
            Geometry { stride: [1, 0], ..VALID },
            padding(3, 3, 2, 3),
            padding(2, 4, 2, 3),
            padding(2, 3, 3, 3),
            padding(2, 3, 2, 4),
        ] {
            assert!(!every_window_meets_the_input(&wrong), "{wrong:?}");
            for operation in [
                Operation::Conv2d(wrong, NO_LINEAR),
                Operation::MaxPool2d(wrong),
                Operation::AveragePool2d { geometry: wrong, count_include_padding: true },
                Operation::ConvTranspose2d { geometry: wrong, output_padding: [0, 0], linear: NO_LINEAR },
            ] {
                assert!(!geometry_is_valid(&record(operation, Element::F32, Shape::vector(1))), "{operation:?}");
            }
        }
        assert!(geometry_is_valid(&record(Operation::Conv2d(VALID, NO_LINEAR), Element::F32, Shape::vector(1))));
    }

    #[test]
    fn transposed_convolutions_pad_less_than_a_stride_and_8_bit_ones_have_small_strides() {
        let float = Element::F32;
        for (stride, output_padding, element, expected) in [
            ([17, 17], [16, 16], float, true),
            ([16, 16], [0, 0], i8(1.0, 0), true),
            ([17, 16], [0, 0], i8(1.0, 0), false),
            ([16, 17], [0, 0], i8(1.0, 0), false),
            ([2, 3], [2, 0], float, false),
            ([2, 3], [0, 3], float, false),
            ([2, 3], [1, 2], float, true),
        ] {
            let geometry = Geometry { stride, ..VALID };
            let operation = Operation::ConvTranspose2d { geometry, output_padding, linear: NO_LINEAR };
            let layer = record(operation, element, Shape::vector(1));
            assert_eq!(geometry_is_valid(&layer), expected, "{stride:?} {output_padding:?} {element:?}");
        }
    }

    #[test]
    fn shapes_differ_in_any_side() {
        let shape = Shape::new(2, 3, 4);
        assert!(same(shape, shape));
        for other in [Shape::new(1, 3, 4), Shape::new(2, 1, 4), Shape::new(2, 3, 1)] {
            assert!(!same(shape, other) && !same(other, shape), "{other}");
        }
    }

    #[test]
    fn output_shapes_by_hand() {
        let of = |operation, output, input| output_shape(&record(operation, Element::F32, output), input);
        let any = Shape::new(9, 1, 1);
        // ⌊(7 + 2 + 3 − 3)/2⌋ + 1 and ⌊(9 + 3 + 4 − 2)/4⌋ + 1.
        let input = Shape::new(6, 7, 9);
        let padding = Padding { top: 2, left: 3, bottom: 3, right: 4 };
        let windows = Geometry { kernel: [3, 2], stride: [2, 4], padding };
        let pool = Operation::AveragePool2d { geometry: windows, count_include_padding: false };
        assert_eq!(of(Operation::Conv2d(windows, NO_LINEAR), any, input), Some(Shape::new(9, 5, 4)));
        assert_eq!(of(Operation::MaxPool2d(windows), any, input), Some(Shape::new(6, 5, 4)));
        assert_eq!(of(pool, any, input), Some(Shape::new(6, 5, 4)));
        // (4 − 1)·2 + 5 + 1 − 1 − 3 and (5 − 1)·3 + 6 + 2 − 2 − 4.
        let padding = Padding { top: 1, left: 2, bottom: 3, right: 4 };
        let transposed = |kernel, stride, padding, output_padding| Operation::ConvTranspose2d {
            geometry: Geometry { kernel, stride, padding },
            output_padding,
            linear: NO_LINEAR,
        };
        let layer = transposed([5, 6], [2, 3], padding, [1, 2]);
        assert_eq!(of(layer, any, Shape::new(6, 4, 5)), Some(Shape::new(9, 8, 14)));
        // Padding that leaves nothing of height 4, and of width 4.
        let one = Shape::new(6, 1, 1);
        let padding = Padding { top: 1, left: 1, bottom: 3, right: 3 };
        assert_eq!(of(transposed([5, 5], [1, 1], padding, [0, 0]), any, one), Some(Shape::new(9, 1, 1)));
        assert_eq!(of(transposed([4, 5], [1, 1], padding, [0, 0]), any, one), None);
        assert_eq!(of(transposed([5, 4], [1, 1], padding, [0, 0]), any, one), None);
        // A window as large as the input, and larger windows.
        let whole = |kernel| Operation::MaxPool2d(Geometry { kernel, stride: [1, 1], padding: Padding::NONE });
        assert_eq!(of(whole([7, 9]), any, input), Some(Shape::new(6, 1, 1)));
        assert_eq!(of(whole([8, 9]), any, input), None);
        assert_eq!(of(whole([7, 10]), any, input), None);

        let groups = |groups| Operation::GroupNormalize { groups, epsilon: 1.0, scale: span(0, 6), shift: span(6, 6) };
        assert_eq!((of(groups(3), any, input), of(groups(4), any, input)), (Some(input), None));
        assert_eq!(of(groups(0), any, input), None);
        let flat = Shape::vector(378);
        assert_eq!((of(Operation::Reshape, flat, input), of(Operation::Reshape, any, input)), (Some(flat), None));
        assert_eq!(of(Operation::ResizeNearest, Shape::new(9, 2, 3), input), Some(Shape::new(6, 2, 3)));
        assert_eq!(of(Operation::Dense(NO_LINEAR), any, input), Some(any));
        assert_eq!(of(Operation::Activation(Activation::Relu), any, input), Some(input));
    }

    #[test]
    fn only_what_nobody_reads_any_more_is_overwritten() {
        let shape = Shape::vector(4);
        let layer = |operation, offset, output| Record { input: 2, output, element: Element::F32, offset, operation };
        let relu = Operation::Activation(Activation::Relu);
        let add = |other| Operation::Add(Pair { other, int8: None });
        let tensor = layer(relu, 10, shape);
        // Layer 3 reads tensor 2 and writes, while the tensor in question lies at 10…14 and is read last by layer
        // `last_read`.
        let may = |writer: &Record, tensor_index, last_read| {
            may_overwrite(writer, shape, 3, tensor_index, &tensor, last_read)
        };
        assert!(may(&layer(Operation::Dense(NO_LINEAR), 12, shape), 2, 2), "nobody reads it any more");
        assert!(may(&layer(Operation::Dense(NO_LINEAR), 14, shape), 2, 3), "it lies elsewhere");
        assert!(!may(&layer(Operation::Dense(NO_LINEAR), 13, shape), 2, 3), "the last value is lost");
        assert!(!may(&layer(Operation::Dense(NO_LINEAR), 13, shape), 2, 5));
        assert!(may(&layer(relu, 10, shape), 2, 3), "value by value, in place");
        assert!(!may(&layer(relu, 10, shape), 2, 4), "a later layer reads it");
        assert!(!may(&layer(Operation::Dense(NO_LINEAR), 10, shape), 2, 3), "not value by value");
        assert!(!may(&layer(relu, 10, shape), 1, 3), "another tensor than its input");
        assert!(!may(&layer(relu, 10, Shape::vector(5)), 2, 3), "longer");
        assert!(!may(&layer(relu, 11, shape), 2, 3), "shifted by one");
        assert!(may(&layer(add(1), 10, shape), 2, 3));
        assert!(!may(&layer(add(2), 10, shape), 2, 3), "its second tensor as well");
    }

    #[test]
    fn scratch_memory_spares_what_is_still_read() {
        let input = Shape::new(4, 4, 4);
        let geometry = Geometry { kernel: [3, 3], stride: [1, 1], padding: Padding::all(1) };
        let conv = |scratch| {
            let (layout, clamp) = (Layout::Paired, [-128, 127]);
            let linear =
                Int8Linear { layout, weights: span(0, 0), bias: span(0, 0), shared_multiplier: None, clamp, scratch };
            let operation = Operation::Conv2d(geometry, Linear::I8(linear));
            Record { input: 2, output: input, element: i8(1.0, 0), offset: 1000, operation }
        };
        let tensor = record(Operation::Reshape, i8(1.0, 0), input);
        let words = conv(0).scratch(input).len;
        assert!(words > 0);
        // 64 values of 8 bits lie in words 0…16.
        assert!(!may_overwrite(&conv(15), input, 3, 1, &tensor, 5));
        assert!(may_overwrite(&conv(16), input, 3, 1, &tensor, 5));
        assert!(may_overwrite(&conv(15), input, 3, 1, &tensor, 2), "nobody reads it any more");
    }
}
