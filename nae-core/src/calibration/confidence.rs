//! The uncertainty of a threshold's false-positive rate, which comes from the limited number of held-out data. The
//! threshold itself is in [`crate::calibration`].
//!
//! The target rate holds on average over the draw of the held-out data. For one draw of n independent data, the share
//! of new normal data above the k-th largest energy has the distribution Beta(k, n + 1 − k) (Vovk, "Conditional
//! validity of inductive conformal predictors", 2012; order statistics as tolerance limits: Wilks, 1941), and is less
//! if energies are equal. The distribution function at x is P(B ≥ k), for B from the binomial distribution of n trials
//! and probability x.

use super::{
    CalibrationError, CalibrationView, alarms_allowed, check_count, check_rate, count_for_rate, partition_point, ratio,
};

/// Number of bisections of the interval from 0 to 1 in the search for a quantile.
const HALVINGS: u32 = 40;
/// Terms of the binomial distribution below this fraction of the sum are left out.
const NEGLIGIBLE: f64 = 1e-17;

/// Returns the rate to request from [`Calibration::threshold`](super::Calibration::threshold), with `count` held-out
/// energies, so that with a probability of at least `confidence` no more than `rate` of new normal data give an alarm.
/// The returned rate is the expected share of alarms, and at most `rate`.
///
/// ```
/// use nae_core::calibration::{CalibrationError, confident_rate};
/// // The largest of 59 energies is the first to bound 95% of all with a confidence of 95% (Wilks, 1941).
/// assert_eq!(confident_rate(59, 0.05, 0.95), Ok(1.0 / 60.0));
/// assert_eq!(confident_rate(58, 0.05, 0.95), Err(CalibrationError::ConfidenceTooHigh));
/// ```
///
/// # Errors
/// [`CalibrationError`] if the count is 0 or too large, or the rate or confidence is outside (0, 1);
/// [`CalibrationError::RateTooLow`] or [`CalibrationError::ConfidenceTooHigh`] if the count is below
/// [`count_for_confidence`].
pub fn confident_rate(count: usize, rate: f32, confidence: f32) -> Result<f32, CalibrationError> {
    let count = check_count(count)?;
    check_rate(rate)?;
    check_confidence(confidence)?;
    // The more energies are allowed above the threshold, the lower is the confidence.
    let allowed = alarms_allowed(count, rate);
    if allowed == 0 {
        return Err(CalibrationError::RateTooLow);
    }
    let certain = |k: u32| at_least(count, rate.into(), k) >= confidence.into();
    match partition_point(allowed as usize, |j| certain(j as u32 + 1)) {
        0 => Err(CalibrationError::ConfidenceTooHigh),
        alarms => Ok(ratio(alarms as u32, count)),
    }
}

/// Returns the smallest number of held-out energies for which [`confident_rate`] has a result; at least
/// [`count_for_rate`].
///
/// # Errors
/// [`CalibrationError`] if the rate or confidence is outside (0, 1); [`CalibrationError::TooMany`] if more than
/// [`MAX_COUNT`](super::MAX_COUNT) energies would be needed.
pub fn count_for_confidence(rate: f32, confidence: f32) -> Result<usize, CalibrationError> {
    let fewest = count_for_rate(rate)?;
    check_confidence(confidence)?;
    // (1 − rate)ⁿ ≤ 1 − confidence; the loop below corrects for rounding.
    let least = libm::log1p(-f64::from(confidence)) / libm::log1p(-f64::from(rate));
    let mut count = (least as usize).saturating_sub(1).max(fewest);
    while confident_rate(count, rate, confidence) == Err(CalibrationError::ConfidenceTooHigh) {
        count += 1;
    }
    check_count(count).map(|_| count)
}

impl CalibrationView<'_> {
    /// Returns the limits between which the share of new normal data above [`threshold`](Self::threshold)`(rate)` lies
    /// with probability `confidence`: the central interval.
    ///
    /// # Errors
    /// Those of [`threshold`](Self::threshold), and [`CalibrationError::ConfidenceOutOfRange`].
    pub fn rate_interval(&self, rate: f32, confidence: f32) -> Result<(f32, f32), CalibrationError> {
        check_confidence(confidence)?;
        let entry = self.threshold_entry(rate)?;
        let alarms = self.count - self.rank(entry) as u32;
        let outside = (1.0 - f64::from(confidence)) / 2.0;
        Ok((quantile(self.count, alarms, outside) as f32, quantile(self.count, alarms, 1.0 - outside) as f32))
    }
}

