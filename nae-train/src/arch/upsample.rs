//! Enlargement: bilinear with aligned corners, as products with constant matrices; and by repetition.
//!
//! burn's `interpolate` only has a backward pass on one backend; matrix products have one on all, and are faster.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use nae_simd::Alignment;

/// The largest number of elements of a matrix that enlarges a whole plane at once. It grows with the fourth power of
/// the side, as does the number of multiplications. Two products with small matrices grow with the third power, but
/// need transpositions around them, which small planes avoid.
const LARGEST_PLANE_MATRIX: usize = 1 << 14;

/// Enlarges `[N, C, h, w]` to `[N, C, size, size]`, bilinearly with aligned corners.
#[derive(Module, Debug)]
pub struct Upsample {
    size: usize,
}

impl Upsample {
    /// A layer that enlarges to `size` × `size` pixels.
    pub fn new(size: usize) -> Self {
        Self { size }
    }

    /// The side of the result, in pixels.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The enlarged activation.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [_, _, h, w] = x.dims();
        if h * w * self.size * self.size <= LARGEST_PLANE_MATRIX { self.planes(x) } else { self.axes(x) }
    }

    /// Enlarges both axes with one product.
    fn planes(&self, x: Tensor<4>) -> Tensor<4> {
        let [n, c, h, w] = x.dims();
        let matrix = plane_matrix([h, w], [self.size, self.size], &x.device()).cast(x.dtype());
        x.reshape([n * c, h * w]).matmul(matrix).reshape([n, c, self.size, self.size])
    }

    /// Enlarges one axis after the other.
    fn axes(&self, x: Tensor<4>) -> Tensor<4> {
        let enlarge_last = |x: Tensor<4>| {
            let [n, c, h, from] = x.dims();
            let weights = TensorData::new(axis_weights(from, self.size), [self.size, from]);
            let matrix = Tensor::<2>::from_data(weights, &x.device()).cast(x.dtype()).transpose();
            x.reshape([n * c * h, from]).matmul(matrix).reshape([n, c, h, self.size])
        };
        enlarge_last(enlarge_last(x).swap_dims(2, 3)).swap_dims(2, 3)
    }
}

/// Enlarges `[N, C, h, w]` to `[N, C, factor·h, factor·w]` by repeating each pixel.
#[derive(Module, Debug)]
pub struct Nearest {
    factor: usize,
}

impl Nearest {
    /// A layer that enlarges each side by `factor`.
    pub fn new(factor: usize) -> Self {
        Self { factor }
    }

    /// The factor of enlargement.
    pub fn factor(&self) -> usize {
        self.factor
    }

    /// The enlarged activation.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let ([n, c, h, w], f) = (x.dims(), self.factor);
        // Repetition is an expansion of axes of extent 1: it needs no product, and its backward pass is a sum.
        x.reshape([n * c * h, 1, w, 1]).expand([n * c * h, f, w, f]).reshape([n, c, h * f, w * f])
    }
}

/// The weights `[to, from]` of one axis, with aligned corners.
fn axis_weights(from: usize, to: usize) -> Vec<f32> {
    Alignment::Corners.weights(from, to)
}

/// The matrix `[h·w, H·W]` for both axes, which enlarges a plane with one product.
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

    fn image(values: Vec<f32>, shape: [usize; 4]) -> Tensor<4> {
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    fn values(x: Tensor<4>) -> Vec<f32> {
        x.into_data().try_into_vec().expect("float data")
    }

    #[test]
    fn corners_stay_and_the_middle_is_the_mean() {
        let x = image(vec![0.0, 1.0, 2.0, 3.0], [1, 1, 2, 2]);
        let expected = [0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 2.5, 3.0];
        assert_eq!(values(Upsample::new(3).planes(x.clone())), expected);
        assert_eq!(values(Upsample::new(3).axes(x)), expected);
    }

    #[test]
    fn both_ways_of_enlarging_agree() {
        let x = image((0..2 * 3 * 5 * 4).map(|i| (i as f32 * 1.7).sin()).collect(), [2, 3, 5, 4]);
        let upsample = Upsample::new(11);
        let (planes, axes) = (values(upsample.planes(x.clone())), values(upsample.axes(x)));
        for (p, a) in planes.iter().zip(&axes) {
            assert!((p - a).abs() < 1e-6, "{p} {a}");
        }
    }

    #[test]
    fn nearest_repeats_pixels() {
        let x = image((0..12).map(|i| i as f32).collect(), [1, 2, 2, 3]);
        let y = Nearest::new(2).forward(x);
        assert_eq!(y.dims(), [1, 2, 4, 6]);
        let first = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0];
        let y = values(y);
        assert_eq!([&y[..6], &y[6..12]], [first; 2]);
        assert_eq!(y[12..18], [3.0, 3.0, 4.0, 4.0, 5.0, 5.0]);
        assert_eq!(y[24..30], [6.0, 6.0, 7.0, 7.0, 8.0, 8.0]);
    }
}
