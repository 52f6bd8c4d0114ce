//! The library `nae_infer` for C, and for languages that can call C: a detector, and scores of files, encoded images
//! and pixels. The header is `nae_infer.h`.
//!
//! All unsafe code is here: pointers come from the caller, and each function documents its requirements. Panics are
//! caught before they reach the caller.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use nae_infer::input::{MAX_FILE, Pixels, decode, read};
use nae_infer::{BackendKind, Scored};

/// The longest side of an image.
const MAX_SIDE: usize = nae_infer::input::MAX_SIDE as usize;
/// The largest number of bytes of uncompressed pixels: what the decoder allows an image file.
const MAX_PIXELS: usize = nae_infer::input::MAX_DECODED as usize;

/// A model that is ready to score.
pub struct Detector(nae_infer::Detector);

/// The score of an image.
#[repr(C)]
pub struct Score {
    /// The energy; the higher, the less normal.
    pub energy: f32,
    /// The fraction of normal images with at least this energy, in (0, 1]; NaN for a model without calibration.
    pub p_value: f32,
    /// The threshold; a higher energy is an anomaly. NaN for a model without a threshold.
    pub threshold: f32,
    /// 1 for an anomaly, 0 for a normal image, -1 for a model without a threshold. Compare it with 1: in C, -1 is true.
    pub anomaly: i32,
}

/// Runs `work`. An error or a panic is written to `error`, and `None` is returned.
///
/// # Safety
/// `error` is null or valid for writes of `error_len` bytes.
unsafe fn guarded<T>(error: *mut c_char, error_len: usize, work: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("a bug: the library panicked".into()));
    let reason = match result {
        Ok(value) => return Some(value),
        Err(reason) => reason,
    };
    if !error.is_null() && error_len > 0 {
        let mut length = reason.len().min(error_len - 1);
        while !reason.is_char_boundary(length) {
            length -= 1;
        }
        // SAFETY: `length` is below `error_len`, and the caller guarantees that this number of bytes may be written.
        // The reason is a Rust string of this library, which they cannot overlap.
        unsafe {
            ptr::copy_nonoverlapping(reason.as_ptr(), error.cast(), length);
            *error.add(length) = 0;
        }
    }
    None
}

/// Converts a text of the caller, which errors call `name`; `None` for null.
///
/// # Safety
/// `text` is null or ends in a zero.
unsafe fn text<'a>(name: &str, text: *const c_char) -> Result<Option<&'a str>, String> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees that it ends in a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| format!("the {name} is not UTF-8"))
}

/// Opens an `.onnx` or `.nae` file. `path` is UTF-8. `backend` is "simd", "tract", "ort" or "native", if the library is
/// built with it ("ort" is not by default), or NULL for the default. `false_positive_rate`, above 0 and below 1, selects
/// the threshold; 0 selects the model's own. Free the detector with `nae_detector_free`.
///
/// # Safety
/// `path` (NULL is refused) and `backend`, if not null, end in a zero; `error` is null or valid for `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_detector_open(
    path: *const c_char,
    backend: *const c_char,
    false_positive_rate: f32,
    error: *mut c_char,
    error_len: usize,
) -> *mut Detector {
    let work = || {
        // SAFETY: guaranteed by the caller of this function.
        let (path, backend) = unsafe { (text("path", path)?, text("backend", backend)?) };
        let path = path.ok_or("the path is NULL")?;
        let mut builder = nae_infer::Detector::builder();
        if let Some(name) = backend {
            let kind = BackendKind::from_name(name).ok_or_else(|| {
                let known = BackendKind::ALL.map(BackendKind::name).join(", ");
                format!("there is no backend `{name}`; expected one of {known}")
            })?;
            builder = builder.backend(kind);
        }
        if false_positive_rate != 0.0 {
            builder = builder.false_positive_rate(false_positive_rate);
        }
        builder.open(path).map_err(|e| e.to_string())
    };
    // SAFETY: guaranteed by the caller of this function.
    let opened = unsafe { guarded(error, error_len, work) };
    opened.map_or(ptr::null_mut(), |detector| Box::into_raw(Box::new(Detector(detector))))
}

/// Frees a detector; does nothing for NULL.
///
/// # Safety
/// `detector` is null or from `nae_detector_open`, not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_detector_free(detector: *mut Detector) {
    if !detector.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller guarantees that it was not freed before.
        let detector = unsafe { Box::from_raw(detector) };
        // A panic in a destructor must not unwind into C.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(detector)));
    }
}

