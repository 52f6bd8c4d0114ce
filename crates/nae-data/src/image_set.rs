//! A set of images of one shape, with their classes.

use std::ops::Range;
use std::sync::Arc;

use nae_core::Shape;

use crate::parts::Parts;

/// Images in channel-first order, values in [0, 1], each with one class label.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSet {
    shape: Shape,
    values: Vec<f32>,
    labels: Vec<u8>,
    parts: Option<Parts>,
    /// The inputs of each column of a table; `None` if every value stands for itself.
    columns: Option<Arc<[Range<usize>]>>,
}

/// Values that do not form a set of images.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageSetError {
    /// The number of values is not a whole number of images.
    #[error("{values} values are not {labels} images of {shape}")]
    Length {
        /// The number of values given.
        values: usize,
        /// The number of labels given.
        labels: usize,
        /// The shape of one image.
        shape: Shape,
    },
    /// A value is NaN, infinite or outside [0, 1].
    #[error("image {image} holds {value}; values lie in [0, 1]")]
    Value {
        /// The position of the image, from 0.
        image: usize,
        /// The value found.
        value: f32,
    },
    /// An image cannot be converted to another shape.
    #[error("image {image}: {reason}")]
    Prepare {
        /// The position of the image, from 0.
        image: usize,
        /// The reason.
        reason: String,
    },
    /// The number of places differs from the number of samples.
    #[error("{places} places for {labels} samples")]
    Places {
        /// The number of places given.
        places: usize,
        /// The number of samples in the set.
        labels: usize,
    },
}

impl ImageSet {
    /// Makes a set of images of `shape` from their values, one image after the other.
    ///
    /// # Errors
    /// `ImageSetError` if the lengths disagree or a value lies outside [0, 1].
    pub fn new(shape: Shape, values: Vec<f32>, labels: Vec<u8>) -> Result<Self, ImageSetError> {
        if shape.is_empty() || values.len() != labels.len() * shape.len() {
            return Err(ImageSetError::Length { values: values.len(), labels: labels.len(), shape });
        }
        if let Some(at) = values.iter().position(|v| !(0.0..=1.0).contains(v)) {
            return Err(ImageSetError::Value { image: at / shape.len(), value: values[at] });
        }
        Ok(Self { shape, values, labels, parts: None, columns: None })
    }

    /// Returns the set with its samples marked as parts of larger wholes: tiles or windows.
    ///
    /// # Errors
    /// `ImageSetError::Places` if `parts` does not have one place for each sample.
    pub fn with_parts(self, parts: Parts) -> Result<Self, ImageSetError> {
        let (places, labels) = (parts.places().len(), self.len());
        if places != labels {
            return Err(ImageSetError::Places { places, labels });
        }
        Ok(Self { parts: Some(parts), ..self })
    }

    /// Returns the set with the values of a sample that belong together: the ranges of the inputs that have one column of
    /// a table, as the values of a category have, in each row. The ranges must follow each other without a gap.
    pub(super) fn with_columns(self, columns: Vec<Range<usize>>) -> Self {
        debug_assert_eq!(columns.iter().map(ExactSizeIterator::len).sum::<usize>(), self.shape.len());
        Self { columns: Some(columns.into()), ..self }
    }

    /// The ranges of a sample's values that belong together: the inputs of one column of a table; otherwise single values.
    pub(super) fn columns(&self) -> Vec<Range<usize>> {
        self.columns.as_ref().map_or_else(|| (0..self.shape.len()).map(|at| at..at + 1).collect(), |own| own.to_vec())
    }

    /// The places of the samples in larger wholes, if they are parts.
    pub fn parts(&self) -> Option<&Parts> {
        self.parts.as_ref()
    }

    /// The ranges of samples that must stay together in a division: single samples, or all parts of a whole.
    pub fn units(&self) -> Vec<Range<usize>> {
        self.parts.as_ref().map_or_else(|| (0..self.len()).map(|i| i..i + 1).collect(), Parts::wholes)
    }

    /// Selects the samples of `units`, which are positions in [`units`](Self::units), in that order.
    ///
    /// # Panics
    /// If a position is not below the number of units.
    pub fn select_units(&self, units: &[usize]) -> Self {
        let all = self.units();
        self.select(&units.iter().flat_map(|&unit| all[unit].clone()).collect::<Vec<_>>())
    }

    /// Combines the `scores` of samples to one score for each decision: for each image if samples are tiles, otherwise
    /// for each sample.
    pub fn decide(&self, scores: Vec<f32>) -> Vec<f32> {
        match &self.parts {
            Some(parts) => parts.decide(scores),
            None => scores,
        }
    }

    /// The number of decisions: images if samples are tiles, otherwise samples.
    pub fn decisions(&self) -> usize {
        if self.are_tiles() { self.units().len() } else { self.len() }
    }

    /// Whether samples are tiles of images.
    pub fn are_tiles(&self) -> bool {
        self.parts.as_ref().is_some_and(Parts::are_tiles)
    }

    /// Whether samples are windows of a time series.
    pub fn are_windows(&self) -> bool {
        self.parts.is_some() && !self.are_tiles()
    }

