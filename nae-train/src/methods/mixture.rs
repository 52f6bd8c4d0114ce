//! A Gaussian mixture estimated from soft memberships, and the energies of points under it; both are differentiable.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::log_sum_exp::log_sum_exp;

/// The constant part of the term that is added to the variances before a covariance is inverted.
const FLOOR: f64 = 1e-6;
/// The part of that term that is relative to the variances' sum: several times the f32 rounding error of an elimination
/// of fifty features. With a smaller value, a covariance of lower rank has pivots of pure rounding, and values divided
/// by these grow without bound.
const RELATIVE_FLOOR: f64 = 4e-6;

/// The least weight of a component in a division: softmax can give shares of exactly zero, and a component without
/// points must contribute nothing instead of NaN.
const LEAST_WEIGHT: f64 = 1e-12;

/// Weights `[K]`, means `[K, F]` and covariances `[K, F, F]` of K Gaussians in ℝ^F.
#[derive(Clone, Debug)]
pub(super) struct Mixture {
    pub(super) weights: Tensor<1>,
    pub(super) means: Tensor<2>,
    pub(super) covariances: Tensor<3>,
}

impl Mixture {
    /// The mixture of points `[N, F]` that belong to the components by shares `[N, K]`, whose rows sum to 1: equation 5
    /// of Zong et al.
    pub(super) fn of(points: Tensor<2>, shares: Tensor<2>) -> Self {
        let ([n, f], k) = (points.dims(), shares.dims()[1]);
        let sums = shares.clone().sum_dim(0).reshape([k, 1]).clamp_min(LEAST_WEIGHT);
        let means = shares.clone().transpose().matmul(points.clone()) / sums.clone();
        let centred = points.reshape([1, n, f]) - means.clone().reshape([k, 1, f]);
        let weighted = centred.clone() * shares.transpose().reshape([k, n, 1]);
        let covariances = weighted.swap_dims(1, 2).matmul(centred) / sums.clone().reshape([k, 1, 1]);
        Self { weights: sums.reshape([k]).div_scalar(n as f32), means, covariances }
    }

    /// An empty mixture of `k` components in ℝ^`f`; it has no weight in [`pooled`](Self::pooled).
    pub(super) fn empty(k: usize, f: usize, device: &Device) -> Self {
        let (weights, means) = (Tensor::zeros([k], device), Tensor::zeros([k, f], device));
        Self { weights, means, covariances: Tensor::zeros([k, f, f], device) }
    }

    /// The mixture of the points of both, where `share` is the share of the other's points.
    pub(super) fn pooled(self, other: Self, share: f32) -> Self {
        let [k, f] = self.means.dims();
        let column = |weights: Tensor<1>, share: f32| weights.mul_scalar(share).reshape([k, 1]);
        let parts = [(self, 1.0 - share), (other, share)];
        let [a, b] = parts.each_ref().map(|(mixture, share)| column(mixture.weights.clone(), *share));
        let sums = (a.clone() + b.clone()).clamp_min(LEAST_WEIGHT);
        let [a, b] = [a, b].map(|part| part / sums.clone());
        let means = a.clone() * parts[0].0.means.clone() + b.clone() * parts[1].0.means.clone();
        let [one, two] = parts.map(|(mixture, _)| {
            let apart = mixture.means - means.clone();
            mixture.covariances + apart.clone().reshape([k, f, 1]).matmul(apart.reshape([k, 1, f]))
        });
        let covariances = a.reshape([k, 1, 1]) * one + b.reshape([k, 1, 1]) * two;
        Self { weights: sums.reshape([k]), means, covariances }
    }

    /// The diagonals of the covariances, `[K, F]`.
    pub(super) fn variances(&self) -> Tensor<2> {
        let [k, f, _] = self.covariances.dims();
        let diagonal: Vec<i64> = (0..f).map(|i| (i * (f + 1)) as i64).collect();
        let diagonal = Tensor::<1, Int>::from_data(TensorData::new(diagonal, [f]), &self.covariances.device());
        self.covariances.clone().reshape([k, f * f]).select(1, diagonal)
    }

