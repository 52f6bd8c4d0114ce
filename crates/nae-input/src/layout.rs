//! The two orders of an image's values: channels first (CHW) and channels last (HWC).

use nae_core::Shape;

/// Converts an image of `shape` from channels first, ONNX's order, to channels last, the order of [`Pixels`](crate::Pixels)
/// and of the portable engine. `image` has `shape.len()` values; what it has beyond them is left out.
pub fn to_channels_last(image: &[f32], shape: Shape) -> Vec<f32> {
    transpose(image, shape.channels, shape.height * shape.width)
}

/// Converts from channels last to channels first, the inverse of [`to_channels_last`].
pub fn to_channels_first(image: &[f32], shape: Shape) -> Vec<f32> {
    transpose(image, shape.height * shape.width, shape.channels)
}

fn transpose(data: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(data.len());
    for column in 0..columns {
        out.extend(data.iter().skip(column).step_by(columns).take(rows));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_move() {
        let shape = Shape::new(3, 1, 2);
        let first = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let last = to_channels_last(&first, shape);
        assert_eq!(last, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        assert_eq!(to_channels_first(&last, shape), first);
    }
}
