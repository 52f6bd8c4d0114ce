//! One step of the application: image, score, verdict, alarm, drift.

use crate::ImageSource;
use crate::model::{self, BLANK, Digits, DigitsEngine, Pixel};
use core::fmt;
use embedded_hal::digital::{OutputPin, PinState};
use nae_core::drift::{Drift, PageHinkley};
use nae_core::engine::EngineError;
use nae_core::verdict::{AlarmFilter, AlarmSettings, Score, Verdict};

/// Alarm at 3 anomalies of the last 5 images, off when one or none is left.
const ALARM: Result<AlarmSettings, nae_core::verdict::AlarmSettingsError> = AlarmSettings::new(3, 1, 5);

/// Drift: shifts of the mean within a quarter of the threshold are ignored; the sum of what is beyond may reach five
/// thresholds.
const DRIFT: (f32, f32) = (0.25, 5.0);

/// The memory of the application, to be put in a `static`.
#[derive(Debug)]
pub struct Memory {
    bytes: [u8; Digits::IMAGE_LEN],
    image: [Pixel; Digits::IMAGE_LEN],
    arena: [f32; Digits::ARENA_LEN],
}

impl Memory {
    /// Zeros.
    pub const fn new() -> Self {
        Self { bytes: [0; Digits::IMAGE_LEN], image: [BLANK; Digits::IMAGE_LEN], arena: [0.0; Digits::ARENA_LEN] }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// Watches a source of images and drives an alarm pin, high when the alarm is on.
#[derive(Debug)]
pub struct Watch<'m, S, P> {
    source: S,
    pin: P,
    memory: &'m mut Memory,
    engine: DigitsEngine,
    filter: AlarmFilter<8>,
    drift: PageHinkley,
}

/// What one step found.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub struct Report {
    /// Energy and p-value of the image.
    pub score: Score,
    /// Verdict by the model's threshold; normal when it has none.
    pub verdict: Verdict,
    /// Whether the alarm is on.
    pub alarm: bool,
    /// Whether the energies have shifted.
    pub drift: Drift,
}

/// Why the application cannot start. None of these happens with the model it was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub enum SettingsError {
    /// The engine refuses the model.
    Engine(EngineError),
    /// The alarm's settings.
    Alarm(nae_core::verdict::AlarmSettingsError),
    /// The drift watch's settings.
    Drift(nae_core::drift::DriftError),
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

/// Why a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub enum Fault<S, P> {
    /// The source gave no image.
    Source(S),
    /// The engine could not score it.
    Engine(EngineError),
    /// The pin did not take its state.
    Pin(P),
}

impl<'m, S: ImageSource, P: OutputPin> Watch<'m, S, P> {
    /// Ready for the first image; the pin is left as it is.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(source: S, pin: P, memory: &'m mut Memory) -> Result<Self, SettingsError> {
        let threshold = Digits::MODEL.threshold().unwrap_or(1.0);
        let (tolerance, limit) = DRIFT;
        Ok(Self {
            source,
            pin,
            memory,
            engine: Digits::engine().map_err(SettingsError::Engine)?,
            filter: ALARM.and_then(AlarmFilter::new).map_err(SettingsError::Alarm)?,
            drift: PageHinkley::new(tolerance * threshold, limit * threshold).map_err(SettingsError::Drift)?,
        })
    }

    /// Captures the next image into memory, as the model wants it.
    ///
    /// # Errors
    /// [`Fault::Source`].
    pub fn capture(&mut self) -> Result<(), Fault<S::Error, P::Error>> {
        self.source.capture(&mut self.memory.bytes).map_err(Fault::Source)?;
        model::prepare(&self.memory.bytes, &mut self.memory.image);
        Ok(())
    }

    /// Scores the captured image and drives the alarm.
    ///
    /// # Errors
    /// [`Fault::Engine`] or [`Fault::Pin`].
    pub fn judge(&mut self) -> Result<Report, Fault<S::Error, P::Error>> {
        let (score, verdict) =
            model::score(&self.engine, &self.memory.image, &mut self.memory.arena).map_err(Fault::Engine)?;
        let verdict = verdict.unwrap_or(Verdict::Normal);
        let alarm = self.filter.observe(verdict);
        self.pin.set_state(PinState::from(alarm)).map_err(Fault::Pin)?;
        Ok(Report {
            score,
            verdict,
            alarm,
            // The energy is finite, or there would be no output.
            drift: self.drift.observe(score.energy).unwrap_or(Drift::Steady),
        })
    }
}
