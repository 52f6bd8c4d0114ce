//! What is done to training images anew each time they are seen; never to others, and nothing that a model file knows
//! of.

use nae_core::Shape;
use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

/// Changes of training images, drawn from the run's seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augmentation {
    /// Every second image, at random, is mirrored left to right.
    pub flip: bool,
    /// 8-bit values v become (v + u)/256 with u uniform in [0, 1), so that they have a density (Theis, van den Oord and
    /// Bethge, ICLR 2016).
    pub dequantize: bool,
}

impl Augmentation {
    /// Whether images stay as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Changes images of `shape`, one after the other, values in [0, 1], channels first.
    pub fn apply(self, values: &mut [f32], shape: Shape, rng: &mut impl Rng) {
        for image in values.chunks_exact_mut(shape.len().max(1)) {
            if self.flip && rng.random::<bool>() {
                image.chunks_exact_mut(shape.width).for_each(<[f32]>::reverse);
            }
            if self.dequantize {
                for value in &mut *image {
                    *value = ((*value * 255.0 + rng.random::<f32>()) / 256.0).min(1.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn images_are_mirrored_half_of_the_time() {
        let shape = Shape::new(2, 1, 3);
        let one = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
        let mut values = one.repeat(400);
        let flip = Augmentation { flip: true, dequantize: false };
        flip.apply(&mut values, shape, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
        let mirrored = values.chunks(6).filter(|image| *image == [0.3, 0.2, 0.1, 0.6, 0.5, 0.4]).count();
        let kept = values.chunks(6).filter(|image| *image == one).count();
        assert_eq!(mirrored + kept, 400);
        assert!((150..250).contains(&mirrored), "{mirrored}");
    }

    #[test]
    fn bytes_stay_within_their_256th() {
        let bytes: Vec<f32> = (0..=255u8).map(|v| f32::from(v) / 255.0).collect();
        let mut values = bytes.repeat(20);
        let dequantize = Augmentation { flip: false, dequantize: true };
        dequantize.apply(&mut values, Shape::new(1, 16, 16), &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
        for (at, value) in values.iter().enumerate() {
            let byte = (at % 256) as f32;
            assert!(*value >= byte / 256.0 - 1e-6 && *value <= (byte + 1.0) / 256.0 + 1e-6, "{byte} {value}");
        }
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        assert!((mean - 0.5).abs() < 1e-3, "{mean}");
        // Uniform noise has a variance of 1/12; of 5,120 values, ±.001.
        let noise = |(at, value): (usize, &f32)| value * 256.0 - (at % 256) as f32 - 0.5;
        let variance = values.iter().enumerate().map(noise).map(|u| u * u).sum::<f32>() / values.len() as f32;
        assert!((variance - 1.0 / 12.0).abs() < 5e-3, "{variance}");
    }
}
