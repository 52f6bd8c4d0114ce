//! Collecting calibration energies on the device itself, in fixed memory.

use super::{Calibration, CalibrationError};
use core::fmt;

/// Collects up to `N` normal energies at the device's place of use, and makes a calibration of them.
///
/// ```
/// use nae_core::calibration::Collector;
/// let mut collector = Collector::<64>::new();
/// for i in 0..40 {
///     collector.observe(i as f32)?;
/// }
/// let threshold = collector.finish()?.threshold(0.1)?;
/// assert_eq!(threshold, 36.0); // the 4th largest of 40
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Collector<const N: usize> {
    energies: heapless::Vec<f32, N>,
}

/// The reason why an energy was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum CollectError {
    /// The collector already contains `N` energies.
    Full,
    /// The energy is NaN or infinite.
    NonFinite,
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the collector is full",
            Self::NonFinite => "the energy is NaN or infinite",
        })
    }
}

impl core::error::Error for CollectError {}

impl<const N: usize> Collector<N> {
    /// An empty collector.
    pub const fn new() -> Self {
        Self { energies: heapless::Vec::new() }
    }

    /// Adds one energy of normal data.
    ///
    /// # Errors
    /// [`CollectError`] if the collector is full or the energy is not finite.
    pub fn observe(&mut self, energy: f32) -> Result<(), CollectError> {
        if !energy.is_finite() {
            return Err(CollectError::NonFinite);
        }
        self.energies.push(energy).map_err(|_| CollectError::Full)
    }

    /// Number of energies collected.
    pub fn len(&self) -> usize {
        self.energies.len()
    }

    /// Whether no energy was collected.
    pub fn is_empty(&self) -> bool {
        self.energies.is_empty()
    }

    /// Returns the calibration from all energies collected.
    ///
    /// # Errors
    /// [`CalibrationError::Empty`] if there are none.
    pub fn finish(mut self) -> Result<Calibration, CalibrationError> {
        Calibration::from_energies(&mut self.energies)
    }
}
