//! Detects slow shifts of the mean of the energies over time, in fixed memory: for example, the camera moved, the lens
//! is dirty or the season changed. Single anomalies are handled in [`crate::verdict`].

use core::fmt;

/// The direction in which the mean of the energies has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Drift {
    /// No shift was detected.
    Steady,
    /// The energies have become higher.
    Rising,
    /// The energies have become lower.
    Falling,
}

/// The reason why a watch could not be made, or an energy was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum DriftError {
    /// The tolerance must be finite and not below zero.
    Tolerance,
    /// The limit must be finite and above zero.
    Limit,
    /// The energy is NaN or infinite. The watch ignores it, and its state does not change.
    NonFinite,
    /// The mean or a sum has passed the range of `f32`. Every further finite energy gives this error until the watch is
    /// [reset](PageHinkley::reset).
    Overflow,
}

impl fmt::Display for DriftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tolerance => "the tolerance must be finite and not below zero",
            Self::Limit => "the limit must be finite and above zero",
            Self::NonFinite => "the energy is NaN or infinite",
            Self::Overflow => "the sums of the energies have passed the range of f32: reset the watch",
        })
    }
}

impl core::error::Error for DriftError {}

/// Two-sided Page-Hinkley test (Page, "Continuous inspection schemes", Biometrika 41, 1954;
/// Hinkley, 1971) on the mean of the energies, against their running mean.
///
/// Each side sums the differences between the energies and the mean in its direction, less the tolerance, and reports a
/// shift once this sum is more than the limit away from its extreme. The state takes 28 bytes; an update takes constant
/// time.
///
/// The mean is summed with compensation (Kahan, "Further remarks on reducing truncation errors", Communications of the
/// ACM 8, 1965). After some 10⁷ energies, a plain `f32` mean would change only by the large steps, which are mostly
/// upward if energies are skewed: the mean would creep, and drift would be reported for a stream that never changed.
///
/// ```
/// use nae_core::drift::{Drift, PageHinkley};
/// let mut watch = PageHinkley::new(0.005, 0.5)?;
/// for _ in 0..100 {
///     assert_eq!(watch.observe(0.02)?, Drift::Steady);
/// }
/// let after = (0..).find(|_| watch.observe(0.08) == Ok(Drift::Rising));
/// assert!(after.is_some_and(|n| n < 20));
/// # Ok::<(), nae_core::drift::DriftError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PageHinkley {
    tolerance: f32,
    limit: f32,
    count: u32,
    mean: f32,
    /// The rounding error that was added to the mean; the next step subtracts it.
    carry: f32,
    above: f32,
    below: f32,
}

impl PageHinkley {
    /// Returns a watch that ignores shifts of the mean within `tolerance` and reports a shift once the sum of the
    /// excess passes `limit`, both in units of energy.
    ///
    /// # Errors
    /// [`DriftError::Tolerance`] or [`DriftError::Limit`] if that value is out of range.
    pub fn new(tolerance: f32, limit: f32) -> Result<Self, DriftError> {
        if !(tolerance.is_finite() && tolerance >= 0.0) {
            return Err(DriftError::Tolerance);
        }
        if !(limit.is_finite() && limit > 0.0) {
            return Err(DriftError::Limit);
        }
        Ok(Self { tolerance, limit, count: 0, mean: 0.0, carry: 0.0, above: 0.0, below: 0.0 })
    }

    /// Updates the watch with the next energy and returns its state. After a shift, it reports the shift for every
    /// energy while the sum is beyond the limit; [`PageHinkley::reset`] accepts the new level.
    ///
    /// # Errors
    /// [`DriftError::NonFinite`] if this energy is NaN or infinite; [`DriftError::Overflow`] if the mean or a sum has
    /// passed the range of `f32`.
    pub fn observe(&mut self, energy: f32) -> Result<Drift, DriftError> {
        if !energy.is_finite() {
            return Err(DriftError::NonFinite);
        }
        self.count = self.count.saturating_add(1);
        let step = (energy - self.mean) / self.count as f32 - self.carry;
        let mean = self.mean + step;
        self.carry = (mean - self.mean) - step;
        self.mean = mean;
        let excess = energy - self.mean;
        // max(0, sum) is the sum minus its minimum so far: Page's recursive form.
        self.above = (self.above + excess - self.tolerance).max(0.0);
        self.below = (self.below - excess - self.tolerance).max(0.0);
        if !(self.mean.is_finite() && self.above.is_finite() && self.below.is_finite()) {
            return Err(DriftError::Overflow);
        }
        Ok(if self.above > self.limit {
            Drift::Rising
        } else if self.below > self.limit {
            Drift::Falling
        } else {
            Drift::Steady
        })
    }

    /// Running mean of the energies since the start or the last reset.
    pub const fn mean(&self) -> f32 {
        self.mean
    }

    /// Forgets all energies seen so far.
    pub fn reset(&mut self) {
        self.count = 0;
        self.mean = 0.0;
        self.carry = 0.0;
        self.above = 0.0;
        self.below = 0.0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// From the twenty millionth energy on, nine of ten energies are 0.01 and the tenth is 0.11. The steps of the nine
    /// are below half a unit in the last place of the mean; the step of the tenth is not.
    #[test]
    fn a_mean_of_many_skewed_energies_stays() {
        let mut watch = PageHinkley::new(5e-4, 20.0).unwrap();
        (watch.count, watch.mean) = (20_000_000, 0.02);
        for n in 0..2_000_000 {
            let energy = if n % 10 == 9 { 0.11 } else { 0.01 };
            assert_eq!(watch.observe(energy), Ok(Drift::Steady), "{n}");
        }
        assert!((watch.mean() - 0.02).abs() < 1e-6, "{}", watch.mean());
    }
}
