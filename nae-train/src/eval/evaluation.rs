//! The scores of every set in every column, computed once; tables, histograms and curves are made from them.

use burn::tensor::Device;

use super::scoring::Scorer;
use super::table::{Column, OutlierKind, OutlierSet};
use crate::engine::Engine;
use nae_data::ImageSet;

/// The scores of normal test images and of outlier sets.
pub struct Evaluation {
    /// The key and title of each column, in order.
    pub columns: Vec<(&'static str, &'static str)>,
    /// The word for the samples, in the plural.
    pub samples: &'static str,
    /// Whether samples are windows of a time series, which are like their neighbours, and so not independent.
    pub are_windows: bool,
    /// The scores of the normal test images, by column.
    pub normal: Vec<Vec<f32>>,
    /// The outlier sets.
    pub outliers: Vec<ScoredSet>,
}

/// The scores of an outlier set.
pub struct ScoredSet {
    /// The name of the set, as printed.
    pub name: String,
    /// The kind of the set.
    pub kind: OutlierKind,
    /// Whether it is the selection set.
    pub selection: bool,
    /// The scores, by column.
    pub scores: Vec<Vec<f32>>,
}

impl Evaluation {
    /// Scores `sets` and the normal images `test` in every column; `samples` is the word for them.
    pub fn new(
        samples: &'static str,
        test: &ImageSet,
        sets: &[OutlierSet],
        columns: &[Column<'_>],
        engine: Engine,
        device: &Device,
    ) -> Self {
        let scorers: Vec<Scorer<'_>> = columns
            .iter()
            .map(|column| Scorer::new(column.model, column.decision, test.shape(), engine, device))
            .collect();
        let scored =
            |images: &ImageSet| -> Vec<Vec<f32>> { scorers.iter().map(|scorer| scorer.decided(images)).collect() };
        Self {
            columns: columns.iter().map(|column| (column.key, column.title)).collect(),
            samples,
            are_windows: test.are_windows(),
            normal: scored(test),
            outliers: sets
                .iter()
                .map(|set| ScoredSet {
                    name: set.name.clone(),
                    kind: set.kind,
                    selection: set.selection,
                    scores: scored(&set.images),
                })
                .collect(),
        }
    }

    /// The sets to show in pictures, at most `count`, the most informative first: the user's sets, the held-out class,
    /// squares, chimeras, shuffled rows, halves.
    pub fn telling(&self, count: usize) -> Vec<&ScoredSet> {
        use OutlierKind::{Chimeras, Given, Halves, HeldOut, Shuffled, Squares};
        let of =
            |kind| self.outliers.iter().filter(move |set| set.kind == kind && !set.scores.iter().any(Vec::is_empty));
        [Given, HeldOut, Squares, Chimeras, Shuffled, Halves].into_iter().flat_map(of).take(count).collect()
    }
}
