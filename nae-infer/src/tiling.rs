//! Scores an image by its tiles and merges their error maps: where tiles overlap, a pixel's error is the mean over the tiles
//! that contain it. Which tiles an image has, and how its score is computed from their energies, is in
//! [`nae_input::tiling`].

use std::ops::Range;

use nae_core::Shape;
use nae_core::verdict::Verdict;
use nae_input::tiling::{Grid, image_score};
use nae_input::{Pixels, prepare};
use nae_onnx::metadata::Tiles;

use crate::detector::{Detector, ScoreError, Scored};

/// The largest number of tiles in memory at one time.
const BATCH: usize = 256;

/// The merged error map of overlapping tiles.
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
    /// Scores an image by those of its tiles for whose rows and columns `wanted` returns true.
    pub(crate) fn score_tiles(
        &self,
        pixels: &Pixels,
        tiles: Tiles,
        wanted: impl Fn(Range<usize>, Range<usize>) -> bool,
    ) -> Result<Scored, ScoreError> {
        let settings = self.settings();
        let tile = settings.contract.input;
        let image = Shape { channels: tile.channels, ..pixels.shape };
        let grid = Grid::new(image, tile, tiles.stride)?;
        let values = prepare(pixels, image, settings.contract.preprocessing, settings.transforms)?;
        let is_wanted = |index: &usize| {
            let (top, left) = grid.place(*index);
            wanted(top..top + tile.height, left..left + tile.width)
        };
        let chosen: Vec<usize> = (0..grid.len()).filter(is_wanted).collect();
        if chosen.is_empty() {
            return Err(ScoreError::NoTile);
        }
        let mut energies = Vec::with_capacity(chosen.len());
        let mut map = Stitched::new(image);
        let mut batch = Vec::new();
        for part in chosen.chunks(BATCH) {
            batch.clear();
            part.iter().for_each(|&index| batch.extend(grid.cut(&values, index..index + 1)));
            for (&index, scored) in part.iter().zip(self.score_prepared(&batch)?) {
                map.add(&scored.error_map, grid.place(index), tile.width);
                energies.push(scored.energy);
            }
        }
        let energy = image_score(&energies, tiles.top_k);
        Ok(Scored {
            energy,
            p_value: settings.contract.calibration().and_then(|c| c.p_value(energy).ok()),
            verdict: self.threshold().map(|threshold| Verdict::of(energy, threshold)),
            latent: None,
            error_map_shape: map.shape,
            error_map: map.mean(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use nae_core::contract::Contract;

    use super::*;
    use crate::BackendKind;
    use crate::backend::{Backend, BackendError, Reconstructions};
    use crate::card::ScoringSettings;

    struct Zeros;

    impl Backend for Zeros {
        fn kind(&self) -> BackendKind {
            BackendKind::Native
        }

        fn reconstruct(&self, batch: &[f32]) -> Result<Reconstructions, BackendError> {
            Ok(Reconstructions { images: vec![0.0; batch.len()], ..Reconstructions::default() })
        }
    }

    /// For an image of two tiles side by side, black and white; the energy of a white tile is 1.
    #[test]
    fn only_tiles_that_are_wanted_have_a_part_in_the_score() {
        let mut settings = ScoringSettings::new(Contract::new(Shape::new(1, 2, 2)));
        settings.tiles = Some(Tiles { stride: 2, top_k: 2 });
        let detector = Detector::with_backend(settings, Arc::new(Zeros));
        let pixels = Pixels { shape: Shape::new(1, 2, 4), values: vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0] };
        let both = detector.score_pixels(&pixels).unwrap();
        assert_eq!((both.energy, both.error_map.clone()), (0.5, pixels.values.clone()));
        let of_left = |rows, columns: Range<usize>| rows == (0..2) && columns == (0..2);
        let left = detector.score_pixels_where(&pixels, of_left).unwrap();
        assert_eq!((left.energy, left.error_map), (0.0, vec![0.0; 8]));
        let right = detector.score_pixels_where(&pixels, |_, columns| columns.contains(&3)).unwrap();
        assert_eq!((right.energy, right.error_map), (1.0, both.error_map));
        assert_eq!(detector.score_pixels_where(&pixels, |_, _| false), Err(ScoreError::NoTile));
    }

    #[test]
    fn overlapping_errors_are_averaged() {
        let mut map = Stitched::new(Shape::new(3, 1, 3));
        map.add(&[1.0, 2.0], (0, 0), 2);
        map.add(&[4.0, 6.0], (0, 1), 2);
        assert_eq!(map.mean(), [1.0, 3.0, 6.0]);
    }
}
