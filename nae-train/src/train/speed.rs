//! Measures the time of an update on this machine before a schedule is chosen. The measurement does not affect the run.

use std::time::{Duration, Instant};

use burn::tensor::Device;

use super::batches::BatchOrder;
use super::selection_auroc;
use crate::arch::Autoencoder;
use crate::config::Config;
use crate::engine::Engine;
use crate::methods::autoencoder::AutoencoderMethod;
use crate::methods::nae::{NaeMethod, NormalizedAutoencoder};
use crate::methods::{Decision, Method as _};
use crate::sample::NegativeSampler;
use crate::seed::Stream;
use crate::tensors::Batches as _;
use nae_data::Split;

/// The largest number of repetitions, and the time after which no more are made.
const REPEATS: usize = 20;
const ENOUGH: Duration = Duration::from_millis(1000);

/// The wall time of the parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// The time of an update of pre-training.
    pub pretraining: Duration,
    /// The time of an update of NAE training.
    pub normalizing: Duration,
    /// The time of a look at the model, which scores validation and selection images.
    pub look: Duration,
}

/// Makes some updates of a run with `config` on `split`, with weights that are discarded. This takes three seconds, or
/// the time of a few updates if they are slow.
pub fn measure(config: &Config, split: &Split, engine: Engine, device: &Device) -> Speed {
    const SEED: u64 = 0;
    let (pretraining, training) = (config.pretraining(), config.training());
    let spec = config.architecture();
    let model = Autoencoder::new(spec, Stream::Weights.of(SEED).rng(), &device.clone().autodiff());
    let mut order = BatchOrder::new(split.train.len(), Stream::Batches.of(SEED));

    let mut method = AutoencoderMethod::new(model.clone(), pretraining, None, engine, device);
    let size = pretraining.batch_size.min(split.train.len());
    let pretraining = mean_time(|| {
        method.update(split.train.batch(&order.next(size), device));
    });
    let look = mean_time(|| {
        selection_auroc(&model, Decision::Reconstruction, split, SEED, engine, device);
    });
    let sampler = NegativeSampler::new(config.sampler(), spec.latent_dim(), Stream::Chains.of(SEED));
    let start = NormalizedAutoencoder::new(model, config.sampler().temperature);
    let mut method = NaeMethod::new(start, &training, sampler, engine, device);
    let normalizing = mean_time(|| {
        method.update(split.train.batch(&order.next(training.batch_size), device));
    });
    Speed { pretraining, normalizing, look }
}

/// The mean time of `work`. The first call is not counted, since it allocates memory and starts threads.
fn mean_time(mut work: impl FnMut()) -> Duration {
    work();
    let started = Instant::now();
    let mut done = 0;
    while done < REPEATS && (done < 2 || started.elapsed() < ENOUGH) {
        work();
        done += 1;
    }
    started.elapsed() / done as u32
}
