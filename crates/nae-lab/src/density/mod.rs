//! Densities in two dimensions, where everything can be computed: [`target`] has the true ones, some of
//! them [`mixture`]s; [`grid`] integrates Ω and computes distances, and [`picture`] draws them.
//!
//! As tensors, points are `[N, 2, 1, 1]`, so that networks for images accept them. Nothing is trained
//! here.

pub mod grid;
pub mod mixture;
pub mod picture;
pub mod target;

use burn::tensor::{Device, Tensor, TensorData};

pub use grid::{Grid, GridDensity, GridError};
pub use mixture::Mixture;
pub use target::{Density, Target};

/// Converts points to a batch `[N, 2, 1, 1]`.
pub fn batch(points: &[[f32; 2]], device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(points.concat(), [points.len(), 2, 1, 1]), device)
}

/// Converts a batch `[N, 2, 1, 1]` to points.
pub fn points(batch: Tensor<4>) -> Vec<[f32; 2]> {
    let values: Vec<f32> = batch.into_data().iter::<f32>().collect();
    values.chunks_exact(2).map(|point| [point[0], point[1]]).collect()
}
