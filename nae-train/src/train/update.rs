//! One parameter update: the gradient of a batch's loss, by burn or by the CPU engine, and Adam.
//!
//! With burn, shards of the batch run side by side. Every loss here is a mean over samples, so the batch's loss is the
//! mean of its shards' losses weighted by their sizes; shards are summed in order, so that nothing depends on the
//! number of threads.

use burn::module::Module as _;
use burn::optim::{AdamConfig, GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

use crate::arch::Autoencoder;
use crate::engine::cpu::add;
use crate::engine::{CpuEngine, Engine};
use crate::eval::scoring::mean;
use crate::methods::nae::Regularization;
use crate::methods::{autoencoder, nae};
use crate::shard;

/// Adam on the weights of one autoencoder.
pub struct Updater {
    optimizer: ModuleOptimizer,
    learning_rate: f64,
    engine: Engine,
    device: Device,
}

/// A shard's loss, and figures worth reporting.
struct ShardLoss<const K: usize> {
    loss: Tensor<1>,
    report: [Tensor<1>; K],
}

impl Updater {
    /// Adam with PyTorch's constants, as in the authors' code (burn's default ε is 1e-5).
    pub fn new(learning_rate: f64, engine: Engine, device: &Device) -> Self {
        let optimizer = AdamConfig::new().with_epsilon(1e-8).init();
        Self { optimizer, learning_rate, engine, device: device.clone() }
    }

    /// Lowers the energy of the images `x`; returns the model and their mean energy before.
    pub fn autoencoder(&mut self, model: Autoencoder, x: Tensor<4>) -> (Autoencoder, f64) {
        let (gradients, energy) = match self.engine {
            Engine::Burn => {
                let shards = shard::shards(x).into_iter().map(|x| (x.dims()[0], x)).collect();
                let (gradients, [energy]) = gradients(&model, shards, |model, x: Tensor<4>| {
                    let loss = autoencoder::loss(model, x.autodiff());
                    ShardLoss { report: [loss.clone()], loss }
                });
                (gradients, energy)
            }
            Engine::Cpu => {
                let n = x.dims()[0];
                let engine = self.cpu(&model, &x);
                let (energies, gradients) = engine.weights(x, |_| autoencoder::coefficient(n));
                (engine.register(gradients), mean(&energies))
            }
        };
        (self.optimizer.step(self.learning_rate, model, gradients).power_iteration(), energy)
    }

    /// Lowers the energy of the images `x` and raises that of `negatives`; returns the model and both mean energies
    /// before.
    pub fn nae(
        &mut self,
        model: Autoencoder,
        x: Tensor<4>,
        negatives: Tensor<4>,
        regularization: Regularization,
    ) -> (Autoencoder, [f64; 2]) {
        let (gradients, energies) = match self.engine {
            Engine::Burn => {
                let pairs = shard::shards(x).into_iter().zip(shard::shards(negatives));
                let shards = pairs.map(|pair| (pair.0.dims()[0], pair)).collect();
                gradients(&model, shards, |model, (x, negatives): (Tensor<4>, Tensor<4>)| {
                    let loss = nae::loss(model, x.autodiff(), negatives.autodiff(), regularization);
                    ShardLoss { loss: loss.total, report: [loss.positive_energy, loss.negative_energy] }
                })
            }
            Engine::Cpu => {
                let n = x.dims()[0];
                let engine = self.cpu(&model, &x);
                let (positive, mut total) = engine.weights(x, |_| autoencoder::coefficient(n));
                let (negative, part) =
                    engine.weights(negatives, |energy| nae::negative_coefficient(energy, n, regularization));
                add(&mut total, part);
                nae::add_encoder_l2(&model, regularization, &mut total);
                (engine.register(total), [mean(&positive), mean(&negative)])
            }
        };
        (self.optimizer.step(self.learning_rate, model, gradients).power_iteration(), energies)
    }

    fn cpu(&self, model: &Autoencoder, x: &Tensor<4>) -> CpuEngine {
        let [_, _, h, w] = x.dims();
        CpuEngine::new(model, [h, w], &self.device)
    }
}

/// Gradients of the mean loss over `shards`, each given with its number of samples, and the means of the reports.
fn gradients<S: Send, const K: usize>(
    model: &Autoencoder,
    shards: Vec<(usize, S)>,
    loss: impl Fn(&Autoencoder, S) -> ShardLoss<K> + Sync,
) -> (GradientsParams, [f64; K]) {
    let samples: usize = shards.iter().map(|(count, _)| count).sum();
    let device = model.devices().remove(0);
    let parts: Vec<(GradientsParams, [f64; K])> = shard::map(shards, |(count, shard)| {
        let weight = count as f64 / samples as f64;
        // Weights shared between shards would tie their graphs together, and burn then locks up.
        let model = model.clone().fork(&device);
        let ShardLoss { loss, report } = loss(&model, shard);
        let report = report.map(|value| weight * f64::from(value.inner().into_scalar::<f32>()));
        (GradientsParams::from_grads(loss.mul_scalar(weight).backward(), &model), report)
    });
    let mut gradients = GradientsAccumulator::new();
    let mut means = [0.0; K];
    for (part, report) in parts {
        gradients.accumulate(model, part);
        for (mean, value) in means.iter_mut().zip(report) {
            *mean += value;
        }
    }
    (gradients.grads(), means)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::layer::{Layer, Sequential};
    use crate::arch::{LatentSpace, small_conv::small_conv16};
    use crate::engine::network::floats;
    use crate::sample::NoiseSource;

    fn weights(layers: &Sequential) -> Vec<f32> {
        let of = |layer: &Layer| match layer {
            Layer::Conv(conv) => floats(&conv.weight),
            Layer::ConvTranspose(conv) => floats(&conv.weight),
            _ => Vec::new(),
        };
        layers.layers().iter().flat_map(of).collect()
    }

    /// Adam's first steps follow the gradient's sign, so a few weights whose gradient is all rounding may part.
    #[test]
    fn both_engines_make_the_same_updates() {
        let device = Device::flex();
        let spec = small_conv16(1, 8, 16, LatentSpace::Sphere).expect("valid");
        let start = Autoencoder::new(&spec, NoiseSource::new(0, 0).rng(), &device.clone().autodiff());
        let regularization = Regularization { negative_energy: 1.0, encoder_l2: 1e-2 };
        let x = NoiseSource::new(1, 0).uniform([40, 1, 16, 16], &device);
        let negatives = NoiseSource::new(2, 0).uniform([40, 1, 16, 16], &device);
        let run = |engine| {
            let mut updater = Updater::new(1e-4, engine, &device);
            let (model, e) = updater.autoencoder(start.clone(), x.clone());
            let (model, [p, n]) = updater.nae(model, x.clone(), negatives.clone(), regularization);
            let weights: Vec<f32> = [&model.encoder, &model.decoder].into_iter().flat_map(weights).collect();
            (weights, [e, p, n])
        };
        let ((burn, burn_energies), (cpu, cpu_energies)) = (run(Engine::Burn), run(Engine::Cpu));
        for (b, c) in burn_energies.iter().zip(&cpu_energies) {
            assert!((b - c).abs() <= 1e-5 * b, "{burn_energies:?} {cpu_energies:?}");
        }
        let apart = burn.iter().zip(&cpu).filter(|(b, c)| (*b - *c).abs() > 2e-6).count();
        assert!(apart * 200 < burn.len(), "{apart} of {} weights part", burn.len());
    }
}
