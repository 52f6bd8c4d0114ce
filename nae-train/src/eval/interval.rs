//! Confidence intervals of detection metrics.
//!
//! They cover the random choice of test images, but not the seed of the training; the latter requires several
//! trainings.

use nae_core::calibration::share_interval;
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

/// The interval of an AUPR of `aupr`, for the set with that AUROC: that of the bootstrap, widened so that it contains the
/// measured value and is at least as wide as [`of_auroc`] says for the exponential distributions it assumes. By how much
/// the AUPR of these falls or rises from the measured AUROC to an end of its interval, the AUPR may at least be lower or
/// higher. A bootstrap of sets that do not overlap is a point.
pub(crate) fn of_aupr(aupr: f64, bootstrapped: Interval, auroc: f64, normal: usize, outlier: usize) -> Interval {
    let Interval { low, high } = of_auroc(auroc, normal, outlier);
    let [low, middle, high] = [low, auroc, high].map(|auroc| exponential_aupr(auroc, normal, outlier));
    widened(bootstrapped, Interval { low: aupr - (middle - low).max(0.0), high: aupr + (high - middle).max(0.0) })
}

/// The AUPR of `normal` data with energies of an exponential distribution and `outlier` outliers of another one, whose
/// AUROC is `auroc`: the false-positive rate is then a power of the share of detected outliers r, r^{θ/(1−θ)}.
fn exponential_aupr(auroc: f64, normal: usize, outlier: usize) -> f64 {
    const STEPS: usize = 2000;
    let exponent = (2.0 * auroc - 1.0) / (1.0 - auroc).max(f64::MIN_POSITIVE);
    let odds = normal as f64 / outlier as f64;
    let precision = |share: f64| 1.0 / (1.0 + odds * share.powf(exponent));
    (0..STEPS).map(|step| precision((step as f64 + 0.5) / STEPS as f64)).sum::<f64>() / STEPS as f64
}

/// The interval of a false-positive rate of `rate`, measured with `normal` data at a threshold that follows from outliers:
/// that of the bootstrap, widened so that it contains the exact one for a fixed threshold ([`share_interval`]).
pub(crate) fn of_rate(rate: f64, bootstrapped: Interval, normal: usize) -> Interval {
    let above = (rate * normal as f64).round() as usize;
    // The confidence is valid, and there are no figures of no data; of more than 2²⁴, the bootstrap is as good.
    share_interval(above, normal, 0.95)
        .map_or(bootstrapped, |(low, high)| widened(bootstrapped, Interval { low, high }))
}

/// The smallest interval with both, within [0, 1].
fn widened(one: Interval, other: Interval) -> Interval {
    Interval { low: one.low.min(other.low).max(0.0), high: one.high.max(other.high).min(1.0) }
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

    /// The number of 200 pairs of samples, of normal distributions, whose interval contains the true value.
    fn covered(
        truth: f64,
        (normal, outlier, apart): (usize, usize, f32),
        interval: impl Fn(&[f32], &[f32], u64) -> Interval,
    ) -> usize {
        (0..200)
            .filter(|&seed| {
                let normal = normals(2 * seed, normal);
                let outlier: Vec<f32> = normals(2 * seed + 1, outlier).into_iter().map(|x| x + apart).collect();
                let Interval { low, high } = interval(&normal, &outlier, seed);
                (low..=high).contains(&truth)
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
        // One standard deviation apart: Φ(1/√2).
        let (truth, one_apart) = (0.760_249_938_906_524_4, (60, 40, 1.0));
        let newcombe = covered(truth, one_apart, |n, o, _| of_auroc(auroc(n, o).expect("not empty"), n.len(), o.len()));
        let bootstrapped = covered(truth, one_apart, |n, o, seed| {
            let [interval] = bootstrap([area_under_roc], n, o, seed).expect("not empty");
            interval
        });
        // 190 ± 3.1 are expected; the bounds are four standard deviations.
        assert!((178..=200).contains(&newcombe), "{newcombe}");
        assert!((175..=200).contains(&bootstrapped), "{bootstrapped}");
    }

    /// The figures of a pair of samples, with the intervals that tables have.
    fn figures(normal: &[f32], outlier: &[f32]) -> [(f64, Interval); 2] {
        let figures = crate::eval::table::DetectionFigures::measure(normal, outlier, true).expect("not empty");
        [figures.aupr, figures.fpr95].map(|figure| (figure.value, figure.interval.expect("independent")))
    }

    /// The bootstrap alone covers the true values of sets that hardly overlap in fewer than half of the cases.
    #[test]
    fn intervals_of_aupr_and_of_false_alarms_cover() {
        // The true values by numerical integration, for the shares of outliers of the samples, and by 1 − Φ(d − 1.645).
        for (apart, precision, rate) in [
            ((60, 40, 1.0), 0.676_77, 0.740_49),
            ((60, 40, 3.0), 0.976_33, 0.087_69),
            ((30, 20, 4.0), 0.996_65, 0.009_26),
            ((12, 30, 2.0), 0.964_72, 0.361_24),
        ] {
            let of = |truth: f64, which: usize| covered(truth, apart, |n, o, _| figures(n, o)[which].1);
            let found = [of(precision, 0), of(rate, 1)];
            assert!(found.iter().all(|covered| (178..=200).contains(covered)), "{apart:?}: {found:?}");
        }
    }

    #[test]
    fn intervals_contain_the_value_and_are_no_points() {
        let apart = |n: usize, m: usize| {
            ((0..n).map(|at| at as f32).collect::<Vec<_>>(), (n..n + m).map(|at| at as f32).collect::<Vec<_>>())
        };
        for (n, m) in [(1, 1), (1, 300), (30, 20), (400, 3), (3000, 2000)] {
            let (low, high) = apart(n, m);
            for (normal, outlier) in [(&low, &high), (&high, &low)] {
                for (value, Interval { low, high }) in figures(normal, outlier) {
                    assert!(low <= value && value <= high && low < high, "{n} {m}: {value} in [{low}, {high}]");
                    assert!((0.0..=1.0).contains(&low) && (0.0..=1.0).contains(&high), "{n} {m}: [{low}, {high}]");
                }
            }
        }
        for seed in 0..40 {
            let (n, m) = (5 + seed as usize % 7, 3 + seed as usize % 5);
            let (normal, outlier) = (normals(2 * seed, n), normals(2 * seed + 1, m));
            assert!(
                figures(&normal, &outlier).iter().all(|(value, Interval { low, high })| low <= value && value <= high)
            );
        }
    }

    #[test]
    fn rates_have_exact_intervals_or_wider_ones() {
        let none = Interval { low: 1.0, high: 0.0 };
        let Interval { low, high } = of_rate(0.25, none, 40);
        assert!((low - 0.126_914_8).abs() < 1e-6 && (high - 0.411_962_0).abs() < 1e-6, "{low} {high}");
        // A wider bootstrap stays.
        assert_eq!(of_rate(0.25, Interval { low: 0.1, high: 0.5 }, 40), Interval { low: 0.1, high: 0.5 });
    }

    #[test]
    fn nothing_overlaps_and_still_it_is_not_sure() {
        let Interval { low, high } = of_auroc(1.0, 30, 20);
        assert!(low < 0.95 && high == 1.0, "{low} {high}");
        assert_eq!(bootstrap([aupr], &[], &[1.0], 0), None);
    }
}
