//! Pooling. Scale and zero point do not change.

use super::super::{Windows, part_mut};
use super::arithmetic;
use super::geometry::{Convolution, Reach};

/// The pixels of windows whose maximum is taken, and their distances.
pub(super) struct Maximum<'a> {
    /// Three pixels of each window. The same pixel may occur twice.
    pub(super) sources: [&'a [i8]; 3],
    /// The fourth pixel; `None` for the output's present value.
    pub(super) fourth: Option<&'a [i8]>,
    /// Length of a pixel.
    pub(super) channels: usize,
    /// Number of values between the pixels of one window and the next in the sources.
    pub(super) gap: usize,
}

impl Maximum<'_> {
    /// Whether all sources are long enough for an output of this length.
    pub(super) fn fits(&self, output: usize) -> bool {
        let Some(pixels) = output.checked_div(self.channels) else {
            return false;
        };
        // The unsafe code of `dsp` depends on this: no sum here wraps.
        let len = output.saturating_add(pixels.saturating_sub(1).saturating_mul(self.gap));
        let fourth = self.fourth.is_none_or(|source| source.len() >= len);
        pixels > 0 && fourth && self.sources.iter().all(|source| source.len() >= len)
    }
}

/// Computes the maximum over windows; padding is never the maximum. Every window overlaps the input.
pub fn max_pool2d(windows: &Windows, input: &[i8], output: &mut [i8]) {
    let places = Convolution::new(windows);
    let width = windows.output.width;
    for y in 0..windows.output.height {
        let down = places.down(y);
        let mut x = 0;
        while x < width {
            let across = places.across(x);
            let run = places.uncut(across).clamp(1, width - x);
            let len = run * windows.output.channels;
            maximum(windows, down, across, input, part_mut(output, places.place(y, x), len));
            x += run;
        }
    }
}

/// Computes the maximum of uncut windows in a row, or of one that is cut; `across` is the reach of the first.
fn maximum(windows: &Windows, down: Reach, across: Reach, input: &[i8], output: &mut [i8]) {
    let Windows { input: shape, stride, .. } = *windows;
    let channels = shape.channels;
    let pixels = down.len * across.len;
    // It wraps where there is no next window.
    let step = stride[1].wrapping_mul(channels);
    let source = |index: usize| {
        let index = index.min(pixels.saturating_sub(1));
        // No window is empty, but the compiler cannot derive this.
        let (row, column) = (index / across.len.max(1), index % across.len.max(1));
        input.get(((down.at + row) * shape.width + across.at + column) * channels..).unwrap_or_default()
    };
    let gap = step.saturating_sub(channels);
    let first = Maximum { sources: [0, 1, 2].map(source), fourth: Some(source(3)), channels, gap };
    arithmetic::maximum(&first, output);
    for next in (4..pixels).step_by(3) {
        let sources = [next, next + 1, next + 2].map(source);
        arithmetic::maximum(&Maximum { sources, fourth: None, channels, gap }, output);
    }
}

/// Computes the mean over windows, rounded half away from zero as in TFLite. The divisor is the size of the window's
/// part inside the input or, with `padding_value`, of the whole window, where places outside count as that value (the
/// zero point).
pub fn average_pool2d(windows: &Windows, padding_value: Option<i8>, input: &[i8], output: &mut [i8]) {
    let places = Convolution::new(windows);
    let Windows { input: shape, output: out, kernel, .. } = *windows;
    let channels = shape.channels;
    for y in 0..out.height {
        let down = places.down(y);
        for x in 0..out.width {
            let across = places.across(x);
            let inside = down.len * across.len;
            let (count, outside) = match padding_value {
                Some(value) => {
                    let all = kernel[0] * kernel[1];
                    (all, all.saturating_sub(inside) as i32 * i32::from(value))
                }
                None => (inside, 0),
            };
            let window = Window { down, across, row: shape.width * channels, channels, outside, count: count as i32 };
            let values = part_mut(output, places.place(y, x), channels);
            let (blocks, rest) = values.as_chunks_mut::<8>();
            let rest_at = blocks.len() * 8;
            for (index, block) in blocks.iter_mut().enumerate() {
                *block = window.means(index * 8, input);
            }
            for (index, value) in rest.iter_mut().enumerate() {
                [*value] = window.means(rest_at + index, input);
            }
        }
    }
}

/// The data for computing the mean of a window.
struct Window {
    down: Reach,
    across: Reach,
    /// Number of values in a row of the input.
    row: usize,
    channels: usize,
    /// Sum of the values outside the image.
    outside: i32,
    count: i32,
}

impl Window {
    /// Computes the means of `B` channels from `channel` on.
    #[inline(always)]
    fn means<const B: usize>(&self, channel: usize, input: &[i8]) -> [i8; B] {
        let mut sums = [self.outside; B];
        for row in 0..self.down.len {
            let start = (self.down.at + row) * self.row + self.across.at * self.channels + channel;
            let mut pixels = input.get(start..).unwrap_or_default();
            for _ in 0..self.across.len {
                let Some(pixel) = pixels.first_chunk::<B>() else {
                    break;
                };
                for (sum, x) in sums.iter_mut().zip(pixel) {
                    *sum += i32::from(*x);
                }
                pixels = pixels.get(self.channels..).unwrap_or_default();
            }
        }
        sums.map(|sum| mean(sum, self.count))
    }
}

/// Returns `sum` / `count`, rounded half away from zero.
fn mean(sum: i32, count: i32) -> i8 {
    // Every window meets the input, but the compiler cannot derive this.
    let count = count.max(1);
    let half = if sum > 0 { count / 2 } else { -(count / 2) };
    // The parser allows windows of at most 2^23 values, so that a sum plus a half is within 2^31.
    (sum.wrapping_add(half) / count) as i8
}
