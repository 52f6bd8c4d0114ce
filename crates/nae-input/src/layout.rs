//! The two orders of an image's values: channels first (CHW) and channels last (HWC).

use nae_core::Shape;

/// An image of `shape` from channels first, as ONNX has it, to channels last, as [`Pixels`](crate::Pixels) and
/// the portable engine have it.
pub fn to_channels_last(image: &[f32], shape: Shape) -> Vec<f32> {
    transpose(image, shape.channels, shape.height * shape.width)
}

/// The way back of [`to_channels_last`].
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
