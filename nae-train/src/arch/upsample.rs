//! Bilinear enlargement with aligned corners, as a product with a constant matrix.
//!
//! burn's `interpolate` has a backward pass on one backend only; a matrix product has it on all, and is faster.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

/// Enlarges `[N, C, h, w]` to `[N, C, size, size]`.
#[derive(Module, Debug)]
pub struct Upsample {
    size: usize,
}

impl Upsample {
    /// Enlarges to `size` × `size` pixels.
    pub fn new(size: usize) -> Self {
        Self { size }
    }

    /// Side of the result, in pixels.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The enlarged activation.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [n, c, h, w] = x.dims();
        let matrix = plane_matrix([h, w], [self.size, self.size], &x.device());
        x.reshape([n * c, h * w]).matmul(matrix).reshape([n, c, self.size, self.size])
    }
}

/// Weights `[to, from]` of one axis: row i holds what each source pixel gives to pixel i.
pub fn axis_weights(from: usize, to: usize) -> Vec<f32> {
    let mut weights = vec![0.0; to * from];
    let step = if to > 1 { (from - 1) as f64 / (to - 1) as f64 } else { 0.0 };
    for i in 0..to {
        let position = i as f64 * step;
        let low = (position.floor() as usize).min(from - 1);
        let high = (low + 1).min(from - 1);
        let fraction = position - low as f64;
        weights[i * from + low] += (1.0 - fraction) as f32;
        weights[i * from + high] += fraction as f32;
    }
    weights
}

/// `[h·w, H·W]`: both axes at once, so that a plane is enlarged by one product.
///
/// For the small planes of this project one larger product is quicker than two thin ones with a transposition
/// between them.
fn plane_matrix(from: [usize; 2], to: [usize; 2], device: &Device) -> Tensor<2> {
    let rows = axis_weights(from[0], to[0]);
    let columns = axis_weights(from[1], to[1]);
    let (sources, targets) = (from[0] * from[1], to[0] * to[1]);
    let mut matrix = vec![0.0; sources * targets];
    for (row, row_weights) in rows.chunks_exact(from[0]).enumerate() {
        for (column, column_weights) in columns.chunks_exact(from[1]).enumerate() {
            let target = row * to[1] + column;
            for (i, a) in row_weights.iter().enumerate() {
                for (j, b) in column_weights.iter().enumerate() {
                    matrix[(i * from[1] + j) * targets + target] = a * b;
                }
            }
        }
    }
    Tensor::from_data(TensorData::new(matrix, [sources, targets]), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_stay_and_the_middle_is_the_mean() {
        let device = Device::flex();
        let x = Tensor::<4>::from_data(TensorData::new(vec![0.0f32, 1.0, 2.0, 3.0], [1, 1, 2, 2]), &device);
        let y = Upsample::new(3).forward(x).into_data().try_into_vec::<f32>().expect("float data");
        assert_eq!(y, [0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 2.5, 3.0]);
    }

    #[test]
    fn every_row_of_weights_sums_to_one() {
        for (from, to) in [(1, 5), (3, 5), (6, 12), (8, 16), (5, 5), (4, 1)] {
            for row in axis_weights(from, to).chunks_exact(from) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{from} to {to}: {row:?}");
            }
        }
    }
}
