//! The gradient of the negative log-likelihood (paper, equation 12) is that of [`loss`] over T, where negative samples
//! are the model's: against finite differences of mean E/T + log Ω, with Ω integrated on a grid.
//!
//! The model is a small nonlinear autoencoder of points in the square [−4, 4]². Its samples are points spread over the
//! grid as its density is (an expectation almost without sampling error), independent draws from the grid, and the
//! crate's adjusted Langevin chains that keep to the square. The latter two agree within four standard errors (by
//! chance, one direction in 16,000 fails).

use burn::module::{Module as _, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use nae_lab::density::{Grid, GridDensity, Mixture, batch};
use nae_train::arch::spec::fc;
use nae_train::arch::{Autoencoder, AutoencoderSpec, LatentSpace, LayerSpec};
use nae_train::config::Regularization;
use nae_train::energy::energy;
use nae_train::engine::Engine;
use nae_train::methods::nae::loss;
use nae_train::sample::{Bounds, Langevin, Leaving, Metropolis, NoiseSource, Precision};
use rand::RngExt as _;

const TEMPERATURE: f64 = 0.3;
const STEP: f64 = 5e-3;
const DIRECTIONS: usize = 4;
const SAMPLES: usize = 20_000;
/// Points that stand for the density itself.
const SPREAD: usize = 200_000;

/// Nothing but the two energies.
const PLAIN: Regularization =
    Regularization { negative_energy: 0.0, positive_energy: 0.0, encoder_l2: 0.0, decoder_l2: 0.0, latent_norm: 0.0 };

/// Weights and biases in the order in which they are visited.
struct Draw(NoiseSource, f32);

impl ModuleMapper for Draw {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let values: Vec<f32> =
            (0..param.shape().num_elements()).map(|_| self.0.rng().random_range(-self.1..self.1)).collect();
        param.map(|weights| {
            let weights = weights.inner();
            Tensor::from_inner(Tensor::from_data(TensorData::new(values, weights.dims()), &weights.device()))
                .require_grad()
        })
    }
}

/// Two of the layers meet in one latent value.
fn model(seed: u64) -> Autoencoder {
    let half = |out| vec![fc(6), LayerSpec::Elu { alpha: 1.0 }, fc(out)];
    let spec = AutoencoderSpec::new("small", Shape::vector(2), half(1), half(2), LatentSpace::Euclidean).unwrap();
    let fresh = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff());
    fresh.map(&mut Draw(NoiseSource::new(seed, 0), 0.9))
}

/// The same with every weight moved along the random direction of `seed`.
fn moved(model: &Autoencoder, seed: u64, step: f64) -> Autoencoder {
    struct Move(NoiseSource, f64);
    impl ModuleMapper for Move {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let step = self.1 as f32;
            let direction = direction(&mut self.0, param.shape().num_elements());
            param.map(|weights| {
                let weights = weights.inner();
                let moves: Vec<f32> = direction.iter().map(|d| step * d).collect();
                let moves = Tensor::from_data(TensorData::new(moves, weights.dims()), &weights.device());
                Tensor::from_inner(weights + moves).require_grad()
            })
        }
    }
    model.clone().map(&mut Move(NoiseSource::new(seed, 1), step))
}

fn direction(noise: &mut NoiseSource, len: usize) -> Vec<f32> {
    (0..len).map(|_| noise.rng().random_range(-1.0..1.0)).collect()
}

/// Slope along the direction of `seed` of the loss on data and negative samples.
fn slope(model: &Autoencoder, seed: u64, data: &Tensor<4>, negatives: &Tensor<4>) -> f64 {
    struct Along(GradientsParams, NoiseSource, f64);
    impl ModuleVisitor for Along {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.0.get::<D>(param.id).unwrap().into_data();
            let direction = direction(&mut self.1, param.shape().num_elements());
            self.2 += gradient.iter::<f32>().zip(direction).map(|(g, d)| f64::from(g) * f64::from(d)).sum::<f64>();
        }
    }
    let total = loss(model, data.clone().autodiff(), negatives.clone().autodiff(), 1.0, PLAIN).total;
    let mut along = Along(GradientsParams::from_grads(total.backward(), model), NoiseSource::new(seed, 1), 0.0);
    model.visit(&mut along);
    along.2
}

