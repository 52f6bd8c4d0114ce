//! The feed-forward energy-based model (Du and Mordatch, NeurIPS 2019: "IGEBM"): a residual network with spectral
//! normalisation whose one output is the energy. Negative samples are Langevin chains among images, from a replay buffer.
//! It is no autoencoder; of a preset's network only the shape of images counts.
//!
//! Network, chain, buffer and loss as in the code of the NAE's authors (`EnergyBasedModel`, `IGEBM`); weights are drawn as
//! everywhere else, and every convolution is divided by its largest singular value, where theirs leaves a smaller one as it
//! is in the second convolution of a block.

use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::gradient_method::{GradientMethod, Objective, OptimizerStep};
use super::gradients::{BatchLoss, figures, sharded};
use super::state;
use super::{Decision, Model, UpdateFigures};
use crate::arch::Autoencoder;
use crate::arch::LatentSpace;
use crate::arch::blocks::LEAKY_RELU;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::igebm::stages;
use crate::arch::layer::Sequential;
use crate::arch::spec::{LayerSpec, fc};
use crate::config::Pretraining;
use crate::config::methods::FeedForward;
use crate::engine::Engine;
use crate::engine::kept::KeptEngine;
use crate::engine::layers::CpuLayers;
use crate::sample::frozen::differentiate;
use crate::sample::{
    Bounds, EnergyGradient, GradientClip, Langevin, Leaving, NoiseSource, Precision, ReplayBuffer, ReplayConfig,
};
use crate::shard;

/// Where images are.
const BOX: Bounds = Bounds { min: 0.0, max: 1.0, leaving: Leaving::Clamp };

/// A network from an image to its energy.
#[derive(Module, Debug)]
pub struct EnergyNetwork {
    /// To feature maps of any size, which are summed up.
    features: Sequential,
    /// From the sums to the energy.
    head: Sequential,
}

fn convolution(channels: usize, kernel: usize, bias: bool) -> LayerSpec {
    LayerSpec::Conv { channels, kernel, stride: 1, padding: kernel / 2, bias, spectral_norm: true }
}

impl EnergyNetwork {
    /// For images of `image`, of 8 × 8 pixels and more, with weights drawn from `rng`.
    pub fn new(image: Shape, settings: FeedForward, rng: &mut impl Rng, device: &Device) -> Self {
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
        let features = Sequential::new(&layers, image, rng, device);
        Self { features, head: Sequential::new(&[fc(1)], Shape::vector(wide), rng, device) }
    }

    /// A model to read weights into, on the autodiff form of `device`.
    pub(super) fn blank(image: Shape, settings: FeedForward, device: &Device) -> Self {
        // The drawn weights are all replaced; the seed does not matter.
        Self::new(image, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff())
    }

    /// E(x) of each sample of `x` `[N, C, H, W]`: `[N]`.
    pub fn energies(&self, x: Tensor<4>) -> Tensor<1> {
        self.energies_of(self.features.forward(x))
    }

    /// Given the feature maps.
    fn energies_of(&self, features: Tensor<4>) -> Tensor<1> {
        let n = features.dims()[0];
        self.head.forward(features.sum_dim(2).sum_dim(3)).reshape([n])
    }
}

impl Model for EnergyNetwork {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::NegativeLogLikelihood]
    }

    /// The energy: −log p(x) but for the same constant everywhere.
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().energies(x)
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// Trains by the data's energy against that of negative samples.
pub(crate) type IgebmMethod = GradientMethod<Contrast>;

/// The data's energy less that of negative samples.
pub(crate) struct Contrast {
    regularization: f32,
    chain: Langevin,
    engine: KeptEngine,
}

/// Negative samples of past updates.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    buffer: ReplayBuffer,
    /// The chains draw from it.
    noise: NoiseSource,
}

impl state::Kept for Kept {
    fn difference(&self, begun: &Self, image: Shape) -> Option<&'static str> {
        let buffer = self.buffer.goes_on_from(&begun.buffer, image.len());
        if buffer { self.noise.difference(&begun.noise, image) } else { Some("replay buffer") }
    }
}

