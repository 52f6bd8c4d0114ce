//! The Mahalanobis distance to normal data, expressed as the reconstruction error of a linear autoencoder: nothing is
//! trained, and it runs wherever an autoencoder runs.
//!
//! On features of a frozen network it is PaDiM (Defard et al., ICPR 2021) with one Gaussian for all places. For the
//! data's mean μ and covariance Σ = V diag(s²) Vᵀ, of D values, the latents are the principal components' scores z =
//! Vᵀ(x − μ). The reconstruction μ + V diag(1 − c/s) z leaves out c/s of each score: the energy ‖x − f(x)‖²/D is c²/D
//! times the squared distance (x − μ)ᵀ Σ⁻¹ (x − μ). c² is the mean variance, which is then about the mean energy of
//! normal data.

use burn::tensor::Device;
use nae_data::ImageSet;
use nae_features::Moments;
use nalgebra::{DMatrix, SymmetricEigen};

use crate::arch::{Autoencoder, AutoencoderSpec, checkpoint};

/// Makes the autoencoder whose energy is the distance to `train`, with the layers of `spec`, which must be those of
/// [`linear`](crate::arch::linear::linear), on the autodiff form of `device`.
pub(crate) fn fit(train: &ImageSet, spec: &AutoencoderSpec, device: &Device) -> Autoencoder {
    let dimension = train.shape().len();
    let mut moments = Moments::new(dimension);
    for vector in train.values().chunks_exact(dimension) {
        moments.add(vector);
    }
    let (mean, covariance) = (moments.mean(), shrunk(moments.covariance(), moments.count()));
    let scale = (covariance.trace() / dimension as f64).sqrt();
    let SymmetricEigen { eigenvectors, eigenvalues } = SymmetricEigen::new(covariance);
    // If all data are equal, differences from them are not reconstructed at all.
    let kept = |variance: f64| if variance > 0.0 { 1.0 - scale / variance.sqrt() } else { 0.0 };

    // Weights in the order of `Linear`: inputs by rows, outputs by columns.
    let encoder = |input: usize, component: usize| eigenvectors[(input, component)];
    let decoder = |component: usize, output: usize| kept(eigenvalues[component]) * eigenvectors[(output, component)];
    let offset = |component| -(0..dimension).map(|input| eigenvectors[(input, component)] * mean[input]).sum::<f64>();
    let weights = |of: &dyn Fn(usize, usize) -> f64| {
        (0..dimension * dimension).map(|at| of(at / dimension, at % dimension) as f32).collect()
    };
    let mut autoencoder = checkpoint::blank(spec, device);
    let bias = (0..dimension).map(|component| offset(component) as f32).collect();
    autoencoder.encoder = autoencoder.encoder.with_dense(weights(&encoder), bias);
    let bias = mean.iter().map(|&mean| mean as f32).collect();
    autoencoder.decoder = autoencoder.decoder.with_dense(weights(&decoder), bias);
    autoencoder
}

/// Shrinks `covariance`, estimated from `count` samples, towards the multiple of the identity with the same trace. The
/// share is the one that is expected to bring it nearest to the true covariance of Gaussian samples: the oracle
/// approximating estimator (Chen, Wiesel, Eldar and Hero, IEEE Transactions on Signal Processing 2010, equation 23).
/// Without it, directions with too few samples or hardly any variance would dominate the distance.
fn shrunk(covariance: DMatrix<f64>, count: usize) -> DMatrix<f64> {
    let (count, dimension) = (count as f64, covariance.nrows() as f64);
    let (trace, squared) = (covariance.trace(), covariance.norm_squared());
    let above = (1.0 - 2.0 / dimension) * squared + trace * trace;
    let below = (count + 1.0 - 2.0 / dimension) * (squared - trace * trace / dimension);
    // The covariance already is that multiple.
    let share = if below > 0.0 { (above / below).min(1.0) } else { 1.0 };
    let identity = DMatrix::from_diagonal_element(covariance.nrows(), covariance.nrows(), share * trace / dimension);
    covariance * (1.0 - share) + identity
}

#[cfg(test)]
mod tests {
    use nae_core::Shape;

    use super::*;
    use crate::arch::linear::linear;
    use crate::methods::reference::{self, tests::energies};

