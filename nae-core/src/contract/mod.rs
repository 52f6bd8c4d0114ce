//! The data that make a network's energies usable anywhere: the image the network takes, its energy, and the energies
//! of held-out normal data. The network itself is not included.
//!
//! A `.nae` file, the metadata of an ONNX file and a graph that is to be written contain one [`Contract`] each.

mod preprocessing;

use core::fmt;

pub use preprocessing::{LengthError, Preprocessing, PreprocessingError, ResizeFilter};

use crate::Shape;
use crate::calibration::{Calibration, CalibrationError, CalibrationView};
use crate::density::Temperature;
use crate::energy::Energy;

/// The image a network takes, the energy of that image, and the threshold above which it is an anomaly.
///
/// `C` is the calibration: [`Calibration`] if it is owned, [`CalibrationView`] if it lies in a file.
///
/// ```
/// use nae_core::{Shape, calibration::Calibration, contract::Contract};
///
/// let mut held_out: [f32; 99] = core::array::from_fn(|i| i as f32);
/// let calibration = Calibration::from_energies(&mut held_out)?;
/// let contract = Contract::new(Shape::new(1, 28, 28)).with_calibration(calibration, 0.05)?;
/// assert_eq!(contract.threshold().map(|t| t.energy), Some(94.0));
/// # Ok::<(), nae_core::calibration::CalibrationError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Contract<C = Calibration> {
    /// Shape of the image, and of its reconstruction.
    pub input: Shape,
    /// The image's range of values, and the filter that images of another size are resized with.
    pub preprocessing: Preprocessing,
    /// Energy of an image and its reconstruction.
    pub energy: Energy,
    /// Temperature T of the density exp(−E/T)/Ω.
    pub temperature: Temperature,
    log_normalizer: Option<f32>,
    calibration: Option<C>,
    threshold: Option<Threshold>,
}

/// The energy above which an image is an anomaly, and the false-positive rate it was chosen for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Threshold {
    /// The energy; finite.
    pub energy: f32,
    /// The largest share of normal images above the threshold; between 0 and 1.
    pub false_positive_rate: f32,
}

/// log Ω is NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LogNormalizerError;

impl fmt::Display for LogNormalizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("log Omega is NaN or infinite")
    }
}

impl core::error::Error for LogNormalizerError {}

impl<C> Contract<C> {
    /// Returns a contract for images of this shape: squared L2 energy, T = 1, values in `[0, 1]`, no calibration.
    pub fn new(input: Shape) -> Self {
        Self {
            input,
            preprocessing: Preprocessing::default(),
            energy: Energy::default(),
            temperature: Temperature::ONE,
            log_normalizer: None,
            calibration: None,
            threshold: None,
        }
    }

    /// Returns a contract of parts that the parser has checked.
    pub(crate) const fn from_checked(
        (input, preprocessing): (Shape, Preprocessing),
        (energy, temperature): (Energy, Temperature),
        log_normalizer: Option<f32>,
        calibration: Option<C>,
        threshold: Option<Threshold>,
    ) -> Self {
        Self { input, preprocessing, energy, temperature, log_normalizer, calibration, threshold }
    }

    /// log Ω, if it is known.
    pub const fn log_normalizer(&self) -> Option<f32> {
        self.log_normalizer
    }

    /// Adds a known log Ω.
    ///
    /// # Errors
    /// [`LogNormalizerError`] if it is NaN or infinite.
    pub fn with_log_normalizer(self, log_normalizer: f32) -> Result<Self, LogNormalizerError> {
        if !log_normalizer.is_finite() {
            return Err(LogNormalizerError);
        }
        Ok(Self { log_normalizer: Some(log_normalizer), ..self })
    }

    /// The calibration from energies of held-out normal data, if there is one.
    pub const fn calibration(&self) -> Option<&C> {
        self.calibration.as_ref()
    }

    /// The threshold that follows from the calibration; `None` if no rate was requested.
    pub const fn threshold(&self) -> Option<Threshold> {
        self.threshold
    }

    /// The same contract without calibration and threshold, for other energies.
    #[must_use]
    pub fn without_calibration(self) -> Self {
        Self { calibration: None, threshold: None, ..self }
    }
}

impl Contract<CalibrationView<'_>> {
    /// The same contract with a calibration that it owns.
    pub fn to_owned(&self) -> Contract {
        let Self { input, preprocessing, energy, temperature, log_normalizer, calibration, threshold } = *self;
        let calibration = calibration.map(|c| c.to_owned());
        Contract { input, preprocessing, energy, temperature, log_normalizer, calibration, threshold }
    }
}

impl Contract {
    /// Adds the energies of held-out normal data, and the threshold for a target false-positive rate.
    ///
    /// # Errors
    /// [`CalibrationError`] if the rate is outside (0, 1) or below 1/(n + 1), as in [`Calibration::threshold`].
    pub fn with_calibration(self, calibration: Calibration, rate: f32) -> Result<Self, CalibrationError> {
        let energy = calibration.threshold(rate)?;
        let threshold = Some(Threshold { energy, false_positive_rate: rate });
        Ok(Self { calibration: Some(calibration), threshold, ..self })
    }

    /// Adds the energies of held-out normal data, for p-values only: without a threshold.
    #[must_use]
    pub fn with_p_values(self, calibration: Calibration) -> Self {
        Self { calibration: Some(calibration), threshold: None, ..self }
    }
}
