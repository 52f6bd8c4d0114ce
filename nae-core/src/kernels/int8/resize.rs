//! Nearest and bilinear resizing. Scale and zero point do not change.

use super::super::{part, part_mut};
use super::arithmetic;
use crate::Shape;

/// Nearest neighbour, source index ⌊i·in/out⌋.
pub fn nearest(from: Shape, to: Shape, input: &[i8], output: &mut [i8]) {
    let channels = from.channels;
    for y in 0..to.height {
        let row = y * from.height / to.height.max(1);
        for x in 0..to.width {
            let column = x * from.width / to.width.max(1);
            let pixel = part(input, (row * from.width + column) * channels, channels);
            let target = part_mut(output, (y * to.width + x) * channels, channels);
            if target.len() == pixel.len() {
                target.copy_from_slice(pixel);
            }
        }
    }
}

/// Bilinear interpolation, with aligned corners or half-pixel centres.
///
/// As in TFLite's reference kernel: the ratio of the sizes, and thus every coordinate, is rounded to 1/1024 of a pixel;
/// the result is rounded half away from zero. Sides are below 2^15.
pub fn bilinear(half_pixel: bool, from: Shape, to: Shape, input: &[i8], output: &mut [i8]) {
    let channels = from.channels;
    let down = Axis::new(half_pixel, from.height, to.height);
    let across = Axis::new(half_pixel, from.width, to.width);
    let mut targets = output.chunks_exact_mut(channels.max(1));
    let row_len = from.width * channels;
    for y in 0..to.height {
        let row = down.at(y);
        let rows = [row.low, row.high].map(|y| part(input, y * row_len, row_len));
        for (x, target) in targets.by_ref().take(to.width).enumerate() {
            let column = across.at(x);
            arithmetic::blend(rows, [column.low * channels, column.high * channels], row.weights(column), target);
        }
    }
}

/// Source coordinates along one axis, in 1/1024 of a pixel.
#[derive(Clone, Copy)]
struct Axis {
    step: i32,
    start: i32,
    last: usize,
}

/// A place between two neighbours; `fraction` is the distance from `low`, in 1/1024 of the way.
#[derive(Clone, Copy)]
struct Between {
    low: usize,
    high: usize,
    fraction: i32,
}

impl Axis {
    fn new(half_pixel: bool, from: usize, to: usize) -> Self {
        let (over, under) = if half_pixel || to < 2 { (from, to.max(1)) } else { (from.saturating_sub(1), to - 1) };
        let step = ((over << 10) + under / 2) / under;
        let start = if half_pixel { step as i32 / 2 - (1 << 9) } else { 0 };
        Self { step: step as i32, start, last: from.saturating_sub(1) }
    }

    fn at(self, i: usize) -> Between {
        let place = self.step.saturating_mul(i as i32).saturating_add(self.start).max(0) as usize;
        let low = (place >> 10).min(self.last);
        let high = (low + 1).min(self.last);
        // At the last pixel both neighbours are this pixel, and the fraction does not matter.
        Between { low, high, fraction: (place & 1023) as i32 }
    }
}

impl Between {
    /// The weights of the pixels at the low and high row and, in each, the low and high column; their sum is 2^20.
    fn weights(self, column: Self) -> [i32; 4] {
        let (down, across) = (self.fraction, column.fraction);
        let (up, left) = (1024 - down, 1024 - across);
        [up * left, up * across, down * left, down * across]
    }
}