/// Writes the channels, height and width of the network's input. Images of other sizes are resized, except for a model of
/// tiles, which cuts an image into tiles of this size and refuses a smaller one. Pass NULL for values that are not
/// needed. Returns 1, or 0 if the detector is NULL.
///
/// # Safety
/// `detector` is null or from `nae_detector_open`; the others are each null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_detector_input(
    detector: *const Detector,
    channels: *mut usize,
    height: *mut usize,
    width: *mut usize,
) -> i32 {
    let work = || {
        // SAFETY: null, or from `nae_detector_open`, as the caller guarantees.
        let detector = unsafe { detector.as_ref() }.ok_or("the detector is NULL")?;
        Ok(detector.0.contract().input)
    };
    // SAFETY: null means that there is no buffer for a message.
    let Some(shape) = (unsafe { guarded(ptr::null_mut(), 0, work) }) else { return 0 };
    for (to, side) in [(channels, shape.channels), (height, shape.height), (width, shape.width)] {
        if !to.is_null() {
            // SAFETY: it is not null, and the caller guarantees that it is valid for a write.
            unsafe { to.write(side) };
        }
    }
    1
}

/// Returns what a sample of the model is: 1 for an image, 2 for a tile of an image, whose score has no error map, 3 for
/// rows of a table, which this interface cannot score, 0 if the detector is NULL.
///
/// # Safety
/// `detector` is null or from `nae_detector_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_detector_samples(detector: *const Detector) -> i32 {
    // SAFETY: null, or from `nae_detector_open`, as the caller guarantees.
    let Some(detector) = (unsafe { detector.as_ref() }) else { return 0 };
    let settings = detector.0.settings();
    match (settings.columns.is_some(), settings.tiles.is_some()) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 1,
    }
}

/// Scores the image that `image` returns, and writes the score, and the error map if there is a buffer for it.
///
/// # Safety
/// As for the functions that call it.
unsafe fn score(
    detector: *const Detector,
    image: impl FnOnce() -> Result<Pixels, String>,
    score: *mut Score,
    error_map: *mut f32,
    error: *mut c_char,
    error_len: usize,
) -> i32 {
    let work = || {
        if detector.is_null() || score.is_null() {
            return Err("the detector or the score is NULL".to_owned());
        }
        // SAFETY: it is not null, and from `nae_detector_open`, as the caller guarantees.
        let detector = unsafe { &(*detector).0 };
        if detector.settings().columns.is_some() {
            return Err("a model of tables, not of images".to_owned());
        }
        if !error_map.is_null() && detector.settings().tiles.is_some() {
            return Err("a model of tiles has no error map of one size: pass NULL".to_owned());
        }
        let scored = detector.score_pixels(&image()?).map_err(|e| e.to_string())?;
        Ok((scored, detector.threshold()))
    };
    // SAFETY: the caller guarantees the requirements for `error`.
    let Some((scored, threshold)) = (unsafe { guarded(error, error_len, work) }) else { return 0 };
    let Scored { energy, p_value, verdict, error_map: map, .. } = scored;
    let anomaly = verdict.map_or(-1, |v| i32::from(v.is_anomaly()));
    let (p_value, threshold) = (p_value.unwrap_or(f32::NAN), threshold.unwrap_or(f32::NAN));
    // SAFETY: `score` is not null here, and the caller guarantees that it is valid for a write; and so is `error_map`,
    // if not null, for as many values as the network's input has pixels, which is the length of the map.
    unsafe {
        score.write(Score { energy, p_value, threshold, anomaly });
        if !error_map.is_null() {
            ptr::copy_nonoverlapping(map.as_ptr(), error_map, map.len());
        }
    }
    1
}

/// Scores an image file: PNG, JPEG, BMP, TIFF, WebP or PNM, or an `.npy` file of one image. `path` is UTF-8. The
/// image is turned as its orientation tag (EXIF, TIFF) says. `error_map`, if not NULL, receives height × width values of
/// the network's input, row by row: each pixel's error, whose mean is the energy (for the energy ssim, its squared error;
/// for a model of features, the energy of the features at its place). It must be NULL for a model of tiles. Returns 1, or
/// 0 if there is no score.
///
/// # Safety
/// `detector`, `path` and `score` may be null, which is refused; otherwise `detector` is from `nae_detector_open`, `path`
/// ends in a zero, and `score` is valid for a write. `error_map` is null or valid for height × width values; `error` is
/// null or valid for `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_detector_score_file(
    detector: *const Detector,
    path: *const c_char,
    score: *mut Score,
    error_map: *mut f32,
    error: *mut c_char,
    error_len: usize,
) -> i32 {
    let image = || {
        // SAFETY: guaranteed by the caller of this function.
        let path = unsafe { text("path", path)? }.ok_or("the path is NULL")?;
        let mut images = read(path.as_ref()).map_err(|e| e.to_string())?;
        match (images.pop(), images.len()) {
            (Some(image), 0) => Ok(image.pixels),
            (_, more) => Err(format!("{path}: expected one image, found {}", more + 1)),
        }
    };
    // SAFETY: guaranteed by the caller of this function.
    unsafe { self::score(detector, image, score, error_map, error, error_len) }
}

