//! The feed-forward energy-based model (Du and Mordatch, NeurIPS 2019: "IGEBM"): a residual network with spectral
//! normalization whose single output is the energy. Negative samples are from Langevin chains in image space, which
//! start from a replay buffer. It is not an autoencoder; it only uses the image shape of a preset's network.
//!
//! Network, chain, buffer and loss are as in the code of the NAE's authors (`EnergyBasedModel`, `IGEBM`). Weights are
//! drawn as for all other networks, and every convolution is divided by its largest singular value, while their code
//! leaves a smaller one unchanged in the second convolution of a block.

use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::UpdateFigures;
use super::energy_network::{Contrast, EnergyNetwork};
use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::state;
use crate::arch::LatentSpace;
use crate::arch::blocks::LEAKY_RELU;
use crate::arch::igebm::stages;
use crate::arch::spec::LayerSpec;
use crate::config::Pretraining;
use crate::config::methods::FeedForward;
use crate::engine::Engine;
use crate::sample::{Bounds, ClipBy, GradientClip, Langevin, Leaving, NoiseSource, ReplayBuffer, ReplayConfig};

/// The box of images.
const BOX: Bounds = Bounds { min: 0.0, max: 1.0, leaving: Leaving::Clamp };

fn convolution(channels: usize, kernel: usize, bias: bool) -> LayerSpec {
    LayerSpec::Conv { channels, kernel, stride: 1, padding: kernel / 2, bias, spectral_norm: true }
}

/// The network for images of `image`, at least 8 × 8 pixels, with weights drawn from `rng`.
pub(crate) fn network(image: Shape, settings: FeedForward, rng: &mut impl Rng, device: &Device) -> EnergyNetwork {
    let (narrow, wide) = (settings.width, 2 * settings.width);
    let mut layers = vec![convolution(narrow, 3, true), LEAKY_RELU];
    for (from, to, pool) in stages(narrow) {
        let body = vec![convolution(to, 3, true), LEAKY_RELU, convolution(to, 3, true)];
        let skip = if pool || from != to { vec![convolution(to, 1, false)] } else { vec![] };
        layers.push(LayerSpec::Residual { body, skip });
        layers.extend(pool.then_some(LayerSpec::AvgPool { window: 2 }));
        layers.push(LEAKY_RELU);
    }
    layers.push(LayerSpec::Relu);
    EnergyNetwork::new(&layers, image, wide, rng, device)
}

/// A model to load weights into, on the autodiff form of `device`.
pub(super) fn blank(image: Shape, settings: FeedForward, device: &Device) -> EnergyNetwork {
    // All drawn weights are replaced, so the seed does not matter.
    network(image, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
}

/// Trains on the difference of the energies of data and negative samples.
pub(crate) type IgebmMethod = GradientMethod<FromBuffer>;

/// Negative samples that continue from those of earlier updates.
pub(crate) struct FromBuffer {
    contrast: Contrast,
    chain: Langevin,
}

/// The negative samples of earlier updates, and the random numbers.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    buffer: ReplayBuffer,
    /// The source of the chains' random numbers.
    noise: NoiseSource,
}

impl state::Kept for Kept {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        let buffer = self.buffer.goes_on_from(&begun.buffer, image.len());
        if buffer { self.noise.difference(&begun.noise, image) } else { Some("replay buffer") }
    }
}

impl IgebmMethod {
    /// Starts from the state `model`; chains use random numbers from `noise`.
    pub(crate) fn new(
        model: EnergyNetwork,
        pretraining: Pretraining,
        settings: FeedForward,
        noise: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let clip = GradientClip { limit: settings.gradient_clip, by: ClipBy::RowNorm };
        let chain = Langevin::new(settings.steps, settings.step_size, settings.noise);
        let objective = FromBuffer {
            contrast: Contrast::new(settings.regularization, engine, device),
            chain: Langevin { gradient_clip: Some(clip), bounds: Some(BOX), ..chain },
        };
        let buffer = ReplayBuffer::new(ReplayConfig { size: settings.buffer, ratio: settings.replay });
        Self::begin(objective, model, Kept { buffer, noise }, pretraining)
    }
}

