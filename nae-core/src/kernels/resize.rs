//! Nearest and bilinear resizing. Coordinates are ratios of integers, so they are exact.

use super::{part, part_mut};
use crate::Shape;

/// Nearest neighbour, source index ⌊i·in/out⌋.
pub(crate) fn nearest(from: Shape, to: Shape, input: &[f32], output: &mut [f32]) {
    let channels = from.channels;
    for y in 0..to.height {
        let row = y * from.height / to.height.max(1);
        for x in 0..to.width {
            let column = x * from.width / to.width.max(1);
            let pixel = part(input, (row * from.width + column) * channels, channels);
            let target = part_mut(output, (y * to.width + x) * channels, channels);
            for (value, x) in target.iter_mut().zip(pixel) {
                *value = *x;
            }
        }
    }
}

/// Bilinear interpolation, with aligned corners or half-pixel centres.
pub(crate) fn bilinear(half_pixel: bool, from: Shape, to: Shape, input: &[f32], output: &mut [f32]) {
    let channels = from.channels;
    for y in 0..to.height {
        let down = Between::new(half_pixel, y, from.height, to.height);
        for x in 0..to.width {
            let across = Between::new(half_pixel, x, from.width, to.width);
            let pixel = |row: usize, column: usize| part(input, (row * from.width + column) * channels, channels);
            let top = pixel(down.low, across.low).iter().zip(pixel(down.low, across.high));
            let bottom = pixel(down.high, across.low).iter().zip(pixel(down.high, across.high));
            let target = part_mut(output, (y * to.width + x) * channels, channels);
            for (value, (top, bottom)) in target.iter_mut().zip(top.zip(bottom)) {
                let top = across.mix(*top.0, *top.1);
                let bottom = across.mix(*bottom.0, *bottom.1);
                *value = down.mix(top, bottom);
            }
        }
    }
}

/// A place between two neighbours along one axis.
#[derive(Clone, Copy)]
struct Between {
    low: usize,
    high: usize,
    fraction: f32,
}

impl Between {
    /// The source of index `i` of `to`, among `from`. Sides are below 2^15, so products fit 32
    /// bits.
    fn new(half_pixel: bool, i: usize, from: usize, to: usize) -> Self {
        let (numerator, denominator) = if half_pixel {
            (((2 * i + 1) * from).saturating_sub(to), 2 * to)
        } else if to > 1 {
            (i * (from - 1), to - 1)
        } else {
            (0, 1)
        };
        // No side is zero, but the compiler cannot derive this.
        let denominator = denominator.max(1);
        let low = numerator / denominator;
        if low + 1 >= from {
            return Self { low: from - 1, high: from - 1, fraction: 0.0 };
        }
        Self { low, high: low + 1, fraction: (numerator % denominator) as f32 / denominator as f32 }
    }

    fn mix(self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.fraction
    }
}
