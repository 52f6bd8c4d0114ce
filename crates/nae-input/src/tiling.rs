//! Cuts images larger than the network's input into tiles, and computes an image's score from the energies of its tiles.
//!
//! Training, calibration and scoring use the same [`Grid`]. Images are not resized. The tiles are scored by the detector in
//! `nae-infer`.

use std::ops::Range;

use nae_core::Shape;

use crate::PrepareError;

/// The tiles of an image.
///
/// ```
/// use nae_core::Shape;
/// use nae_input::tiling::Grid;
/// // 3 × 2 tiles of 4×4: along 9 columns at 0, 4 and 5, along 8 rows at 0 and 4.
/// let grid = Grid::new(Shape::new(1, 8, 9), Shape::new(1, 4, 4), 4).unwrap();
/// assert_eq!(grid.len(), 6);
/// assert_eq!((grid.place(2), grid.place(3)), ((0, 5), (4, 0)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    image: Shape,
    tile: Shape,
    tops: Vec<usize>,
    lefts: Vec<usize>,
}

impl Grid {
    /// The grid of tiles in an `image`, `stride` pixels apart, row by row from the upper left.
    ///
    /// # Errors
    /// [`PrepareError::Small`] if the image is smaller than a `tile`.
    pub fn new(image: Shape, tile: Shape, stride: usize) -> Result<Self, PrepareError> {
        let (tops, lefts) = (starts(image.height, tile.height, stride), starts(image.width, tile.width, stride));
        if tops.is_empty() || lefts.is_empty() {
            let (width, height) = (image.width, image.height);
            return Err(PrepareError::Small { width, height, tile });
        }
        Ok(Self { image, tile, tops, lefts })
    }

    /// The number of tiles, at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.tops.len() * self.lefts.len()
    }

    /// The first row and the first column of a tile.
    ///
    /// # Panics
    /// If `index` is not less than [`len`](Self::len).
    pub fn place(&self, index: usize) -> (usize, usize) {
        (self.tops[index / self.lefts.len()], self.lefts[index % self.lefts.len()])
    }

    /// Copies the tiles at `indices`, one after the other, from an image of the grid's shape, with channels first; so are the tiles.
    ///
    /// # Panics
    /// If `indices` reach beyond [`len`](Self::len).
    pub fn cut(&self, image: &[f32], indices: Range<usize>) -> Vec<f32> {
        let mut out = Vec::with_capacity(indices.len() * self.tile.len());
        for index in indices {
            let (top, left) = self.place(index);
            for plane in image.chunks_exact(self.image.height * self.image.width) {
                for row in plane.chunks_exact(self.image.width).skip(top).take(self.tile.height) {
                    out.extend_from_slice(&row[left..left + self.tile.width]);
                }
            }
        }
        out
    }
}

/// Returns the positions at which tiles start along a side; none if the side is too short.
fn starts(side: usize, tile: usize, stride: usize) -> Vec<usize> {
    let Some(last) = side.checked_sub(tile) else { return Vec::new() };
    let mut starts: Vec<usize> = (0..=last).step_by(stride.max(1)).collect();
    if starts.last() != Some(&last) {
        starts.push(last);
    }
    starts
}

/// Computes an image's score: the mean of the `top_k` largest energies of its tiles, or of all if there are fewer. For
/// `top_k` = 1 it is the largest. NaN if there are no energies.
pub fn image_score(energies: &[f32], top_k: usize) -> f32 {
    let mut sorted = energies.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    sorted.truncate(top_k.max(1));
    let sum: f64 = sorted.iter().map(|&e| f64::from(e)).sum();
    (sum / sorted.len() as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_pixel_once_at_least() {
        for (side, tile, stride) in [(4, 4, 4), (9, 4, 4), (9, 4, 1), (100, 7, 7), (64, 16, 5)] {
            let starts = starts(side, tile, stride);
            assert_eq!((starts[0], *starts.last().unwrap() + tile), (0, side));
            assert!(starts.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] <= stride), "{starts:?}");
        }
        assert!(starts(3, 4, 1).is_empty());
        let small = Grid::new(Shape::new(1, 8, 3), Shape::new(1, 4, 4), 4).unwrap_err().to_string();
        assert!(small.contains("3×8") && small.contains("4×4"), "{small}");
    }

    #[test]
    fn a_tile_is_cut_channel_by_channel() {
        let image: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let grid = Grid::new(Shape::new(2, 3, 4), Shape::new(2, 2, 2), 2).unwrap();
        assert_eq!(grid.len(), 4);
        assert_eq!(grid.cut(&image, 1..2), [2.0, 3.0, 6.0, 7.0, 14.0, 15.0, 18.0, 19.0]);
        assert_eq!(grid.cut(&image, 2..3), [4.0, 5.0, 8.0, 9.0, 16.0, 17.0, 20.0, 21.0]);
    }

    #[test]
    fn the_largest_energies_count() {
        let energies = [0.25, 1.0, 0.5];
        assert_eq!(image_score(&energies, 1), 1.0);
        assert_eq!(image_score(&energies, 2), 0.75);
        assert_eq!(image_score(&energies, 9), 1.75 / 3.0);
        assert!(image_score(&[], 1).is_nan());
    }
}
