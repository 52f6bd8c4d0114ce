//! The parts of the normal data, and the outliers, of one run; the division is drawn from the run's seed and can be
//! repeated.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher as _};

use rand::Rng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use crate::image_set::ImageSet;
use crate::loaded::Loaded;

/// The shares of the normal data; the rest is for training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitShares {
    /// The share for validation, which early stopping uses. `None` if the data set has its own validation part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<f64>,
    /// The share for calibration, which sets the threshold; it is used neither in training nor for stopping. If the
    /// data set has its own validation part, it is a share of that part.
    pub calibration: f64,
    /// The share for testing, which gives the reported figures and is used for nothing else. `None` if the data set has
    /// its own test part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<f64>,
}

/// The normal images in four disjoint parts, and the images of the held-out class.
#[derive(Clone, Debug)]
pub struct Split {
    /// The images for training.
    pub train: ImageSet,
    /// The images for validation during training.
    pub validation: ImageSet,
    /// The images for calibration.
    pub calibration: ImageSet,
    /// The normal images for evaluation.
    pub test: ImageSet,
    /// The images of the held-out class: outliers for evaluation, never used in training. Empty if no class is held
    /// out.
    pub held_out: ImageSet,
    /// Outliers that training may use for selection, in place of ConstantGray.
    pub selection: Option<ImageSet>,
}

impl Split {
    /// Divides `loaded` at random; all images of class `held_out`, if given, are kept apart. If the data set has its
    /// own validation part, validation and calibration images are taken from it; if it has its own test part, test
    /// images and outliers are taken from that.
    ///
    /// Each part gets at least one image as long as there are four normal ones. Parts of one whole stay together:
    /// shares are counted in wholes.
    pub fn new(loaded: &Loaded, held_out: Option<u8>, shares: SplitShares, rng: &mut impl Rng) -> Self {
        let images = &loaded.train;
        let (outliers, mut normal) = divide(images, held_out);
        normal.shuffle(rng);
        let own_test = loaded.test.is_none().then(|| shares.test.unwrap_or(0.0));
        let own_validation = loaded.validation.is_none().then(|| shares.validation.unwrap_or(0.0));
        let own_calibration = own_validation.map(|_| shares.calibration);
        let own = Cut::of(&normal, own_test, own_calibration, own_validation);
        let (test, held_out_images) = match &loaded.test {
            None => (images.select_units(own.test), images.select_units(&outliers)),
            Some(test) => {
                let (outliers, normal) = divide(test, held_out);
                (test.select_units(&normal), test.select_units(&outliers))
            }
        };
        let (calibration, validation) = match &loaded.validation {
            None => (images.select_units(own.calibration), images.select_units(own.validation)),
            Some(given) => {
                let (_, mut normal) = divide(given, held_out);
                normal.shuffle(rng);
                let given_cut = Cut::of(&normal, None, Some(shares.calibration), None);
                (given.select_units(given_cut.calibration), given.select_units(given_cut.train))
            }
        };
        Self {
            train: images.select_units(own.train),
            validation,
            calibration,
            test,
            held_out: held_out_images,
            selection: None,
        }
    }

    /// The positions of the training part among `units` normal units, as [`new`](Self::new) divides a set without parts
    /// of its own or a held-out class with the same `shares` and the same state of `rng`. What is fitted to data before
    /// they can be read in full, such as the columns of a table, can so be fitted to these only.
    pub fn trained(units: usize, shares: SplitShares, rng: &mut impl Rng) -> Vec<usize> {
        let mut normal: Vec<usize> = (0..units).collect();
        normal.shuffle(rng);
        let (test, validation) = (shares.test.unwrap_or(0.0), shares.validation.unwrap_or(0.0));
        Cut::of(&normal, Some(test), Some(shares.calibration), Some(validation)).train.to_vec()
    }
}

/// Units in random order, cut into the parts of a division.
struct Cut<'a> {
    test: &'a [usize],
    calibration: &'a [usize],
    validation: &'a [usize],
    /// The rest.
    train: &'a [usize],
}

impl<'a> Cut<'a> {
    /// Cuts shares of all `units` off; a part without a share is empty, and one with a share has at least one unit as
    /// long as there are any left.
    fn of(units: &'a [usize], test: Option<f64>, calibration: Option<f64>, validation: Option<f64>) -> Self {
        let all = units.len();
        let part = |share: Option<f64>, left: usize| {
            share.map_or(0, |share| ((share * all as f64).round() as usize).clamp(1, all.max(1)).min(left))
        };
        let (test, rest) = units.split_at(part(test, all));
        let (calibration, rest) = rest.split_at(part(calibration, rest.len()));
        let (validation, train) = rest.split_at(part(validation, rest.len()));
        Self { test, calibration, validation, train }
    }
}

/// Units that are also, value for value, in the training part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// The number in the calibration part.
    pub calibration: usize,
    /// The number in the test part.
    pub test: usize,
}

impl Split {
    /// Counts the [units](ImageSet::units) of calibration and test that repeat one of the training part.
    pub fn repeated(&self) -> Repeated {
        let [calibration, test] = self.repeated_in([&self.calibration, &self.test]);
        Repeated { calibration, test }
    }

    /// Counts the [units](ImageSet::units) of each of `others` that repeat one of the training part.
    pub fn repeated_in<const N: usize>(&self, others: [&ImageSet; N]) -> [usize; N] {
        let trained: HashSet<u64> = contents(&self.train).collect();
        others.map(|other| contents(other).filter(|content| trained.contains(content)).count())
    }

    /// Counts the [units](ImageSet::units) of the training part that differ from each other.
    pub fn different(&self) -> usize {
        contents(&self.train).collect::<HashSet<u64>>().len()
    }
}

