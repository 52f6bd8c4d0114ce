//! The Fréchet distance of two sets of vectors, from their means and covariances. For the features of an Inception network it
//! is the Fréchet inception distance (FID; Heusel et al., "GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash
//! Equilibrium", NeurIPS 2017, equation 6).

use nalgebra::SymmetricEigen;

use crate::whitening::Moments;

/// |μ₁ − μ₂|² + tr(Σ₁ + Σ₂ − 2(Σ₁Σ₂)^½): the squared Wasserstein distance of the Gaussians with these means and covariances
/// (Dowson and Landau 1982). Covariances are divided by the number of vectors minus one.
///
/// If there are fewer vectors than dimensions, the covariance does not have full rank, and the distance is too large. Only
/// distances of equally many vectors can be compared.
///
/// `None` if a set has fewer than two vectors, if their lengths differ, or if a value is not finite.
pub fn frechet_distance(a: &Moments, b: &Moments) -> Option<f64> {
    let (mean_a, mean_b) = (a.mean(), b.mean());
    if a.count().min(b.count()) < 2 || mean_a.len() != mean_b.len() {
        return None;
    }
    let [a, b] = [a, b].map(|set| set.covariance() * (set.count() as f64 / (set.count() - 1) as f64));
    let shift: f64 = mean_a.iter().zip(&mean_b).map(|(a, b)| (a - b).powi(2)).sum();
    let traces = a.trace() + b.trace();
    // With Σ₁ = WWᵀ, Σ₁Σ₂ has the eigenvalues of the symmetric WᵀΣ₂W. Rounding can make those that are zero negative.
    let SymmetricEigen { eigenvectors: mut root, eigenvalues } = SymmetricEigen::new(a);
    for (mut axis, variance) in root.column_iter_mut().zip(&eigenvalues) {
        axis *= variance.max(0.0).sqrt();
    }
    let product = root.tr_mul(&(b * &root));
    let common: f64 = product.symmetric_eigenvalues().iter().map(|value| value.max(0.0).sqrt()).sum();
    let distance = shift + traces - 2.0 * common;
    // A value that is not finite makes a trace not finite, too.
    distance.is_finite().then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(vectors: &[Vec<f32>]) -> Moments {
        let mut moments = Moments::new(vectors[0].len());
        vectors.iter().for_each(|vector| moments.add(vector));
        moments
    }

    /// Vectors with this mean and a diagonal covariance of these variances.
    fn axes(mean: [f64; 3], variances: [f64; 3]) -> Moments {
        let place = |k: usize| {
            let (axis, sign) = (k / 2, if k.is_multiple_of(2) { 1.0 } else { -1.0 });
            // Six vectors, two of which differ along each axis: the sum of squares is divided by five.
            let by = |i: usize| if i == axis { sign * (2.5 * variances[i]).sqrt() } else { 0.0 };
            (0..3).map(|i| (mean[i] + by(i)) as f32).collect()
        };
        moments(&(0..6).map(place).collect::<Vec<_>>())
    }

    /// Where covariances commute, (√a − √b)² of each variance.
    #[test]
    fn gaussians_along_the_same_axes_have_the_closed_form() {
        let a = axes([0.5, -1.0, 2.0], [4.0, 1.0, 0.25]);
        let b = axes([0.0, -1.0, 4.0], [1.0, 2.25, 0.0]);
        // 0.25 + 0 + 4, 1 + 0.25 + 0.25
        let distance = frechet_distance(&a, &b).expect("finite");
        assert!((distance - 5.75).abs() < 1e-6, "{distance}");
        assert!((frechet_distance(&b, &a).expect("finite") - 5.75).abs() < 1e-6);
        assert!(frechet_distance(&a, &a).expect("finite").abs() < 1e-6);
    }

    /// Of correlated features, as pytorch-fid 0.3.0 has it (`calculate_frechet_distance`); fewer vectors than numbers, too.
    #[test]
    fn the_published_implementation_agrees() {
        let features = |k: f64, count: u32| {
            let value = |i: f64, j: f64| {
                (1.7 * i + 0.9 * j * j + k).sin() + 0.3 * j * (0.37 * i * i + k).cos() * (1.0 + 0.5 * k)
            };
            let vector = |i: u32| (0..5u32).map(|j| value(f64::from(i), f64::from(j)) as f32).collect();
            moments(&(0..count).map(vector).collect::<Vec<_>>())
        };
        for (count, expected) in [(31, 0.145_271_706), (4, 1.333_184_923)] {
            let distance = frechet_distance(&features(0.0, 40), &features(0.8, count)).expect("finite");
            assert!((distance - expected).abs() < 1e-6, "{distance} {expected}");
        }
    }

    #[test]
    fn what_has_no_distance_has_none() {
        let two = moments(&[vec![0.0, 1.0], vec![1.0, 0.0]]);
        assert_eq!(frechet_distance(&two, &moments(&[vec![0.0, 1.0]])), None);
        assert_eq!(frechet_distance(&two, &moments(&[vec![0.0], vec![1.0]])), None);
        assert_eq!(frechet_distance(&two, &moments(&[vec![0.0, f32::NAN], vec![1.0, 0.0]])), None);
        let [wide, wide_nan] =
            [1.0, f32::NAN].map(|x| moments(&[vec![0.0, x, 2.0, 1.0, 3.0], vec![1.0, 0.0, 1.0, 4.0, 1.0]]));
        assert_eq!(frechet_distance(&wide_nan, &wide), None);
    }
}
