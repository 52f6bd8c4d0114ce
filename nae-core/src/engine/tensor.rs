//! The places of tensors, and views of them as slices: two that do not overlap, or one in place.

use crate::Shape;
use crate::format::Kinds;
use crate::layer::Element;
use crate::model::{Model, Record, Span};
use bytemuck::Pod;

/// The caller's image; one of the two is empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Image<'a> {
    pub(super) f32: &'a [f32],
    pub(super) i8: &'a [i8],
}

/// A type of values.
pub(super) trait Value: Pod {
    fn of_image<'a>(image: Image<'a>) -> &'a [Self];
}

impl Value for f32 {
    fn of_image<'a>(image: Image<'a>) -> &'a [Self] {
        image.f32
    }
}

impl Value for i8 {
    fn of_image<'a>(image: Image<'a>) -> &'a [Self] {
        image.i8
    }
}

/// A tensor's place in the arena, or in the caller's image.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    pub(super) shape: Shape,
    pub(super) element: Element,
    /// The start, in words; `None` for the image.
    offset: Option<usize>,
}

impl Tensor {
    /// Tensor `index` of the model.
    pub(super) fn new(model: &Model<'_>, index: usize) -> Self {
        match index.checked_sub(1).and_then(|i| model.layer(i, Kinds::NONE)) {
            Some(layer) => Self::of(&layer),
            None => Self { shape: model.input_shape(), element: model.element(), offset: None },
        }
    }

    /// The output of a layer.
    pub(super) const fn of(layer: &Record) -> Self {
        Self { shape: layer.output, element: layer.element, offset: Some(layer.offset) }
    }

    /// Zero point of 8-bit values.
    pub(super) fn zero_point(self) -> i8 {
        self.element.quantization().map_or(0, |q| q.zero_point())
    }

    /// Whether both begin at the same place.
    fn is(self, other: Self) -> bool {
        self.offset == other.offset
    }

    /// Number of values. The parser has checked that it is no more than memory can contain.
    pub(super) fn len(self) -> usize {
        self.shape.channels.wrapping_mul(self.shape.height).wrapping_mul(self.shape.width)
    }

    /// The number of bytes from the start of `target` to the start of this tensor; `usize::MAX` if this tensor begins
    /// before `target`, or is the image.
    pub(super) fn distance(self, target: Self) -> usize {
        let words = self.offset.and_then(|offset| offset.checked_sub(target.offset.unwrap_or(0)));
        words.map_or(usize::MAX, |words| 4 * words)
    }

    fn words(self) -> usize {
        self.element.words(self.len())
    }

    fn end(self) -> usize {
        self.offset.unwrap_or(0) + self.words()
    }

    /// The values of a tensor in the arena.
    pub(super) fn values<T: Value>(self, arena: &[f32]) -> &[T] {
        let words = arena.get(self.offset.unwrap_or(0)..).and_then(|rest| rest.get(..self.words()));
        view(words.unwrap_or_default(), self.len())
    }

    /// As [`Tensor::values`], mutable.
    pub(super) fn values_mut<T: Value>(self, arena: &mut [f32]) -> &mut [T] {
        view_mut(self.split(arena).1, self.len())
    }

    /// The parts of the arena before, in and after this tensor.
    fn split(self, arena: &mut [f32]) -> (&mut [f32], &mut [f32], &mut [f32]) {
        let start = self.offset.unwrap_or(0);
        let Some((before, rest)) = arena.split_at_mut_checked(start) else {
            return (&mut [], &mut [], &mut []);
        };
        match rest.split_at_mut_checked(self.words()) {
            Some((output, after)) => (before, output, after),
            None => (&mut [], &mut [], &mut []),
        }
    }

    /// This tensor's values, given the arena before and after `target`, which it does not overlap.
    fn outside<'a, T: Value>(self, target: Self, image: Image<'a>, before: &'a [f32], after: &'a [f32]) -> &'a [T] {
        let end = target.end();
        match self.offset {
            None => T::of_image(image),
            Some(offset) if offset >= end => Self { offset: Some(offset - end), ..self }.values(after),
            Some(_) => self.values(before),
        }
    }
}

/// The first `len` values of type `T` in words of four bytes.
fn view<T: Value>(words: &[f32], len: usize) -> &[T] {
    bytemuck::try_cast_slice(words).unwrap_or_default().get(..len).unwrap_or_default()
}

