//! Activations of a shard: `[N, H, W, C]`, contiguous.

use crate::workspace::Workspace;

/// Rows, columns and channels of one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of rows.
    pub h: usize,
    /// Number of columns.
    pub w: usize,
    /// Number of channels.
    pub c: usize,
}

impl Size {
    /// Number of values of one sample.
    pub fn len(self) -> usize {
        self.h * self.w * self.c
    }

    /// Whether there are no values.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A batch of activations. When it is dropped, its memory is kept for the next pass.
#[derive(Debug, Default)]
pub struct Planes {
    /// Number of samples.
    pub n: usize,
    /// Shape of each sample.
    pub size: Size,
    /// The values; the channel index varies fastest.
    pub data: Vec<f32>,
    /// The workspace that owns the memory; an unrelated one for empty planes.
    workspace: Workspace,
}

impl Planes {
    /// Returns planes whose values must still be written.
    pub fn scratch(workspace: &Workspace, n: usize, size: Size) -> Self {
        Self { n, size, data: workspace.take(n * size.len()), workspace: workspace.clone() }
    }

    /// Returns planes of zeros.
    pub fn zeros(workspace: &Workspace, n: usize, size: Size) -> Self {
        let mut planes = Self::scratch(workspace, n, size);
        planes.data.fill(0.0);
        planes
    }

    /// Returns the channels of both at each place; `other` has the same samples, height and width.
    pub fn beside(&self, other: &Self) -> Self {
        let size = Size { c: self.size.c + other.size.c, ..self.size };
        let mut planes = Self::scratch(&self.workspace, self.n, size);
        let places = self.data.chunks_exact(self.size.c).zip(other.data.chunks_exact(other.size.c));
        for (place, (first, second)) in planes.data.chunks_exact_mut(size.c).zip(places) {
            let (left, right) = place.split_at_mut(first.len());
            left.copy_from_slice(first);
            right.copy_from_slice(second);
        }
        planes
    }

    /// Converts the values of `n` samples of `size`, `[N, C, H, W]` one after the other, from channels-first order.
    ///
    /// # Panics
    /// If there are not `n` · `size.len()` values.
    pub fn from_channels_first(workspace: &Workspace, n: usize, size: Size, values: &[f32]) -> Self {
        // With fewer values, the rest of the planes would keep the values of an earlier pass.
        assert_eq!(values.len(), n * size.len(), "expected the values of {n} samples of {size:?}");
        let mut planes = Self::scratch(workspace, n, size);
        if size.c == 1 || size.h * size.w == 1 {
            planes.data.copy_from_slice(values);
            return planes;
        }
        for (image, out) in values.chunks_exact(size.len()).zip(planes.data.chunks_exact_mut(size.len())) {
            for (channel, plane) in image.chunks_exact(size.h * size.w).enumerate() {
                for (pixel, &value) in out.iter_mut().skip(channel).step_by(size.c).zip(plane) {
                    *pixel = value;
                }
            }
        }
        planes
    }

    /// The workspace that owns the memory.
    pub const fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Converts the values to channels-first order.
    pub fn to_channels_first(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.data.len()];
        self.write_channels_first(&mut values);
        values
    }

    fn write_channels_first(&self, values: &mut [f32]) {
        let Size { h, w, c } = self.size;
        if c == 1 || h * w == 1 {
            values.copy_from_slice(&self.data);
            return;
        }
        for (image, out) in self.data.chunks_exact(self.size.len()).zip(values.chunks_exact_mut(self.size.len())) {
            for (channel, plane) in out.chunks_exact_mut(h * w).enumerate() {
                for (value, pixel) in plane.iter_mut().zip(image.iter().skip(channel).step_by(c)) {
                    *value = *pixel;
                }
            }
        }
    }

    /// Returns the same values, in channels-first order, under another shape.
    pub fn reshaped(&self, size: Size) -> Self {
        let mut values = self.workspace.take(self.data.len());
        self.write_channels_first(&mut values);
        let planes = Self::from_channels_first(&self.workspace, self.n, size, &values);
        self.workspace.give(values);
        planes
    }

    /// Returns the planes with this number of rows of zeros above and below each sample, and of columns at either side.
    pub fn bordered(&self, [rows, columns]: [usize; 2]) -> Self {
        let Size { h, w, c } = self.size;
        let size = Size { h: h + 2 * rows, w: w + 2 * columns, c };
        let mut wide = Self::zeros(&self.workspace, self.n, size);
        for (from, to) in self.data.chunks_exact(self.size.len()).zip(wide.data.chunks_exact_mut(size.len())) {
            let inner = to.chunks_exact_mut(size.w * c).skip(rows);
            for (from, to) in from.chunks_exact(w * c).zip(inner) {
                to[columns * c..][..w * c].copy_from_slice(from);
            }
        }
        wide
    }
}

impl PartialEq for Planes {
    fn eq(&self, other: &Self) -> bool {
        self.n == other.n && self.size == other.size && self.data == other.data
    }
}

impl Clone for Planes {
    fn clone(&self) -> Self {
        let mut planes = Self::scratch(&self.workspace, self.n, self.size);
        planes.data.copy_from_slice(&self.data);
        planes
    }
}

impl Drop for Planes {
    fn drop(&mut self) {
        self.workspace.give(std::mem::take(&mut self.data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(n: usize, size: Size) -> (Vec<f32>, Planes) {
        let values: Vec<f32> = (0..n * size.len()).map(|v| v as f32).collect();
        let planes = Planes::from_channels_first(&Workspace::default(), n, size, &values);
        (values, planes)
    }

    #[test]
    fn the_order_of_channels_survives_a_round_trip() {
        let (values, planes) = counting(2, Size { h: 4, w: 5, c: 3 });
        assert_eq!(planes.data[1], 20.0, "second channel of the first pixel");
        assert_eq!(planes.to_channels_first(), values);
        assert_eq!(planes.reshaped(Size { h: 2, w: 3, c: 10 }).to_channels_first(), values);
    }

    #[test]
    fn a_border_is_zero() {
        let (_, planes) = counting(2, Size { h: 2, w: 3, c: 2 });
        let wide = planes.bordered([1, 2]);
        assert_eq!(wide.size, Size { h: 4, w: 7, c: 2 });
        assert_eq!(wide.data.iter().sum::<f32>(), planes.data.iter().sum::<f32>());
        assert_eq!(wide.data[18..24], planes.data[..6]);
    }

    #[test]
    fn channels_stand_beside_each_other() {
        let (first, a) = counting(2, Size { h: 2, w: 3, c: 2 });
        let (second, b) = counting(2, Size { h: 2, w: 3, c: 1 });
        let samples = first.chunks(12).zip(second.chunks(6));
        let expected: Vec<f32> = samples.flat_map(|(a, b)| [a, b].concat()).collect();
        assert_eq!(a.beside(&b).to_channels_first(), expected);
    }
}
