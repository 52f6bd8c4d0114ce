//! Activations of a shard: `[N, H, W, C]`, contiguous.

/// A batch of activations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planes {
    /// Samples.
    pub n: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Channels.
    pub c: usize,
    /// Values, channels fastest.
    pub data: Vec<f32>,
}

impl Planes {
    /// All zero.
    pub fn zeros(n: usize, h: usize, w: usize, c: usize) -> Self {
        Self { n, h, w, c, data: vec![0.0; n * h * w * c] }
    }

    /// From values in channel-first order.
    pub fn from_channels_first(n: usize, [c, h, w]: [usize; 3], values: &[f32]) -> Self {
        let mut planes = Self::zeros(n, h, w, c);
        for (image, out) in values.chunks_exact(c * h * w).zip(planes.data.chunks_exact_mut(c * h * w)) {
            for (channel, plane) in image.chunks_exact(h * w).enumerate() {
                for (pixel, &value) in out.iter_mut().skip(channel).step_by(c).zip(plane) {
                    *pixel = value;
                }
            }
        }
        planes
    }

    /// The values in channel-first order.
    pub fn to_channels_first(&self) -> Vec<f32> {
        let (c, pixels) = (self.c, self.h * self.w);
        let mut values = Vec::with_capacity(self.data.len());
        for image in self.data.chunks_exact(c * pixels) {
            for channel in 0..c {
                values.extend(image.iter().skip(channel).step_by(c));
            }
        }
        values
    }

    /// Values of one sample.
    pub fn sample_len(&self) -> usize {
        self.h * self.w * self.c
    }

    /// With `columns` zero columns added on the left and on the right.
    pub fn widened(&self, columns: usize) -> Self {
        let mut wide = Self::zeros(self.n, self.h, self.w + 2 * columns, self.c);
        let (row, wide_row) = (self.w * self.c, wide.w * self.c);
        for (from, to) in self.data.chunks_exact(row).zip(wide.data.chunks_exact_mut(wide_row)) {
            to[columns * self.c..][..row].copy_from_slice(from);
        }
        wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_channels_survives_a_round_trip() {
        let values: Vec<f32> = (0..2 * 3 * 4 * 5).map(|v| v as f32).collect();
        let planes = Planes::from_channels_first(2, [3, 4, 5], &values);
        assert_eq!(planes.data[1], 20.0, "second channel of the first pixel");
        assert_eq!(planes.to_channels_first(), values);
    }

    #[test]
    fn widening_adds_columns_only() {
        let planes = Planes { n: 1, h: 2, w: 1, c: 2, data: vec![1.0, 2.0, 3.0, 4.0] };
        assert_eq!(planes.widened(1).data, [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
    }
}