fn energies(model: &Autoencoder, x: &Tensor<4>) -> Vec<f64> {
    energy(&model.valid(), x.clone()).into_data().iter::<f32>().map(f64::from).collect()
}

fn density(model: &Autoencoder) -> GridDensity {
    let model = model.valid();
    GridDensity::from_energy(Grid::paper(), TEMPERATURE, &Device::flex(), |x| energy(&model, x)).unwrap()
}

/// `SPREAD` middles of cells: of each as many as it has mass, to a whole number, and what is left over to the next one.
fn spread(density: &GridDensity) -> Vec<[f32; 2]> {
    let (mut points, mut owed) = (Vec::new(), 0.5);
    for (index, mass) in density.masses().iter().enumerate() {
        owed += mass * SPREAD as f64;
        let point = density.grid().middle(index).map(|v| v as f32);
        points.extend(std::iter::repeat_n(point, owed as usize));
        owed = owed.fract();
    }
    points
}

#[test]
fn equation_12_is_the_gradient_of_the_integrated_likelihood() {
    let device = Device::flex();
    let mut noise = NoiseSource::new(41, 0);
    let model = model(42);
    let data = batch(&Mixture::eight_gaussians().sample(2000, noise.rng()), &device);
    let density = density(&model);

    // Three sets of the model's samples.
    let spread = batch(&spread(&density), &device);
    let drawn = batch(&density.sample(SAMPLES, noise.rng()), &device);
    let bounds = Some(Bounds { min: -4.0, max: 4.0, leaving: Leaving::Reject });
    let chain = Langevin { bounds, metropolis: Some(Metropolis::Exact), ..Langevin::with_step_size(400, 0.15) };
    let start = noise.images(bounds, [SAMPLES, 2, 1, 1], &device);
    let frozen = Engine::Cpu.freeze(&model, [2, 1, 1], Precision::F32, &device);
    let end = frozen.visible_chain(&chain, start, TEMPERATURE as f32, &mut noise);
    println!("acceptance {:?}", end.acceptance);

    for seed in 0..DIRECTIONS as u64 {
        let [ahead, behind] = [STEP, -STEP].map(|step| moved(&model, seed, step));
        let likelihood = |model: &Autoencoder| {
            let energies = energies(model, &data);
            energies.iter().sum::<f64>() / energies.len() as f64 / TEMPERATURE + self::density(model).log_normalizer()
        };
        let expected = (likelihood(&ahead) - likelihood(&behind)) / (2.0 * STEP);
        let by = |negatives: &Tensor<4>| slope(&model, seed, &data, negatives) / TEMPERATURE;

        let exact = by(&spread);
        println!("direction {seed}: {exact:.5} against {expected:.5}");
        assert!((exact - expected).abs() < 2e-3 * expected.abs().max(1.0), "{seed}: {exact} against {expected}");
        for (what, samples) in [("drawn", &drawn), ("chains", &end.state)] {
            // Spread of the directional derivative over the samples, for the standard error of its mean.
            let [up, down] = [&ahead, &behind].map(|model| energies(model, samples));
            let slopes: Vec<f64> = up.iter().zip(down).map(|(a, b)| (a - b) / (2.0 * STEP)).collect();
            let mean = slopes.iter().sum::<f64>() / SAMPLES as f64;
            let variance = slopes.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / SAMPLES as f64;
            let error = (variance / SAMPLES as f64).sqrt() / TEMPERATURE;
            let found = by(samples);
            println!("direction {seed}, {what}: {found:.4} ± {error:.4} against {expected:.4}");
            assert!((found - expected).abs() < 4.0 * error, "{seed}, {what}: {found} ± {error} against {expected}");
        }
    }
}
