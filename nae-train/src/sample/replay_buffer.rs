//! A buffer of the last states of chains, from which later chains start (paper, "NAE Implementation"; Du and Mordatch
//! 2019).

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

/// The size and use of a replay buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayConfig {
    /// The number of states kept; the oldest is replaced first.
    pub size: usize,
    /// The share of the chains that start from a stored state, in [0, 1].
    pub ratio: f64,
}

/// A ring buffer of states, latents or images, all of one length.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplayBuffer {
    config: ReplayConfig,
    states: Vec<Vec<f32>>,
    oldest: usize,
}

impl ReplayBuffer {
    /// An empty buffer.
    pub fn new(config: ReplayConfig) -> Self {
        Self { config, states: Vec::new(), oldest: 0 }
    }

    /// Whether this can be a later state of the buffer `begun`, whose states have `len` values.
    pub(crate) fn goes_on_from(&self, begun: &Self, len: usize) -> bool {
        let full = self.len() == self.config.size;
        self.config == begun.config
            && self.len() <= self.config.size
            && self.states.iter().all(|state| state.len() == len)
            && (self.oldest == 0 || full && self.oldest < self.len())
    }

    /// The number of stored states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether no state is stored yet.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Returns a stored state, drawn uniformly, with the configured probability; otherwise, or if the buffer is empty,
    /// `None`.
    pub fn draw(&self, rng: &mut impl Rng) -> Option<&[f32]> {
        if self.is_empty() || !rng.random_bool(self.config.ratio) {
            return None;
        }
        Some(&self.states[rng.random_range(0..self.len())])
    }

    /// Same as [`draw`](Self::draw) for `count` states at once, one after the other: all of them, or `None`.
    pub fn draw_many(&self, count: usize, rng: &mut impl Rng) -> Option<Vec<f32>> {
        if self.is_empty() || !rng.random_bool(self.config.ratio) {
            return None;
        }
        Some((0..count).flat_map(|_| &self.states[rng.random_range(0..self.len())]).copied().collect())
    }

    /// Replaces each of `states`, which have `len` values each, by a stored state if [`draw`](Self::draw) returns one.
    pub fn replace(&self, states: &mut [f32], len: usize, rng: &mut impl Rng) {
        for state in states.chunks_exact_mut(len) {
            if let Some(kept) = self.draw(rng) {
                state.copy_from_slice(kept);
            }
        }
    }

    /// Stores `states`, which have `len` values each, as all states of the buffer; if the buffer is full, they replace the
    /// oldest. Values after the last whole state are ignored.
    ///
    /// # Panics
    /// If `len` is 0, if the buffer's size is 0, or if the buffer is full of states of another length.
    pub fn append(&mut self, states: &[f32], len: usize) {
        for state in states.chunks_exact(len) {
            if self.len() < self.config.size {
                self.states.push(state.to_vec());
            } else {
                self.states[self.oldest].copy_from_slice(state);
                self.oldest = (self.oldest + 1) % self.config.size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn the_oldest_leaves_first() {
        let mut buffer = ReplayBuffer::new(ReplayConfig { size: 3, ratio: 1.0 });
        buffer.append(&[1.0, 2.0, 3.0, 4.0, 5.0], 1);
        let mut kept = buffer.states.concat();
        kept.sort_by(f32::total_cmp);
        assert_eq!(kept, [3.0, 4.0, 5.0]);
    }

    #[test]
    fn the_ratio_is_kept() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
        let mut buffer = ReplayBuffer::new(ReplayConfig { size: 10, ratio: 0.95 });
        assert!(buffer.draw(&mut rng).is_none(), "nothing to draw yet");
        buffer.append(&[0.0, 1.0], 2);
        let n = 10_000;
        let drawn = (0..n).filter(|_| buffer.draw(&mut rng).is_some()).count() as f64 / f64::from(n);
        assert!((drawn - 0.95).abs() < 4.0 * (0.95f64 * 0.05 / f64::from(n)).sqrt(), "{drawn}");
    }

    #[test]
    fn a_run_goes_on_from_what_its_buffer_can_have_come_to() {
        let config = ReplayConfig { size: 3, ratio: 0.5 };
        let begun = ReplayBuffer::new(config);
        let with = |states: usize| {
            let mut buffer = begun.clone();
            buffer.append(&vec![0.0; 2 * states], 2);
            buffer
        };
        for states in [0, 2, 3, 4, 6] {
            assert!(with(states).goes_on_from(&begun, 2), "{states} were appended");
        }
        let others = [
            ("settings", ReplayBuffer { config: ReplayConfig { ratio: 0.6, ..config }, ..with(2) }),
            ("length", ReplayBuffer { states: vec![vec![0.0; 2], vec![0.0; 3]], ..with(2) }),
            ("count", ReplayBuffer { states: vec![vec![0.0; 2]; 4], ..with(2) }),
            ("oldest, not full", ReplayBuffer { oldest: 1, ..with(2) }),
            ("oldest, beyond the end", ReplayBuffer { oldest: 3, ..with(3) }),
        ];
        for (what, buffer) in others {
            assert!(!buffer.goes_on_from(&begun, 2), "{what}");
        }
    }
}
