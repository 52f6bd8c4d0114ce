//! The chains of persistent contrastive divergence: one for each place in the batch, each of which continues from its
//! last state.

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

/// The last states of a number of chains.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PersistentChains {
    states: Vec<Vec<f32>>,
}

impl PersistentChains {
    /// Sets the starts of the next steps. `fresh` contains a new start for each chain, with `len` values each. Chains
    /// with a stored state replace it by that state, unless they restart, which each does with probability `restart`.
    pub(crate) fn resume(&self, fresh: &mut [f32], len: usize, restart: f64, rng: &mut impl Rng) {
        for (start, state) in fresh.chunks_exact_mut(len).zip(&self.states) {
            if !rng.random_bool(restart) {
                start.copy_from_slice(state);
            }
        }
    }

    /// Whether all states have `len` values.
    pub(crate) fn are_of(&self, len: usize) -> bool {
        self.states.iter().all(|state| state.len() == len)
    }

    /// Stores the last states. If the batch is smaller than before, the states of the other chains are kept.
    pub(crate) fn keep(&mut self, states: &[f32], len: usize) {
        for (place, state) in states.chunks_exact(len).enumerate() {
            match self.states.get_mut(place) {
                Some(kept) => kept.copy_from_slice(state),
                None => self.states.push(state.to_vec()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn resumed(chains: &PersistentChains, restart: f64, count: usize) -> Vec<f32> {
        let mut fresh = vec![-1.0; count];
        chains.resume(&mut fresh, 1, restart, &mut ChaCha8Rng::seed_from_u64(0));
        fresh
    }

    #[test]
    fn chains_go_on_where_they_were() {
        let mut chains = PersistentChains::default();
        assert_eq!(resumed(&chains, 0.0, 2), [-1.0, -1.0], "nothing kept yet");
        chains.keep(&[1.0, 2.0, 3.0], 1);
        chains.keep(&[4.0, 5.0], 1);
        assert_eq!(resumed(&chains, 0.0, 4), [4.0, 5.0, 3.0, -1.0]);
    }

    #[test]
    fn the_share_of_restarts_is_kept() {
        let n = 10_000;
        let mut chains = PersistentChains::default();
        chains.keep(&vec![1.0; n], 1);
        let restarted = resumed(&chains, 0.05, n).iter().filter(|x| **x == -1.0).count() as f64 / n as f64;
        assert!((restarted - 0.05).abs() < 4.0 * (0.05f64 * 0.95 / n as f64).sqrt(), "{restarted}");
    }
}
