//! One step of the application: image, score, and their evaluation by [`Judge`].

use crate::ImageSource;
use crate::judge::{Judge, Report, SettingsError};
use crate::model::{self, BLANK, Digits, DigitsEngine, Pixel};
use embedded_hal::digital::OutputPin;
use nae_core::engine::EngineError;

/// The memory of the application; to be placed in a `static`.
#[derive(Debug)]
pub struct Memory {
    bytes: [u8; Digits::IMAGE_LEN],
    image: [Pixel; Digits::IMAGE_LEN],
    arena: [f32; Digits::ARENA_LEN],
}

impl Memory {
    /// Returns memory filled with zeros.
    pub const fn new() -> Self {
        Self { bytes: [0; Digits::IMAGE_LEN], image: [BLANK; Digits::IMAGE_LEN], arena: [0.0; Digits::ARENA_LEN] }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// Watches a source of images and drives an alarm pin, which is high while the alarm is on.
#[derive(Debug)]
pub struct Watch<'m, S, P> {
    source: S,
    memory: &'m mut Memory,
    engine: DigitsEngine,
    judge: Judge<P>,
}

/// The reason why a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub enum Fault<S, P> {
    /// The source gave no image.
    Source(S),
    /// The engine could not score it.
    Engine(EngineError),
    /// The pin could not be set.
    Pin(P),
}

impl<'m, S: ImageSource, P: OutputPin> Watch<'m, S, P> {
    /// Returns a watch that is ready for the first image; the pin is not changed.
    ///
    /// # Errors
    /// [`SettingsError`] if the engine, the alarm or the drift watch cannot be set up.
    pub fn new(source: S, pin: P, memory: &'m mut Memory) -> Result<Self, SettingsError> {
        Ok(Self {
            source,
            memory,
            engine: Digits::engine().map_err(SettingsError::Engine)?,
            judge: Judge::new(pin, Digits::MODEL.threshold())?,
        })
    }

    /// Captures the next image into memory, in the model's format.
    ///
    /// # Errors
    /// [`Fault::Source`] if the source gives no image.
    pub fn capture(&mut self) -> Result<(), Fault<S::Error, P::Error>> {
        self.source.capture(&mut self.memory.bytes).map_err(Fault::Source)?;
        model::prepare(&self.memory.bytes, &mut self.memory.image);
        Ok(())
    }

    /// Scores the captured image and drives the alarm.
    ///
    /// # Errors
    /// [`Fault::Engine`] if the image cannot be scored, [`Fault::Pin`] if the pin cannot be set.
    pub fn judge(&mut self) -> Result<Report, Fault<S::Error, P::Error>> {
        let (score, verdict) =
            model::score(&self.engine, &self.memory.image, &mut self.memory.arena).map_err(Fault::Engine)?;
        self.judge.observe(score, verdict).map_err(Fault::Pin)
    }
}
