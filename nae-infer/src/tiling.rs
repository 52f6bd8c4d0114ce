//! Images larger than the network's input: cut into tiles, scored, and put together again.
//!
//! What the model's [`Tiles`] say is done here, for scoring and, by `nae-train`, for training and calibration: which
//! tiles an image has ([`Grid`]), how their energies become the image's score ([`image_score`]), and one map of errors
//! of all. Images are not resized. Where tiles overlap, a pixel's error is the mean over the tiles that hold it.

use std::ops::Range;

use nae_core::Shape;
use nae_core::verdict::Verdict;
use nae_onnx::metadata::Tiles;

use crate::detector::{Detector, ScoreError, Scored};
use crate::input::{Pixels, PrepareError, prepare_for};

/// Tiles that are in memory at once.
const BATCH: usize = 256;

/// The tiles of an image.
///
/// ```
/// use nae_core::Shape;
/// use nae_infer::tiling::Grid;
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
    /// The tiles of an `image`, `stride` pixels apart; row after row, from the upper left.
    ///
    /// # Errors
    /// [`PrepareError::Small`] where the image is smaller than a `tile`.
    pub fn new(image: Shape, tile: Shape, stride: usize) -> Result<Self, PrepareError> {
        let (tops, lefts) = (starts(image.height, tile.height, stride), starts(image.width, tile.width, stride));
        if tops.is_empty() || lefts.is_empty() {
            let (width, height) = (image.width, image.height);
            return Err(PrepareError::Small { width, height, tile });
        }
        Ok(Self { image, tile, tops, lefts })
    }

    /// Number of tiles; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.tops.len() * self.lefts.len()
    }

    /// First row and first column of a tile. `index` is below [`len`](Self::len).
    pub fn place(&self, index: usize) -> (usize, usize) {
        (self.tops[index / self.lefts.len()], self.lefts[index % self.lefts.len()])
    }

    /// The tiles at `indices`, one after the other, of an image with its channels first.
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

/// Where tiles begin along a side; nowhere on a side that is too short.
fn starts(side: usize, tile: usize, stride: usize) -> Vec<usize> {
    let Some(last) = side.checked_sub(tile) else { return Vec::new() };
    let mut starts: Vec<usize> = (0..=last).step_by(stride.max(1)).collect();
    if starts.last() != Some(&last) {
        starts.push(last);
    }
    starts
}

/// An image's score: the mean of the `top_k` largest of its tiles' energies, of all where there are fewer; the largest
/// for `top_k` = 1. NaN where there are none.
pub fn image_score(energies: &[f32], top_k: usize) -> f32 {
    let mut sorted = energies.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    sorted.truncate(top_k.max(1));
    let sum: f64 = sorted.iter().map(|&e| f64::from(e)).sum();
    (sum / sorted.len() as f64) as f32
}

/// Errors of tiles that overlap, put together.
struct Stitched {
    shape: Shape,
    sums: Vec<f32>,
    counts: Vec<u32>,
}

impl Stitched {
    fn new(image: Shape) -> Self {
        let pixels = image.height * image.width;
        Self { shape: Shape::new(1, image.height, image.width), sums: vec![0.0; pixels], counts: vec![0; pixels] }
    }

    fn add(&mut self, tile: &[f32], (top, left): (usize, usize), width: usize) {
        for (row, errors) in tile.chunks_exact(width).enumerate() {
            let from = (top + row) * self.shape.width + left;
            let sums = &mut self.sums[from..from + width];
            sums.iter_mut().zip(errors).for_each(|(sum, error)| *sum += error);
            self.counts[from..from + width].iter_mut().for_each(|count| *count += 1);
        }
    }

    fn mean(self) -> Vec<f32> {
        self.sums.iter().zip(&self.counts).map(|(sum, &count)| sum / count.max(1) as f32).collect()
    }
}

impl Detector {
    /// Scores an image by its tiles.
    pub(crate) fn score_tiles(&self, pixels: &Pixels, tiles: Tiles) -> Result<Scored, ScoreError> {
        let settings = self.settings();
        let tile = settings.input;
        let image = Shape { channels: tile.channels, ..pixels.shape };
        let grid = Grid::new(image, tile, tiles.stride)?;
        let values = prepare_for(pixels, image, settings.preprocessing, settings.transforms)?;
        let mut energies = Vec::with_capacity(grid.len());
        let mut map = Stitched::new(image);
        for from in (0..grid.len()).step_by(BATCH) {
            let part = from..(from + BATCH).min(grid.len());
            for (index, scored) in part.clone().zip(self.score_prepared(&grid.cut(&values, part))?) {
                map.add(&scored.error_map, grid.place(index), tile.width);
                energies.push(scored.energy);
            }
        }
        let energy = image_score(&energies, tiles.top_k);
        Ok(Scored {
            energy,
            p_value: settings.calibration.as_ref().and_then(|c| c.p_value(energy).ok()),
            verdict: self.threshold().map(|threshold| Verdict::of(energy, threshold)),
            latent: None,
            error_map_shape: map.shape,
            error_map: map.mean(),
        })
    }
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

    #[test]
    fn overlapping_errors_are_averaged() {
        let mut map = Stitched::new(Shape::new(3, 1, 3));
        map.add(&[1.0, 2.0], (0, 0), 2);
        map.add(&[4.0, 6.0], (0, 1), 2);
        assert_eq!(map.mean(), [1.0, 3.0, 6.0]);
    }
}
