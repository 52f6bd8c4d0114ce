//! The independent uses of a run's seed.

use crate::sample::NoiseSource;

/// A use of the seed, with random numbers of its own: drawing more for one changes none of the others.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// Division of the data.
    Split = 0,
    /// Initial weights.
    Weights = 1,
    /// Order of the data.
    Batches = 2,
    /// The chains.
    Chains = 3,
    /// Synthetic outliers looked at during training.
    Selection = 4,
    /// Synthetic outliers of the evaluation.
    Evaluation = 5,
    /// Noise in the input, and latents drawn in training, of the methods beside the NAE.
    Baseline = 6,
    /// Latents in a likelihood bound.
    Likelihood = 7,
    /// Samples shown in a report.
    Pictures = 8,
    /// Defects by which the form of a user's images is chosen.
    Trial = 9,
    /// Initial weights that other methods have beside an autoencoder's.
    BaselineWeights = 10,
}

impl Stream {
    /// This stream of `seed`.
    pub fn of(self, seed: u64) -> NoiseSource {
        NoiseSource::new(seed, self as u64)
    }
}