impl FromBuffer {
    /// Draws negative samples `[N, C, H, W]` of `shape`; chains start from the buffer or from uniform noise.
    fn negatives(&self, kept: &mut Kept, model: &EnergyNetwork, shape: [usize; 4]) -> Tensor<4> {
        let (len, device) = (shape[1..].iter().product(), self.contrast.engine().device());
        let fresh = kept.noise.images(Some(BOX), shape, device);
        let mut values: Vec<f32> = fresh.into_data().iter::<f32>().collect();
        kept.buffer.replace(&mut values, len, kept.noise.rng());
        let start = Tensor::from_data(TensorData::new(values, shape), device);
        let frozen = self.contrast.freeze(model, &start);
        let energy = |x| frozen.energy_gradient(x);
        let end = self.chain.run(start, 1.0, &mut kept.noise, energy, LatentSpace::Euclidean).state;
        let values: Vec<f32> = end.clone().into_data().iter::<f32>().collect();
        kept.buffer.append(&values, len);
        end
    }
}

impl Objective for FromBuffer {
    type Model = EnergyNetwork;
    type Kept = Kept;

    fn update(
        &self,
        kept: &mut Kept,
        model: EnergyNetwork,
        x: Tensor<4>,
        step: OptimizerStep<'_>,
    ) -> (EnergyNetwork, UpdateFigures) {
        let negatives = self.negatives(kept, &model, x.dims());
        let (gradients, figures) = self.contrast.gradients(&model, x, negatives);
        (step.along(gradients, model).power_iteration(), figures)
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{Module as _, ModuleMapper, Param};

    use super::*;
    use crate::arch::spec::conv2d;
    use crate::methods::Method as _;
    use crate::methods::finite_differences::wide;

    fn method(settings: FeedForward, engine: Engine) -> IgebmMethod {
        let device = Device::flex();
        let image = Shape::new(1, 8, 9);
        let model = network(image, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        IgebmMethod::new(model, Pretraining::new(1, 8, 1e-2), settings, NoiseSource::new(4, 0), engine, &device)
    }

    fn negatives(method: &mut IgebmMethod, count: usize) -> Vec<f64> {
        wide(method.objective.negatives(&mut method.kept, &method.model, [count, 1, 8, 9]))
    }

    fn images(seed: u64) -> Tensor<4> {
        NoiseSource::new(seed, 0).uniform::<4>([37, 1, 8, 9], &Device::flex())
    }

    /// Chains continue from the buffer, except for the share that restarts; they descend and stay within the box.
    #[test]
    fn negative_samples_go_on_downhill_from_the_buffer() {
        let settings = FeedForward { width: 3, replay: 1.0, noise: 0.0, step_size: 2.0, ..FeedForward::default() };
        let mut method = method(FeedForward { steps: 0, ..settings }, Engine::Cpu);
        let first = negatives(&mut method, 37);
        let again = negatives(&mut method, 37);
        let kept = |image: &[f64]| first.chunks(72).any(|other| other == image);
        assert!(again.chunks(72).all(kept), "every chain goes on where one of before ended");
        let energy = |method: &IgebmMethod, x: &[f64]| {
            let data = TensorData::new(x.iter().map(|&v| v as f32).collect::<Vec<_>>(), [37, 1, 8, 9]);
            wide(method.model.valid().energies(Tensor::from_data(data, &Device::flex()))).iter().sum::<f64>()
        };
        let before = energy(&method, &first);
        method.objective.chain.steps = 20;
        let after = negatives(&mut method, 37);
        assert!(energy(&method, &after) < before - 1e-3, "{} {before}", energy(&method, &after));
        assert!(after.iter().all(|v| (0.0..=1.0).contains(v)) && !after.chunks(72).all(kept));
        let fresh = FeedForward { replay: 0.0, steps: 0, ..settings };
        let mut method = self::method(fresh, Engine::Cpu);
        let first = negatives(&mut method, 37);
        assert!(negatives(&mut method, 37).chunks(72).all(|image| first.chunks(72).all(|other| other != image)));
    }

    /// A chain's step as in the authors' code: −λ times the gradient, each row of which has a norm of at most the
    /// limit, then clamped to the box.
    #[test]
    fn a_step_is_as_long_as_the_authors() {
        let settings = FeedForward { width: 3, noise: 0.0, steps: 1, ..FeedForward::default() };
        let method = method(FeedForward { gradient_clip: 1e-4, step_size: 10.0, ..settings }, Engine::Burn);
        let start = images(5);
        let frozen = method.objective.contrast.freeze(&method.model, &start);
        let gradient = wide(frozen.energy_gradient(start.clone()).gradient);
        let mut shortened = 0;
        let mut expected = wide(start.clone());
        for (row, x) in gradient.chunks(9).zip(expected.chunks_mut(9)) {
            let norm = row.iter().map(|g| g * g).sum::<f64>().sqrt();
            shortened += usize::from(norm > 1e-4);
            for (x, g) in x.iter_mut().zip(row) {
                *x = (*x - 10.0 * g * (1e-4 / norm.max(1e-4))).clamp(0.0, 1.0);
            }
        }
        assert!(shortened > 37 * 4, "most rows are shortened: {shortened}");
        let energy = |x| frozen.energy_gradient(x);
        let mut noise = NoiseSource::new(0, 0);
        let end = wide(method.objective.chain.run(start, 1.0, &mut noise, energy, LatentSpace::Euclidean).state);
        let largest = end.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(largest < 1e-6, "{largest}");
        // The authors' settings.
        let chain = IgebmMethod::new(
            method.model,
            Pretraining::new(1, 8, 1e-2),
            FeedForward::default(),
            noise,
            Engine::Burn,
            &Device::flex(),
        );
        let chain = chain.objective.chain;
        assert_eq!((chain.steps, chain.step_size, chain.noise), (60, 10.0, 0.005));
        assert_eq!(chain.gradient_clip, Some(GradientClip { limit: 0.01, by: ClipBy::RowNorm }));
    }

    /// A network whose energy is ½·k·Σ(x − c)²: x·sigmoid(g·x) − x·sigmoid(−g·x) = x·tanh(½·g·x), which is ½·g·x² for
    /// small g·x; with g = 0.1 its slope differs from g·x by less than 0.1 % for |x| < 0.7.
    fn parabola(k: f32, c: f32) -> EnergyNetwork {
        struct Fill(std::vec::IntoIter<Vec<f32>>);
        impl ModuleMapper for Fill {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let values = self.0.next().expect("as many as there are weights");
                param.map(|weights| {
                    let weights = weights.inner();
                    let data = TensorData::new(values, weights.dims());
                    Tensor::from_inner(Tensor::from_data(data, &weights.device())).require_grad()
                })
            }
        }
        let g = 0.1;
        let pixels = || vec![conv2d(2, 1, 1, 0)];
        let layers = [LayerSpec::Gated { body: pixels(), gate: pixels() }];
        let image = Shape::new(1, 8, 9);
        let network = EnergyNetwork::new(&layers, image, 2, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff());
        let [body, gate] = [1.0, g].map(|a| [vec![a, -a], vec![-a * c, a * c]]);
        let weights = [body, gate, [vec![k / g; 2], vec![0.0]]].concat();
        network.map(&mut Fill(weights.into_iter()))
    }

    /// For E = ½·k·(x − c)², a chain's step is x ← c + r·(x − c) + σ·ε with r = 1 − λ·k, so that after t steps from
    /// uniform noise, of mean ½ and variance 1/12, each pixel has the mean c + rᵗ·(½ − c) and the variance
    /// r²ᵗ/12 + σ²·(1 − r²ᵗ)/(1 − r²). The second term is the spread of the density exp(−E/T) at T = σ²/(2λ), except
    /// for a factor 1/(1 − ½·λ·k). The bounds are four standard errors of a mean and of a variance of normal values; the
    /// largest difference for these seeds is 1.1 standard errors, and every wrong chain is off by more than 80.
    #[test]
    fn samples_of_a_known_density_have_its_mean_and_spread() {
        // The authors' settings; only the limit on the gradient, which would change the density, is out of reach.
        let settings = FeedForward { gradient_clip: 1.0, ..FeedForward::default() };
        let (k, c, images) = (0.01, 0.3, 200);
        for (level, expected) in [(0.3, 0.0), (0.5, 0.5 * 0.01 * 0.04 * 72.0), (0.0, 0.5 * 0.01 * 0.09 * 72.0)] {
            let energy = wide(parabola(k, c).valid().energies(Tensor::full([1, 1, 8, 9], level, &Device::flex())))[0];
            assert!((energy - expected).abs() < 1e-3 * (expected + 1e-3), "{level}: {energy} against {expected}");
        }
        let n = (images * 72) as f64;
        let r = 1.0 - f64::from(settings.step_size * k);
        let left = r.powi(settings.steps as i32);
        let mean = f64::from(c) + left * (0.5 - f64::from(c));
        let stationary = f64::from(settings.noise).powi(2) / (1.0 - r * r);
        let variance = left * left / 12.0 + stationary * (1.0 - left * left);
        let errors = |seed: u64, engine, change: fn(&mut Langevin)| {
            let (pretraining, noise) = (Pretraining::new(1, 8, 1e-2), NoiseSource::new(seed, 0));
            let mut method = IgebmMethod::new(parabola(k, c), pretraining, settings, noise, engine, &Device::flex());
            change(&mut method.objective.chain);
            let samples = negatives(&mut method, images);
            let found = samples.iter().sum::<f64>() / n;
            let spread = samples.iter().map(|x| (x - found) * (x - found)).sum::<f64>() / n;
            [(found - mean) / (variance / n).sqrt(), (spread - variance) / (variance * (2.0 / n).sqrt())]
        };
        for (seed, engine) in (0..5).flat_map(|seed| [(seed, Engine::Cpu), (seed, Engine::Burn)]) {
            let errors = errors(seed, engine, |_| {});
            assert!(errors.iter().all(|error| error.abs() < 4.0), "{seed}, {engine:?}: {errors:?}");
        }
        let refused = |what: &str, change: fn(&mut Langevin)| {
            let errors = errors(0, Engine::Cpu, change);
            assert!(errors.iter().any(|error| error.abs() > 40.0), "{what}: {errors:?}");
        };
        refused("half the steps", |chain| chain.steps /= 2);
        refused("uphill", |chain| chain.step_size *= -1.0);
        refused("three times the noise", |chain| chain.noise *= 3.0);
        refused("no noise", |chain| chain.noise = 0.0);
    }

    /// Each image has one grey level of about 0.3: training finds that level, and chains, which start from noise, are
    /// near it. The data's spread is not tested, since a network this small does not learn it: samples keep a root mean
    /// square distance of 0.06 to 0.18 from the level. For five seeds, from update 70 to 80, means are from 0.257 to
    /// 0.332; the bounds leave half as much again for the mean, and a quarter for the distance.
    #[test]
    fn it_learns_a_density_that_is_known() {
        let settings = FeedForward { width: 4, steps: 30, regularization: 0.1, ..FeedForward::default() };
        let mut method = method(settings, Engine::Cpu);
        let mut levels = NoiseSource::new(7, 0);
        let grey = |levels: Tensor<4>| levels.repeat_dim(2, 8).repeat_dim(3, 9);
        for _ in 0..80 {
            let level = levels.normal::<4>([32, 1, 1, 1], &Device::flex()).mul_scalar(0.03).add_scalar(0.3);
            method.update(grey(level));
        }
        let energy = |x: Tensor<4>| wide(method.model.valid().energies(x));
        let of_level = |level: f32| energy(Tensor::full([1, 1, 8, 9], level, &Device::flex()))[0];
        let noise = energy(images(3)).iter().sum::<f64>() / 37.0;
        let data = of_level(0.3);
        assert!(data < noise && data < of_level(0.8) && data < of_level(0.0), "{data}, {noise}");
        let end = negatives(&mut method, 32);
        let average = |of: fn(&f64) -> f64| end.iter().map(of).sum::<f64>() / end.len() as f64;
        let (mean, distance) = (average(|x| *x), average(|x| (x - 0.3) * (x - 0.3)).sqrt());
        assert!((mean - 0.3).abs() < 0.07, "noise has a mean of 0.5: {mean}");
        assert!(distance < 0.22, "noise has a distance of 0.35: {distance}");
    }
}
