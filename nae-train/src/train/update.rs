//! One parameter update: the gradient of a batch's loss from shards of it, side by side, and Adam.
//!
//! Every loss here is a mean over samples, so the batch's loss is the mean of its shards' losses weighted by their
//! sizes. Shards are of fixed size and summed in order: the result does not depend on the number of threads.

use burn::module::Module as _;
use burn::optim::{AdamConfig, GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;

use crate::arch::Autoencoder;
use crate::shard;

/// A shard's loss, and figures worth reporting.
pub struct ShardLoss<const K: usize> {
    /// The mean loss of the shard's samples.
    pub loss: Tensor<1>,
    /// Means over the shard's samples.
    pub report: [Tensor<1>; K],
}

/// Adam on the weights of one autoencoder.
pub struct Updater {
    optimizer: ModuleOptimizer,
    learning_rate: f64,
}

impl Updater {
    /// Adam with PyTorch's constants, as in the authors' code (burn's default ε is 1e-5).
    pub fn new(learning_rate: f64) -> Self {
        Self { optimizer: AdamConfig::new().with_epsilon(1e-8).init(), learning_rate }
    }

    /// Updates `model` on `shards`, each given with its number of samples; returns the reported means.
    pub fn step<S: Send, const K: usize>(
        &mut self,
        model: Autoencoder,
        shards: Vec<(usize, S)>,
        loss: impl Fn(&Autoencoder, S) -> ShardLoss<K> + Sync,
    ) -> (Autoencoder, [f64; K]) {
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
            gradients.accumulate(&model, part);
            for (mean, value) in means.iter_mut().zip(report) {
                *mean += value;
            }
        }
        (self.optimizer.step(self.learning_rate, model, gradients.grads()), means)
    }
}
