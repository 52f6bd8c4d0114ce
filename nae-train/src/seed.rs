//! The independent streams of random numbers from a run's seed.

use crate::sample::NoiseSource;

/// A use of the seed with its own random numbers: the number of draws in one stream does not affect the others.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// The division of the data.
    Split = 0,
    /// The initial weights.
    Weights = 1,
    /// The order of the data.
    Batches = 2,
    /// The random numbers of the chains.
    Chains = 3,
    /// The synthetic outliers of the selection set, used during training.
    Selection = 4,
    /// The synthetic outliers of the evaluation.
    Evaluation = 5,
    /// The noise in the input, and the latents drawn in training, of methods other than the NAE.
    Baseline = 6,
    /// The latents for the estimate of a likelihood.
    Likelihood = 7,
    /// The samples shown in a report.
    Pictures = 8,
    /// The defects for the choice of the form of a user's images.
    Trial = 9,
    /// The initial weights that other methods have besides an autoencoder's.
    BaselineWeights = 10,
    /// The random numbers of the chains on further manifolds.
    ManifoldChains = 11,
}

impl Stream {
    /// The source of this stream for `seed`.
    pub fn of(self, seed: u64) -> NoiseSource {
        NoiseSource::new(seed, self as u64)
    }
}
