//! Resizes images by the model's filter.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{F32, F32x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use nae_core::Shape;
use nae_core::model::ResizeFilter;

/// Resizes an image of values in `[0, 1]`, channels last. `to` has the same number of channels, 1 or 3.
pub(super) fn resize(values: &[f32], from: Shape, to: Shape, filter: ResizeFilter) -> Vec<f32> {
    let algorithm = match filter {
        ResizeFilter::BilinearAlignCorners => return align_corners(values, from, to),
        ResizeFilter::Nearest => ResizeAlg::Nearest,
        ResizeFilter::Box => ResizeAlg::Convolution(FilterType::Box),
        ResizeFilter::CatmullRom => ResizeAlg::Convolution(FilterType::CatmullRom),
        ResizeFilter::Lanczos3 => ResizeAlg::Convolution(FilterType::Lanczos3),
        // The enum is `non_exhaustive`; nae-core has no other filter today.
        _ => ResizeAlg::Convolution(FilterType::Bilinear),
    };
    let resized = if to.channels == 1 {
        convolve::<F32>(values, from, to, algorithm)
    } else {
        convolve::<F32x3>(values, from, to, algorithm)
    };
    // Filters with negative lobes can produce values outside of the range.
    resized.into_iter().map(|v| v.clamp(0.0, 1.0)).collect()
}

/// Resizes pixels of the type `P`, whose components are floats.
fn convolve<P: PixelTrait>(values: &[f32], from: Shape, to: Shape, algorithm: ResizeAlg) -> Vec<f32> {
    let mut out = vec![0.0f32; to.len()];
    // The sizes match the slices and are not zero, so neither the view nor the resizing can fail.
    if let (Ok(source), Ok(mut target)) = (
        TypedImageRef::<P>::from_buffer(from.width as u32, from.height as u32, bytemuck::cast_slice(values)),
        TypedImage::<P>::from_buffer(to.width as u32, to.height as u32, bytemuck::cast_slice_mut(&mut out)),
    ) {
        let options = ResizeOptions::new().resize_alg(algorithm).use_alpha(false);
        let _ = Resizer::new().resize_typed(&source, &mut target, &options);
    }
    out
}

/// Interpolates linearly between pixels, with the corner pixels of both images aligned, as PyTorch's
/// `interpolate(…, mode="bilinear", align_corners=True)` does.
fn align_corners(values: &[f32], from: Shape, to: Shape) -> Vec<f32> {
    // Positions in f64 have rounding errors far below the precision of a weight in f32.
    let position = |i: usize, from: usize, to: usize| {
        let exact = if to > 1 { i as f64 * (from - 1) as f64 / (to - 1) as f64 } else { 0.0 };
        let first = (exact as usize).min(from - 1);
        (first, (first + 1).min(from - 1), (exact - first as f64) as f32)
    };
    let at = |y: usize, x: usize, c: usize| values[(y * from.width + x) * from.channels + c];
    let mut out = Vec::with_capacity(to.len());
    for row in 0..to.height {
        let (top, bottom, down) = position(row, from.height, to.height);
        for column in 0..to.width {
            let (left, right, across) = position(column, from.width, to.width);
            for c in 0..from.channels {
                let upper = at(top, left, c) * (1.0 - across) + at(top, right, c) * across;
                let lower = at(bottom, left, c) * (1.0 - across) + at(bottom, right, c) * across;
                out.push(upper * (1.0 - down) + lower * down);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_are_aligned() {
        // PyTorch: F.interpolate(tensor([[0., 1.], [2., 3.]])/4, size=(3, 5), align_corners=True).
        let out = resize(
            &[0.0, 0.25, 0.5, 0.75],
            Shape::new(1, 2, 2),
            Shape::new(1, 3, 5),
            ResizeFilter::BilinearAlignCorners,
        );
        let expected: Vec<f32> =
            (0..3).flat_map(|y| (0..5).map(move |x| 0.25 * y as f32 + 0.0625 * x as f32)).collect();
        assert_eq!(out, expected);
        let one = resize(
            &[0.0, 0.25, 0.5, 0.75],
            Shape::new(1, 2, 2),
            Shape::new(1, 1, 1),
            ResizeFilter::BilinearAlignCorners,
        );
        assert_eq!(one, [0.0]);
    }

    #[test]
    fn every_filter_keeps_a_constant_image() {
        for filter in ["nearest", "box", "bilinear", "bilinear-align-corners", "catmull-rom", "lanczos3"] {
            let filter = ResizeFilter::from_name(filter).unwrap();
            for (from, to) in
                [(Shape::new(3, 40, 7), Shape::new(3, 16, 16)), (Shape::new(1, 1, 1), Shape::new(1, 5, 4))]
            {
                for v in resize(&vec![0.3; from.len()], from, to, filter) {
                    assert!((v - 0.3).abs() < 1e-6, "{filter:?} {v}");
                }
            }
        }
    }
}