    /// Returns a copy with other values, of the same number and in [0, 1].
    pub(super) fn with_values(&self, values: Vec<f32>) -> Self {
        debug_assert_eq!(values.len(), self.values.len());
        Self { values, labels: self.labels.clone(), parts: self.parts.clone(), columns: self.columns.clone(), ..*self }
    }

    /// The shape of one image.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// All values, image after image, and channel after channel within an image.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The class of each image.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// The values of image `index`: `shape().len()` values in the order channels, rows, columns (CHW).
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn image(&self, index: usize) -> &[f32] {
        &self.values[index * self.shape.len()..][..self.shape.len()]
    }

    /// The mean image; zeros if the set is empty.
    pub fn mean(&self) -> Vec<f32> {
        let mut sums = vec![0.0_f64; self.shape.len()];
        for image in self.values.chunks_exact(self.shape.len()) {
            sums.iter_mut().zip(image).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        sums.iter().map(|sum| (sum / self.len().max(1) as f64) as f32).collect()
    }

    /// Selects at most `count` units, evenly spaced over the whole set.
    pub fn some_units(&self, count: usize) -> Self {
        self.select_units(&evenly(count, self.units().len()))
    }

    /// The positions of at most `count` images, evenly spaced over the whole set, since sets may be sorted by class.
    pub fn evenly(&self, count: usize) -> Vec<usize> {
        evenly(count, self.len())
    }

    /// The positions of at most `count` images, one in each of as many equal stretches of the whole set, at another place in
    /// each. Unlike evenly spaced ones they have no period in common with a set that has one, such as one of an image's
    /// places row by row.
    pub fn scattered(&self, count: usize) -> Vec<usize> {
        scattered(count, self.len())
    }

    /// Returns the images with each value v replaced by 1 − v.
    pub fn inverted(&self) -> Self {
        self.with_values(self.values.iter().map(|v| 1.0 - v).collect())
    }

    /// Selects the images at `indices`, in that order. An index may occur several times.
    ///
    /// # Panics
    /// If an index is not below [`len`](Self::len).
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            shape: self.shape,
            values: indices.iter().flat_map(|&i| self.image(i)).copied().collect(),
            labels: indices.iter().map(|&i| self.labels[i]).collect(),
            parts: self.parts.as_ref().map(|parts| parts.select(indices)),
            columns: self.columns.clone(),
        }
    }
}

/// 2⁶⁴ divided by the golden ratio: the fractional parts of its multiples fill an interval evenly, without a period.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// At most `count` of the numbers below `all`, one in each of as many equal stretches, at another place in each.
fn scattered(count: usize, all: usize) -> Vec<usize> {
    let starts = evenly(count, all);
    let ends = starts.iter().skip(1).copied().chain([all]);
    let within = |(k, (start, end)): (usize, (&usize, usize))| {
        let share = u128::from((k as u64).wrapping_mul(GOLDEN)) * (end - start) as u128;
        start + (share >> 64) as usize
    };
    starts.iter().zip(ends).enumerate().map(within).collect()
}

/// At most `count` of the numbers below `all`, evenly spaced.
pub(super) fn evenly(count: usize, all: usize) -> Vec<usize> {
    let count = count.min(all);
    (0..count).map(|k| k * all / count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape::new(1, 1, 2);

    #[test]
    fn what_is_no_image_is_refused() {
        assert!(matches!(ImageSet::new(SHAPE, vec![0.0; 3], vec![0]), Err(ImageSetError::Length { .. })));
        for value in [f32::NAN, f32::INFINITY, -0.1, 1.1] {
            let set = ImageSet::new(SHAPE, vec![0.0, 0.0, 0.0, value], vec![0, 1]);
            assert!(matches!(set, Err(ImageSetError::Value { image: 1, .. })), "{value}");
        }
    }

    /// 300 images of 20 by 20 places: 6,000 evenly spaced ones are the first column of each row.
    #[test]
    fn scattered_places_are_of_all_columns_and_rows() {
        for (images, side, count) in [(300, 20, 6000), (301, 20, 6000), (600, 10, 6000), (84, 14, 1 << 12)] {
            let places = scattered(count, images * side * side);
            assert_eq!(places.len(), count);
            assert!(places.is_sorted_by(|a, b| a < b) && places[count - 1] < images * side * side);
            let (mut columns, mut rows) = (vec![0; side], vec![0; side]);
            places.iter().for_each(|at| {
                columns[at % side] += 1;
                rows[at / side % side] += 1;
            });
            let (least, most) = (count / side * 9 / 10, count / side * 11 / 10);
            assert!(columns.iter().chain(&rows).all(|n| (least..=most).contains(n)), "{columns:?} {rows:?}");
        }
        assert_eq!(scattered(10, 4), [0, 1, 2, 3]);
        assert_eq!(scattered(10, 0), [0; 0]);
    }

    #[test]
    fn selection_keeps_order_and_labels() {
        let set = ImageSet::new(SHAPE, vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5], vec![7, 8, 9]).expect("valid");
        let picked = set.select(&[2, 0]);
        assert_eq!(picked.values(), [0.4, 0.5, 0.0, 0.1]);
        assert_eq!(picked.labels(), [9, 7]);
    }
}
