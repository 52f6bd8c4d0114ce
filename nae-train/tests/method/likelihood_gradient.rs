//! The gradient of the negative log-likelihood (paper, equation 12): mean ∇E over the data less mean ∇E over the
//! model's samples, both over T, against finite differences of mean E/T + log Ω with Ω integrated on a grid.
//!
//! The model is a small nonlinear autoencoder of points in the square [−4, 4]². The model's samples are the grid
//! itself (an expectation without sampling error), exact draws from the grid, and the crate's adjusted Langevin chains
//! that keep to the square. Sampled ones agree within four standard errors (by chance, one direction in 16,000 fails).

use burn::tensor::{Device, Tensor, TensorData, activation};
use nae_lab::density::{Grid, GridDensity, Mixture, batch};
use nae_train::arch::LatentSpace;
use nae_train::energy::squared_l2;
use nae_train::sample::{Bounds, EnergyGradient, Langevin, Leaving, Metropolis, NoiseSource};
use rand::RngExt as _;

const TEMPERATURE: f64 = 0.3;
/// Widths of the layers; two of them meet in one latent value.
const WIDTHS: [usize; 5] = [2, 6, 1, 6, 2];
const STEP: f64 = 5e-3;
const DIRECTIONS: usize = 4;
const SAMPLES: usize = 20_000;

/// All weights and biases, layer by layer.
#[derive(Clone)]
struct Small(Vec<f32>);

impl Small {
    fn size() -> usize {
        WIDTHS.windows(2).map(|w| (w[0] + 1) * w[1]).sum()
    }

    fn parameters(&self, device: &Device) -> Tensor<1> {
        Tensor::from_data(TensorData::new(self.0.clone(), [self.0.len()]), device)
    }

    fn moved(&self, direction: &[f32], step: f64) -> Self {
        Self(self.0.iter().zip(direction).map(|(w, d)| (f64::from(*w) + step * f64::from(*d)) as f32).collect())
    }

    /// E(x) = ‖x − f_d(f_e(x))‖²/2, tanh between the layers.
    fn energy(parameters: Tensor<1>, x: Tensor<4>) -> Tensor<1> {
        let n = x.dims()[0];
        let mut at = 0;
        let mut state = x.clone().reshape([n, 2]);
        for (layer, w) in WIDTHS.windows(2).enumerate() {
            let weight = parameters.clone().narrow(0, at, w[0] * w[1]).reshape([w[0], w[1]]);
            let bias = parameters.clone().narrow(0, at + w[0] * w[1], w[1]).reshape([1, w[1]]);
            at += (w[0] + 1) * w[1];
            state = state.matmul(weight) + bias;
            if layer + 2 < WIDTHS.len() {
                state = activation::tanh(state);
            }
        }
        squared_l2(x, state.reshape([n, 2, 1, 1]))
    }

    fn plain(&self, x: Tensor<4>) -> Tensor<1> {
        Self::energy(self.parameters(&x.device()), x)
    }

    fn density(&self) -> GridDensity {
        GridDensity::from_energy(Grid::paper(), TEMPERATURE, &Device::flex(), |x| self.plain(x)).unwrap()
    }

    fn frozen(&self, x: Tensor<4>) -> EnergyGradient {
        let x = x.autodiff().require_grad();
        let energy = Self::energy(self.parameters(&x.device()), x.clone());
        let mut gradients = energy.clone().sum().backward();
        EnergyGradient { energy: energy.inner(), gradient: x.grad_remove(&mut gradients).unwrap() }
    }

    /// Gradient of Σ weight·E(x) with respect to all parameters.
    fn gradient(&self, x: Tensor<4>, weights: Tensor<1>) -> Vec<f64> {
        let parameters = self.parameters(&x.device()).autodiff().require_grad();
        let loss = (Self::energy(parameters.clone(), x.autodiff()) * weights.autodiff()).sum();
        let gradient = parameters.grad_remove(&mut loss.backward()).unwrap();
        gradient.into_data().iter::<f32>().map(f64::from).collect()
    }
}

