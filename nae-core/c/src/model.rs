//! A model in the caller's memory: opened once, described, and used for p-values and thresholds.

use crate::{Status, memory};
use core::mem::{MaybeUninit, align_of, offset_of, size_of};
use nae_core::engine::Engine;
use nae_core::model::{Model as CoreModel, Operators};

/// Marks a `Model` as opened. Other memory is unlikely to start with these bytes.
const OPENED: u64 = u64::from_le_bytes(*b"nae-open");

/// The operators that are compiled in.
#[cfg(not(feature = "one-model"))]
pub(crate) const OPERATORS: u64 = Operators::ALL.bits();

/// The operators that are compiled in: those of the model in the file NAE_MODEL.
#[cfg(feature = "one-model")]
#[allow(long_running_const_eval)]
pub(crate) const OPERATORS: u64 = match CoreModel::parse(include_bytes!(env!("NAE_MODEL"))) {
    Ok(model) => Operators::from_bits(model.operators().bits()).bits(),
    Err(error) => panic!("{}", error.message()),
};

/// A model that `nae_core_open` has opened. Its fields are private to the library. It points into the bytes it was
/// opened from and nowhere else, so it may be copied by `=`. Nothing needs to be freed.
///
/// Once opened it is only read: any number of threads may use it at the same time, each with its own arena.
#[repr(C)]
pub struct Model {
    /// Whether it was opened: not for the caller.
    opened: u64,
    /// Not for the caller.
    state: MaybeUninit<[usize; 58]>,
}

/// What an opened model consists of.
pub(crate) struct Opened<'a> {
    pub(crate) model: CoreModel<'a>,
    /// The bytes that it reads in place.
    pub(crate) bytes: &'a [u8],
}

// The header guarantees this much room, on every target.
const _: () = assert!(
    size_of::<Opened<'static>>() <= size_of::<[usize; 58]>()
        && align_of::<Opened<'static>>() <= align_of::<Model>()
        && offset_of!(Model, state).is_multiple_of(align_of::<Opened<'static>>())
);

/// Properties of a model.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info {
    /// The cost of one score, in units of about one multiply-accumulate. A device that takes models from outside can
    /// refuse a model that would run too long. The sum of `multiply_accumulates`, each value that a layer writes (4
    /// times if it is interpolated or normalized, 16 times if its activation has an exponential), another 8 for each
    /// that is a sum of products, a maximum or a mean, or changes its 8-bit scale, 64 for each pixel that a
    /// convolution, a pooling, a resizing or the normalization of a pixel writes, 4 times the bytes of images that
    /// 8-bit convolutions copy, 64 for each layer or part of one that is started by itself (rows and phases of 8-bit
    /// convolutions, groups at a place), and the energy: each value of the image, or for structural similarity 5 times
    /// each value of each window of 11 x 11. Floats without an FPU take some fifty times as long.
    pub operations: u64,
    /// Multiply-accumulates of convolutions and dense layers, and values that pooling layers read, padding included in
    /// both. Other layers and the energy are not counted, so only `operations` limits the time.
    pub multiply_accumulates: u64,
    /// Channels of the image.
    pub channels: usize,
    /// Rows of the image.
    pub height: usize,
    /// Columns of the image.
    pub width: usize,
    /// Values of an image: channels * height * width.
    pub image_len: usize,
    /// Words of 4 bytes that `nae_core_score_i8` and `nae_core_score_f32` need as arena.
    pub arena_words: usize,
    /// Words of 4 bytes that `nae_core_score_u8` needs as arena. Never fewer than `arena_words`.
    pub arena_words_u8: usize,
    /// Number n of calibration energies; 0 for a model without calibration.
    pub calibration_count: u32,
    /// 1 for a model that takes 8-bit values, 0 for one that takes floats.
    pub is_int8: i32,
    /// 1 if the device makes samples by steps that the file does not contain, such as a crop or the columns of a table; 0 if a
    /// sample is an image of the model's size.
    pub is_prepared: i32,
    /// Scale of 8-bit values: a value q represents scale * (q - zero_point). NaN for a model that takes floats.
    pub scale: f32,
    /// Zero point of 8-bit values, see `scale`; 0 for a model that takes floats.
    pub zero_point: i32,
    /// The model's value for a black pixel (0).
    pub low: f32,
    /// The model's value for a white pixel (255), up to rounding: a pixel p has the value low + p / 255 * (high - low).
    pub high: f32,
    /// An energy above it is an anomaly; NaN for a model without threshold.
    pub threshold: f32,
    /// The largest share of normal images above the threshold; NaN for a model without threshold.
    pub false_positive_rate: f32,
}

/// Words of the arena for an image in the model's own type.
pub(crate) fn arena_words(model: &CoreModel<'_>) -> usize {
    model.arena_len()
}

/// Words of the arena for pixels: its first words hold the image in the model's own type.
pub(crate) fn arena_words_u8(model: &CoreModel<'_>) -> usize {
    model.arena_len().saturating_add(model.image_words())
}

/// Returns the model in the caller's memory, which outlives every call.
///
/// # Safety
/// `model` is null, or valid for reads of a [`Model`] that nothing writes meanwhile. A model that is marked as opened
/// was opened by [`nae_core_open`], or is a copy of such a model, and its bytes have not changed since.
pub(crate) unsafe fn opened<'a>(model: *const Model) -> Result<&'a Opened<'a>, Status> {
    let model = memory::place(model.cast_mut())?;
    // SAFETY: aligned and not null by `place`; valid by this function's contract.
    unsafe {
        if (&raw const (*model).opened).read() != OPENED {
            return Err(Status::NotReady);
        }
        Ok(&*(&raw const (*model).state).cast::<Opened<'a>>())
    }
}