/// Scores an encoded image in memory: PNG, JPEG, BMP, TIFF, WebP or PNM, of at most 2^30 bytes. Otherwise as
/// `nae_detector_score_file`.
///
/// # Safety
/// `bytes` is null, which is refused, or valid for `length` bytes; a length above 2^30 is refused, and nothing is read.
/// Otherwise as for `nae_detector_score_file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_detector_score_encoded(
    detector: *const Detector,
    bytes: *const u8,
    length: usize,
    score: *mut Score,
    error_map: *mut f32,
    error: *mut c_char,
    error_len: usize,
) -> i32 {
    let image = || {
        if bytes.is_null() {
            return Err("the image is NULL".to_owned());
        }
        // Before the slice is made: one of more than `isize::MAX` bytes is undefined behaviour.
        if length as u64 > MAX_FILE {
            return Err(format!(
                "expected an encoded image of at most {MAX_FILE} bytes, found a length of {length}; give the number of bytes \
                 of the image"
            ));
        }
        // SAFETY: it is not null, and valid for `length` bytes, as the caller guarantees; these are at most 2^30.
        decode(unsafe { std::slice::from_raw_parts(bytes, length) }).map_err(|e| e.to_string())
    };
    // SAFETY: guaranteed by the caller of this function.
    unsafe { self::score(detector, image, score, error_map, error, error_len) }
}

/// Scores uncompressed pixels, such as those of a camera: `height` rows of `width` pixels of `channels` bytes, 1 for
/// grey or 3 for RGB; `stride` is the number of bytes from one row to the next. Width and height are at most 32,767, and
/// width × height × channels at most 2^28. Otherwise as `nae_detector_score_file`.
///
/// # Safety
/// `pixels` is null, which is refused, or valid for (height - 1) × stride + width × channels bytes; otherwise as for
/// `nae_detector_score_file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nae_detector_score_pixels(
    detector: *const Detector,
    pixels: *const u8,
    width: usize,
    height: usize,
    channels: usize,
    stride: usize,
    score: *mut Score,
    error_map: *mut f32,
    error: *mut c_char,
    error_len: usize,
) -> i32 {
    let image = || {
        if pixels.is_null() {
            return Err("the image is NULL".to_owned());
        }
        let side = |s: usize| (1..=MAX_SIDE).contains(&s);
        if !side(width) || !side(height) {
            return Err(format!("expected a width and a height of 1 to {MAX_SIDE}, found {width}×{height}"));
        }
        if !matches!(channels, 1 | 3) {
            return Err(format!("expected pixels of 1 or 3 channels, found {channels}"));
        }
        let row = width * channels;
        let count = row.checked_mul(height).filter(|&count| count <= MAX_PIXELS).ok_or_else(|| {
            format!(
                "expected an image that is decoded in at most {} MiB, found one of {width}×{height}×{channels} that takes \
                 more; cut it into parts, or scale it down",
                MAX_PIXELS >> 20
            )
        })?;
        let length = stride.checked_mul(height - 1).and_then(|l| l.checked_add(row));
        let length = length.filter(|&l| stride >= row && l <= isize::MAX as usize);
        let length = length.ok_or_else(|| format!("a stride of {stride} bytes does not fit rows of {row}"))?;
        // SAFETY: it is not null, and valid for `length` bytes, as the caller guarantees.
        let bytes = unsafe { std::slice::from_raw_parts(pixels, length) };
        let mut values = Vec::new();
        // An allocation that fails would end the caller's process.
        let room = values.try_reserve_exact(count);
        room.map_err(|error| format!("no memory for an image of {width}×{height}×{channels}: {error}"))?;
        let bytes = bytes.chunks(stride).flat_map(|line| line.iter().take(row));
        values.extend(bytes.map(|&byte| f32::from(byte) / 255.0));
        Ok(Pixels { shape: nae_infer::Shape::new(channels, height, width), values })
    };
    // SAFETY: guaranteed by the caller of this function.
    unsafe { self::score(detector, image, score, error_map, error, error_len) }
}

/// Returns the version of the library, a text that is valid as long as the library is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn nae_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