/// Returns the limits of a share of which `hits` of `count` independent samples are a measurement: with a probability of at
/// least `confidence` they contain it (Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case
/// of the binomial", Biometrika 26, 1934). `hits` above `count` count as `count`.
///
/// ```
/// use nae_core::calibration::share_interval;
/// // None of 30: the upper limit is that share of which 30 samples miss all with a probability of 2.5%.
/// let (low, high) = share_interval(0, 30, 0.95)?;
/// assert!(low == 0.0 && ((1.0 - high).powi(30) - 0.025).abs() < 1e-6);
/// # Ok::<(), nae_core::calibration::CalibrationError>(())
/// ```
///
/// # Errors
/// [`CalibrationError`] if the count is 0 or too large, or the confidence is outside (0, 1).
pub fn share_interval(hits: usize, count: usize, confidence: f32) -> Result<(f64, f64), CalibrationError> {
    let count = check_count(count)?;
    check_confidence(confidence)?;
    let hits = hits.min(count as usize) as u32;
    let outside = (1.0 - f64::from(confidence)) / 2.0;
    let low = if hits == 0 { 0.0 } else { quantile(count, hits, outside) };
    let high = if hits == count { 1.0 } else { quantile(count, hits + 1, 1.0 - outside) };
    Ok((low, high))
}

const fn check_confidence(confidence: f32) -> Result<(), CalibrationError> {
    if confidence > 0.0 && confidence < 1.0 { Ok(()) } else { Err(CalibrationError::ConfidenceOutOfRange) }
}

