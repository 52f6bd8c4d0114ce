//! A set of images of one shape, with their classes.

use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;

/// Images in channel-first order, values in [0, 1], one class label each.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSet {
    shape: Shape,
    values: Vec<f32>,
    labels: Vec<u8>,
}

/// Values that are no set of images.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
}

impl ImageSet {
    /// Images of `shape` from their values, one after the other.
    ///
    /// # Errors
    /// [`ImageSetError`] where the lengths disagree or a value lies outside [0, 1].
    pub fn new(shape: Shape, values: Vec<f32>, labels: Vec<u8>) -> Result<Self, ImageSetError> {
        if shape.is_empty() || values.len() != labels.len() * shape.len() {
            return Err(ImageSetError::Length { values: values.len(), labels: labels.len(), shape });
        }
        if let Some(at) = values.iter().position(|v| !(0.0..=1.0).contains(v)) {
            return Err(ImageSetError::Value { image: at / shape.len(), value: values[at] });
        }
        Ok(Self { shape, values, labels })
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

    /// Positions of at most `count` images, evenly from the whole set: sets may be in the order of their classes.
    pub fn evenly(&self, count: usize) -> Vec<usize> {
        let count = self.len().min(count);
        (0..count).map(|k| k * self.len() / count).collect()
    }

    /// The images with black and white exchanged.
    pub fn inverted(&self) -> Self {
        Self { shape: self.shape, values: self.values.iter().map(|v| 1.0 - v).collect(), labels: self.labels.clone() }
    }

    /// The images at `indices`, in that order.
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            shape: self.shape,
            values: indices.iter().flat_map(|&i| self.image(i)).copied().collect(),
            labels: indices.iter().map(|&i| self.labels[i]).collect(),
        }
    }

    /// The images at `indices` as a tensor `[N, C, H, W]`.
    pub fn batch(&self, indices: &[usize], device: &Device) -> Tensor<4> {
        let values: Vec<f32> = indices.iter().flat_map(|&i| self.image(i)).copied().collect();
        tensor(values, indices.len(), self.shape, device)
    }

    /// All images as tensors of at most `size` images.
    pub fn batches(&self, size: usize, device: &Device) -> impl Iterator<Item = Tensor<4>> {
        self.values
            .chunks(size * self.shape.len())
            .map(move |chunk| tensor(chunk.to_vec(), chunk.len() / self.shape.len(), self.shape, device))
    }
}

fn tensor(values: Vec<f32>, count: usize, shape: Shape, device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(values, [count, shape.channels, shape.height, shape.width]), device)
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