/// Opens a model: checks `length` bytes of a `.nae` file as a whole, so that nothing has to be checked afterwards, and
/// writes to `model` the state that reads them in place. Time is linear in the length, plus the square of the number of
/// layers: some 490 instructions for each pair of layers on a Cortex-M4F, which are 16 million for 256 layers, the
/// largest number of layers of a model.
///
/// The bytes may come from anywhere and may be damaged: they are either refused, or run within the arena. The address
/// of `bytes` must be divisible by 4. They must stay in place, unchanged, as long as the model is used.
///
/// Errors: NULL; ALIGNMENT; NOT_A_MODEL, VERSION, LENGTH, CHECKSUM, HEADER or LAYER for a fault of the file; OPERATORS;
/// ENDIANNESS. After an error `model` is closed: every function refuses it with NOT_READY. If `model` itself is not
/// aligned, it is unchanged, and every function refuses it with ALIGNMENT.
///
/// # Safety
/// `model` is null or valid for a write; `bytes` is null or valid for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_open(model: *mut Model, bytes: *const u8, length: usize) -> Status {
    let work = || {
        let model = memory::place(model)?;
        // SAFETY: `place` has checked that it is aligned and not null, and the caller guarantees that it is valid for a
        // write.
        unsafe { (&raw mut (*model).opened).write(0) };
        // SAFETY: the caller guarantees that they are valid, and stay unchanged.
        let bytes: &'static [u8] = unsafe { memory::slice(bytes, length)? };
        let parsed = CoreModel::parse(bytes)?;
        if !bytes.as_ptr().addr().is_multiple_of(4) {
            return Err(Status::Alignment);
        }
        Engine::<OPERATORS>::with_operators(&parsed)?;
        // SAFETY: as for the write above; the state has room for it and its alignment, which is asserted at compile time.
        unsafe {
            (&raw mut (*model).state).cast::<Opened<'static>>().write(Opened { model: parsed, bytes });
            (&raw mut (*model).opened).write(OPENED);
        }
        Ok(())
    };
    Status::of(work())
}

/// Writes to `info` the properties of a model: the image it takes, the arena it needs, its threshold.
///
/// Errors: NULL, NOT_READY, ALIGNMENT.
///
/// # Safety
/// `model` is null, zeros, or from `nae_core_open`; `info` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_describe(model: *const Model, info: *mut Info) -> Status {
    let work = || {
        // SAFETY: guaranteed by this function's caller.
        let model = unsafe { &opened(model)?.model };
        let info = memory::place(info)?;
        let (shape, image) = (model.input_shape(), model.image_quantization());
        let known = Info {
            operations: model.operations(),
            multiply_accumulates: model.multiply_accumulates(),
            channels: shape.channels,
            height: shape.height,
            width: shape.width,
            image_len: shape.len(),
            arena_words: arena_words(model),
            arena_words_u8: arena_words_u8(model),
            calibration_count: model.calibration().map_or(0, |calibration| calibration.count() as u32),
            is_int8: i32::from(image.is_some()),
            is_prepared: i32::from(model.is_prepared()),
            scale: image.map_or(f32::NAN, |image| image.scale()),
            zero_point: image.map_or(0, |image| i32::from(image.zero_point())),
            low: model.preprocessing().low(),
            high: model.preprocessing().high(),
            threshold: model.threshold().unwrap_or(f32::NAN),
            false_positive_rate: model.target_false_positive_rate().unwrap_or(f32::NAN),
        };
        // SAFETY: `place` has checked that it is aligned and not null, and the caller guarantees that it is valid for a
        // write.
        unsafe { info.write(known) };
        Ok(())
    };
    Status::of(work())
}

/// Writes to `p_value` the share of normal images with an energy at least as high, in (0, 1]: the conformal p-value
/// (1 + number of calibration energies >= energy)/(n + 1).
///
/// Errors: NULL, NOT_READY, ALIGNMENT; NO_CALIBRATION; NON_FINITE for an energy that is NaN or infinite.
///
/// # Safety
/// `model` is null, zeros, or from `nae_core_open`; `p_value` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_p_value(model: *const Model, energy: f32, p_value: *mut f32) -> Status {
    let work = || {
        // SAFETY: guaranteed by this function's caller.
        let model = unsafe { &opened(model)?.model };
        let p_value = memory::place(p_value)?;
        let value = model.calibration().ok_or(Status::NoCalibration)?.p_value(energy)?;
        // SAFETY: `place` has checked that it is aligned and not null, and the caller guarantees that it is valid for a
        // write.
        unsafe { p_value.write(value) };
        Ok(())
    };
    Status::of(work())
}

/// Writes to `threshold` the energy above which an image is an anomaly, so that at most the share `false_positive_rate`
/// of normal images is above it. This is for another rate than the model's own, which `nae_core_describe` gives.
///
/// Errors: NULL, NOT_READY, ALIGNMENT; NO_CALIBRATION; RATE unless 0 < rate < 1; RATE_TOO_LOW below 1/(n + 1).
///
/// # Safety
/// `model` is null, zeros, or from `nae_core_open`; `threshold` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_core_threshold(
    model: *const Model,
    false_positive_rate: f32,
    threshold: *mut f32,
) -> Status {
    let work = || {
        // SAFETY: guaranteed by this function's caller.
        let model = unsafe { &opened(model)?.model };
        let threshold = memory::place(threshold)?;
        let value = model.calibration().ok_or(Status::NoCalibration)?.threshold(false_positive_rate)?;
        // SAFETY: `place` has checked that it is aligned and not null, and the caller guarantees that it is valid for a
        // write.
        unsafe { threshold.write(value) };
        Ok(())
    };
    Status::of(work())
}
