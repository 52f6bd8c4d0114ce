//! Whitening: converts correlated features of different scales to K uncorrelated features of variance 1. These are the
//! principal components of the standardized features, each divided by its standard deviation. In this space the squared error
//! of an autoencoder that always returns the mean is the Mahalanobis distance (as in PaDiM, Defard et al. 2021), restricted to
//! the first K components.
//!
//! The components are then mapped to [0, 1], the range of all data in the trainer: see [`Projection::fit`].

use std::ops::Range;

use nalgebra::{DMatrix, SymmetricEigen};

/// Added to the standard deviation of a component before dividing by it: a component without variance is rounding noise.
const SMALLEST_DEVIATION: f64 = 1e-3;

/// Sums over vectors, from which mean and covariance are computed.
#[derive(Clone, Debug)]
pub struct Moments {
    count: usize,
    sums: Vec<f64>,
    /// The lower triangle, row by row, of the sums of products of the differences to `around`.
    products: Vec<f64>,
    /// The first vector. It is subtracted from all, since sums of products of values far from zero lose digits.
    around: Vec<f64>,
}

impl Moments {
    /// Starts without vectors, for vectors of the given length.
    pub fn new(length: usize) -> Self {
        let zeros = |n| vec![0.0; n];
        Self { count: 0, sums: zeros(length), products: zeros(length * (length + 1) / 2), around: zeros(length) }
    }

    /// Adds a vector of the length that was given to [`new`](Self::new).
    ///
    /// # Panics
    /// If the vector has another length.
    pub fn add(&mut self, vector: &[f32]) {
        // The sums of a shorter vector would be those of fewer features, but divided by the same count.
        assert_eq!(vector.len(), self.sums.len(), "expected a vector of the length of the others");
        if self.count == 0 {
            self.around = vector.iter().map(|&value| f64::from(value)).collect();
        }
        self.count += 1;
        let vector: Vec<f64> = vector.iter().zip(&self.around).map(|(&v, &around)| f64::from(v) - around).collect();
        let mut row = 0;
        for (i, &a) in vector.iter().enumerate() {
            self.sums[i] += a;
            for (product, &b) in self.products[row..=row + i].iter_mut().zip(&vector) {
                *product += a * b;
            }
            row += i + 1;
        }
    }

    /// The number of added vectors.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The mean of the vectors; zeros if there are none.
    pub fn mean(&self) -> Vec<f64> {
        let count = self.count.max(1) as f64;
        self.sums.iter().zip(&self.around).map(|(sum, around)| around + sum / count).collect()
    }

    /// The number of features that are not the same in all vectors. Those that are not finite count.
    pub fn varying(&self) -> usize {
        let mean = self.mean();
        let varies = |&feature: &usize| {
            !self.product(feature, feature).is_finite() || self.deviation(feature, mean[feature]).is_some()
        };
        (0..mean.len()).filter(varies).count()
    }

    /// The covariance: mean products of differences from the mean, divided by the number of vectors.
    pub fn covariance(&self) -> DMatrix<f64> {
        DMatrix::from_fn(self.sums.len(), self.sums.len(), |i, j| self.product(i.max(j), i.min(j)))
    }

    /// The covariance of feature `i` and one that is not behind it.
    fn product(&self, i: usize, j: usize) -> f64 {
        let count = self.count.max(1) as f64;
        self.products[i * (i + 1) / 2 + j] / count - self.sums[i] / count * self.sums[j] / count
    }

    /// The standard deviation of a feature of this `mean`; `None` if it is constant up to rounding.
    fn deviation(&self, feature: usize, mean: f64) -> Option<f64> {
        let deviation = self.product(feature, feature).max(0.0).sqrt();
        (deviation > 1e-6 * mean.abs().max(1e-6)).then_some(deviation)
    }
}

/// A linear map of the features of a place: y = Wx + b.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    features: usize,
    /// `[component, feature]`.
    weights: Vec<f32>,
    offset: Vec<f32>,
}

impl Projection {
    /// The identity.
    pub fn identity(features: usize) -> Self {
        let weight = |at: usize| if at / features == at % features { 1.0 } else { 0.0 };
        Self { features, weights: (0..features * features).map(weight).collect(), offset: vec![0.0; features] }
    }

