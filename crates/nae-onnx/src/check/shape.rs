//! Arithmetic of shapes: windows, broadcasting, reshaping. `None` means impossible.

use super::graph::{Dim, WindowAttributes};
use super::operator::integers::BATCH;

/// The number of elements for one image; saturates.
pub(super) fn elements(shape: &[Dim]) -> u64 {
    shape.iter().fold(1, |n: u64, d| match d {
        Dim::Fixed(extent) => n.saturating_mul(*extent as u64),
        Dim::Batch => n,
    })
}

/// The number of rows or columns that a window covers.
pub(super) fn span(window: &WindowAttributes, axis: usize) -> usize {
    window.dilation[axis].saturating_mul(window.kernel[axis] - 1).saturating_add(1)
}

/// The extents after a convolution or pooling.
pub(super) fn windows(size: [usize; 2], window: &WindowAttributes) -> Option<[usize; 2]> {
    let mut out = [0; 2];
    for axis in 0..2 {
        let padded = size[axis].checked_add(window.padding[axis])?.checked_add(window.padding[axis + 2])?;
        out[axis] = padded.checked_sub(span(window, axis))? / window.stride[axis] + 1;
    }
    Some(out)
}

/// The extents after a transposed convolution.
pub(super) fn transposed(
    size: [usize; 2],
    window: &WindowAttributes,
    output_padding: [usize; 2],
) -> Option<[usize; 2]> {
    let mut out = [0; 2];
    for axis in 0..2 {
        let full = size[axis]
            .checked_sub(1)?
            .checked_mul(window.stride[axis])?
            .checked_add(span(window, axis))?
            .checked_add(output_padding[axis])?;
        let cut = window.padding[axis].checked_add(window.padding[axis + 2])?;
        out[axis] = full.checked_sub(cut).filter(|&n| n > 0)?;
    }
    Some(out)
}

/// The padding of `SAME_UPPER` and `SAME_LOWER`, or what was expected and what was found. If the padding before the input would
/// be negative, for a stride that is longer than the kernel, runtimes differ in whether they cut the input or leave it.
pub(super) fn same_padding(
    size: [usize; 2],
    window: &WindowAttributes,
    upper: bool,
) -> Result<[usize; 4], [&'static str; 2]> {
    let mut padding = [0; 4];
    for axis in 0..2 {
        let out = size[axis].div_ceil(window.stride[axis]);
        let between = out.checked_sub(1).and_then(|gaps| gaps.checked_mul(window.stride[axis]));
        let needed = between.and_then(|between| between.checked_add(span(window, axis)));
        let needed = needed.ok_or(["an input that is not empty", "none"])?;
        // Half of a single pixel that is too many, rounded towards zero, is none before the input.
        let fits = needed >= size[axis] || (upper && needed + 1 == size[axis]);
        if !fits {
            return Err(["padding that is not negative", "a stride that is longer than the kernel"]);
        }
        let total = needed.saturating_sub(size[axis]);
        let (small, large) = (total / 2, total - total / 2);
        (padding[axis], padding[axis + 2]) = if upper { (small, large) } else { (large, small) };
    }
    Ok(padding)
}

/// NumPy's broadcasting of two shapes.
pub(super) fn broadcast(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[Dim], i: usize| match (i + shape.len()).checked_sub(rank) {
        Some(i) => shape[i],
        None => Dim::Fixed(1),
    };
    let mut out = Vec::with_capacity(rank);
    for i in 0..rank {
        out.push(match (dim(a, i), dim(b, i)) {
            (a, b) if a == b => a,
            (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => other,
            _ => return None,
        });
    }
    // The batch must stay the first axis, or images would be mixed.
    (!out.iter().skip(1).any(|&d| d == Dim::Batch)).then_some(out)
}

/// The shape after `Reshape`; the batch must stay the first axis.
pub(super) fn reshape(from: &[Dim], target: &[i64], fixed_batch: Option<usize>) -> Option<Vec<Dim>> {
    let (Some(Dim::Batch), Some((&first, rest))) = (from.first(), target.split_first()) else { return None };
    let batch_named = first == BATCH
        || first == 0
        || fixed_batch.is_some_and(|n| first == n as i64)
        || (first == -1 && !rest.contains(&-1));
    if !batch_named {
        return None;
    }
    let total = elements(from);
    let mut known = 1u64;
    let mut shape = vec![Dim::Batch];
    let mut inferred = None;
    for (i, &extent) in rest.iter().enumerate() {
        let extent = match extent {
            -1 if inferred.is_none() => {
                inferred = Some(i + 1);
                1
            }
            0 => match from.get(i + 1) {
                Some(Dim::Fixed(n)) => *n as u64,
                _ => return None,
            },
            n => u64::try_from(n).ok().filter(|&n| n > 0)?,
        };
        known = known.checked_mul(extent)?;
        shape.push(Dim::Fixed(usize::try_from(extent).ok()?));
    }
    if let Some(i) = inferred {
        let extent = total.checked_div(known)?;
        known = known.checked_mul(extent)?;
        shape[i] = Dim::Fixed(usize::try_from(extent).ok()?);
    }
    (known == total).then_some(shape)
}

/// Converts an axis from −rank to rank − 1.
pub(super) fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = rank as i64;
    (-rank..rank).contains(&axis).then(|| axis.rem_euclid(rank) as usize)
}
