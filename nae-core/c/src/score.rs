//! Energies of images, from pixels or from values in the model's own type.

use crate::model::{Model, OPERATORS, Opened, opened};
use crate::{Status, memory};
use nae_core::engine::{Engine, Output};
use nae_core::model::Model as CoreModel;

/// Score of one image.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The higher, the less normal: the mean squared (or absolute) difference of an image and its reconstruction, or
    /// one minus their similarity, depending on the model. Finite.
    pub energy: f32,
    /// Share of normal images with an energy at least as high, in (0, 1]; NaN for a model without calibration.
    pub p_value: f32,
    /// An energy above it is an anomaly; NaN for a model without threshold.
    pub threshold: f32,
    /// 1 for an anomaly, 0 for a normal image, -1 for a model without threshold. Compare it with 1: in C, -1 is true.
    pub anomaly: i32,
}

impl Score {
    fn of<T>(output: &Output<'_, T>, model: &CoreModel<'_>) -> Self {
        Self {
            energy: output.score.energy,
            p_value: output.score.p_value.unwrap_or(f32::NAN),
            threshold: model.threshold().unwrap_or(f32::NAN),
            anomaly: output.verdict.map_or(-1, |verdict| i32::from(verdict.is_anomaly())),
        }
    }
}

/// The data of every score, once the pointers are checked.
struct Call<'a, T> {
    model: &'a CoreModel<'a>,
    engine: Engine<'a, OPERATORS>,
    image: &'a [T],
    /// Exactly the number of words that the score needs.
    arena: &'a mut [f32],
}

/// Checks the pointers, runs `work`, and writes its score.
///
/// # Safety
/// As for the functions that call it.
unsafe fn call<'a, T: 'a>(
    model: *const Model,
    (image, image_len): (*const T, usize),
    (arena, words): (*mut u32, usize),
    score: *mut Score,
    needed: fn(&CoreModel<'_>) -> usize,
    work: impl FnOnce(Call<'a, T>) -> Result<Score, Status>,
) -> Status {
    let work = || {
        let state = model;
        // SAFETY: the caller guarantees this for `model`.
        let Opened { model, bytes } = unsafe { opened(state)? };
        let score = memory::place(score)?;
        if image.is_null() || arena.is_null() {
            return Err(Status::Null);
        }
        // The lengths are checked first: everything read and written below has the length that the model requires.
        if image_len != model.input_shape().len() {
            return Err(Status::ImageLength);
        }
        let needed = needed(model);
        if words < needed {
            return Err(Status::ArenaLength);
        }
        // SAFETY: the caller guarantees this for `image`.
        let image = unsafe { memory::slice(image, image_len)? };
        let written = (arena.cast_const(), needed);
        if memory::overlap(written, (image.as_ptr(), image_len))
            || memory::overlap(written, (bytes.as_ptr(), bytes.len()))
            || memory::overlap(written, (state, 1))
            || memory::overlap(written, (score.cast_const(), 1))
        {
            return Err(Status::Overlap);
        }
        // SAFETY: the caller guarantees this for `arena`; floats have the size of words, and any bits are a float.
        let arena = unsafe { memory::slice_mut(arena.cast::<f32>(), needed)? };
        let engine = Engine::with_operators(model)?;
        let value = work(Call { model, engine, image, arena })?;
        // SAFETY: `place` has checked that it is aligned and not null, and the caller guarantees that it is valid for a
        // write.
        unsafe { score.write(value) };
        Ok(())
    };
    Status::of(work())
}

/// Scores pixels of a camera: 0 for black to 255 for white, `pixels_len` bytes, row by row, the channels of a pixel
/// side by side (HWC). The library converts pixels to the range and type of any
/// model whose samples are images (`is_prepared` of its `nae_core_info` is 0).
///
/// `pixels_len` must be the `image_len` of `nae_core_describe`, and `arena_words` its `arena_words_u8` or more. The
/// arena is working memory: its previous contents do not matter, and it may be used otherwise between two scores. Its
/// address must be divisible by 4.
///
/// Errors: NULL, NOT_READY, ALIGNMENT, OVERLAP; IMAGE_LENGTH; ARENA_LENGTH; OVERFLOW.
///
/// # Safety
/// `model` is null, zeros, or from `nae_core_open`; `pixels` is null or valid for `pixels_len` bytes; `arena` is null or
/// valid for reads and writes of `arena_words` words; `score` is null or valid for a write. Nothing else uses the arena
/// meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_score_u8(
    model: *const Model,
    pixels: *const u8,
    pixels_len: usize,
    arena: *mut u32,
    arena_words: usize,
    score: *mut Score,
) -> Status {
    let work = |call: Call<'_, u8>| {
        let Call { model, engine, image: pixels, arena } = call;
        let (image, arena) = arena.split_at_mut_checked(model.image_words()).ok_or(Status::ArenaLength)?;
        if model.image_quantization().is_some() {
            let bytes: &mut [i8] = bytemuck::try_cast_slice_mut(image).map_err(|_| Status::Alignment)?;
            let image = bytes.get_mut(..pixels.len()).ok_or(Status::ArenaLength)?;
            model.quantize_bytes(pixels, image).map_err(|_| Status::ImageLength)?;
            Ok(Score::of(&engine.run_i8(image, arena)?, model))
        } else {
            model.preprocessing().apply(pixels, image).map_err(|_| Status::ImageLength)?;
            Ok(Score::of(&engine.run(image, arena)?, model))
        }
    };
    // SAFETY: guaranteed by this function's caller.
    unsafe { call(model, (pixels, pixels_len), (arena, arena_words), score, crate::model::arena_words_u8, work) }
}

/// Scores the values of an image for a model of 8 bits: q represents scale * (q - zero_point), with the numbers of
/// `nae_core_describe`. `arena_words` is its `arena_words` or more; the rest is as for `nae_core_score_u8`.
///
/// Errors: those of `nae_core_score_u8`, and IMAGE_TYPE for a model that takes floats.
///
/// # Safety
/// As for `nae_core_score_u8`; `values` is null or valid for `values_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_score_i8(
    model: *const Model,
    values: *const i8,
    values_len: usize,
    arena: *mut u32,
    arena_words: usize,
    score: *mut Score,
) -> Status {
    let work = |call: Call<'_, i8>| Ok(Score::of(&call.engine.run_i8(call.image, call.arena)?, call.model));
    // SAFETY: guaranteed by this function's caller.
    unsafe { call(model, (values, values_len), (arena, arena_words), score, crate::model::arena_words, work) }
}

/// Scores the values of an image for a model of floats: between `low` and `high` of `nae_core_describe`; values outside
/// are scored, too, if they are finite. The address of `values` must be divisible by 4. `arena_words` is the
/// `arena_words` of `nae_core_describe` or more; the rest is as for `nae_core_score_u8`.
///
/// Errors: those of `nae_core_score_u8`; IMAGE_TYPE for a model that takes 8-bit values; NON_FINITE for a value that is
/// NaN or infinite.
///
/// # Safety
/// As for `nae_core_score_u8`; `values` is null or valid for `values_len` floats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_score_f32(
    model: *const Model,
    values: *const f32,
    values_len: usize,
    arena: *mut u32,
    arena_words: usize,
    score: *mut Score,
) -> Status {
    let work = |call: Call<'_, f32>| Ok(Score::of(&call.engine.run(call.image, call.arena)?, call.model));
    // SAFETY: guaranteed by this function's caller.
    unsafe { call(model, (values, values_len), (arena, arena_words), score, crate::model::arena_words, work) }
}
