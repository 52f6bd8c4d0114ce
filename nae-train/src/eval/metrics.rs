//! Detection metrics from the energies of normal data and of outliers. Outliers are the positives and should have the
//! higher energies. The values equal those of scikit-learn, which the tests check.
//!
//! [`interval`](super::interval) gives confidence intervals.

/// The area under the ROC curve: the probability that a random outlier's energy exceeds a random normal sample's, where
/// ties count half (Mann–Whitney; Hanley and McNeil 1982).
///
/// `None` if one of the sets is empty or an energy is NaN.
pub fn auroc(normal: &[f32], outlier: &[f32]) -> Option<f64> {
    area_under_roc(&thresholds(normal, outlier)?)
}

/// The same from the alarms of every threshold, as the sum of trapezoids: in each, a tie counts half.
///
/// `None` if there are no thresholds.
pub(crate) fn area_under_roc(thresholds: &[Alarms]) -> Option<f64> {
    let Alarms { caught: outliers, false_alarms: normal } = *thresholds.last()?;
    let (mut area, mut last) = (0.0, Alarms { caught: 0, false_alarms: 0 });
    for &now in thresholds {
        area += (now.false_alarms - last.false_alarms) as f64 * (now.caught + last.caught) as f64 / 2.0;
        last = now;
    }
    Some(area / (outliers as f64 * normal as f64))
}

/// The area under the precision–recall curve, as average precision: Σ (Rₖ − Rₖ₋₁) Pₖ over the thresholds, from the
/// highest energy down. A random detector has the share of outliers.
///
/// `None` if there are no thresholds.
pub(crate) fn aupr(thresholds: &[Alarms]) -> Option<f64> {
    let outliers = thresholds.last()?.caught as f64;
    let mut area = 0.0;
    let mut recall = 0.0;
    for &Alarms { caught, false_alarms } in thresholds {
        let now = caught as f64 / outliers;
        area += (now - recall) * caught as f64 / (caught + false_alarms) as f64;
        recall = now;
    }
    Some(area)
}

/// The share of normal data above the highest threshold that detects at least 95% of the outliers ("FPR95"; outliers
/// are the positives, as in Hendrycks, Mazeika and Dietterich, ICLR 2019).
///
/// `None` if there are no thresholds.
pub(crate) fn false_positive_rate_at_95(thresholds: &[Alarms]) -> Option<f64> {
    let Alarms { caught: outliers, false_alarms: normal } = *thresholds.last()?;
    let enough = |alarms: &&Alarms| alarms.caught as f64 / outliers as f64 >= 0.95;
    Some(thresholds.iter().find(enough)?.false_alarms as f64 / normal as f64)
}

/// The ROC curve: the false-positive rate and the share of detected outliers at every threshold, from the highest down.
///
/// `None` if one of the sets is empty or an energy is NaN.
pub(crate) fn roc(normal: &[f32], outlier: &[f32]) -> Option<Vec<(f64, f64)>> {
    let share = |count: usize, of: &[f32]| count as f64 / of.len() as f64;
    let steps = thresholds(normal, outlier)?.into_iter();
    let steps = steps.map(|alarms| (share(alarms.false_alarms, normal), share(alarms.caught, outlier)));
    Some(std::iter::once((0.0, 0.0)).chain(steps).collect())
}

/// The detected outliers and false alarms of one threshold.
#[derive(Clone, Copy)]
pub(crate) struct Alarms {
    pub(crate) caught: usize,
    pub(crate) false_alarms: usize,
}

/// The alarms of every threshold between two energies, from the highest down; the last one has all outliers and all
/// normal data above it.
///
/// `None` if one of the sets is empty or an energy is NaN.
pub(crate) fn thresholds(normal: &[f32], outlier: &[f32]) -> Option<Vec<Alarms>> {
    let places = Places::of(normal, outlier)?;
    Some(places.thresholds(places.normal.iter().copied(), places.outlier.iter().copied()))
}

/// The place of each energy in the order of all, from the highest down; equal energies have the same place. Samples of
/// the sets are measured by their places, without sorting them again.
pub(crate) struct Places {
    pub(crate) normal: Vec<u32>,
    pub(crate) outlier: Vec<u32>,
    /// The number of different energies.
    count: usize,
}

