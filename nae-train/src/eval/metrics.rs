//! Detection metrics.

/// Area under the ROC curve of "the outlier has the higher energy": the probability that a random outlier's energy
/// exceeds a random normal one's, ties counting half (Mann–Whitney; Hanley and McNeil 1982).
///
/// `None` where one of the sets is empty or an energy is NaN.
pub fn auroc(normal: &[f32], outlier: &[f32]) -> Option<f64> {
    if normal.is_empty() || outlier.is_empty() || normal.iter().chain(outlier).any(|e| e.is_nan()) {
        return None;
    }
    let mut all: Vec<(f32, bool)> =
        normal.iter().map(|&e| (e, false)).chain(outlier.iter().map(|&e| (e, true))).collect();
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
