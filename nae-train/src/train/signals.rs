//! Measures of the progress of training that need no outliers. They are recorded; no run is stopped by them.

use burn::tensor::Tensor;
use nae_core::calibration::Calibration;
use pathfinding::kuhn_munkres::kuhn_munkres_min;
use pathfinding::matrix::Matrix;

/// Distances are rounded to this many parts of the largest one, since the assignment is computed with integers.
const PARTS: f64 = 1e9;
/// The largest number of samples of a batch, since the time for the assignment grows with its third power.
const MOST: usize = 128;

/// The earth mover's distance between two batches `[N, C, H, W]` as sets of points: the mean Euclidean distance between
/// the samples of the cheapest one-to-one assignment (Kuhn 1955). Wasserstein normalized autoencoders (CMS, 2025) stop
/// training by the distance between data and negative samples.
///
/// Only the first n samples of each batch are used, where n is the smaller batch size, at most 128. `None` if a batch
/// is empty or a distance is not finite.
pub(crate) fn earth_movers_distance(a: &Tensor<4>, b: &Tensor<4>) -> Option<f64> {
    let n = a.dims()[0].min(b.dims()[0]).min(MOST);
    let rows = |x: &Tensor<4>| -> Vec<Vec<f32>> {
        let [_, c, h, w] = x.dims();
        let values: Vec<f32> = x.to_data().iter::<f32>().collect();
        values.chunks_exact(c * h * w).take(n).map(<[f32]>::to_vec).collect()
    };
    let (a, b) = (rows(a), rows(b));
    let distances: Vec<f64> = a.iter().flat_map(|a| b.iter().map(|b| euclidean(a, b))).collect();
    let largest = distances.iter().copied().fold(0.0, f64::max);
    if n == 0 || !distances.iter().all(|d| d.is_finite()) {
        return None;
    }
    if largest == 0.0 {
        return Some(0.0);
    }
    let rounded = distances.iter().map(|d| (d / largest * PARTS).round() as i64).collect();
    let (_, assignment) = kuhn_munkres_min(&Matrix::square_from_vec(rounded).ok()?);
    let sum: f64 = assignment.iter().enumerate().map(|(row, column)| distances[row * n + column]).sum();
    Some(sum / n as f64)
}

fn euclidean(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

/// The share of `negatives` that the threshold for a false-positive rate of `rate`, calibrated on `normal`, would accept
/// as normal; both are energies. If they are too few for that rate, the threshold is their largest energy. `None` if one of
/// them is empty, or `normal` has an energy that is not finite.
pub(crate) fn share_below_threshold(negatives: &[f32], normal: &[f32], rate: f64) -> Option<f64> {
    let largest = normal.iter().copied().max_by(f32::total_cmp)?;
    let calibration = Calibration::from_energies(&mut normal.to_vec()).ok()?;
    let threshold = calibration.threshold(rate as f32).unwrap_or(largest);
    let below = negatives.iter().filter(|e| **e <= threshold).count();
    (!negatives.is_empty()).then(|| below as f64 / negatives.len() as f64)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    fn points<const N: usize>(values: [[f32; 2]; N]) -> Tensor<4> {
        Tensor::from_data(TensorData::new(values.concat(), [N, 2, 1, 1]), &Device::flex())
    }

    #[test]
    fn the_cheapest_assignment_is_found() {
        // Each point has a partner at distance 1; the nearest neighbour of the first point is the partner of another.
        let a = points([[0.0, 0.0], [1.5, 0.0], [10.0, 0.0]]);
        let b = points([[10.0, 1.0], [1.0, 0.0], [2.5, 0.0]]);
        let found = earth_movers_distance(&a, &b).expect("finite");
        assert!((found - 1.0).abs() < 1e-9, "{found}");
        assert_eq!(earth_movers_distance(&a, &a), Some(0.0));
        assert_eq!(earth_movers_distance(&a, &points([[f32::NAN, 0.0]])), None);
    }

    /// In one dimension the cheapest assignment pairs the sorted values.
    #[test]
    fn in_one_dimension_order_decides() {
        let mut noise = crate::sample::NoiseSource::new(0, 0);
        let draw = |noise: &mut crate::sample::NoiseSource| noise.normal::<4>([100, 1, 1, 1], &Device::flex());
        let (a, b) = (draw(&mut noise), draw(&mut noise));
        let sorted = |x: &Tensor<4>| {
            let mut values: Vec<f32> = x.to_data().iter::<f32>().collect();
            values.sort_by(f32::total_cmp);
            values
        };
        let expected = sorted(&a).iter().zip(sorted(&b)).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / 100.0;
        let found = earth_movers_distance(&a, &b).expect("finite");
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }

    /// For n energies it is the ⌊rate·(n + 1)⌋th largest.
    #[test]
    fn shares_are_counted_against_the_conformal_threshold() {
        let normal: Vec<f32> = (1..=199u8).map(f32::from).collect();
        let share = |rate| share_below_threshold(&[197.0, 198.0, 199.0, 200.0], &normal, rate);
        assert_eq!([0.01, 0.005, 0.001].map(share), [Some(0.5), Some(0.75), Some(0.75)]);
        assert_eq!(share_below_threshold(&[], &normal, 0.01), None);
        assert_eq!(share_below_threshold(&[1.0], &[], 0.01), None);
        assert_eq!(share_below_threshold(&[1.0], &[f32::NAN, 1.0], 0.5), None);
    }
}