    /// Fits the whitening to the vectors of `moments`: the first `components` principal components, scaled to variance 1 and then
    /// mapped to [0, 1], so that `span` standard deviations below and above the mean become 0 and 1. There are fewer components
    /// if there are fewer features.
    pub fn fit(moments: &Moments, components: usize, span: f64) -> Self {
        let (mean, covariance) = (moments.mean(), moments.covariance());
        let features = mean.len();
        let components = components.min(features);
        // A constant feature has no information, and must not be divided by its rounding noise.
        let scale: Vec<f64> = (0..features)
            .map(|feature| moments.deviation(feature, mean[feature]).map_or(0.0, |deviation| 1.0 / deviation))
            .collect();
        let correlation = DMatrix::from_fn(features, features, |i, j| covariance[(i, j)] * scale[i] * scale[j]);
        let eigen = SymmetricEigen::new(correlation);
        let mut order: Vec<usize> = (0..features).collect();
        order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]).then(a.cmp(&b)));
        let (mut weights, mut offset) = (Vec::with_capacity(components * features), Vec::with_capacity(components));
        for &component in order.iter().take(components) {
            let vector = eigen.eigenvectors.column(component);
            let largest = vector.iter().copied().fold(0.0, |best: f64, v| if v.abs() > best.abs() { v } else { best });
            // The sign of an eigenvector is arbitrary: its largest element is made positive.
            let deviation = eigen.eigenvalues[component].max(0.0).sqrt() + SMALLEST_DEVIATION;
            let factor = largest.signum() / (deviation * 2.0 * span);
            let row: Vec<f64> = vector.iter().zip(&scale).map(|(v, scale)| v * scale * factor).collect();
            offset.push((0.5 - row.iter().zip(&mean).map(|(w, mean)| w * mean).sum::<f64>()) as f32);
            weights.extend(row.into_iter().map(|w| w as f32));
        }
        Self { features, weights, offset }
    }

    /// The number of components.
    pub fn components(&self) -> usize {
        self.offset.len()
    }

    /// The offset b.
    pub(crate) fn offset(&self) -> &[f32] {
        &self.offset
    }

    /// The weights W for some of the features, `[component, feature]`.
    pub(crate) fn columns(&self, features: Range<usize>) -> Vec<f32> {
        self.weights.chunks_exact(self.features).flat_map(|row| row[features.clone()].iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors (a, a + b/10, 5, c): correlated, of different scales, one always the same.
    fn vectors() -> Vec<[f32; 4]> {
        (0..4000u64)
            .map(|i| {
                let mut state = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut unit = || {
                    state ^= state >> 30;
                    state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    state ^= state >> 27;
                    (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
                };
                let (a, b, c) = (unit(), unit(), unit());
                [a + 100.0, a + b / 10.0, 5.0, 1000.0 * c]
            })
            .collect()
    }

    #[test]
    fn components_do_not_correlate_and_have_variance_one() {
        let vectors = vectors();
        let mut moments = Moments::new(4);
        vectors.iter().for_each(|vector| moments.add(vector));
        let span = 4.0;
        let projection = Projection::fit(&moments, 3, span);
        let projected: Vec<Vec<f64>> = vectors
            .iter()
            .map(|vector| {
                let rows = projection.weights.chunks_exact(4).zip(&projection.offset);
                let y = rows.map(|(row, b)| {
                    let sum: f64 = row.iter().zip(vector).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    // Back from [0, 1] to deviations.
                    (sum + f64::from(*b) - 0.5) * 2.0 * span
                });
                y.collect()
            })
            .collect();
        let count = vectors.len() as f64;
        for i in 0..3 {
            let mean = projected.iter().map(|y| y[i]).sum::<f64>() / count;
            assert!(mean.abs() < 0.02, "{mean}");
            for j in 0..3 {
                let product = projected.iter().map(|y| y[i] * y[j]).sum::<f64>() / count;
                let expected = f64::from(u8::from(i == j));
                assert!((product - expected).abs() < 0.03, "{i} {j}: {product}");
            }
        }
        // What is always the same has no part in it.
        assert!(projection.weights.chunks_exact(4).all(|row| row[2] == 0.0));
    }

    #[test]
    fn all_features_come_out_of_the_identity() {
        let identity = Projection::identity(3);
        assert_eq!(identity.columns(1..3), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        assert_eq!((identity.components(), identity.offset()), (3, &[0.0; 3][..]));
        // More components than features cannot be had.
        let mut moments = Moments::new(2);
        [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]].iter().for_each(|vector| moments.add(vector));
        assert_eq!(Projection::fit(&moments, 64, 6.0).components(), 2);
    }
}
