//! Pooling. Every window overlaps the input, which the parser has checked.

use super::{Reach, Windows, part, part_mut};

/// Maximum over windows; padding is never the maximum.
pub(crate) fn max_pool2d(windows: &Windows, input: &[f32], output: &mut [f32]) {
    pool(windows, input, output, |value, x| if x > value || x.is_nan() { x } else { value });
}

/// Mean over windows. The divisor is the size of the window's part inside the input or, with `count_padding`, of the
/// whole window.
pub(crate) fn average_pool2d(windows: &Windows, count_padding: bool, input: &[f32], output: &mut [f32]) {
    pool(windows, input, output, |value, x| value + x);
    let Windows { input: shape, output: out, kernel, stride, padding } = *windows;
    for y in 0..out.height {
        let rows = Reach::new(y, stride[0], kernel[0], padding.top, shape.height).len();
        for x in 0..out.width {
            let columns = Reach::new(x, stride[1], kernel[1], padding.left, shape.width).len();
            let count = if count_padding { kernel[0] * kernel[1] } else { rows * columns };
            let start = (y * out.width + x) * out.channels;
            for value in part_mut(output, start, out.channels) {
                *value /= count as f32;
            }
        }
    }
}

/// Folds every pixel of every window into the output, channel by channel.
fn pool(windows: &Windows, input: &[f32], output: &mut [f32], fold: impl Fn(f32, f32) -> f32) {
    let Windows { input: shape, output: out, kernel, stride, padding } = *windows;
    let channels = shape.channels;
    for y in 0..out.height {
        let down = Reach::new(y, stride[0], kernel[0], padding.top, shape.height);
        for x in 0..out.width {
            let across = Reach::new(x, stride[1], kernel[1], padding.left, shape.width);
            let values = part_mut(output, (y * out.width + x) * channels, channels);
            let mut first = true;
            for row in 0..down.len() {
                for column in 0..across.len() {
                    let start = ((down.at + row) * shape.width + across.at + column) * channels;
                    let pixel = part(input, start, channels);
                    for (value, x) in values.iter_mut().zip(pixel) {
                        *value = if first { *x } else { fold(*value, *x) };
                    }
                    first = false;
                }
            }
        }
    }
}