impl Places {
    /// `None` if one of the sets is empty or an energy is NaN.
    pub(crate) fn of(normal: &[f32], outlier: &[f32]) -> Option<Self> {
        if normal.is_empty() || outlier.is_empty() || normal.iter().chain(outlier).any(|e| e.is_nan()) {
            return None;
        }
        let mut order: Vec<(f32, usize)> = normal.iter().chain(outlier).copied().zip(0..).collect();
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let (mut places, mut count) = (vec![0; order.len()], 0);
        for equal in order.chunk_by(|a, b| a.0 == b.0) {
            equal.iter().for_each(|&(_, index)| places[index] = count as u32);
            count += 1;
        }
        let outlier = places.split_off(normal.len());
        Some(Self { normal: places, outlier, count })
    }

    /// The alarms of every threshold between the energies at the places `normal` and `outlier`, each as often as it is
    /// given.
    pub(crate) fn thresholds(
        &self,
        normal: impl Iterator<Item = u32>,
        outlier: impl Iterator<Item = u32>,
    ) -> Vec<Alarms> {
        let mut counts = vec![Alarms { caught: 0, false_alarms: 0 }; self.count];
        normal.for_each(|place| counts[place as usize].false_alarms += 1);
        outlier.for_each(|place| counts[place as usize].caught += 1);
        let mut above = Alarms { caught: 0, false_alarms: 0 };
        let taken = counts.into_iter().filter(|at| at.caught + at.false_alarms > 0);
        let step = |at: Alarms| {
            above.caught += at.caught;
            above.false_alarms += at.false_alarms;
            above
        };
        taken.map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_pairs(normal: &[f32], outlier: &[f32]) -> f64 {
        let wins: f64 = outlier
            .iter()
            .flat_map(|o| {
                normal.iter().map(move |n| {
                    if o > n {
                        1.0
                    } else if o == n {
                        0.5
                    } else {
                        0.0
                    }
                })
            })
            .sum();
        wins / (normal.len() * outlier.len()) as f64
    }

    #[test]
    fn extremes_and_ties() {
        assert_eq!(auroc(&[1.0, 2.0], &[3.0]), Some(1.0));
        assert_eq!(auroc(&[1.0, 2.0], &[0.0]), Some(0.0));
        assert_eq!(auroc(&[1.0, 1.0], &[1.0]), Some(0.5));
        assert_eq!(auroc(&[], &[1.0]), None);
        assert_eq!(auroc(&[f32::NAN], &[1.0]), None);
    }

    #[derive(serde::Deserialize)]
    struct Reference {
        normal: Vec<f32>,
        outlier: Vec<f32>,
        auroc: f64,
        aupr: f64,
        false_positive_rate_at_95: f64,
    }

    #[test]
    fn values_are_those_of_scikit_learn() {
        #[derive(serde::Deserialize)]
        struct References {
            detection: Vec<Reference>,
        }
        let references: References = serde_json::from_str(include_str!("../../tests/data/metrics.json"))
            .expect("made by tests/python/metrics.py");
        assert!(references.detection.len() > 5);
        for Reference { normal, outlier, auroc: a, aupr: p, false_positive_rate_at_95: f } in references.detection {
            let thresholds = thresholds(&normal, &outlier).expect("not empty");
            let found = [auroc(&normal, &outlier), aupr(&thresholds), false_positive_rate_at_95(&thresholds)];
            for (found, expected) in found.into_iter().zip([a, p, f]) {
                let found = found.expect("not empty");
                assert!((found - expected).abs() < 1e-12, "{found} {expected}, {normal:?} {outlier:?}");
            }
        }
    }

    #[test]
    fn nothing_of_nothing() {
        for (normal, outlier) in [(&[][..], &[1.0][..]), (&[1.0], &[]), (&[f32::NAN], &[1.0])] {
            assert!(auroc(normal, outlier).is_none() && thresholds(normal, outlier).is_none());
        }
        assert_eq!((aupr(&[]), false_positive_rate_at_95(&[])), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn ranks_count_the_pairs(
            normal in proptest::collection::vec(0u8..20, 1..40),
            outlier in proptest::collection::vec(0u8..20, 1..40),
        ) {
            let (n, o): (Vec<f32>, Vec<f32>) =
                (normal.into_iter().map(f32::from).collect(), outlier.into_iter().map(f32::from).collect());
            let found = auroc(&n, &o).expect("not empty");
            proptest::prop_assert!((found - by_pairs(&n, &o)).abs() < 1e-12);
        }
    }
}