impl IgebmMethod {
    /// From the state `model`; the chains draw from `noise`.
    pub(crate) fn new(
        model: EnergyNetwork,
        pretraining: Pretraining,
        settings: FeedForward,
        noise: NoiseSource,
        engine: Engine,
        device: &Device,
    ) -> Self {
        let clip = GradientClip { limit: settings.gradient_clip, by: Default::default() };
        let chain = Langevin::new(settings.steps, settings.step_size, settings.noise);
        let objective = Contrast {
            regularization: settings.regularization,
            chain: Langevin { gradient_clip: Some(clip), bounds: Some(BOX), ..chain },
            engine: KeptEngine::new(engine, device),
        };
        let buffer = ReplayBuffer::new(ReplayConfig { size: settings.buffer, ratio: settings.replay });
        Self::begin(objective, model, Kept { buffer, noise }, pretraining)
    }
}

impl Contrast {
    /// Negative samples `[N, C, H, W]` of `shape`, from the buffer or uniform noise.
    fn negatives(&self, kept: &mut Kept, model: &EnergyNetwork, shape: [usize; 4]) -> Tensor<4> {
        let len = shape[1..].iter().product();
        let fresh = kept.noise.images(Some(BOX), shape, self.engine.device());
        let mut values: Vec<f32> = fresh.into_data().iter::<f32>().collect();
        kept.buffer.replace(&mut values, len, kept.noise.rng());
        let start = Tensor::from_data(TensorData::new(values, shape), self.engine.device());
        let frozen = model.clone().no_grad();
        let layers = (self.engine.engine() == Engine::Cpu).then(|| self.layers(model, &start));
        let energy = |x: Tensor<4>| match &layers {
            Some(layers) => energy_gradient(&frozen, layers, x),
            None => differentiate(Precision::F32, x, |x| frozen.energies(x)),
        };
        let end = self.chain.run(start, 1.0, &mut kept.noise, energy, LatentSpace::Euclidean).state;
        let values: Vec<f32> = end.clone().into_data().iter::<f32>().collect();
        kept.buffer.append(&values, len);
        end
    }

    /// The gradient of the loss with respect to all weights, and both mean energies.
    fn gradients(&self, model: &EnergyNetwork, x: Tensor<4>, negatives: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        match self.engine.engine() {
            Engine::Cpu => self.by_layers(model, x, negatives),
            Engine::Burn => self.by_burn(model, x, negatives),
        }
    }

    fn by_layers(&self, model: &EnergyNetwork, x: Tensor<4>, negatives: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        let layers = self.layers(model, &x);
        let passed = [x, negatives].map(|x| layers.forward(x));
        let leaves = passed.each_ref().map(|(features, _)| features.clone().autodiff().require_grad());
        let [positive, negative] = leaves.each_ref().map(|features| model.energies_of(features.clone()));
        let BatchLoss { loss, report } = self.loss(positive, negative);
        let slopes = loss.backward();
        let ways = passed.into_iter().zip(leaves).map(|((_, passed), leaf)| {
            let slope = leaf.grad(&slopes).expect("the loss depends on both batches");
            (passed, slope)
        });
        let of_features = layers.weights(ways);
        let mut gradients = GradientsParams::from_grads(slopes, &model.head);
        self.engine.register([of_features], &mut gradients);
        (gradients, figures(report))
    }

    fn by_burn(&self, model: &EnergyNetwork, x: Tensor<4>, negatives: Tensor<4>) -> (GradientsParams, UpdateFigures) {
        let pairs = shard::shards(x).into_iter().zip(shard::shards(negatives));
        let shards = pairs.map(|pair| (pair.0.dims()[0], pair)).collect();
        sharded(model, shards, |model, (x, negatives): (Tensor<4>, Tensor<4>)| {
            self.loss(model.energies(x.autodiff()), model.energies(negatives.autodiff()))
        })
    }

    /// Of the energies of data and of negative samples.
    fn loss(&self, positive: Tensor<1>, negative: Tensor<1>) -> BatchLoss {
        let squares = positive.clone().square().mean() + negative.clone().square().mean();
        let (positive, negative) = (positive.mean(), negative.mean());
        let loss = positive.clone() - negative.clone() + squares.mul_scalar(self.regularization);
        BatchLoss { loss, report: vec![("positive_energy", positive), ("negative_energy", negative)] }
    }

    /// The network up to its feature maps, laid out for images like `x`.
    fn layers(&self, model: &EnergyNetwork, x: &Tensor<4>) -> CpuLayers {
        let [_, channels, height, width] = x.dims();
        self.engine.layers(&model.features, Shape::new(channels, height, width), false)
    }
}

