//! One model: one method, one latent space, one seed. [`Cell`] identifies it, [`Job`] trains it.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::ExperimentError;
use super::learned::Learned;
use super::settings::{DensitySettings, Latent, MethodSettings, Size};
use crate::density::{Density, GridDensity, GridError, batch, points};
use nae_train::arch::{Autoencoder, AutoencoderSpec, LatentSpace};
use nae_train::energy::mean;
use nae_train::engine::EngineChoice;
use nae_train::methods::autoencoder::AutoencoderMethod;
use nae_train::methods::nae::{NaeMethod, NormalizedAutoencoder};
use nae_train::methods::{Decision, Method as _, Model as _, VaeMethod, VariationalAutoencoder};
use nae_train::sample::NegativeSampler;
use nae_train::seed::Stream;

/// The number of points from which the plain autoencoder's temperature is computed.
const TEMPERATURE_POINTS: usize = 10_000;
/// The number of negative samples that are kept for the picture.
const SHOWN: usize = 80;
/// The fraction of the largest true density below which a point counts as off the data.
const OFF_DATA: f64 = 1e-3;

/// The identity of one model of the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The name of the method.
    pub method: String,
    /// The latent dimension D_z.
    pub latent_dim: usize,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// Distances of a model's density from the true one, both normalized on [−4, 4]².
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// The total variation distance, half the integral of |p − q|: 0 to 1.
    pub total_variation: f64,
    /// The divergence KL(true ‖ model), in nats.
    pub kl_divergence: f64,
    /// The model's mass where the true density is below a thousandth of its maximum: spurious modes.
    pub mass_off_data: f64,
    /// The final temperature T.
    pub temperature: f64,
}

impl Distances {
    /// Whether all of them are finite: JSON has no infinite numbers, so that others cannot be stored.
    fn are_finite(&self) -> bool {
        let Self { total_variation, kl_divergence, mass_off_data, temperature } = self;
        [total_variation, kl_divergence, mass_off_data, temperature].iter().all(|value| value.is_finite())
    }
}

/// The results of a training.
pub struct Trained {
    /// The trained model.
    pub model: Learned,
    /// Its distances; `None` if training diverged, so that one of them, or T, is not finite.
    pub result: Option<Distances>,
    /// Some of the last negative samples; empty for a method without them.
    pub negatives: Vec<[f32; 2]>,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, D_z = {}, seed {}", self.method, self.latent_dim, self.seed)
    }
}

