//! Samples that are parts of a larger whole: tiles of an image, windows of a stretch of rows.
//!
//! All parts of one whole are in the same part of every [division](super::split) of the data. An image's tiles are
//! scored together with [`image_score`] of `nae-infer`; each window is scored on its own.

use std::ops::Range;

use nae_input::tiling::image_score;

/// The position of one sample in its whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the whole.
    pub whole: u32,
    /// The first row, in pixels of the image or rows of the table.
    pub top: u32,
    /// The first column of a tile, in pixels.
    pub left: u32,
}

/// The positions of all samples of a set; the samples of one whole are adjacent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    places: Vec<Part>,
    top_k: Option<usize>,
}

impl Parts {
    /// Makes the parts of tiled images; an image's score is the mean of the `top_k` largest energies of its tiles.
    pub fn tiles(places: Vec<Part>, top_k: usize) -> Self {
        Self { places, top_k: Some(top_k) }
    }

    /// Makes the parts of windows, each of which has its own score.
    pub fn windows(places: Vec<Part>) -> Self {
        Self { places, top_k: None }
    }

    /// The position of each sample.
    pub fn places(&self) -> &[Part] {
        &self.places
    }

    /// Whether samples are tiles, which are scored together.
    pub fn are_tiles(&self) -> bool {
        self.top_k.is_some()
    }

    /// The ranges of samples of each whole.
    pub fn wholes(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let chunks = self.places.chunk_by(|a, b| a.whole == b.whole);
        chunks
            .map(|chunk| {
                let from = start;
                start += chunk.len();
                from..start
            })
            .collect()
    }

    /// Combines the scores of tiles to scores of images; scores of windows are returned unchanged.
    pub fn decide(&self, scores: Vec<f32>) -> Vec<f32> {
        match self.top_k {
            None => scores,
            Some(top_k) => self.wholes().into_iter().map(|whole| image_score(&scores[whole], top_k)).collect(),
        }
    }

    pub(super) fn select(&self, indices: &[usize]) -> Self {
        Self { places: indices.iter().map(|&i| self.places[i]).collect(), top_k: self.top_k }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_scored_together_and_windows_alone() {
        let places: Vec<Part> = [3, 3, 0, 7, 7].into_iter().map(|whole| Part { whole, top: 0, left: 0 }).collect();
        let tiles = Parts::tiles(places.clone(), 1);
        assert_eq!(tiles.wholes(), [0..2, 2..3, 3..5]);
        let scores = vec![1.0, 2.0, 0.5, 4.0, 3.0];
        assert_eq!(tiles.decide(scores.clone()), [2.0, 0.5, 4.0]);
        assert_eq!(Parts::tiles(places.clone(), 2).decide(scores.clone()), [1.5, 0.5, 3.5]);
        assert_eq!(Parts::windows(places).decide(scores.clone()), scores);
        assert_eq!(tiles.select(&[3, 4]).wholes(), std::slice::from_ref(&(0..2)));
    }
}