/// The quantile of Beta(k, n + 1 − k), with n = `count`.
fn quantile(count: u32, k: u32, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if at_least(count, middle, k) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// P(B ≥ k) for B of the binomial distribution of n = `count` trials and probability p, 0 < p < 1 and 1 ≤ k ≤ n.
fn at_least(count: u32, p: f64, k: u32) -> f64 {
    let n = f64::from(count);
    // The tail in which terms fall is summed, starting with its largest term.
    if f64::from(k) > n * p { tail(n, p, f64::from(k)) } else { 1.0 - tail(n, 1.0 - p, n - f64::from(k - 1)) }
}

/// P(B ≥ k) for k no less than n·p, the mean of B.
fn tail(n: f64, p: f64, k: f64) -> f64 {
    let choose = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let largest = libm::exp(choose + k * libm::log(p) + (n - k) * libm::log1p(-p));
    let (mut term, mut sum, mut i) = (1.0, 0.0, k);
    while term > NEGLIGIBLE * sum {
        sum += term;
        term *= (n - i) / (i + 1.0) * (p / (1.0 - p));
        i += 1.0;
    }
    largest * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{Calibration, Spacing};

    #[test]
    fn tolerance_limits_are_the_published_ones() {
        // The smallest sample sizes for which the k-th largest value bounds 95% with a confidence of 95% (Wilks, 1941).
        for (k, count) in [(1, 59), (2, 93), (3, 124), (4, 153), (5, 181)] {
            assert_eq!(confident_rate(count, 0.05, 0.95), Ok(ratio(k, count as u32)), "{count}");
            assert_ne!(confident_rate(count - 1, 0.05, 0.95), Ok(ratio(k, count as u32 - 1)), "{count}");
        }
        for (rate, confidence, count) in [(0.05, 0.95, 59), (0.01, 0.95, 299), (0.1, 0.9, 22), (0.01, 0.99, 459)] {
            assert_eq!(count_for_confidence(rate, confidence), Ok(count));
        }
        // A low confidence needs no more energies than the rate itself.
        assert_eq!(count_for_confidence(0.1, 0.01), Ok(9));
        assert_eq!(confident_rate(19, 0.1, 0.01), Ok(0.1));
        // One energy: 1 − 0.25 ≥ 0.5, and 1/2 ≤ 0.75.
        assert_eq!(count_for_confidence(0.75, 0.5), Ok(1));
        // A rate of 1/4 needs no more than three.
        assert_eq!(count_for_confidence(0.25, 0.01), Ok(3));
        // 3·10⁸ energies.
        assert_eq!(count_for_confidence(1e-8, 0.95), Err(CalibrationError::TooMany));
    }

    #[test]
    fn the_interval_of_a_million_energies_is_that_of_the_normal_distribution() {
        // The lower tail of one is the upper tail of the other; summed from the wrong end, either would be 0 or NaN.
        let table: [f32; 256] = core::array::from_fn(|i| i as f32);
        let calibration = Calibration::from_table(1_000_000, Spacing::Even, &table).unwrap();
        for rate in [0.1_f64, 0.5, 0.9] {
            // The largest share that the table offers for this rate, not above it: entry j has rank ⌊j·999,999/255⌋.
            let entry = (255.0 * (1.0 - rate)).ceil();
            let share = 1.0 - (entry * 999_999.0 / 255.0).floor() / 1e6;
            let deviation = libm::sqrt(share * (1.0 - share) / 1e6);
            let (low, high) = calibration.rate_interval(rate as f32, 0.95).unwrap();
            assert!((f64::from(low) - share + 1.96 * deviation).abs() < 1e-5, "{rate}: {low}");
            assert!((f64::from(high) - share - 1.96 * deviation).abs() < 1e-5, "{rate}: {high}");
        }
    }

    #[test]
    fn shares_have_exact_intervals() {
        let of = |hits, count| share_interval(hits, count, 0.95).unwrap();
        let near = |found: (f64, f64), low: f64, high: f64| {
            assert!((found.0 - low).abs() < 1e-6 && (found.1 - high).abs() < 1e-6, "{found:?}");
        };
        // Where the distributions are powers, and the quantiles of Beta(10, 31) and Beta(11, 30).
        let end = libm::pow(0.025, 1.0 / 30.0);
        near(of(0, 30), 0.0, 1.0 - end);
        near(of(30, 30), end, 1.0);
        near(of(31, 30), end, 1.0);
        near(of(10, 40), 0.126_914_8, 0.411_962_0);
        assert_eq!(share_interval(0, 0, 0.95), Err(CalibrationError::Empty));
        assert_eq!(share_interval(0, 1, 1.0), Err(CalibrationError::ConfidenceOutOfRange));
    }

    #[test]
    fn the_interval_of_the_largest_energy_has_a_closed_form() {
        // Beta(1, n): x = 1 − (1 − p)^(1/n).
        let energies: [f32; 99] = core::array::from_fn(|i| i as f32);
        let calibration = Calibration::from_sorted(&energies).unwrap();
        let (low, high) = calibration.rate_interval(0.01, 0.95).unwrap();
        let expected = |p: f64| 1.0 - libm::pow(1.0 - p, 1.0 / 99.0);
        assert!((f64::from(low) - expected(0.025)).abs() < 1e-7, "{low}");
        assert!((f64::from(high) - expected(0.975)).abs() < 1e-7, "{high}");
    }

    #[test]
    fn both_tails_make_one_and_large_counts_are_near_the_normal_distribution() {
        for (n, p, k) in [(20.0, 0.3, 9.0), (1e4, 0.01, 130.0), (1e7, 0.2, 2_001_000.0)] {
            let (above, below) = (tail(n, p, k), at_least(n as u32, 1.0 - p, (n - k) as u32 + 1));
            assert!((above + below - 1.0).abs() < 1e-12, "{above} {below}");
        }
        // A standard deviation above the mean, with the continuity correction.
        let (n, p) = (10_000_000_u32, 0.5);
        let deviation = libm::sqrt(f64::from(n) * p * (1.0 - p));
        let k = (f64::from(n) * p + deviation).round() as u32;
        let above =
            libm::erfc((f64::from(k) - 0.5 - f64::from(n) * p) / deviation * core::f64::consts::FRAC_1_SQRT_2) / 2.0;
        assert!((at_least(n, p, k) - above).abs() < 1e-6, "{above}");
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for confidence in [0.0, 1.0, -1.0, f32::NAN] {
            assert_eq!(confident_rate(100, 0.05, confidence), Err(CalibrationError::ConfidenceOutOfRange));
            assert_eq!(count_for_confidence(0.05, confidence), Err(CalibrationError::ConfidenceOutOfRange));
        }
        assert_eq!(confident_rate(100, 1.0, 0.5), Err(CalibrationError::RateOutOfRange));
        assert_eq!(confident_rate(0, 0.5, 0.5), Err(CalibrationError::Empty));
        assert_eq!(count_for_confidence(f32::NAN, 0.5), Err(CalibrationError::RateOutOfRange));
    }
}
