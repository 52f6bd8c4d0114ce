//! The order in which images are seen: shuffled, each once before any comes again.

use rand::seq::SliceRandom as _;

use crate::sample::NoiseSource;

/// Shuffled positions of a set, epoch after epoch.
#[derive(Clone, Debug)]
pub struct Batches {
    order: Vec<usize>,
    at: usize,
    noise: NoiseSource,
}

impl Batches {
    /// Positions 0 to `len` − 1, shuffled from `noise`.
    pub fn new(len: usize, noise: NoiseSource) -> Self {
        Self { order: (0..len).collect(), at: len, noise }
    }

    /// One epoch in batches of at most `size`; the last may be smaller.
    pub fn epoch(&mut self, size: usize) -> Vec<Vec<usize>> {
        self.order.shuffle(self.noise.rng());
        self.at = self.order.len();
        self.order.chunks(size).map(<[usize]>::to_vec).collect()
    }

    /// The next `size` positions, running on into the next epoch.
    pub fn next(&mut self, size: usize) -> Vec<usize> {
        (0..size)
            .map(|_| {
                if self.at == self.order.len() {
                    self.order.shuffle(self.noise.rng());
                    self.at = 0;
                }
                self.at += 1;
                self.order[self.at - 1]
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_once_before_any_comes_again() {
        let mut batches = Batches::new(10, NoiseSource::new(0, 0));
        for _ in 0..3 {
            let mut seen: Vec<usize> = (0..5).flat_map(|_| batches.next(2)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<_>>());
        }
        let epoch = batches.epoch(4);
        assert_eq!(epoch.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
    }
}
