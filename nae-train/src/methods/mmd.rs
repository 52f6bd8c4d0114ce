//! The maximum mean discrepancy between two samples (Gretton et al., JMLR 2012), differentiable.

use burn::tensor::Tensor;

/// MMD² of `x` `[N, D]` and `y` `[M, D]` under the Gaussian kernel exp(−‖a − b‖²/2h²), as `[1]`: equation 5 of Gretton
/// et al., the distance between the kernel means of the two samples. Never negative; zero on equal samples.
///
/// h² is the mean of both samples' median squared distances between different points (median heuristic), held constant;
/// if that mean is 0, h² is 1. The authors' code uses the unbiased estimate instead, which leaves
/// out each point's distance to itself: its gradient is the same up to a factor N/(N − 1) of one term.
pub fn mmd_squared(x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
    let within_x = squared_distances(x.clone(), x.clone());
    let within_y = squared_distances(y.clone(), y.clone());
    let bandwidth = 0.5 * (median_off_diagonal(&within_x) + median_off_diagonal(&within_y));
    let bandwidth = if bandwidth > 0.0 { bandwidth } else { 1.0 };
    let kernel = |distances: Tensor<2>| distances.mul_scalar(-0.5 / bandwidth).exp().mean();
    kernel(within_x) + kernel(within_y) - kernel(squared_distances(x, y)).mul_scalar(2.0)
}

/// ‖xᵢ − yⱼ‖², `[N, M]`, computed from differences, since the expanded square loses all digits for close points.
pub(super) fn squared_distances(x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
    let ([n, d], [m, _]) = (x.dims(), y.dims());
    let difference = x.reshape([n, 1, d]) - y.reshape([1, m, d]);
    (difference.clone() * difference).sum_dim(2).reshape([n, m])
}

fn median_off_diagonal(distances: &Tensor<2>) -> f32 {
    let [n, _] = distances.dims();
    let all: Vec<f32> = distances.clone().into_data().iter::<f32>().collect();
    let mut above: Vec<f32> = (0..n).flat_map(|i| all[i * n + i + 1..(i + 1) * n].iter().copied()).collect();
    let middle = above.len() / 2;
    if above.is_empty() { 0.0 } else { *above.select_nth_unstable_by(middle, f32::total_cmp).1 }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::sample::NoiseSource;

    #[test]
    fn equal_samples_are_at_no_distance() {
        let x = NoiseSource::new(0, 0).normal::<2>([50, 4], &Device::flex());
        let value = mmd_squared(x.clone(), x).into_scalar::<f32>();
        assert!(value.abs() < 1e-6, "{value}");
    }

    /// Two points in each sample: within, the squared distances are 4 and 16, so h² = 10; between, they are 1, 1, 25
    /// and 9.
    #[test]
    fn two_points_each_by_hand() {
        let device = Device::flex();
        let column = |values: [f32; 2]| Tensor::<2>::from_data(TensorData::new(values.to_vec(), [2, 1]), &device);
        let k = |squared: f64| (-squared / 20.0).exp();
        // {0, 2} and {1, −3}: squared distances 1 and 9 from 0, 1 and 25 from 2.
        let expected =
            (2.0 + 2.0 * k(4.0)) / 4.0 + (2.0 + 2.0 * k(16.0)) / 4.0 - 2.0 * (k(1.0) + k(9.0) + k(1.0) + k(25.0)) / 4.0;
        let value = f64::from(mmd_squared(column([0.0, 2.0]), column([1.0, -3.0])).into_scalar::<f32>());
        assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    }

    #[test]
    fn samples_of_different_laws_are_told_apart() {
        let device = Device::flex();
        let mut noise = NoiseSource::new(1, 0);
        let mut draw = || noise.normal::<2>([200, 3], &device);
        let (a, b, far) = (draw(), draw(), draw().add_scalar(1.0));
        let same = mmd_squared(a.clone(), b).into_scalar::<f32>();
        let apart = mmd_squared(a, far).into_scalar::<f32>();
        assert!(same < 0.02 && apart > 0.2, "{same} {apart}");
    }
}
