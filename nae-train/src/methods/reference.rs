//! Simple detectors without training, for comparison with an NAE in the report: both are common on features of frozen
//! networks, and nearest neighbours on tables, where they are hard to beat. They are neither stored nor exported;
//! [`mahalanobis`](super::mahalanobis) is that distance as a separate method, for data of any covariance.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use nae_data::ImageSet;

use super::{Decision, Model};
use crate::arch::Autoencoder;
use crate::arch::checkpoint::CheckpointError;

/// The number of stored vectors, from all parts of the data. PatchCore's coreset has a tenth to a hundredth of all vectors.
const REMEMBERED: usize = 6000;
/// The number of neighbours whose distances are averaged.
const NEIGHBOURS: usize = 3;
/// A column with values from 0 to 1 and a smaller deviation is constant up to rounding.
const LEAST_DEVIATION: f64 = 1e-6;

/// The squared distance to the mean, per dimension; for whitened features this is the squared Mahalanobis distance up
/// to a factor (PaDiM, Defard et al. 2021, with one Gaussian for all places).
#[derive(Debug)]
pub(crate) struct Mahalanobis {
    mean: Vec<f32>,
}

/// The mean squared distance to the nearest training vectors, per dimension. The vectors are places of normal images
/// (PatchCore, Roth et al., CVPR 2022, with places from all parts of the data instead of its coreset) or rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct NearestNeighbours {
    /// The factor of each column, `[D]`.
    scale: Vec<f32>,
    /// The stored vectors after scaling, `[M, D]`, and their squared norms, `[M]`.
    places: Vec<f32>,
    norms: Vec<f32>,
}

impl Mahalanobis {
    /// Fits the mean of whitened features.
    pub(crate) fn new(train: &ImageSet) -> Self {
        Self { mean: train.mean() }
    }
}

impl NearestNeighbours {
    /// Stores some of `train`, whose columns must have similar spread.
    pub(crate) fn new(train: &ImageSet) -> Self {
        Self::scaled(train, vec![1.0; train.shape().len()])
    }

    /// Stores some of `train`, with each column divided by its standard deviation unless it is constant.
    pub(crate) fn standardized(train: &ImageSet) -> Self {
        let mean = train.mean();
        let mut squares = vec![0.0_f64; mean.len()];
        for vector in train.values().chunks_exact(mean.len()) {
            for ((square, value), mean) in squares.iter_mut().zip(vector).zip(&mean) {
                *square += f64::from(value - mean).powi(2);
            }
        }
        let scale = squares.iter().map(|square| match (square / train.len().max(1) as f64).sqrt() {
            deviation if deviation > LEAST_DEVIATION => (1.0 / deviation) as f32,
            _ => 1.0,
        });
        Self::scaled(train, scale.collect())
    }

    fn scaled(train: &ImageSet, scale: Vec<f32>) -> Self {
        let some = train.select(&train.scattered(REMEMBERED));
        let scales = scale.iter().cycle();
        let places: Vec<f32> = some.values().iter().zip(scales).map(|(value, scale)| value * scale).collect();
        let norm = |vector: &[f32]| vector.iter().map(|v| v * v).sum();
        Self { norms: places.chunks_exact(scale.len()).map(norm).collect(), places, scale }
    }
}

impl Model for Mahalanobis {
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        let vectors: Tensor<2> = x.flatten(1, 3);
        let mean = tensor(self.mean.clone(), [1, self.mean.len()], &vectors.device());
        (vectors - mean).square().mean_dim(1).squeeze_dim(1)
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn save(&self, _: &Path) -> Result<(), CheckpointError> {
        Ok(())
    }
}

impl Model for NearestNeighbours {
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        let vectors: Tensor<2> = x.flatten(1, 3);
        let ([count, dimension], device) = (vectors.dims(), vectors.device());
        let vectors = vectors * tensor(self.scale.clone(), [1, dimension], &device);
        let places = tensor(self.places.clone(), [self.norms.len(), dimension], &device);
        // ‖x − y‖² = ‖x‖² − 2x·y + ‖y‖².
        let products = vectors.clone().matmul(places.transpose());
        let norms: Tensor<2> = vectors.square().sum_dim(1);
        let (products, norms) = (floats(products), floats(norms));
        let distances = products.chunks_exact(self.norms.len()).zip(&norms).map(|(products, norm)| {
            let mut nearest = [f32::INFINITY; NEIGHBOURS];
            for (product, other) in products.iter().zip(&self.norms) {
                let distance = norm - 2.0 * product + other;
                if distance < nearest[NEIGHBOURS - 1] {
                    nearest[NEIGHBOURS - 1] = distance;
                    nearest.sort_unstable_by(f32::total_cmp);
                }
            }
            // If there are fewer vectors than neighbours, some are infinite.
            let found = nearest.iter().filter(|distance| distance.is_finite());
            // Rounding may make a zero negative.
            let sum: f32 = found.clone().map(|distance| distance.max(0.0)).sum();
            sum / (found.count().max(1) * dimension) as f32
        });
        Tensor::from_data(TensorData::new(distances.collect::<Vec<f32>>(), [count]), &device)
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn save(&self, _: &Path) -> Result<(), CheckpointError> {
        Ok(())
    }
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn floats(x: Tensor<2>) -> Vec<f32> {
    x.into_data().try_into_vec().expect("made of floats")
}

#[cfg(test)]
pub(super) mod tests {
    use nae_core::Shape;

    use super::*;

    fn set(values: &[f32]) -> ImageSet {
        ImageSet::new(Shape::vector(2), values.to_vec(), vec![0; values.len() / 2]).expect("valid")
    }

    /// The energies of `model` for samples of this shape, one after the other.
    pub(in crate::methods) fn energies(model: &dyn Model, values: &[f32], shape: Shape) -> Vec<f32> {
        let Shape { channels, height, width } = shape;
        let x = tensor(values.to_vec(), [values.len() / shape.len(), channels, height, width], &Device::flex());
        model.decide(Decision::Reconstruction, x).into_data().try_into_vec().expect("floats")
    }

    fn decided(model: &dyn Model, values: &[f32]) -> Vec<f32> {
        energies(model, values, Shape::vector(2))
    }

    #[test]
    fn distances_are_those_of_a_hand() {
        let train = set(&[0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        // The mean is (.5, .5).
        assert_eq!(decided(&Mahalanobis::new(&train), &[0.5, 0.5, 1.0, 0.5]), [0.0, 0.125]);
        // From (1, 0), the neighbours are itself and two at a distance of one.
        let found = decided(&NearestNeighbours::new(&train), &[1.0, 0.0, 0.5, 0.5]);
        assert!((found[0] - 2.0 / 6.0).abs() < 1e-6 && (found[1] - 1.5 / 6.0).abs() < 1e-6, "{found:?}");
        // A column that is ten times as wide counts no more than the other, and a constant column does not count.
        let wide = ImageSet::new(Shape::vector(3), vec![0.0, 0.0, 0.5, 1.0, 0.1, 0.5], vec![0; 2]).expect("valid");
        let found = energies(&NearestNeighbours::standardized(&wide), &[1.0, 0.0, 0.5, 0.0, 0.1, 0.5], wide.shape());
        // The deviations are .5 and .05, so both corners are at a squared distance of 4 from both rows.
        assert!(found.iter().all(|distance| (distance - 4.0 / 3.0).abs() < 1e-4), "{found:?}");
        // There are fewer vectors than neighbours.
        assert_eq!(decided(&NearestNeighbours::new(&set(&[0.0, 0.0])), &[0.0, 1.0]), [0.5]);
    }
}