/// Energies of `x` and their gradient: burn's from the feature maps on, the engine's up to there. The weights of `frozen` are
/// not tracked.
fn energy_gradient(frozen: &EnergyNetwork, layers: &CpuLayers, x: Tensor<4>) -> EnergyGradient {
    let (features, passed) = layers.forward(x);
    let leaf = features.autodiff().require_grad();
    let energies = frozen.energies_of(leaf.clone());
    let slopes = energies.clone().sum().backward();
    let slope = leaf.grad(&slopes).expect("the energy is a function of the features");
    EnergyGradient { energy: energies.inner(), gradient: layers.inputs(&passed, slope) }
}

impl Objective for Contrast {
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
        let (gradients, figures) = self.gradients(&model, x, negatives);
        let EnergyNetwork { features, head } = step.along(gradients, model);
        (EnergyNetwork { features: features.power_iteration(), head }, figures)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::*;
    use crate::methods::Method as _;
    use crate::methods::finite_differences::{changed, gradient_of, slopes_agree, wide};

    fn method(settings: FeedForward, engine: Engine) -> IgebmMethod {
        let device = Device::flex();
        let image = Shape::new(1, 8, 9);
        let model = EnergyNetwork::new(image, settings, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        IgebmMethod::new(model, Pretraining::new(1, 8, 1e-2), settings, NoiseSource::new(4, 0), engine, &device)
    }

    fn negatives(method: &mut IgebmMethod, count: usize) -> Vec<f64> {
        wide(method.objective.negatives(&mut method.kept, &method.model, [count, 1, 8, 9]))
    }

    fn images(seed: u64) -> Tensor<4> {
        NoiseSource::new(seed, 0).uniform::<4>([37, 1, 8, 9], &Device::flex())
    }

    /// By the last layer's weights: a slope along the others' crosses kinks of the leaky ReLU.
    #[test]
    fn it_steps_by_the_gradient_of_its_loss() {
        let settings = FeedForward { width: 3, regularization: 0.3, ..FeedForward::default() };
        let (x, negatives, mut method) = (images(1), images(2).mul_scalar(1.5), method(settings, Engine::Burn));
        method.model.features = method.model.features.no_grad();
        let (gradients, _) = method.objective.gradients(&method.model, x.clone(), negatives.clone());
        let [x, negatives] = [x, negatives].map(|x| x.cast(FloatDType::F64));
        // [data, negative samples, squares of the data's, of the negative samples']
        let right = [1.0, -1.0, 0.3, 0.3];
        slopes_agree("IGEBM", &method.model, &gradients, &right, &changed(right), |model, terms: &[f64; 4]| {
            let [positive, negative] = [&x, &negatives].map(|x| wide(model.energies(x.clone())));
            let mean = |energies: &[f64], power: i32| energies.iter().map(|e| e.powi(power)).sum::<f64>() / 37.0;
            terms[0] * mean(&positive, 1)
                + terms[1] * mean(&negative, 1)
                + terms[2] * mean(&positive, 2)
                + terms[3] * mean(&negative, 2)
        });
    }

    /// Gradients of all weights, energies and gradients of images: the engine's are burn's.
    #[test]
    fn both_engines_agree() {
        let settings = FeedForward { width: 3, regularization: 0.3, ..FeedForward::default() };
        let (x, negatives) = (images(1), images(2).mul_scalar(1.5));
        let [by_engine, by_burn] = [Engine::Cpu, Engine::Burn].map(|engine| {
            let method = method(settings, engine);
            let (gradients, figures) = method.objective.gradients(&method.model, x.clone(), negatives.clone());
            (gradient_of(&method.model, &gradients), figures.get("negative_energy").expect("reported"))
        });
        let close = |found: &[f64], right: &[f64]| {
            let largest = right.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
            assert!(largest > 1e-3 && found.len() == right.len());
            let apart = found.iter().zip(right).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-5 * largest, "{apart} of {largest}");
        };
        close(&by_engine.0, &by_burn.0);
        close(&[by_engine.1], &[by_burn.1]);
        let method = method(settings, Engine::Cpu);
        let (frozen, layers) = (method.model.clone().no_grad(), method.objective.layers(&method.model, &x));
        let found = energy_gradient(&frozen, &layers, x.clone());
        let right = differentiate(Precision::F32, x, |x| frozen.energies(x));
        close(&wide(found.energy), &wide(right.energy));
        close(&wide(found.gradient), &wide(right.gradient));
    }

    /// Chains go on from the buffer but for the share that begins anew, downhill, within the box.
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

    /// Images of one grey level each, about 0.3: training finds that level, and chains from noise end there.
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
        let mean = end.iter().sum::<f64>() / end.len() as f64;
        assert!((mean - 0.3).abs() < 0.12, "noise has a mean of 0.5: {mean}");
    }
}