/// A hash of the values of each unit.
fn contents(images: &ImageSet) -> impl Iterator<Item = u64> {
    let length = images.shape().len();
    images.units().into_iter().map(move |unit| {
        let mut hash = DefaultHasher::new();
        images.values()[unit.start * length..unit.end * length]
            .iter()
            .for_each(|value| hash.write_u32(value.to_bits()));
        hash.finish()
    })
}

/// The numbers of the [units](ImageSet::units) of class `held_out`, and of the others.
fn divide(images: &ImageSet, held_out: Option<u8>) -> (Vec<usize>, Vec<usize>) {
    let units = images.units();
    (0..units.len()).partition(|&unit| Some(images.labels()[units[unit].start]) == held_out)
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
        let loaded = Loaded::whole(images, String::new());
        let shares = SplitShares { validation: Some(0.1), calibration: 0.2, test: Some(0.3) };
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let split = Split::new(&loaded, Some(4), shares, &mut rng);
        assert_eq!(split.held_out.len(), 20);
        assert!(split.held_out.labels().iter().all(|&l| l == 4));
        assert_eq!((split.validation.len(), split.calibration.len(), split.test.len()), (18, 36, 54));
        let mut all: Vec<f32> = [&split.train, &split.validation, &split.calibration, &split.test, &split.held_out]
            .iter()
            .flat_map(|part| part.values().to_vec())
            .collect();
        all.sort_by(f32::total_cmp);
        assert_eq!(all, values);
        let whole = Split::new(&loaded, None, shares, &mut rng);
        assert_eq!((whole.held_out.len(), whole.test.len()), (0, 60));
    }

    #[test]
    fn the_training_part_is_known_before_the_data() {
        use rand_chacha::ChaCha8Rng;
        for units in [0, 1, 3, 4, 50, 219] {
            let values: Vec<f32> = (0..units).map(|unit| unit as f32 / 256.0).collect();
            let set = ImageSet::new(Shape::new(1, 1, 1), values, vec![0; units]).expect("valid");
            for shares in [
                SplitShares { validation: Some(0.1), calibration: 0.1, test: Some(0.1) },
                SplitShares { validation: None, calibration: 0.2, test: None },
            ] {
                let split = Split::new(
                    &Loaded::whole(set.clone(), String::new()),
                    None,
                    shares,
                    &mut ChaCha8Rng::seed_from_u64(7),
                );
                let trained = Split::trained(units, shares, &mut ChaCha8Rng::seed_from_u64(7));
                assert_eq!(split.train, set.select_units(&trained), "{units}");
            }
        }
    }

    #[test]
    fn copies_in_the_training_part_are_counted() {
        use crate::parts::{Part, Parts};
        let set =
            |values: &[f32]| ImageSet::new(Shape::new(1, 1, 1), values.to_vec(), vec![0; values.len()]).expect("valid");
        let whole = |values: &[f32], wholes: &[u32]| {
            let places = wholes.iter().map(|&whole| Part { whole, top: 0, left: 0 }).collect();
            set(values).with_parts(Parts::windows(places)).expect("valid")
        };
        let split = |train, calibration, test| {
            let (validation, held_out) = (set(&[0.1]), set(&[0.1]));
            Split { train, validation, calibration, test, held_out, selection: None }.repeated()
        };
        let found = split(set(&[0.1, 0.2, 0.2]), set(&[0.2, 0.3, 0.2]), set(&[0.1, 0.4]));
        assert_eq!(found, Repeated { calibration: 2, test: 1 });
        // A stretch repeats another if all of it does.
        let found = split(
            whole(&[0.1, 0.2, 0.3, 0.4], &[0, 0, 1, 1]),
            whole(&[0.3, 0.4, 0.1, 0.4], &[2, 2, 3, 3]),
            whole(&[0.1, 0.2, 0.3], &[4, 4, 4]),
        );
        assert_eq!(found, Repeated { calibration: 1, test: 0 });
    }

    #[test]
    fn a_test_part_of_the_set_stays_apart() {
        let set = |values: &[f32], labels: &[u8]| {
            ImageSet::new(Shape::new(1, 1, 1), values.to_vec(), labels.to_vec()).expect("valid")
        };
        let images = set(&[0.1, 0.2, 0.3, 0.4, 0.5], &[1, 2, 3, 4, 5]);
        let test = set(&[0.6, 0.7, 0.8], &[5, 1, 2]);
        let loaded = Loaded { test: Some(test), ..Loaded::whole(images, String::new()) };
        let shares = SplitShares { validation: Some(0.25), calibration: 0.25, test: None };
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let split = Split::new(&loaded, Some(5), shares, &mut rng);
        assert_eq!(split.held_out.values(), [0.6]);
        assert_eq!(split.test.values(), [0.7, 0.8]);
        assert_eq!((split.train.len(), split.validation.len(), split.calibration.len()), (2, 1, 1));

        let given = set(&[0.0, 0.05, 0.15, 0.9], &[1, 2, 3, 5]);
        let shares = SplitShares { validation: None, calibration: 0.3, test: None };
        let split = Split::new(&Loaded { validation: Some(given), ..loaded }, Some(5), shares, &mut rng);
        let sorted = |parts: &[&ImageSet]| {
            let mut values: Vec<f32> = parts.iter().flat_map(|part| part.values().to_vec()).collect();
            values.sort_by(f32::total_cmp);
            values
        };
        assert_eq!(sorted(&[&split.train]), [0.1, 0.2, 0.3, 0.4], "nothing is taken from what is for training");
        assert_eq!(sorted(&[&split.validation, &split.calibration]), [0.0, 0.05, 0.15]);
        assert_eq!(split.calibration.len(), 1);
        assert_eq!((split.test.values(), split.held_out.values()), (&[0.7, 0.8][..], &[0.6][..]));
    }
}
