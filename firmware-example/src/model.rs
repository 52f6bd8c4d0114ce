//! The embedded model and the type of its pixels: 8-bit integers or, with the feature `f32-model`, 32-bit floats. No
//! other part of the application depends on this choice.

use nae_core::engine::{Engine, EngineError};
use nae_core::verdict::{Score, Verdict};

#[cfg(not(feature = "f32-model"))]
nae_core::include_model! {
    /// The `digits` model in 8 bits, embedded and checked at compile time.
    pub struct Digits = "../../models/digits/digits-int8.nae";
}

#[cfg(feature = "f32-model")]
nae_core::include_model! {
    /// The `digits` model, embedded and checked at compile time.
    pub struct Digits = "../../models/digits/digits.nae";
}

/// A value of the model's input image.
#[cfg(not(feature = "f32-model"))]
pub type Pixel = i8;
/// A value of the model's input image.
#[cfg(feature = "f32-model")]
pub type Pixel = f32;

/// The initial value of image memory: zeros, which take no flash.
#[cfg(not(feature = "f32-model"))]
pub const BLANK: Pixel = 0;
/// The initial value of image memory: zeros, which take no flash.
#[cfg(feature = "f32-model")]
pub const BLANK: Pixel = 0.0;

/// An engine with the operators of [`Digits`] only.
pub type DigitsEngine = Engine<'static, { Digits::MODEL.operators().bits() }>;

/// Converts the bytes of an image to the model's values. If a length is not the model's, nothing is written.
pub fn prepare(bytes: &[u8; Digits::IMAGE_LEN], image: &mut [Pixel; Digits::IMAGE_LEN]) {
    // The lengths are right, so neither conversion fails.
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
