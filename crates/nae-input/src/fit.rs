//! Brings an image to the size of the network's input: crops, resizes and pads it.

use std::borrow::Cow;

use nae_core::Shape;
use nae_core::model::ResizeFilter;
use nae_onnx::metadata::{Fit, Transforms};

use crate::resize::resize;

/// Converts values in `[0, 1]`, channels last, from the shape `from` to the shape `to`, which has the same number of channels.
pub(super) fn fit(
    values: Cow<'_, [f32]>,
    from: Shape,
    to: Shape,
    filter: ResizeFilter,
    transforms: Transforms,
) -> Vec<f32> {
    let side = transforms.crop.unwrap_or(usize::MAX).max(1);
    let middle = Shape { height: from.height.min(side), width: from.width.min(side), ..from };
    let (values, from) = (cut(values, from, middle), middle);
    let resized = |values: Cow<'_, [f32]>, from: Shape, to: Shape| {
        if from == to { values.into_owned() } else { resize(&values, from, to, filter) }
    };
    let inverted = |mut values: Vec<f32>| {
        if transforms.invert {
            values.iter_mut().for_each(|v| *v = 1.0 - *v);
        }
        values
    };
    match transforms.fit {
        Fit::Stretch => inverted(resized(values, from, to)),
        Fit::Crop => {
            let part = largest(from, to);
            inverted(resized(cut(values, from, part), part, to))
        }
        Fit::Pad => {
            let inner = within(from, to);
            pad(&inverted(resized(values, from, inner)), inner, to)
        }
    }
}

/// The largest shape within `image` that has the aspect ratio of `of`.
fn largest(image: Shape, of: Shape) -> Shape {
    // Products are compared, so that equal aspect ratios are not affected by rounding.
    if image.width * of.height > image.height * of.width {
        Shape { width: scaled(image.height, of.width, of.height), ..image }
    } else {
        Shape { height: scaled(image.width, of.height, of.width), ..image }
    }
}

/// The shape of `image` scaled down, with its aspect ratio, until it fits into `of`. It is never scaled up.
fn within(image: Shape, of: Shape) -> Shape {
    if image.width <= of.width && image.height <= of.height {
        return image;
    }
    if image.width * of.height > image.height * of.width {
        Shape { width: of.width, height: scaled(of.width, image.height, image.width).min(of.height), ..image }
    } else {
        Shape { height: of.height, width: scaled(of.height, image.width, image.height).min(of.width), ..image }
    }
}

/// Returns `side * to / of`, rounded, and at least 1.
fn scaled(side: usize, to: usize, of: usize) -> usize {
    ((side * to + of / 2) / of).max(1)
}

/// Cuts out the centre of an image. If the centre lies between pixels, the cut is half a pixel to the upper left.
fn cut(values: Cow<'_, [f32]>, from: Shape, to: Shape) -> Cow<'_, [f32]> {
    if from == to {
        return values;
    }
    let (top, left) = ((from.height - to.height) / 2, (from.width - to.width) / 2);
    let rows = values.chunks_exact(from.width * from.channels).skip(top).take(to.height);
    let row = |row: &[f32]| row[left * from.channels..][..to.width * from.channels].to_vec();
    rows.flat_map(row).collect()
}

fn pad(values: &[f32], from: Shape, to: Shape) -> Vec<f32> {
    let mut out = vec![0.0; to.len()];
    let (top, left) = ((to.height - from.height) / 2, (to.width - from.width) / 2);
    for (y, row) in values.chunks_exact(from.width * from.channels).enumerate() {
        let start = ((top + y) * to.width + left) * to.channels;
        out[start..start + row.len()].copy_from_slice(row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAREST: ResizeFilter = ResizeFilter::Nearest;

    fn apply(values: &[f32], from: [usize; 2], to: [usize; 2], transforms: Transforms) -> Vec<f32> {
        let shape = |[height, width]: [usize; 2]| Shape::new(1, height, width);
        fit(values.into(), shape(from), shape(to), NEAREST, transforms)
    }

    const IMAGE: [f32; 8] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];

    #[test]
    fn each_transform_does_what_it_says() {
        let none = Transforms::default();
        assert_eq!(apply(&IMAGE, [2, 4], [2, 4], none), IMAGE);
        assert_eq!(apply(&IMAGE, [2, 4], [2, 2], Transforms { fit: Fit::Crop, ..none }), [0.2, 0.3, 0.6, 0.7]);
        assert_eq!(apply(&IMAGE, [4, 2], [2, 2], Transforms { fit: Fit::Crop, ..none }), [0.3, 0.4, 0.5, 0.6]);
        assert_eq!(apply(&IMAGE, [2, 4], [2, 2], Transforms { crop: Some(2), ..none }), [0.2, 0.3, 0.6, 0.7]);
        // A crop larger than the image takes all of it.
        assert_eq!(apply(&IMAGE, [2, 4], [2, 4], Transforms { crop: Some(9), ..none }), IMAGE);
        let inverted = apply(&[0.25, 1.0], [1, 2], [1, 2], Transforms { invert: true, ..none });
        assert_eq!(inverted, [0.75, 0.0]);
    }

    #[test]
    fn padding_is_zero_and_never_enlarges() {
        let pad = Transforms { fit: Fit::Pad, ..Transforms::default() };
        let expected = [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.7, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(apply(&[0.5, 0.7], [1, 2], [3, 4], pad), expected);
        let black = Transforms { invert: true, ..pad };
        assert_eq!(apply(&[0.25], [1, 1], [1, 3], black), [0.0, 0.75, 0.0]);
        // 4×2 into 2×2: half the size, in the middle of a row on either side.
        let constant = apply(&[0.5; 8], [4, 2], [2, 2], pad);
        assert_eq!(constant, [0.5, 0.0, 0.5, 0.0]);
        for (from, to) in [([1, 50], [3, 3]), ([50, 1], [3, 5]), ([7, 5], [3, 3])] {
            let padded = apply(&vec![0.5; from[0] * from[1]], from, to, pad);
            assert_eq!(padded.len(), to[0] * to[1]);
            assert!(padded.iter().any(|v| (v - 0.5).abs() < 1e-6));
        }
    }

    #[test]
    fn channels_stay_together() {
        let rgb: Vec<f32> = (0..12).map(|v| v as f32 / 12.0).collect();
        let crop = Transforms { fit: Fit::Crop, ..Transforms::default() };
        let out = fit(rgb.as_slice().into(), Shape::new(3, 1, 4), Shape::new(3, 1, 2), NEAREST, crop);
        assert_eq!(out, rgb[3..9]);
    }
}
