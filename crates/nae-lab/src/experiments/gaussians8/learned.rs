//! The trained model of a cell, as a density in the plane: for an autoencoder from its energy, by integration; for a
//! variational autoencoder from its latents.

use std::path::Path;

use burn::tensor::Device;

use crate::density::{Grid, GridDensity, GridError, Mixture, points};
use nae_train::arch::checkpoint::{self, CheckpointError};
use nae_train::methods::nae::NormalizedAutoencoder;
use nae_train::methods::{Decision, Model as _, VariationalAutoencoder};
use nae_train::seed::Stream;

/// A trained model.
pub enum Learned {
    /// A density p(x) ∝ exp(−E(x)/T).
    Energy(NormalizedAutoencoder),
    /// A density p(x) = ∫ p(x|z) p(z) dz, with the number of latents that are drawn from p(z).
    Variational(VariationalAutoencoder, usize),
}

impl Learned {
    /// Its density on the paper's domain.
    ///
    /// # Errors
    /// [`GridError::NotANumber`] or [`GridError::NoMass`] if the model diverged.
    pub fn density(&self, device: &Device) -> Result<GridDensity, GridError> {
        match self {
            Self::Energy(model) => {
                let energy = |x| model.decide(Decision::Reconstruction, x);
                GridDensity::from_energy(Grid::paper(), self.temperature(), device, energy)
            }
            Self::Variational(model, latents) => {
                let marginal = marginal(model, *latents, device);
                GridDensity::from_log_density(Grid::paper(), |point| marginal.log_density(point))
            }
        }
    }

    /// The temperature T; for a Gaussian of variance σ² around the reconstruction, exp(−D·E/2σ²) with E per dimension,
    /// it is 2σ²/D.
    pub fn temperature(&self) -> f64 {
        match self {
            Self::Energy(model) => f64::from(model.temperature()),
            Self::Variational(model, _) => f64::from(model.sigma()).powi(2),
        }
    }

    /// Writes the weights to `path`.
    ///
    /// # Errors
    /// [`CheckpointError::Write`].
    pub fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        match self {
            Self::Energy(model) => model.save(path),
            Self::Variational(model, _) => model.save(path),
        }
    }

    /// Reads the weights at `path`; `name` is used in errors.
    ///
    /// # Errors
    /// [`CheckpointError::Read`].
    pub fn load(self, name: &str, path: &Path) -> Result<Self, CheckpointError> {
        Ok(match self {
            Self::Energy(model) => Self::Energy(checkpoint::load(model, name, path)?),
            Self::Variational(model, latents) => Self::Variational(checkpoint::load(model, name, path)?, latents),
        })
    }
}

/// The mean of p(x|z), a Gaussian around the decoder's output, over `latents` drawn from the prior. The same latents
/// are drawn for every model, so that a model read from a file has the same density.
fn marginal(model: &VariationalAutoencoder, latents: usize, device: &Device) -> Mixture {
    let shape = [latents, model.autoencoder.latent_dim(), 1, 1];
    let decoded = model.decode(Stream::Likelihood.of(0).normal(shape, device));
    let centers = points(decoded).into_iter().map(|center| center.map(f64::from)).collect();
    Mixture { centers, sigma: model.sigma().into() }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;
    use nae_train::arch::{LatentSpace, fc_res2};
    use nae_train::config::Variational;
    use nae_train::sample::NoiseSource;

    use super::*;

    /// The expected density is an integral over the single latent, which a grid computes more exactly than random
    /// draws.
    #[test]
    fn the_density_is_the_integral_over_latents() {
        let device = Device::flex();
        let spec = fc_res2(1, 8, 16, 1, LatentSpace::Euclidean).expect("a network");
        let settings = Variational { sigma: 0.4, ..Variational::default() };
        let rng = &mut NoiseSource::new(5, 0);
        let model = VariationalAutoencoder::new(&spec, settings, rng.rng(), &device.clone().autodiff());
        let count = 4001;
        let z: Vec<f32> = (0..count).map(|k| -8.0 + k as f32 * 16.0 / (count - 1) as f32).collect();
        let decoded = points(model.decode(Tensor::<1>::from_data(&z[..], &device).reshape([count, 1, 1, 1])));
        // The weights of the trapezoidal rule and of the prior.
        let prior: Vec<f64> = z.iter().map(|z| (-0.5 * f64::from(*z).powi(2)).exp()).collect();
        let total: f64 = prior.iter().sum();
        let integral = |x: [f64; 2]| {
            let gaussian = |center: &[f32; 2]| {
                let square: f64 = x.iter().zip(center).map(|(x, c)| (x - f64::from(*c)).powi(2)).sum();
                (-square / 0.32).exp() / (0.32 * std::f64::consts::PI)
            };
            prior.iter().zip(&decoded).map(|(p, center)| p / total * gaussian(center)).sum::<f64>()
        };
        let density = Learned::Variational(model, 6_000).density(&device).expect("finite");
        let grid = density.grid();
        let found: Vec<f64> = density.densities().collect();
        let largest = found.iter().copied().fold(0.0, f64::max);
        let off = (0..grid.len()).map(|index| (found[index] - integral(grid.middle(index))).abs());
        let worst = off.fold(0.0, f64::max) / largest;
        // Random draws have an error of one or two hundredths; a σ that is wrong by a tenth would give an error of a
        // tenth or more.
        assert!(worst < 0.04, "{worst}");
    }
}
