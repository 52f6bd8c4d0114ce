//! A network whose single output is the energy, and its training on the difference of the energies of data and negative
//! samples. IGEBM and MPDR share it; their modules define the network's layers and the source of negative samples.

use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use nae_core::Shape;
use rand::Rng;

use super::gradients::{BatchLoss, figures, sharded};
use super::{Decision, Model, Networks, UpdateFigures};
use crate::arch::Autoencoder;
use crate::arch::checkpoint::{self, CheckpointError};
use crate::arch::layer::Sequential;
use crate::arch::spec::{LayerSpec, fc};
use crate::engine::Engine;
use crate::engine::kept::KeptEngine;
use crate::engine::layers::CpuLayers;
use crate::sample::frozen::differentiate;
use crate::sample::{EnergyGradient, Precision};
use crate::shard;

/// A network that maps an image to its energy.
#[derive(Module, Debug)]
pub struct EnergyNetwork {
    /// The layers up to feature maps of any size, whose sums are the input of the head.
    pub(crate) features: Sequential,
    /// The layers from the sums to the energy.
    pub(crate) head: Sequential,
}

impl EnergyNetwork {
    /// Makes a network with the layers `features` for images of `image`, which end in `channels` feature maps, with
    /// weights drawn from `rng`.
    pub(super) fn new(
        features: &[LayerSpec],
        image: Shape,
        channels: usize,
        rng: &mut impl Rng,
        device: &Device,
    ) -> Self {
        let features = Sequential::new(features, image, rng, device);
        Self { features, head: Sequential::new(&[fc(1)], Shape::vector(channels), rng, device) }
    }

    /// E(x) of each sample of `x` `[N, C, H, W]`: `[N]`.
    pub fn energies(&self, x: Tensor<4>) -> Tensor<1> {
        self.energies_of(self.features.forward(x))
    }

    /// The energies for given feature maps.
    fn energies_of(&self, features: Tensor<4>) -> Tensor<1> {
        let n = features.dims()[0];
        self.head.forward(features.sum_dim(2).sum_dim(3)).reshape([n])
    }

    /// Updates the spectral norms after an update of the weights.
    pub(super) fn power_iteration(self) -> Self {
        Self { features: self.features.power_iteration(), head: self.head }
    }
}

impl Model for EnergyNetwork {
    fn decisions(&self) -> &'static [Decision] {
        &[Decision::NegativeLogLikelihood]
    }

    /// The energy, which is −log p(x) up to a constant.
    fn decide(&self, _: Decision, x: Tensor<4>) -> Tensor<1> {
        self.valid().energies(x)
    }

    fn autoencoder(&self) -> Option<&Autoencoder> {
        None
    }

    fn networks(&self) -> Option<Networks<'_>> {
        Some(Networks::Energy(self))
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        checkpoint::save(self, path)
    }
}

/// An energy network with fixed weights, computed with one of the engines.
pub(super) struct FrozenNetwork {
    network: EnergyNetwork,
    /// The layers up to the feature maps; only for the CPU engine.
    layers: Option<CpuLayers>,
}

impl FrozenNetwork {
    /// E(x) and ∇ₓE(x).
    pub(super) fn energy_gradient(&self, x: Tensor<4>) -> EnergyGradient {
        let Some(layers) = &self.layers else {
            return differentiate(Precision::F32, x, |x| self.network.energies(x));
        };
        // burn computes the part after the feature maps, the engine the part before.
        let (features, passed) = layers.forward(x);
        let leaf = features.autodiff().require_grad();
        let energies = self.network.energies_of(leaf.clone());
        let slopes = energies.clone().sum().backward();
        let slope = leaf.grad(&slopes).expect("the energy is a function of the features");
        EnergyGradient { energy: energies.inner(), gradient: layers.inputs(&passed, slope) }
    }

    /// E of the images `decode(z)`, and its gradient at `z`, with burn.
    pub(super) fn through(&self, z: Tensor<4>, decode: impl Fn(Tensor<4>) -> Tensor<4> + Sync) -> EnergyGradient {
        differentiate(Precision::F32, z, |z| self.network.energies(decode(z)))
    }
}

/// The loss: the data's energy minus that of negative samples, plus the squares of both.
pub(super) struct Contrast {
    regularization: f32,
    engine: KeptEngine,
}

impl Contrast {
    /// Uses `regularization` as the weight of the mean squared energy of data and of negative samples.
    pub(super) fn new(regularization: f32, engine: Engine, device: &Device) -> Self {
        Self { regularization, engine: KeptEngine::new(engine, device) }
    }

