//! Confidence intervals of detection metrics.
//!
//! They cover the random choice of test images, but not the seed of the training; the latter requires several
//! trainings.

use rand::SeedableRng as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::metrics::{Alarms, Places};

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

/// A figure from the alarms at each threshold.
type Metric = fn(&[Alarms]) -> Option<f64>;

/// The intervals of `metrics`, all from the same samples of the percentile bootstrap (Efron 1979), in which normal data
/// and outliers are resampled separately. The same `seed` gives the same intervals.
///
/// The energies are sorted once, and a sample is measured from how often it has each of them, so that its time grows
/// linearly with the number of energies.
///
/// `None` if one of the sets is empty, an energy is NaN, or a metric is `None`.
pub(crate) fn bootstrap<const N: usize>(
    metrics: [Metric; N],
    normal: &[f32],
    outlier: &[f32],
    seed: u64,
) -> Option<[Interval; N]> {
    let places = Places::of(normal, outlier)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let resamples = (DRAWN / (normal.len() + outlier.len())).clamp(FEWEST, RESAMPLES);
    let mut values = [(); N].map(|()| Vec::with_capacity(resamples));
    for _ in 0..resamples {
        let mut draw =
            |from: &[u32]| -> Vec<u32> { from.iter().filter_map(|_| from.choose(&mut rng).copied()).collect() };
        let (normal, outlier) = (draw(&places.normal), draw(&places.outlier));
        let thresholds = places.thresholds(normal.into_iter(), outlier.into_iter());
        for (values, metric) in values.iter_mut().zip(metrics) {
            values.push(metric(&thresholds)?);
        }
    }
    let tail = resamples / 40;
    Some(values.map(|mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        Interval { low: values[tail], high: values[resamples - 1 - tail] }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::metrics::{area_under_roc, aupr, auroc, false_positive_rate_at_95, thresholds};
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

    /// The same intervals from samples that are each sorted, as the definition of the metrics says.
    fn sorted_each_time(metric: Metric, normal: &[f32], outlier: &[f32], seed: u64) -> Interval {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let resamples = (DRAWN / (normal.len() + outlier.len())).clamp(FEWEST, RESAMPLES);
        let mut draw =
            |from: &[f32]| -> Vec<f32> { from.iter().filter_map(|_| from.choose(&mut rng).copied()).collect() };
        let mut one = || {
            let (normal, outlier) = (draw(normal), draw(outlier));
            metric(&thresholds(&normal, &outlier).expect("not empty")).expect("measured")
        };
        let mut values: Vec<f64> = (0..resamples).map(|_| one()).collect();
        values.sort_by(f64::total_cmp);
        Interval { low: values[resamples / 40], high: values[resamples - 1 - resamples / 40] }
    }

    #[test]
    fn sorting_once_changes_no_end() {
        // With ties, within a set and between the sets.
        let rounded = |seed, n| -> Vec<f32> { normals(seed, n).into_iter().map(|x| (8.0 * x).round() / 8.0).collect() };
        for (seed, n, m) in [(1, 60, 40), (2, 7, 3000), (3, 5000, 6000)] {
            let normal = rounded(seed, n);
            let outlier: Vec<f32> = rounded(seed + 10, m).into_iter().map(|x| x + 1.0).collect();
            let metrics = [aupr, false_positive_rate_at_95];
            let found = bootstrap(metrics, &normal, &outlier, seed).expect("not empty");
            assert_eq!(found, metrics.map(|metric| sorted_each_time(metric, &normal, &outlier, seed)), "{n} {m}");
        }
    }

    /// Samples that are each sorted, for each metric, take as long as 400 times the sorting and more.
    #[test]
    fn large_sets_take_little_longer_than_their_samples_to_draw() {
        let normal: Vec<f32> = (0..50_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 8) as f32).collect();
        let time = |work: &dyn Fn() -> bool| {
            let started = std::time::Instant::now();
            assert!(work());
            started.elapsed()
        };
        let sorting = (0..5).map(|_| time(&|| thresholds(&normal, &normal).is_some())).max().expect("five");
        let all = time(&|| bootstrap([aupr, false_positive_rate_at_95], &normal, &normal, 0).is_some());
        assert!(all < 150 * sorting, "{all:?} against {sorting:?}");
    }

    /// About 95% of the 95% intervals contain the true value.
    #[test]
    fn intervals_cover() {
        let newcombe = covered(|n, o, _| of_auroc(auroc(n, o).expect("not empty"), n.len(), o.len()));
        let bootstrapped = covered(|n, o, seed| {
            let [interval] = bootstrap([area_under_roc], n, o, seed).expect("not empty");
            interval
        });
        // 190 ± 3.1 are expected; the bounds are four standard deviations.
        assert!((178..=200).contains(&newcombe), "{newcombe}");
        assert!((175..=200).contains(&bootstrapped), "{bootstrapped}");
    }

    #[test]
    fn nothing_overlaps_and_still_it_is_not_sure() {
        let Interval { low, high } = of_auroc(1.0, 30, 20);
        assert!(low < 0.95 && high == 1.0, "{low} {high}");
        assert_eq!(bootstrap([aupr], &[], &[1.0], 0), None);
    }
}
