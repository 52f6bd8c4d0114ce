//! Confidence intervals of detection metrics.
//!
//! They cover the random choice of test images, but not the seed of the training; the latter requires several
//! trainings.

use rand::seq::IndexedRandom as _;
use rand::{Rng, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The normal distribution's quantile for 95% intervals.
const Z: f64 = 1.959_963_984_540_054;
/// The number of bootstrap samples for small sets.
const RESAMPLES: usize = 1000;
/// For large sets there are fewer bootstrap samples, so that about this many energies are drawn in total; the ends of
/// an interval then vary by some hundredths of its width.
const DRAWN: usize = 2_000_000;
/// The least number of bootstrap samples that gives useful ends.
const FEWEST: usize = 200;

/// A 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The interval of an AUROC of `auroc`, measured with `normal` and `outlier` samples: method 5 of Newcombe (Statistics
/// in Medicine 25, 2006, part 2), which consists of the values θ with |auroc − θ| ≤ z·√V(θ), where V is the variance
/// for exponential distributions (Hanley and McNeil 1982). Unlike a bootstrap, it does not shrink to a point if the
/// sets do not overlap.
pub(crate) fn of_auroc(auroc: f64, normal: usize, outlier: usize) -> Interval {
    let (n, m) = (normal as f64, outlier as f64);
    let spare = (n + m) / 2.0 - 1.0;
    let variance = |t: f64| t * (1.0 - t) * (1.0 + spare * (1.0 - t) / (2.0 - t) + spare * t / (1.0 + t)) / (n * m);
    let within = |t: f64| (auroc - t) * (auroc - t) <= Z * Z * variance(t);
    // The set of these θ is an interval around the measured value, which may be its end.
    let end = |mut outside: f64| {
        let mut inside = auroc;
        for _ in 0..60 {
            let middle = f64::midpoint(inside, outside);
            if within(middle) {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        inside
    };
    Interval { low: end(0.0), high: end(1.0) }
}

/// The interval of `metric` from the percentile bootstrap (Efron 1979), in which normal data and outliers are resampled
/// separately. The same `seed` gives the same interval.
///
/// `None` if the metric is `None`.
pub(crate) fn bootstrap(
    metric: impl Fn(&[f32], &[f32]) -> Option<f64>,
    normal: &[f32],
    outlier: &[f32],
    seed: u64,
) -> Option<Interval> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let resamples = (DRAWN / (normal.len() + outlier.len()).max(1)).clamp(FEWEST, RESAMPLES);
    let mut values = (0..resamples)
        .map(|_| metric(&resample(normal, &mut rng), &resample(outlier, &mut rng)))
        .collect::<Option<Vec<f64>>>()?;
    values.sort_by(f64::total_cmp);
    let tail = resamples / 40;
    Some(Interval { low: values[tail], high: values[resamples - 1 - tail] })
}

fn resample(energies: &[f32], rng: &mut impl Rng) -> Vec<f32> {
    energies.iter().filter_map(|_| energies.choose(rng).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::metrics::{aupr, auroc};
    use crate::sample::NoiseSource;
    use burn::tensor::Device;

    fn normals(seed: u64, n: usize) -> Vec<f32> {
        NoiseSource::new(seed, 0).normal([n, 1], &Device::flex()).into_data().try_into_vec().expect("float32")
    }

    #[test]
    fn ends_are_where_the_score_test_turns() {
        #[derive(serde::Deserialize)]
        struct References {
            newcombe: Vec<Reference>,
        }
        #[derive(serde::Deserialize)]
        struct Reference {
            auroc: f64,
            normal: usize,
            outlier: usize,
            #[serde(flatten)]
            interval: Interval,
        }
        // The roots of |A − θ| = z·√V(θ), computed with scipy.
        let references: References = serde_json::from_str(include_str!("../../tests/data/metrics.json"))
            .expect("made by tests/python/metrics.py");
        assert!(references.newcombe.len() > 5);
        for Reference { auroc, normal, outlier, interval } in references.newcombe {
            let Interval { low, high } = of_auroc(auroc, normal, outlier);
            let (low_off, high_off) = ((low - interval.low).abs(), (high - interval.high).abs());
            assert!(low_off < 1e-9 && high_off < 1e-9, "{auroc} {normal} {outlier}: {low} {high}");
        }
    }

    /// The number of 200 pairs of samples whose interval contains the true AUROC.
    fn covered(interval: impl Fn(&[f32], &[f32], u64) -> Interval) -> usize {
        // Normal distributions one standard deviation apart: Φ(1/√2).
        const TRUTH: f64 = 0.760_249_938_906_524_4;
        (0..200)
            .filter(|&seed| {
                let normal = normals(2 * seed, 60);
                let outlier: Vec<f32> = normals(2 * seed + 1, 40).into_iter().map(|x| x + 1.0).collect();
                let Interval { low, high } = interval(&normal, &outlier, seed);
                (low..=high).contains(&TRUTH)
            })
            .count()
    }

    /// About 95% of the 95% intervals contain the true value.
    #[test]
    fn intervals_cover() {
        let newcombe = covered(|n, o, _| of_auroc(auroc(n, o).expect("not empty"), n.len(), o.len()));
        let bootstrapped = covered(|n, o, seed| bootstrap(auroc, n, o, seed).expect("not empty"));
        // 190 ± 3.1 are expected; the bounds are four standard deviations.
        assert!((178..=200).contains(&newcombe), "{newcombe}");
        assert!((175..=200).contains(&bootstrapped), "{bootstrapped}");
    }

    #[test]
    fn nothing_overlaps_and_still_it_is_not_sure() {
        let Interval { low, high } = of_auroc(1.0, 30, 20);
        assert!(low < 0.95 && high == 1.0, "{low} {high}");
        assert_eq!(bootstrap(aupr, &[], &[1.0], 0), None);
    }
}