fn view_mut<T: Value>(words: &mut [f32], len: usize) -> &mut [T] {
    bytemuck::try_cast_slice_mut(words).unwrap_or_default().get_mut(..len).unwrap_or_default()
}

/// A layer's input and output, which do not overlap.
pub(super) fn apart<'a, S: Value, T: Value>(
    source: Tensor,
    target: Tensor,
    image: Image<'a>,
    arena: &'a mut [f32],
) -> (&'a [S], &'a mut [T]) {
    let (before, output, after) = target.split(arena);
    (source.outside(target, image, before, after), view_mut(output, target.len()))
}

/// The inputs, outputs and scratch memory of a layer with scratch memory, or of a band of its rows: the values of
/// `source` from `input` on, `len` values of `target` from `output` on, and the words of `scratch`. None of them
/// overlap.
pub(super) fn with_scratch<'a>(
    (source, input): (Tensor, usize),
    (target, output, len): (Tensor, usize, usize),
    scratch: Span,
    image: Image<'a>,
    arena: &'a mut [f32],
) -> (&'a [i8], &'a mut [i8], &'a mut [u32]) {
    let bytes: &mut [i8] = bytemuck::cast_slice_mut(arena);
    let output = (4 * target.offset.unwrap_or(0) + output, len);
    // Without scratch memory, an empty range after the output.
    let scratch = if scratch.len > 0 { (4 * scratch.start, 4 * scratch.len) } else { (output.0 + len, 0) };
    // Output and scratch in order of their addresses, and the memory before, between and after them.
    let scratch_first = scratch.0 < output.0;
    let (first, second) = if scratch_first { (scratch, output) } else { (output, scratch) };
    let Some((before, rest)) = bytes.split_at_mut_checked(first.0) else {
        return Default::default();
    };
    let Some((first_bytes, rest)) = rest.split_at_mut_checked(first.1) else {
        return Default::default();
    };
    let between = second.0.saturating_sub(first.0 + first.1);
    let Some((between, rest)) = rest.split_at_mut_checked(between) else {
        return Default::default();
    };
    let Some((second_bytes, after)) = rest.split_at_mut_checked(second.1) else {
        return Default::default();
    };
    let (output, scratch) = if scratch_first { (second_bytes, first_bytes) } else { (first_bytes, second_bytes) };
    let rest = source.len().saturating_sub(input);
    let values = match source.offset.map(|offset| 4 * offset + input) {
        None => image.i8.get(input..),
        Some(at) if at >= second.0 + second.1 => after.get(at - second.0 - second.1..),
        Some(at) if at >= first.0 + first.1 => between.get(at - first.0 - first.1..),
        Some(at) => before.get(at..),
    };
    let values = values.and_then(|values| values.get(..rest)).unwrap_or_default();
    (values, output, bytemuck::try_cast_slice_mut(scratch).unwrap_or_default())
}

/// A layer's output, which contains its input; the input is copied there if it lies elsewhere.
pub(super) fn in_place<'a, T: Value>(
    source: Tensor,
    target: Tensor,
    image: Image<'_>,
    arena: &'a mut [f32],
) -> &'a mut [T] {
    if !source.is(target) {
        let (input, output) = apart::<T, T>(source, target, image, &mut *arena);
        for (value, x) in output.iter_mut().zip(input) {
            *value = *x;
        }
    }
    target.values_mut(arena)
}

/// The operands of a layer that reads two tensors.
pub(super) enum Operands<'a, T> {
    /// The output contains the first operand; the second lies elsewhere.
    InPlace(&'a mut [T], &'a [T]),
    /// First operand, second operand, output.
    Apart(&'a [T], &'a [T], &'a mut [T]),
}

/// The operands `source` and `other`, to be combined into `target`.
pub(super) fn operands<'a, T: Value>(
    source: Tensor,
    other: Tensor,
    target: Tensor,
    image: Image<'a>,
    arena: &'a mut [f32],
) -> Operands<'a, T> {
    if source.is(target) {
        let (other, output) = apart(other, target, image, arena);
        Operands::InPlace(output, other)
    } else {
        let (before, output, after) = target.split(arena);
        let (input, other) =
            (source.outside(target, image, before, after), other.outside(target, image, before, after));
        Operands::Apart(input, other, view_mut(output, target.len()))
    }
}
