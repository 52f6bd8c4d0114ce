//! Detection metrics from the energies of normal data and of outliers. Outliers are the positives and should have the
//! higher energies. The values equal those of scikit-learn, which the tests check.
//!
//! [`interval`](super::interval) gives confidence intervals.

/// The area under the ROC curve: the probability that a random outlier's energy exceeds a random normal sample's, where
/// ties count half (Mann–Whitney; Hanley and McNeil 1982).
///
/// `None` if one of the sets is empty or an energy is NaN.
pub fn auroc(normal: &[f32], outlier: &[f32]) -> Option<f64> {
    let mut all = labelled(normal, outlier)?;
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut outlier_ranks = 0.0;
    let mut start = 0;
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let mean_rank = start as f64 + (group.len() + 1) as f64 / 2.0;
        outlier_ranks += mean_rank * group.iter().filter(|e| e.1).count() as f64;
        start += group.len();
    }
    let (n, m) = (normal.len() as f64, outlier.len() as f64);
    Some((outlier_ranks - m * (m + 1.0) / 2.0) / (n * m))
}

/// The area under the precision–recall curve, as average precision: Σ (Rₖ − Rₖ₋₁) Pₖ over the thresholds, from the
/// highest energy down. A random detector has the share of outliers.
///
/// `None` if one of the sets is empty or an energy is NaN.
pub(crate) fn aupr(normal: &[f32], outlier: &[f32]) -> Option<f64> {
    let mut area = 0.0;
    let mut recall = 0.0;
    for Alarms { caught, false_alarms } in thresholds(normal, outlier)? {
        let now = caught as f64 / outlier.len() as f64;
        area += (now - recall) * caught as f64 / (caught + false_alarms) as f64;
        recall = now;
    }
    Some(area)
}

/// The share of normal data above the highest threshold that detects at least `true_positive_rate` of the outliers
/// (0.95: "FPR95"; outliers are the positives, as in Hendrycks, Mazeika and Dietterich, ICLR 2019).
///
/// `None` if one of the sets is empty or an energy is NaN.
pub(crate) fn false_positive_rate_at(true_positive_rate: f64, normal: &[f32], outlier: &[f32]) -> Option<f64> {
    let enough = |alarms: &Alarms| alarms.caught as f64 / outlier.len() as f64 >= true_positive_rate;
    let alarms = thresholds(normal, outlier)?.into_iter().find(enough)?;
    Some(alarms.false_alarms as f64 / normal.len() as f64)
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
struct Alarms {
    caught: usize,
    false_alarms: usize,
}

/// The alarms of every threshold between two energies, from the highest down.
fn thresholds(normal: &[f32], outlier: &[f32]) -> Option<Vec<Alarms>> {
    let mut all = labelled(normal, outlier)?;
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut caught, mut false_alarms) = (0, 0);
    let step = |group: &[(f32, bool)]| {
        let outliers = group.iter().filter(|e| e.1).count();
        caught += outliers;
        false_alarms += group.len() - outliers;
        Alarms { caught, false_alarms }
    };
    Some(all.chunk_by(|a, b| a.0 == b.0).map(step).collect())
}

/// All energies, with whether each is an outlier's.
fn labelled(normal: &[f32], outlier: &[f32]) -> Option<Vec<(f32, bool)>> {
    if normal.is_empty() || outlier.is_empty() || normal.iter().chain(outlier).any(|e| e.is_nan()) {
        return None;
    }
    Some(normal.iter().map(|&e| (e, false)).chain(outlier.iter().map(|&e| (e, true))).collect())
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
            let found =
                [auroc(&normal, &outlier), aupr(&normal, &outlier), false_positive_rate_at(0.95, &normal, &outlier)];
            for (found, expected) in found.into_iter().zip([a, p, f]) {
                let found = found.expect("not empty");
                assert!((found - expected).abs() < 1e-12, "{found} {expected}, {normal:?} {outlier:?}");
            }
        }
    }

    #[test]
    fn nothing_of_nothing() {
        for (normal, outlier) in [(&[][..], &[1.0][..]), (&[1.0], &[]), (&[f32::NAN], &[1.0])] {
            assert_eq!(aupr(normal, outlier), None);
            assert_eq!(false_positive_rate_at(0.95, normal, outlier), None);
        }
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
