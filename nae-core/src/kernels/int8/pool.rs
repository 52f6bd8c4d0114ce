//! Pooling. Scale and zero point stay as they are.

use super::super::{Reach, Windows, part, part_mut};

/// Maximum over windows; padding never wins. Every window meets the input.
pub fn max_pool2d(windows: &Windows, input: &[i8], output: &mut [i8]) {
    let Windows { input: shape, output: out, kernel, stride, padding } = *windows;
    let channels = shape.channels;
    for y in 0..out.height {
        let down = Reach::new(y, stride[0], kernel[0], padding.top, shape.height);
        for x in 0..out.width {
            let across = Reach::new(x, stride[1], kernel[1], padding.left, shape.width);
            let values = part_mut(output, (y * out.width + x) * channels, channels);
            values.fill(i8::MIN);
            for row in 0..down.len() {
                for column in 0..across.len() {
                    let start = ((down.at + row) * shape.width + across.at + column) * channels;
                    for (value, x) in values.iter_mut().zip(part(input, start, channels)) {
                        *value = (*value).max(*x);
                    }
                }
            }
        }
    }
}

/// Mean over windows, rounded half away from zero as in TFLite: over the window's part inside
/// the input or, with `padding_value`, over all of it, places outside counting as that value (the zero point).
pub fn average_pool2d(windows: &Windows, padding_value: Option<i8>, input: &[i8], output: &mut [i8]) {
    let Windows { input: shape, output: out, kernel, stride, padding } = *windows;
    let channels = shape.channels;
    for y in 0..out.height {
        let down = Reach::new(y, stride[0], kernel[0], padding.top, shape.height);
        for x in 0..out.width {
            let across = Reach::new(x, stride[1], kernel[1], padding.left, shape.width);
            let inside = down.len() * across.len();
            let (count, outside) = match padding_value {
                Some(value) => {
                    let all = kernel[0] * kernel[1];
                    (all, all.saturating_sub(inside) as i32 * i32::from(value))
                }
                None => (inside, 0),
            };
            let values = part_mut(output, (y * out.width + x) * channels, channels);
            for (channel, value) in values.iter_mut().enumerate() {
                let mut sum = outside;
                for row in 0..down.len() {
                    let start = ((down.at + row) * shape.width + across.at) * channels + channel;
                    let pixels = input.get(start..).unwrap_or_default();
                    for x in pixels.iter().step_by(channels.max(1)).take(across.len()) {
                        sum += i32::from(*x);
                    }
                }
                *value = mean(sum, count as i32);
            }
        }
    }
}

/// `sum` / `count`, rounded half away from zero.
fn mean(sum: i32, count: i32) -> i8 {
    // Every window meets the input; the compiler cannot know.
    let count = count.max(1);
    let half = if sum > 0 { count / 2 } else { -(count / 2) };
    let mean = sum.saturating_add(half) / count;
    mean.clamp(-128, 127) as i8
}
