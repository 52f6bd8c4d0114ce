//! The order of training images, shuffled so that each occurs once per epoch, and their random augmentation.

use burn::tensor::{Device, Tensor, TensorData};
use nae_core::Shape;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use crate::sample::NoiseSource;
use crate::tensors::Batches as _;
use nae_data::Augmentation;
use nae_data::ImageSet;

/// Shuffled positions of a set, epoch after epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchOrder {
    order: Vec<usize>,
    at: usize,
    noise: NoiseSource,
}

impl BatchOrder {
    /// Starts with positions 0 to `len` − 1, which are shuffled from `noise`.
    pub fn new(len: usize, noise: NoiseSource) -> Self {
        Self { order: (0..len).collect(), at: len, noise }
    }

    /// Whether this order can be a later state of `begun`.
    pub(crate) fn goes_on_from(&self, begun: &Self) -> bool {
        let mut positions = self.order.clone();
        positions.sort_unstable();
        positions.into_iter().eq(0..begun.order.len())
            && self.at <= self.order.len()
            && self.noise.is_stream_of(&begun.noise)
    }

    /// Whether all positions of the epoch have been returned, or none yet of the first epoch.
    pub fn epoch_is_over(&self) -> bool {
        self.at == self.order.len()
    }

    /// The number of positions of the epoch that have been returned.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the next positions of the same epoch, at most `size`; the last batch of an epoch may be smaller.
    pub fn next_of_epoch(&mut self, size: usize) -> Vec<usize> {
        self.begin_if_over();
        let end = (self.at + size).min(self.order.len());
        let batch = self.order[self.at..end].to_vec();
        self.at = end;
        batch
    }

    fn begin_if_over(&mut self) {
        if self.epoch_is_over() {
            self.order.shuffle(self.noise.rng());
            self.at = 0;
        }
    }

    /// Returns the images at `indices` as a tensor `[N, C, H, W]`, changed by `augmentation`.
    pub fn images(
        &mut self,
        images: &ImageSet,
        indices: &[usize],
        augmentation: Augmentation,
        device: &Device,
    ) -> Tensor<4> {
        if augmentation.is_none() {
            return images.batch(indices, device);
        }
        let mut batch = images.select(indices).values().to_vec();
        let shape @ Shape { channels, height, width } = images.shape();
        augmentation.apply(&mut batch, shape, self.noise.rng());
        Tensor::from_data(TensorData::new(batch, [indices.len(), channels, height, width]), device)
    }

    /// Returns the next `size` positions, which may continue into the next epoch.
    pub fn next(&mut self, size: usize) -> Vec<usize> {
        (0..size)
            .map(|_| {
                self.begin_if_over();
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
        let mut batches = BatchOrder::new(10, NoiseSource::new(0, 0));
        for _ in 0..3 {
            let mut seen: Vec<usize> = (0..5).flat_map(|_| batches.next(2)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<_>>());
        }
        assert!(batches.epoch_is_over());
        let epoch: Vec<Vec<usize>> = (0..3).map(|_| batches.next_of_epoch(4)).collect();
        assert_eq!(epoch.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
        assert!(batches.epoch_is_over());
    }
}