    /// The engine of the computation.
    pub(super) fn engine(&self) -> &KeptEngine {
        &self.engine
    }

    /// Freezes `model` for chains of images in the shape of `x`.
    pub(super) fn freeze(&self, model: &EnergyNetwork, x: &Tensor<4>) -> FrozenNetwork {
        let layers = (self.engine.engine() == Engine::Cpu).then(|| self.layers(model, x));
        FrozenNetwork { network: model.clone().no_grad(), layers }
    }

    /// Returns the gradient of the loss with respect to all weights, and both mean energies.
    pub(super) fn gradients(
        &self,
        model: &EnergyNetwork,
        x: Tensor<4>,
        negatives: Tensor<4>,
    ) -> (GradientsParams, UpdateFigures) {
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

    /// The loss for the energies of data and of negative samples.
    fn loss(&self, positive: Tensor<1>, negative: Tensor<1>) -> BatchLoss {
        let squares = positive.clone().square().mean() + negative.clone().square().mean();
        let (positive, negative) = (positive.mean(), negative.mean());
        let loss = positive.clone() - negative.clone() + squares.mul_scalar(self.regularization);
        BatchLoss { loss, report: vec![("positive_energy", positive), ("negative_energy", negative)] }
    }

    /// The layers up to the feature maps, prepared for images in the shape of `x`.
    fn layers(&self, model: &EnergyNetwork, x: &Tensor<4>) -> CpuLayers {
        let [_, channels, height, width] = x.dims();
        self.engine.layers(&model.features, Shape::new(channels, height, width), false)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::*;
    use crate::config::methods::FeedForward;
    use crate::methods::finite_differences::{changed, gradient_of, slopes_agree, wide};
    use crate::methods::igebm;
    use crate::sample::NoiseSource;

    fn network() -> EnergyNetwork {
        let settings = FeedForward { width: 3, ..FeedForward::default() };
        igebm::network(Shape::new(1, 8, 9), settings, NoiseSource::new(0, 0).rng(), &Device::flex().autodiff())
    }

    fn contrast(engine: Engine) -> Contrast {
        Contrast::new(0.3, engine, &Device::flex())
    }

    fn images(seed: u64) -> Tensor<4> {
        NoiseSource::new(seed, 0).uniform::<4>([37, 1, 8, 9], &Device::flex())
    }

    /// The test uses the last layer's weights, since steps along the others' directions cross kinks of the leaky ReLU.
    #[test]
    fn it_steps_by_the_gradient_of_its_loss() {
        let (x, negatives, mut model) = (images(1), images(2).mul_scalar(1.5), network());
        model.features = model.features.no_grad();
        let (gradients, _) = contrast(Engine::Burn).gradients(&model, x.clone(), negatives.clone());
        let [x, negatives] = [x, negatives].map(|x| x.cast(FloatDType::F64));
        // [data, negative samples, squares of the data's energy, squares of the negative samples' energy]
        let right = [1.0, -1.0, 0.3, 0.3];
        slopes_agree("energy network", &model, &gradients, &right, &changed(right), |model, terms: &[f64; 4]| {
            let [positive, negative] = [&x, &negatives].map(|x| wide(model.energies(x.clone())));
            let mean = |energies: &[f64], power: i32| energies.iter().map(|e| e.powi(power)).sum::<f64>() / 37.0;
            terms[0] * mean(&positive, 1)
                + terms[1] * mean(&negative, 1)
                + terms[2] * mean(&positive, 2)
                + terms[3] * mean(&negative, 2)
        });
    }

    /// Gradients of all weights, energies and gradients of images agree between the engines.
    #[test]
    fn both_engines_agree() {
        let (x, negatives, model) = (images(1), images(2).mul_scalar(1.5), network());
        let [by_engine, by_burn] = [Engine::Cpu, Engine::Burn].map(|engine| {
            let (gradients, figures) = contrast(engine).gradients(&model, x.clone(), negatives.clone());
            (gradient_of(&model, &gradients), figures.get("negative_energy").expect("reported"))
        });
        let close = |found: &[f64], right: &[f64]| {
            let largest = right.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
            assert!(largest > 1e-3 && found.len() == right.len());
            let apart = found.iter().zip(right).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-5 * largest, "{apart} of {largest}");
        };
        close(&by_engine.0, &by_burn.0);
        close(&[by_engine.1], &[by_burn.1]);
        let [found, right] =
            [Engine::Cpu, Engine::Burn].map(|engine| contrast(engine).freeze(&model, &x).energy_gradient(x.clone()));
        close(&wide(found.energy), &wide(right.energy));
        close(&wide(found.gradient), &wide(right.gradient));
    }
}
