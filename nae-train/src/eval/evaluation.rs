//! Every set scored by every column, once: what tables, histograms and curves are made of.

use burn::tensor::Device;

use super::scoring::Scorer;
use super::table::{Column, OutlierKind, OutlierSet};
use crate::engine::Engine;
use nae_data::ImageSet;

/// Scores of normal test images and of outlier sets.
pub struct Evaluation {
    /// Key and title of each column, in order.
    pub columns: Vec<(&'static str, &'static str)>,
    /// What the samples are called, several of them.
    pub samples: &'static str,
    /// Scores of the normal test images, by column.
    pub normal: Vec<Vec<f32>>,
    /// The outlier sets.
    pub outliers: Vec<ScoredSet>,
}

/// An outlier set's scores.
pub struct ScoredSet {
    /// Its name, as printed.
    pub name: String,
    /// What it is.
    pub kind: OutlierKind,
    /// Whether it is the selection set.
    pub selection: bool,
    /// Scores, by column.
    pub scores: Vec<Vec<f32>>,
}

impl Evaluation {
    /// Scores `sets` and the normal images `test`, which are called `samples`, in every column.
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

    /// The sets that pictures have room for, the most telling first: those given, the class held out, squares,
    /// chimeras, shuffled rows, halves.
    pub fn telling(&self, count: usize) -> Vec<&ScoredSet> {
        use OutlierKind::{Chimeras, Given, Halves, HeldOut, Shuffled, Squares};
        let of =
            |kind| self.outliers.iter().filter(move |set| set.kind == kind && !set.scores.iter().any(Vec::is_empty));
        [Given, HeldOut, Squares, Chimeras, Shuffled, Halves].into_iter().flat_map(of).take(count).collect()
    }
}
