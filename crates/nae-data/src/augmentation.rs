//! Random changes of training images, drawn again each time an image is used. Other images are not changed, and a model
//! file does not record them.

use nae_core::Shape;
use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

/// Random changes of training images, drawn from the run's seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augmentation {
    /// Whether each image is mirrored left to right with probability 1/2.
    pub flip: bool,
    /// Whether 8-bit values v are replaced by (v + u)/256 with u uniform in [0, 1), so that they have a density (Theis,
    /// van den Oord and Bethge, ICLR 2016).
    pub dequantize: bool,
}

impl Augmentation {
    /// Returns whether images stay unchanged.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Changes the images of `shape` in `values` in place: one image after the other, channels first, values in [0, 1].
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
        // The variance of uniform noise is 1/12; estimated from 5,120 values, it lies within ±.001.
        let noise = |(at, value): (usize, &f32)| value * 256.0 - (at % 256) as f32 - 0.5;
        let variance = values.iter().enumerate().map(noise).map(|u| u * u).sum::<f32>() / values.len() as f32;
        assert!((variance - 1.0 / 12.0).abs() < 5e-3, "{variance}");
    }
}
