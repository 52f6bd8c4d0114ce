//! A set of images of one shape, with their classes.

use std::ops::Range;

use nae_core::Shape;

use crate::parts::Parts;

/// Images in channel-first order, values in [0, 1], one class label each.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSet {
    shape: Shape,
    values: Vec<f32>,
    labels: Vec<u8>,
    parts: Option<Parts>,
}

/// Values that are no set of images.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageSetError {
    /// The number of values is not a whole number of images.
    #[error("{values} values are not {labels} images of {shape}")]
    Length {
        /// Values given.
        values: usize,
        /// Labels given.
        labels: usize,
        /// Shape of one image.
        shape: Shape,
    },
    /// A value is NaN, infinite or outside [0, 1].
    #[error("image {image} holds {value}; values lie in [0, 1]")]
    Value {
        /// Position of the image, from 0.
        image: usize,
        /// The value found.
        value: f32,
    },
    /// An image cannot be brought to another shape.
    #[error("image {image}: {reason}")]
    Prepare {
        /// Position of the image, from 0.
        image: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is not one place for each sample.
    #[error("{places} places for {labels} samples")]
    Places {
        /// Places given.
        places: usize,
        /// Samples there are.
        labels: usize,
    },
}

impl ImageSet {
    /// Images of `shape` from their values, one after the other.
    ///
    /// # Errors
    /// `ImageSetError` where the lengths disagree or a value lies outside [0, 1].
    pub fn new(shape: Shape, values: Vec<f32>, labels: Vec<u8>) -> Result<Self, ImageSetError> {
        if shape.is_empty() || values.len() != labels.len() * shape.len() {
            return Err(ImageSetError::Length { values: values.len(), labels: labels.len(), shape });
        }
        if let Some(at) = values.iter().position(|v| !(0.0..=1.0).contains(v)) {
            return Err(ImageSetError::Value { image: at / shape.len(), value: values[at] });
        }
        Ok(Self { shape, values, labels, parts: None })
    }

    /// The samples as parts of something larger.
    ///
    /// # Errors
    /// `ImageSetError::Places` where there is not one place for each.
    pub fn with_parts(self, parts: Parts) -> Result<Self, ImageSetError> {
        let (places, labels) = (parts.places().len(), self.len());
        if places != labels {
            return Err(ImageSetError::Places { places, labels });
        }
        Ok(Self { parts: Some(parts), ..self })
    }

    /// What the samples are parts of, where they are parts.
    pub fn parts(&self) -> Option<&Parts> {
        self.parts.as_ref()
    }

    /// Positions of samples that must not be divided: of one each, or of all parts of a whole.
    pub fn units(&self) -> Vec<Range<usize>> {
        self.parts.as_ref().map_or_else(|| (0..self.len()).map(|i| i..i + 1).collect(), Parts::wholes)
    }

    /// The samples of `units`, of which [`units`](Self::units) has the numbers, in that order.
    pub fn select_units(&self, units: &[usize]) -> Self {
        let all = self.units();
        self.select(&units.iter().flat_map(|&unit| all[unit].clone()).collect::<Vec<_>>())
    }

    /// What is decided of the samples by their `scores`: of each one, or of each image where they are tiles.
    pub fn decide(&self, scores: Vec<f32>) -> Vec<f32> {
        match &self.parts {
            Some(parts) => parts.decide(scores),
            None => scores,
        }
    }

    /// How many decisions that makes: samples, or images where samples are tiles.
    pub fn decisions(&self) -> usize {
        if self.are_tiles() { self.units().len() } else { self.len() }
    }

    /// Whether samples are tiles of images.
    pub fn are_tiles(&self) -> bool {
        self.parts.as_ref().is_some_and(Parts::are_tiles)
    }

    /// Other values, as many and in [0, 1], in the same places.
    pub(super) fn with_values(&self, values: Vec<f32>) -> Self {
        debug_assert_eq!(values.len(), self.values.len());
        Self { shape: self.shape, values, labels: self.labels.clone(), parts: self.parts.clone() }
    }

    /// Shape of one image.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// All values, image after image, each channel by channel.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Class of each image.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Values of image `index`.
    pub fn image(&self, index: usize) -> &[f32] {
        &self.values[index * self.shape.len()..][..self.shape.len()]
    }

    /// The mean image; zeros where there is no image.
    pub fn mean(&self) -> Vec<f32> {
        let mut sums = vec![0.0_f64; self.shape.len()];
        for image in self.values.chunks_exact(self.shape.len()) {
            sums.iter_mut().zip(image).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        sums.iter().map(|sum| (sum / self.len().max(1) as f64) as f32).collect()
    }

    /// At most `count` units, evenly from the whole set, whole.
    pub fn some_units(&self, count: usize) -> Self {
        self.select_units(&evenly(count, self.units().len()))
    }

    /// Positions of at most `count` images, evenly from the whole set: sets may be in the order of their classes.
    pub fn evenly(&self, count: usize) -> Vec<usize> {
        evenly(count, self.len())
    }

    /// The images with black and white exchanged.
    pub fn inverted(&self) -> Self {
        self.with_values(self.values.iter().map(|v| 1.0 - v).collect())
    }

    /// The images at `indices`, in that order.
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            shape: self.shape,
            values: indices.iter().flat_map(|&i| self.image(i)).copied().collect(),
            labels: indices.iter().map(|&i| self.labels[i]).collect(),
            parts: self.parts.as_ref().map(|parts| parts.select(indices)),
        }
    }
}

/// At most `count` of the numbers below `all`, evenly.
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

    #[test]
    fn selection_keeps_order_and_labels() {
        let set = ImageSet::new(SHAPE, vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5], vec![7, 8, 9]).expect("valid");
        let picked = set.select(&[2, 0]);
        assert_eq!(picked.values(), [0.4, 0.5, 0.0, 0.1]);
        assert_eq!(picked.labels(), [9, 7]);
    }
}
