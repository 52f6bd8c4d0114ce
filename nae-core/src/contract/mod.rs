//! What goes with a network so that its energies can be used anywhere: the image it takes, the energy, and what held-out
//! normal energies are like. The network itself is not here.
//!
//! A `.nae` file, the metadata of an ONNX file and a graph that is to be written hold one [`Contract`] each.

mod preprocessing;

use core::fmt;

pub use preprocessing::{LengthError, Preprocessing, PreprocessingError, ResizeFilter};

use crate::Shape;
use crate::calibration::{Calibration, CalibrationError, CalibrationView};
use crate::density::Temperature;
use crate::energy::Energy;

/// The image a network takes, how an energy comes of it, and when that energy is an anomaly.
///
/// `C` is the calibration: [`Calibration`] where it is owned, [`CalibrationView`] where it lies in a file.
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

/// The energy above which an image is an anomaly, and the rate of false positives it was chosen for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Threshold {
    /// The energy; finite.
    pub energy: f32,
    /// Share of normal images above it, at most; between 0 and 1.
    pub false_positive_rate: f32,
}

/// log Ω must be finite.
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
    /// For images of this shape: squared L2 energy, T = 1, values in `[0, 1]`, no calibration.
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

    /// From parts that the parser has checked.
    pub(crate) const fn from_checked(
        (input, preprocessing): (Shape, Preprocessing),
        (energy, temperature): (Energy, Temperature),
        log_normalizer: Option<f32>,
        calibration: Option<C>,
        threshold: Option<Threshold>,
    ) -> Self {
        Self { input, preprocessing, energy, temperature, log_normalizer, calibration, threshold }
    }

    /// log Ω, when known.
    pub const fn log_normalizer(&self) -> Option<f32> {
        self.log_normalizer
    }

    /// With a known log Ω.
    ///
    /// # Errors
    /// [`LogNormalizerError`] where it is NaN or infinite.
    pub fn with_log_normalizer(self, log_normalizer: f32) -> Result<Self, LogNormalizerError> {
        if !log_normalizer.is_finite() {
            return Err(LogNormalizerError);
        }
        Ok(Self { log_normalizer: Some(log_normalizer), ..self })
    }

    /// Energies of held-out normal data.
    pub const fn calibration(&self) -> Option<&C> {
        self.calibration.as_ref()
    }

    /// The threshold that follows from the calibration; `None` where no rate was asked for.
    pub const fn threshold(&self) -> Option<Threshold> {
        self.threshold
    }

    /// The same contract for other energies: without calibration and threshold.
    #[must_use]
    pub fn without_calibration(self) -> Self {
        Self { calibration: None, threshold: None, ..self }
    }
}

impl Contract<CalibrationView<'_>> {
    /// The same with a calibration of its own.
    pub fn to_owned(&self) -> Contract {
        let Self { input, preprocessing, energy, temperature, log_normalizer, calibration, threshold } = *self;
        let calibration = calibration.map(|c| c.to_owned());
        Contract { input, preprocessing, energy, temperature, log_normalizer, calibration, threshold }
    }
}

impl Contract {
    /// With the energies of held-out normal data, and the threshold for a target false-positive rate.
    ///
    /// # Errors
    /// Those of [`Calibration::threshold`]: a rate outside (0, 1), or below 1/(n + 1).
    pub fn with_calibration(self, calibration: Calibration, rate: f32) -> Result<Self, CalibrationError> {
        let energy = calibration.threshold(rate)?;
        let threshold = Some(Threshold { energy, false_positive_rate: rate });
        Ok(Self { calibration: Some(calibration), threshold, ..self })
    }

    /// With the energies of held-out normal data, for p-values alone.
    #[must_use]
    pub fn with_p_values(self, calibration: Calibration) -> Self {
        Self { calibration: Some(calibration), threshold: None, ..self }
    }
}
