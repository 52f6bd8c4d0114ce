//! Converts images to burn's tensors. The images are in `nae-data`, which does not depend on burn.

use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use nae_data::ImageSet;

/// Conversion of images to tensors `[N, C, H, W]`.
pub trait Batches {
    /// The images at `indices`, in that order.
    fn batch(&self, indices: &[usize], device: &Device) -> Tensor<4>;

    /// All images, in tensors of at most `size` images.
    fn batches(&self, size: usize, device: &Device) -> impl Iterator<Item = Tensor<4>>;
}

impl Batches for ImageSet {
    fn batch(&self, indices: &[usize], device: &Device) -> Tensor<4> {
        let values: Vec<f32> = indices.iter().flat_map(|&i| self.image(i)).copied().collect();
        tensor(values, self.shape(), device)
    }

    fn batches(&self, size: usize, device: &Device) -> impl Iterator<Item = Tensor<4>> {
        let chunks = self.values().chunks(size * self.shape().len());
        chunks.map(move |chunk| tensor(chunk.to_vec(), self.shape(), device))
    }
}

fn tensor(values: Vec<f32>, shape: Shape, device: &Device) -> Tensor<4> {
    let count = values.len() / shape.len();
    Tensor::from_data(TensorData::new(values, [count, shape.channels, shape.height, shape.width]), device)
}
