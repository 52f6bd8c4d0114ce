//! Steps after a score: verdict, alarm, drift. The same for every model.

use core::fmt;
use embedded_hal::digital::{OutputPin, PinState};
use nae_core::drift::{Drift, DriftError, PageHinkley};
use nae_core::engine::EngineError;
use nae_core::verdict::{AlarmFilter, AlarmSettings, Score, Verdict};

/// The alarm turns on at 3 anomalies among the last 5 images, and off at one or none.
const ALARM: Result<AlarmSettings, nae_core::verdict::AlarmSettingsError> = AlarmSettings::new(3, 1, 5);

/// Drift: shifts of the mean within a quarter of the threshold are ignored; the sum of the excess may reach five
/// thresholds.
const DRIFT: (f32, f32) = (0.25, 5.0);

/// Alarm filter, drift watch, and the pin of the alarm, which is high while the alarm is on.
#[derive(Debug)]
pub struct Judge<P> {
    pin: P,
    filter: AlarmFilter<8>,
    drift: PageHinkley,
    threshold: Option<f32>,
}

/// The results for one image.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub struct Report {
    /// Energy and p-value of the image.
    pub score: Score,
    /// Verdict by the model's threshold; normal if it has none.
    pub verdict: Verdict,
    /// Whether the alarm is on.
    pub alarm: bool,
    /// Whether the energies have shifted.
    pub drift: Drift,
}

/// The reason why the application cannot start. None of these occurs with the model it was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub enum SettingsError {
    /// The engine refuses the model.
    Engine(EngineError),
    /// The alarm's settings are invalid.
    Alarm(nae_core::verdict::AlarmSettingsError),
    /// The drift watch's settings are invalid.
    Drift(DriftError),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Alarm(error) => error.fmt(f),
            Self::Drift(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SettingsError {}

impl<P: OutputPin> Judge<P> {
    /// Returns the state before the first score; the pin is not changed. Drift is measured in thresholds, or in units
    /// of energy if the model has no threshold, or one that is not above 0: then its normal images are reconstructed
    /// exactly, every other image is an anomaly, and no drift is reported.
    ///
    /// # Errors
    /// [`SettingsError`] if the settings of the alarm or of the drift watch are invalid.
    pub fn new(pin: P, threshold: Option<f32>) -> Result<Self, SettingsError> {
        let (tolerance, limit) = DRIFT;
        // The limit must be above 0 and finite for every model.
        let unit = threshold.filter(|threshold| *threshold > 0.0).unwrap_or(1.0).min(f32::MAX / limit);
        Ok(Self {
            pin,
            filter: ALARM.and_then(AlarmFilter::new).map_err(SettingsError::Alarm)?,
            drift: PageHinkley::new(tolerance * unit, limit * unit).map_err(SettingsError::Drift)?,
            threshold,
        })
    }

    /// Evaluates the next score, and drives the alarm.
    ///
    /// # Errors
    /// The pin's error if it cannot be set.
    pub fn observe(&mut self, score: Score, verdict: Option<Verdict>) -> Result<Report, P::Error> {
        let verdict = verdict.unwrap_or(Verdict::Normal);
        let alarm = self.filter.observe(verdict);
        self.pin.set_state(PinState::from(alarm))?;
        Ok(Report { score, verdict, alarm, drift: self.drift(score.energy) })
    }

    /// Drift concerns many images: one anomaly counts as no more than an image at the threshold.
    fn drift(&mut self, energy: f32) -> Drift {
        match self.drift.observe(self.threshold.map_or(energy, |threshold| energy.min(threshold))) {
            Ok(drift) => drift,
            // Without a threshold, energies can be as large as floats: the watch starts over.
            Err(DriftError::Overflow) => {
                self.drift.reset();
                Drift::Steady
            }
            // Other errors cannot occur, since energies of scores are finite.
            Err(_) => Drift::Steady,
        }
    }
}