    /// −log p for points `[N, F]`: equation 6 of Zong et al., including all constants. `[N]`.
    pub(super) fn energies(&self, points: Tensor<2>) -> Tensor<1> {
        let ([n, f], k) = (points.dims(), self.weights.dims()[0]);
        // Cholesky elimination with the points as additional columns: a point's remainder at each pivot, divided by the
        // pivot's root, is a coordinate of unit variance.
        let floor = self.variances().sum_dim(1).mul_scalar(RELATIVE_FLOOR).add_scalar(FLOOR).reshape([k, 1, 1]);
        let mut matrix = self.covariances.clone();
        let mut rest = (points.reshape([1, n, f]) - self.means.clone().reshape([k, 1, f])).swap_dims(1, 2);
        let mut log_density = rest.clone().narrow(1, 0, 1).zeros_like();
        for left in (0..f).rev() {
            let pivot = matrix.clone().narrow(1, 0, 1).narrow(2, 0, 1).clamp_min(0.0) + floor.clone();
            let root = pivot.sqrt();
            let coordinate = rest.clone().narrow(1, 0, 1) / root.clone();
            log_density = log_density - coordinate.clone().square().mul_scalar(0.5) - root.clone().log();
            if left > 0 {
                let column = matrix.clone().narrow(1, 1, left).narrow(2, 0, 1) / root;
                rest = rest.narrow(1, 1, left) - column.clone().matmul(coordinate);
                matrix = matrix.narrow(1, 1, left).narrow(2, 1, left) - column.clone().matmul(column.swap_dims(1, 2));
            }
        }
        let constant = 0.5 * f as f64 * (2.0 * std::f64::consts::PI).ln();
        let log_weights = self.weights.clone().clamp_min(LEAST_WEIGHT).log().reshape([k, 1]);
        let terms = log_density.reshape([k, n]).sub_scalar(constant) + log_weights;
        log_sum_exp(terms, 0).neg().reshape([n])
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::*;
    use crate::methods::finite_differences::wide;
    use crate::sample::NoiseSource;

    fn points(seed: u64, n: usize) -> Tensor<2> {
        let device = Device::flex();
        let mixed = Tensor::<2>::from_data([[1.0, 0.5, 0.0], [0.0, 0.3, -0.4], [0.0, 0.0, 2.0]], &device);
        NoiseSource::new(seed, 0).normal::<2>([n, 3], &device).matmul(mixed).add_scalar(0.7)
    }

    fn shares(seed: u64, n: usize) -> Tensor<2> {
        let first = NoiseSource::new(seed, 0).uniform::<2>([n, 1], &Device::flex());
        Tensor::cat(vec![first.clone(), first.neg().add_scalar(1.0)], 1)
    }

    /// Points of forty features that have rank two: the remaining thirty-eight pivots are rounding errors.
    #[test]
    fn points_of_lower_rank_have_energies() {
        let (n, f, device) = (128, 40, Device::flex());
        for seed in 0..10 {
            let mut source = NoiseSource::new(seed, 0);
            let mixed = source.normal::<2>([n, 2], &device).matmul(source.normal::<2>([2, f], &device));
            let x = mixed.mul_scalar(3.0).autodiff().require_grad();
            let energies = Mixture::of(x.clone(), shares(seed, n).autodiff()).energies(x.clone());
            let slopes = wide(x.grad(&energies.clone().mean().backward()).expect("energies depend on the points"));
            let energies = wide(energies.inner());
            assert!(
                energies.iter().chain(&slopes).all(|v| v.is_finite() && v.abs() < 1e4),
                "seed {seed}: {energies:?}"
            );
        }
    }

    /// All points belong to the first of two components, up to f32 rounding: the energies, and the pooled mixture of
    /// two batches, are those of the first component alone; gradients are finite.
    #[test]
    fn a_component_without_points_has_no_part() {
        let (x, device) = (points(1, 50), Device::flex().autodiff());
        let logits = Tensor::<2>::from_data([[200.0, 0.0]], &device).repeat_dim(0, 50).require_grad();
        let alone = Mixture::of(x.clone(), Tensor::ones([50, 1], &Device::flex()));
        let expected = wide(alone.energies(x.clone()));
        let mixture = || Mixture::of(x.clone().autodiff(), burn::tensor::activation::softmax(logits.clone(), 1));
        let both = mixture().pooled(mixture(), 0.01);
        for mixture in [mixture(), both] {
            let energies = mixture.energies(x.clone().autodiff());
            let gradients = energies.clone().mean().backward();
            let slopes = wide(logits.grad(&gradients).expect("energies depend on the shares"));
            assert!(slopes.iter().all(|slope| slope.is_finite()), "{slopes:?}");
            for (found, expected) in wide(energies.inner()).iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-3 * expected.abs().max(1.0), "{found} against {expected}");
            }
        }
    }

    /// Weights, means and covariances are summed in float64, with the adjugate for the inverse.
    #[test]
    fn energies_are_those_of_the_mixture() {
        let (n, at) = (50, points(3, 4));
        let (points, shares) = (points(1, n), shares(2, n));
        let found = wide(Mixture::of(points.clone(), shares.clone()).energies(at.clone()));
        let (x, gamma, at) = (wide(points), wide(shares), wide(at));
        let component = |k: usize| {
            let of = |i: usize| gamma[2 * i + k];
            let sum: f64 = (0..n).map(of).sum();
            let mean = [0, 1, 2].map(|f| (0..n).map(|i| of(i) * x[3 * i + f]).sum::<f64>() / sum);
            let mut covariance = [0, 1, 2].map(|f| {
                [0, 1, 2].map(|g| {
                    let product = |i: usize| of(i) * (x[3 * i + f] - mean[f]) * (x[3 * i + g] - mean[g]);
                    (0..n).map(product).sum::<f64>() / sum
                })
            });
            let floor = FLOOR + RELATIVE_FLOOR * (0..3).map(|f| covariance[f][f]).sum::<f64>();
            (0..3).for_each(|f| covariance[f][f] += floor);
            (sum / n as f64, mean, covariance)
        };
        let components = [component(0), component(1)];
        for (found, at) in found.iter().zip(at.chunks(3)) {
            let density: f64 = components
                .iter()
                .map(|(weight, mean, s)| {
                    let minor = |f: usize, g: usize| {
                        let (rows, columns) = ([(f + 1) % 3, (f + 2) % 3], [(g + 1) % 3, (g + 2) % 3]);
                        s[rows[0]][columns[0]] * s[rows[1]][columns[1]]
                            - s[rows[0]][columns[1]] * s[rows[1]][columns[0]]
                    };
                    let determinant: f64 = (0..3).map(|g| s[0][g] * minor(0, g)).sum();
                    let squared: f64 = (0..3)
                        .flat_map(|f| (0..3).map(move |g| (f, g)))
                        .map(|(f, g)| (at[f] - mean[f]) * minor(f, g) / determinant * (at[g] - mean[g]))
                        .sum();
                    weight * (-0.5 * squared).exp() / ((2.0 * std::f64::consts::PI).powi(3) * determinant).sqrt()
                })
                .sum();
            assert!((found + density.ln()).abs() < 1e-4, "{found} against {}", -density.ln());
        }
    }

    #[test]
    fn pooled_is_the_mixture_of_all_points() {
        let device = Device::flex();
        let (one, two) = ((points(1, 30), shares(2, 30)), (points(5, 10), shares(6, 10)));
        let all = Mixture::of(
            Tensor::cat(vec![one.0.clone(), two.0.clone()], 0),
            Tensor::cat(vec![one.1.clone(), two.1.clone()], 0),
        );
        let two = Mixture::of(two.0, two.1);
        let first = Mixture::of(one.0, one.1);
        let from_nothing = Mixture::empty(2, 3, &device).pooled(first.clone(), 1.0);
        let pooled = from_nothing.pooled(two, 0.25);
        let close = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close(wide(pooled.weights), wide(all.weights)));
        assert!(close(wide(pooled.means), wide(all.means)));
        assert!(close(wide(pooled.covariances), wide(all.covariances)));
    }

    /// A point far from every component has a finite energy, which is the nearest component's.
    #[test]
    fn far_points_have_finite_energies() {
        let mixture = Mixture::of(points(1, 30), shares(2, 30));
        let far = Tensor::<2>::from_data(TensorData::new(vec![1e3f32, 0.0, 0.0], [1, 3]), &Device::flex());
        let found = wide(mixture.energies(far.clone()))[0];
        let exact = Mixture {
            weights: mixture.weights.cast(FloatDType::F64),
            means: mixture.means.cast(FloatDType::F64),
            covariances: mixture.covariances.cast(FloatDType::F64),
        };
        let expected = wide(exact.energies(far.cast(FloatDType::F64)))[0];
        assert!(found.is_finite() && (found / expected - 1.0).abs() < 1e-3, "{found} against {expected}");
    }
}
