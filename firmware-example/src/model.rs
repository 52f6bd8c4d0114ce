//! The embedded model and the type of its pixels: 8-bit integers or, with the feature `f32-model`, 32-bit
//! floats. Nothing else of the application depends on which.

use nae_core::engine::{Engine, EngineError};
use nae_core::verdict::{Score, Verdict};

#[cfg(not(feature = "f32-model"))]
nae_core::include_model! {
    /// The `digits` model in 8 bits, embedded and checked when the firmware is compiled.
    pub struct Digits = "../../models/digits/digits-int8.nae";
}

#[cfg(feature = "f32-model")]
nae_core::include_model! {
    /// The `digits` model, embedded and checked when the firmware is compiled.
    pub struct Digits = "../../models/digits/digits.nae";
}

/// A value of the image as the model takes it.
#[cfg(not(feature = "f32-model"))]
pub type Pixel = i8;
/// A value of the image as the model takes it.
#[cfg(feature = "f32-model")]
pub type Pixel = f32;

/// What a place for an image starts with: zeros, which take no flash.
#[cfg(not(feature = "f32-model"))]
pub const BLANK: Pixel = 0;
/// What a place for an image starts with: zeros, which take no flash.
#[cfg(feature = "f32-model")]
pub const BLANK: Pixel = 0.0;

/// An engine with the operators of [`Digits`] only.
pub type DigitsEngine = Engine<'static, { Digits::MODEL.operators().bits() }>;

/// Turns the bytes of an image into the model's values. Both are of the model's size, or nothing is
/// written.
pub fn prepare(bytes: &[u8; Digits::IMAGE_LEN], image: &mut [Pixel; Digits::IMAGE_LEN]) {
    // The lengths are right, so neither fails.
    #[cfg(not(feature = "f32-model"))]
    let _ = Digits::MODEL.quantize_bytes(bytes, image);
    #[cfg(feature = "f32-model")]
    let _ = Digits::MODEL.preprocessing().apply(bytes, image);
}

/// Scores an image.
///
/// # Errors
/// As [`Engine::run`].
pub fn score(
    engine: &DigitsEngine,
    image: &[Pixel; Digits::IMAGE_LEN],
    arena: &mut [f32; Digits::ARENA_LEN],
) -> Result<(Score, Option<Verdict>), EngineError> {
    #[cfg(not(feature = "f32-model"))]
    let output = engine.run_i8(image, arena)?;
    #[cfg(feature = "f32-model")]
    let output = engine.run(image, arena)?;
    Ok((output.score, output.verdict))
}
