//! One step of the application: image, score, and what [`Judge`] makes of it.

use crate::ImageSource;
use crate::judge::{Judge, Report, SettingsError};
use crate::model::{self, BLANK, Digits, DigitsEngine, Pixel};
use embedded_hal::digital::OutputPin;
use nae_core::engine::EngineError;

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
    memory: &'m mut Memory,
    engine: DigitsEngine,
    judge: Judge<P>,
}

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
        Ok(Self {
            source,
            memory,
            engine: Digits::engine().map_err(SettingsError::Engine)?,
            judge: Judge::new(pin, Digits::MODEL.threshold())?,
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
        self.judge.observe(score, verdict).map_err(Fault::Pin)
    }
}