/// The form of a method's name in the names of files.
pub(super) fn in_file_names(method: &str) -> String {
    method.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// A cell with everything that its training needs.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The settings of the experiment.
    pub settings: &'a DensitySettings,
    /// The method, which determines how negative samples are drawn.
    pub method: &'a MethodSettings,
    /// The latent space.
    pub latent: Latent,
    /// The size of the network and of the training.
    pub size: Size,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Job<'_> {
    /// The identity of the cell.
    pub fn cell(&self) -> Cell {
        Cell { method: self.method.name.clone(), latent_dim: self.latent.dim, seed: self.seed }
    }

    /// The model before training, on the autodiff version of `device`.
    ///
    /// # Errors
    /// [`ExperimentError::Settings`] if the settings give no valid network.
    pub fn start(&self, device: &Device) -> Result<Learned, ExperimentError> {
        let spec = self.architecture()?;
        Ok(if self.method.variational {
            Learned::Variational(self.variational(&spec, device), self.size.marginal_latents)
        } else {
            Learned::Energy(NormalizedAutoencoder::new(self.network(&spec, device), 1.0))
        })
    }

    fn architecture(&self) -> Result<AutoencoderSpec, ExperimentError> {
        let space = if self.method.variational { LatentSpace::Euclidean } else { self.latent.space };
        Ok(self.settings.architecture(Latent { space, ..self.latent }, self.size)?)
    }

    fn network(&self, spec: &AutoencoderSpec, device: &Device) -> Autoencoder {
        Autoencoder::new(spec, Stream::Weights.of(self.seed).rng(), &device.clone().autodiff())
    }

    fn variational(&self, spec: &AutoencoderSpec, device: &Device) -> VariationalAutoencoder {
        let mut weights = Stream::Weights.of(self.seed);
        VariationalAutoencoder::new(spec, self.settings.variational(), weights.rng(), &device.clone().autodiff())
    }

    /// Trains the model.
    ///
    /// # Errors
    /// [`ExperimentError::Interrupted`] soon after `stop` is set.
    pub fn train(&self, device: &Device, stop: &AtomicBool) -> Result<Trained, ExperimentError> {
        let truth = self.settings.target().density();
        let mut method = self.start_method(device)?;
        let mut data = Stream::Batches.of(self.seed);
        for _ in 0..self.size.updates {
            if stop.load(Ordering::Relaxed) {
                return Err(ExperimentError::Interrupted);
            }
            let x = batch(&truth.sample(self.settings.batch_size(), data.rng()), device);
            match &mut method {
                Started::Plain(plain) => plain.update(x),
                Started::Variational(vae) => vae.update(x),
                Started::Normalized(nae) => nae.update(x),
            };
        }
        let (model, negatives) = match method {
            Started::Plain(plain) => {
                let model = with_likeliest_temperature(plain.into_trained(), &truth, self.seed, device);
                (Learned::Energy(model), Vec::new())
            }
            Started::Variational(vae) => {
                (Learned::Variational(vae.into_trained(), self.size.marginal_latents), Vec::new())
            }
            Started::Normalized(nae) => {
                let negatives = nae.negatives().map(|x| points(x.clone())).unwrap_or_default();
                let finite = |point: &[f32; 2]| point.iter().all(|v| v.is_finite());
                (Learned::Energy(nae.normalized().clone()), negatives.into_iter().filter(finite).take(SHOWN).collect())
            }
        };
        let result = match model.density(device) {
            Ok(density) => Some(distances(&density, &truth, model.temperature())).filter(Distances::are_finite),
            Err(GridError::NotANumber { .. } | GridError::NoMass) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Trained { model, result, negatives })
    }

    fn start_method(&self, device: &Device) -> Result<Started, ExperimentError> {
        let spec = self.architecture()?;
        let engine = EngineChoice::Auto.engine(&spec)?;
        if self.method.variational {
            let (start, noise) = (self.variational(&spec, device), Stream::Chains.of(self.seed));
            let (training, settings) = (self.settings.plain_training(self.size), self.settings.variational());
            let method = VaeMethod::new(start, training, settings, noise, engine, device);
            return Ok(Started::Variational(Box::new(method.with_sigma_rate(self.size.temperature_learning_rate))));
        }
        let start = self.network(&spec, device);
        let Some(sampler) = self.settings.sampler(self.method) else {
            let training = self.settings.plain_training(self.size);
            return Ok(Started::Plain(Box::new(AutoencoderMethod::new(start, training, None, engine, device))));
        };
        let training = self.settings.training(self.method, self.latent, self.size);
        let model = NormalizedAutoencoder::new(start, sampler.temperature);
        let sampler = NegativeSampler::new(sampler, self.latent.dim, Stream::Chains.of(self.seed));
        Ok(Started::Normalized(Box::new(NaeMethod::new(model, &training, sampler, engine, device))))
    }
}

/// A method at the start of its training.
enum Started {
    Plain(Box<AutoencoderMethod>),
    Variational(Box<VaeMethod>),
    Normalized(Box<NaeMethod>),
}

/// A plain autoencoder as a density, with the [most likely temperature](likeliest_temperature) for points of the true
/// density.
fn with_likeliest_temperature(
    model: Autoencoder,
    truth: &Density,
    seed: u64,
    device: &Device,
) -> NormalizedAutoencoder {
    let x = batch(&truth.sample(TEMPERATURE_POINTS, Stream::Evaluation.of(seed).rng()), device);
    let energies: Vec<f32> = model.decide(Decision::Reconstruction, x).into_data().iter::<f32>().collect();
    NormalizedAutoencoder::new(model, likeliest_temperature(mean(&energies), 2.0) as f32)
}

/// The temperature of a plain autoencoder. Gaussian noise of variance σ² around the reconstruction has the density
/// exp(−D·E/2σ²)/(2πσ²)^(D/2), where E is the squared error per dimension. The likelihood of the data is largest for σ²
/// = mean E, so that T = 2σ²/D = 2·(mean E)/D.
fn likeliest_temperature(mean_energy: f64, dimensions: f64) -> f64 {
    2.0 * mean_energy / dimensions
}