fn floats(tensor: Tensor<1>) -> Vec<f64> {
    tensor.into_data().iter::<f32>().map(f64::from).collect()
}

fn dot(a: &[f64], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum()
}

fn equal(n: usize, device: &Device) -> Tensor<1> {
    Tensor::ones([n], device).div_scalar(n as f32)
}

#[test]
fn equation_12_is_the_gradient_of_the_integrated_likelihood() {
    let device = Device::flex();
    let mut noise = NoiseSource::new(41, 0);
    let model = Small((0..Small::size()).map(|_| noise.rng().random_range(-0.9..0.9)).collect());
    let data = batch(&Mixture::eight_gaussians().sample(2000, noise.rng()), &device);
    let density = model.density();

    // Three sets of the model's samples.
    let drawn = batch(&density.sample(SAMPLES, noise.rng()), &device);
    let bounds = Some(Bounds { min: -4.0, max: 4.0, leaving: Leaving::Reject });
    let chain = Langevin { bounds, metropolis: Some(Metropolis::Exact), ..Langevin::with_step_size(400, 0.15) };
    let start = noise.images(bounds, [SAMPLES, 2, 1, 1], &device);
    let end = chain.run(start, TEMPERATURE as f32, &mut noise, |x| model.frozen(x), LatentSpace::Euclidean);
    println!("acceptance {:?}", end.acceptance);
    let on_grid = Tensor::cat(Grid::paper().batches(&device).collect(), 0);
    let masses: Vec<f32> = density.masses().iter().map(|m| *m as f32).collect();
    let masses = Tensor::from_data(TensorData::new(masses, [density.grid().len()]), &device);

    let positive = model.gradient(data.clone(), equal(2000, &device));
    let of_samples = |samples: &Tensor<4>| model.gradient(samples.clone(), equal(SAMPLES, &device));
    let (by_drawn, by_chains) = (of_samples(&drawn), of_samples(&end.state));
    let by_grid = model.gradient(on_grid, masses);

    for k in 0..DIRECTIONS {
        let direction: Vec<f32> = (0..Small::size()).map(|_| noise.rng().random_range(-1.0..1.0)).collect();
        let likelihood = |step: f64| {
            let moved = model.moved(&direction, step);
            let energies = floats(moved.plain(data.clone()));
            energies.iter().sum::<f64>() / energies.len() as f64 / TEMPERATURE + moved.density().log_normalizer()
        };
        let expected = (likelihood(STEP) - likelihood(-STEP)) / (2.0 * STEP);
        let equation_8 = |negative: &[f64]| (dot(&positive, &direction) - dot(negative, &direction)) / TEMPERATURE;

        let exact = equation_8(&by_grid);
        assert!((exact - expected).abs() < 2e-3 * expected.abs().max(1.0), "{k}: {exact} against {expected}");
        for (what, samples, negative) in [("drawn", &drawn, &by_drawn), ("chains", &end.state, &by_chains)] {
            // Spread of the directional derivative over the samples, for the standard error of its mean.
            let [ahead, behind] =
                [STEP, -STEP].map(|step| floats(model.moved(&direction, step).plain(samples.clone())));
            let slopes: Vec<f64> = ahead.iter().zip(behind).map(|(a, b)| (a - b) / (2.0 * STEP)).collect();
            let mean = slopes.iter().sum::<f64>() / SAMPLES as f64;
            let variance = slopes.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / SAMPLES as f64;
            let error = (variance / SAMPLES as f64).sqrt() / TEMPERATURE;
            let found = equation_8(negative);
            println!("direction {k}, {what}: {found:.4} ± {error:.4} against {expected:.4}");
            assert!((found - expected).abs() < 4.0 * error, "{k}, {what}: {found} ± {error} against {expected}");
        }
    }
}