    /// Points (a, b, a + b/4) around (.5, .2, .3), which vary more along the first axis than along the second.
    fn points() -> ImageSet {
        let numbers = (0..40u32).flat_map(|at| {
            let (a, b) = ((at as f32 * 2.4).sin() * 0.3, (at as f32 * 1.7).cos() * 0.1);
            [0.5 + a, 0.2 + b, 0.3 + a / 2.0 + b * b]
        });
        ImageSet::new(Shape::vector(3), numbers.collect(), vec![0; 40]).expect("valid")
    }

    fn fitted(train: &ImageSet) -> Autoencoder {
        fit(train, &linear(train.shape()).expect("valid"), &Device::flex())
    }

    #[test]
    fn the_energy_is_the_distance_by_the_inverse_of_the_covariance() {
        let train = points();
        let mut moments = Moments::new(3);
        train.values().chunks_exact(3).for_each(|vector| moments.add(vector));
        let covariance = shrunk(moments.covariance(), 40);
        let (mean, mean_variance) = (moments.mean(), covariance.trace() / 3.0);
        // The inverse is computed by Gauss–Jordan elimination, while the model uses principal components.
        let inverse = covariance.try_inverse().expect("of full rank");
        let asked = [[0.5, 0.2, 0.3], [0.9, 0.1, 0.2], [0.0, 1.0, 0.5_f32]];
        let found = energies(&fitted(&train), asked.as_flattened(), train.shape());
        for (vector, energy) in asked.iter().zip(found) {
            let difference = nalgebra::DVector::from_fn(3, |at, _| f64::from(vector[at]) - mean[at]);
            let expected = mean_variance / 3.0 * (difference.transpose() * &inverse * &difference)[0];
            assert!((f64::from(energy) - expected).abs() < 1e-5 * expected.max(1.0), "{energy} {expected}");
        }
        // Images are used as vectors of their values.
        let shape = Shape::new(1, 1, 3);
        let images = ImageSet::new(shape, train.values().to_vec(), vec![0; 40]).expect("valid");
        assert_eq!(energies(&fitted(&images), &asked[1], shape), energies(&fitted(&train), &asked[1], train.shape()));
    }

    #[test]
    fn of_data_that_do_not_correlate_it_is_the_distance_to_the_mean() {
        // All corners of a cube.
        let corners: Vec<f32> = (0..8).flat_map(|at| [at & 1, at >> 1 & 1, at >> 2]).map(|v| v as f32).collect();
        let train = ImageSet::new(Shape::vector(3), corners, vec![0; 8]).expect("valid");
        let asked = [0.5, 0.5, 0.5, 1.0, 0.5, 0.0, 2.0, -1.0, 0.25];
        let found = energies(&fitted(&train), &asked, train.shape());
        let expected = energies(&reference::Mahalanobis::new(&train), &asked, train.shape());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        // Data that are all equal have no direction of variation.
        let alike = ImageSet::new(Shape::vector(2), vec![0.25; 8], vec![0; 4]).expect("valid");
        assert_eq!(energies(&fitted(&alike), &[0.25, 0.25, 0.75, 0.25], Shape::vector(2)), [0.0, 0.125]);
    }

    #[test]
    fn a_covariance_is_moved_as_its_source_says() {
        // Trace 5, trace of the square 17: the share is (0·17 + 25) / ((9 + 1 − 1)·(17 − 12.5)), towards 2.5.
        let covariance = DMatrix::from_row_slice(2, 2, &[4.0, 0.0, 0.0, 1.0]);
        let share = 25.0 / 40.5;
        let moved = shrunk(covariance.clone(), 9);
        assert!(
            (moved[(0, 0)] - (4.0 - 1.5 * share)).abs() < 1e-12 && (moved[(1, 1)] - (1.0 + 1.5 * share)).abs() < 1e-12
        );
        assert_eq!(moved[(0, 1)], 0.0);
        // With many samples there is hardly any shrinkage, with two samples the covariance is replaced.
        assert!((shrunk(covariance.clone(), 1_000_000)[(0, 0)] - 4.0).abs() < 1e-4);
        assert!((shrunk(covariance, 2)[(0, 0)] - 2.5).abs() < 1e-12);
    }
}