fn distances(density: &GridDensity, truth: &Density, temperature: f64) -> Distances {
    let grid = density.grid();
    let logs: Vec<f64> = (0..grid.len()).map(|index| truth.log_density(grid.middle(index))).collect();
    let floor = logs.iter().copied().fold(f64::MIN, f64::max) + OFF_DATA.ln();
    let off = density.masses().iter().zip(&logs).filter(|(_, log)| **log < floor);
    let mass_off_data = off.map(|(mass, _)| mass).sum();
    // Both kinds of densities are a number or −∞ everywhere, and not −∞ in all cells.
    let exact = GridDensity::from_log_density(grid, |x| truth.log_density(x));
    let distance = |f: &dyn Fn(&GridDensity) -> f64| exact.as_ref().map_or(f64::NAN, f);
    Distances {
        total_variation: distance(&|exact| exact.total_variation(density)),
        kl_divergence: distance(&|exact| exact.kl_divergence(density)),
        mass_off_data,
        temperature,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::{Grid, Target};

    #[test]
    fn the_likeliest_temperature_has_the_largest_likelihood() {
        for (energy, dimensions) in [(0.3, 2.0), (0.7, 5.0)] {
            let log_likelihood = |temperature: f64| {
                let variance = temperature * dimensions / 2.0;
                -0.5 * dimensions * (2.0 * std::f64::consts::PI * variance).ln() - energy / temperature
            };
            let found = likeliest_temperature(energy, dimensions);
            for other in [0.5, 0.99, 1.01, 2.0] {
                assert!(log_likelihood(found) > log_likelihood(other * found), "{found}, {other}");
            }
        }
    }

    #[test]
    fn the_true_density_is_at_no_distance_and_the_flat_one_far() {
        let (grid, truth) = (Grid::paper(), Target::EightGaussians.density());
        let exact = GridDensity::from_log_density(grid, |x| truth.log_density(x)).expect("a density");
        let same = distances(&exact, &truth, 1.0);
        assert!(same.total_variation < 1e-12 && same.kl_divergence.abs() < 1e-12);
        // A Gaussian is a thousandth of its maximum at 3.7 σ, and has a thousandth of its mass beyond.
        assert!(same.mass_off_data < 2e-3, "{}", same.mass_off_data);
        let flat = GridDensity::from_log_density(grid, |_| 0.0).expect("a density");
        let far = distances(&flat, &truth, 1.0);
        assert!(far.total_variation > 0.4 && far.mass_off_data > 0.3, "{far:?}");
    }

    /// A flat density has distances, but JSON cannot store the temperature.
    #[test]
    fn a_temperature_beyond_all_numbers_is_a_divergence() {
        let settings = DensitySettings::parse(super::super::PAPER, "gaussians8.toml").expect("valid");
        let size = settings.size(crate::experiments::Scale::Smoke).expect("there");
        let method = settings.methods().iter().find(|method| method.sampler.is_some()).expect("there");
        for (temperature_learning_rate, diverges) in [(0.1, false), (100.0, true)] {
            let size = Size { temperature_learning_rate, ..size };
            let job = Job { settings: &settings, method, latent: settings.latents()[0], size, seed: 0 };
            let trained = job.train(&Device::flex(), &AtomicBool::new(false)).expect("trains");
            assert_eq!(trained.model.temperature().is_infinite(), diverges);
            assert_eq!(trained.result.is_none(), diverges, "{:?}", trained.result);
        }
    }

    /// The two cells differ only in the temperature's rate: at the rate of the weights, σ would not change.
    #[test]
    fn a_variational_autoencoder_learns_its_variance_at_the_temperatures_rate() {
        let settings = DensitySettings::parse(super::super::PAPER, "gaussians8.toml").expect("valid");
        let size = settings.size(crate::experiments::Scale::Smoke).expect("there");
        let method = settings.methods().iter().find(|method| method.variational).expect("there");
        let trained = |updates, temperature_learning_rate| {
            let size = Size { updates, temperature_learning_rate, ..size };
            let job = Job { settings: &settings, method, latent: settings.latents()[0], size, seed: 0 };
            let trained = job.train(&Device::flex(), &AtomicBool::new(false)).expect("trains");
            assert!(trained.negatives.is_empty());
            trained.result.expect("a density")
        };
        // Adam's first step is the learning rate: log σ changes by it, and log T by twice that.
        let first = (trained(1, 0.25).temperature / 0.5).ln().abs();
        assert!((first - 0.5).abs() < 1e-3, "{first}");
        let (before, after) = (trained(1, 1e-9), trained(600, 1e-2));
        // The decoder does not separate points yet: σ² is the variance of the data along an axis, 4 + 1/8.
        assert!((after.temperature / 4.125 - 1.0).abs() < 0.1, "{after:?}");
        assert!(after.kl_divergence < 0.5 * before.kl_divergence, "{before:?} {after:?}");
    }
}
