//! The parts of the normal data, and the outliers, of one run: drawn from its seed and recorded by it.

use rand::Rng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::image_set::ImageSet;

/// Shares of the normal data; what is left is for training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitShares {
    /// Watched during training, for stopping.
    pub validation: f64,
    /// Gives the threshold; never seen in training or stopping.
    pub calibration: f64,
    /// Gives the reported figures; never seen before.
    pub test: f64,
}

/// Normal images in four disjoint parts, and the images of the held-out class.
#[derive(Clone, Debug)]
pub struct Split {
    /// Trained on.
    pub train: ImageSet,
    /// Watched during training.
    pub validation: ImageSet,
    /// Calibrated on.
    pub calibration: ImageSet,
    /// Evaluated on.
    pub test: ImageSet,
    /// Images of the held-out class: outliers, evaluated on, never trained on.
    pub held_out: ImageSet,
}

impl Split {
    /// Divides `images` at random; every image of class `held_out` is kept apart.
    ///
    /// At least one image lands in each part as long as there are four normal ones.
    pub fn new(images: &ImageSet, held_out: u8, shares: SplitShares, rng: &mut impl Rng) -> Self {
        let (outliers, mut normal): (Vec<usize>, Vec<usize>) =
            (0..images.len()).partition(|&i| images.labels()[i] == held_out);
        normal.shuffle(rng);
        let part = |share: f64| ((share * normal.len() as f64).round() as usize).max(1);
        let (test, rest) = normal.split_at(part(shares.test).min(normal.len()));
        let (calibration, rest) = rest.split_at(part(shares.calibration).min(rest.len()));
        let (validation, train) = rest.split_at(part(shares.validation).min(rest.len()));
        Self {
            train: images.select(train),
            validation: images.select(validation),
            calibration: images.select(calibration),
            test: images.select(test),
            held_out: images.select(&outliers),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;
    use nae_core::Shape;

    #[test]
    fn parts_are_disjoint_and_whole() {
        let n = 200usize;
        let values: Vec<f32> = (0..n).map(|i| i as f32 / n as f32).collect();
        let labels: Vec<u8> = (0..n).map(|i| (i % 10) as u8).collect();
        let images = ImageSet::new(Shape::new(1, 1, 1), values.clone(), labels).expect("valid");
        let shares = SplitShares { validation: 0.1, calibration: 0.2, test: 0.3 };
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let split = Split::new(&images, 4, shares, &mut rng);
        assert_eq!(split.held_out.len(), 20);
        assert!(split.held_out.labels().iter().all(|&l| l == 4));
        assert_eq!((split.validation.len(), split.calibration.len(), split.test.len()), (18, 36, 54));
        let mut all: Vec<f32> = [&split.train, &split.validation, &split.calibration, &split.test, &split.held_out]
            .iter()
            .flat_map(|part| part.values().to_vec())
            .collect();
        all.sort_by(f32::total_cmp);
        assert_eq!(all, values);
    }
}
