//! Converts image files to a network's input. Training and scoring use the same code, with every backend.
//!
//! 1. [`read`] a file, or [`parse`] its bytes: a PNG, JPEG, BMP, TIFF, WebP or PNM (PBM, PGM, PPM, PAM) image, or the images in a
//!    `.npy` file, as [`Pixels`]: floats in `[0, 1]`, channels last. 8-bit values are divided by 255, 16-bit ones by 65,535;
//!    transparency is dropped; an image is turned as its orientation tag (EXIF, TIFF) says; colour profiles are ignored. Of
//!    a TIFF of several pages the first is read, of an animated WebP or PNG the first frame. A file that breaks off is an
//!    error, also a JPEG without its end marker.
//! 2. [`prepare`]: grey where the network takes one channel (Rec. 709 luma), three equal channels where it takes three
//!    and the image is grey; another size by the model's filter, whatever the proportions unless the model's
//!    [`Transforms`] say otherwise; then the model's range of values; channels first.
//!
//! Cutting a large image into tiles is in [`tiling`](crate::tiling).

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use image::DynamicImage;
use nae_core::Shape;
use nae_core::model::Preprocessing;
use nae_onnx::metadata::Transforms;

use crate::decoding::{guarded, upright};
use crate::layout::to_channels_first;
use crate::pixels::{InputError, Named, Pixels};
use crate::{fit, npy};

pub use crate::decoding::{DecodeError, MAX_DECODED, MAX_SIDE, TooLarge, decode_upright, dimensions};

/// The extensions of supported image files, in lower case.
pub const EXTENSIONS: [&str; 12] =
    ["png", "jpg", "jpeg", "bmp", "tif", "tiff", "webp", "pbm", "pgm", "ppm", "pnm", "pam"];

/// Why an image cannot be converted to a network's input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The image has no pixels, or a side is too long.
    #[error("expected an image from 1×1 to {MAX_SIDE}×{MAX_SIDE}, found {width}×{height}")]
    Size {
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
    },
    /// The image is smaller than a tile of the model.
    #[error(
        "expected an image of at least one tile, {tile_width}×{tile_height}, found {width}×{height}",
        tile_width = tile.width,
        tile_height = tile.height
    )]
    Small {
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
        /// The shape of a tile.
        tile: Shape,
    },
    /// The image does not have the size of the input, and the model's file does not say how its samples are made.
    #[error(
        "expected a sample of {input_width}×{input_height} as the device makes it, found an image of {width}×{height}: the .nae file \
         does not say how images are cropped, cut into tiles or otherwise prepared; score them with the ONNX model",
        input_width = input.width,
        input_height = input.height
    )]
    Prepared {
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
        /// The shape of the input.
        input: Shape,
    },
    /// The image's number of channels is not supported.
    #[error("expected 1 or 3 channels, found {0}")]
    Channels(usize),
    /// The network's input is not a grey or RGB image.
    #[error(
        "the network takes {0} (CxHxW), not an image of 1 or 3 channels: only a program can give it that, in Rust with `score_prepared`"
    )]
    NoImage(Shape),
    /// A value is not in `[0, 1]`.
    #[error("expected values from 0 to 1, found {value} at {index}; {}", remedy(value))]
    Range {
        /// The position of the value, from 0.
        index: usize,
        /// The value, as text.
        value: String,
    },
    /// The number of values does not match the shape.
    #[error("expected {expected} values, found {found}")]
    Length {
        /// The number of values of the shape.
        expected: usize,
        /// The number of values found.
        found: usize,
    },
}

/// What to do about a value that is not from 0 to 1.
fn remedy(value: &str) -> &'static str {
    match value.parse::<f32>() {
        Ok(value) if value.is_nan() => "replace values that are not a number",
        Ok(value) if value < 0.0 => "shift and scale values to the range from 0 to 1",
        Ok(value) if value <= 255.0 => "divide bytes by 255, or give them as uint8",
        Ok(value) if value <= 65_535.0 => "divide values of 16 bits by 65,535",
        _ => "scale values to the range from 0 to 1",
    }
}

/// Reads the images of a file.
///
/// # Errors
/// [`InputError`] names the file.
pub fn read(path: &Path) -> Result<Vec<Named>, InputError> {
    parse(path, &nae_onnx::file::read(path, crate::MAX_FILE)?)
}

/// Reads the images of a file from its contents `bytes`. `path` is used in messages and names, and need not exist.
///
/// # Errors
/// [`InputError::Image`], [`InputError::TooLarge`] and [`InputError::Npy`] name the file.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Named>, InputError> {
    let name = crate::path_name(path);
    if path.extension() == Some(OsStr::new("npy")) || bytes.starts_with(npy::MAGIC) {
        return npy::read(path, &name, bytes);
    }
    let pixels = decode(bytes).map_err(|error| {
        let path = path.to_owned();
        match error {
            DecodeError::TooLarge(found) => InputError::TooLarge { path, found },
            DecodeError::Format(error) => InputError::Image { path, error },
        }
    })?;
    Ok(vec![Named { name, pixels }])
}

/// Whether a file's extension is that of a supported image format.
#[must_use]
pub fn is_image_name(path: &Path) -> bool {
    path.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Decodes an image of one of the formats above and turns it as its orientation tag says, with limits on size and memory. A
/// panic of a decoder is returned as an error.
///
/// # Errors
/// [`DecodeError`].
pub fn decode(bytes: &[u8]) -> Result<Pixels, DecodeError> {
    guarded(bytes, || Ok(Pixels::from(&upright(bytes)?)))
}

impl From<&DynamicImage> for Pixels {
    fn from(image: &DynamicImage) -> Self {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let grey = !image.color().has_color();
        let shape = Shape::new(if grey { 1 } else { 3 }, height, width);
        // Bytes are converted to floats late, to save memory. The buffer may be longer than the image.
        let bytes = |bytes: &[u8]| bytes.iter().take(shape.len()).map(|&b| f32::from(b) / 255.0).collect();
        let deep = image.color().bits_per_pixel() / u16::from(image.color().channel_count()) > 8;
        let values: Vec<f32> = match (image, grey, deep) {
            // The most frequent format: it is not copied first.
            (DynamicImage::ImageLuma8(image), ..) => bytes(image.as_raw()),
            (DynamicImage::ImageRgb8(image), ..) => bytes(image.as_raw()),
            (_, true, false) => bytes(image.to_luma8().as_raw()),
            (_, true, true) => image.to_luma32f().into_raw(),
            (_, false, false) => bytes(image.to_rgb8().as_raw()),
            (_, false, true) => image.to_rgb32f().into_raw(),
        };
        Self { shape, values }
    }
}

/// Converts an image to the input, channels first, of a network whose input shape is `target`: applies the `transforms`, the
/// resize filter of `preprocessing`, and its range of values.
///
/// # Errors
/// [`PrepareError`].
pub fn prepare(
    pixels: &Pixels,
    target: Shape,
    preprocessing: Preprocessing,
    transforms: Transforms,
) -> Result<Vec<f32>, PrepareError> {
    let Shape { channels, height, width } = pixels.shape;
    let side = |s: usize| (1..=MAX_SIDE as usize).contains(&s);
    if !side(width) || !side(height) {
        return Err(PrepareError::Size { width, height });
    }
    if channels != 1 && channels != 3 {
        return Err(PrepareError::Channels(channels));
    }
    if target.channels != 1 && target.channels != 3 {
        return Err(PrepareError::NoImage(target));
    }
    if pixels.values.len() != pixels.shape.len() {
        return Err(PrepareError::Length { expected: pixels.shape.len(), found: pixels.values.len() });
    }
    if let Some(index) = pixels.values.iter().position(|v| !(0.0..=1.0).contains(v)) {
        return Err(PrepareError::Range { index, value: pixels.values[index].to_string() });
    }
    let values = match (channels, target.channels) {
        (3, 1) => Cow::Owned(pixels.values.as_chunks::<3>().0.iter().map(|c| luma(*c)).collect()),
        (1, 3) => Cow::Owned(pixels.values.iter().flat_map(|&v| [v; 3]).collect()),
        _ => Cow::Borrowed(pixels.values.as_slice()),
    };
    let source = Shape { channels: target.channels, ..pixels.shape };
    let resized = fit::fit(values, source, target, preprocessing.filter(), transforms);
    let (low, high) = (preprocessing.low(), preprocessing.high());
    let ranged: Vec<f32> = resized.into_iter().map(|v| low + v * (high - low)).collect();
    Ok(to_channels_first(&ranged, target))
}

/// Computes Rec. 709 luma from gamma-encoded values.
fn luma([r, g, b]: [f32; 3]) -> f32 {
    (0.2126 * r + 0.7152 * g + 0.0722 * b).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_has_its_remedy() {
        for (value, remedy) in [
            ("NaN", "not a number"),
            ("-0.5", "shift and scale"),
            ("200", "by 255"),
            ("4095", "by 65,535"),
            ("inf", "scale"),
        ] {
            let message = PrepareError::Range { index: 3, value: value.to_owned() }.to_string();
            assert!(message.contains(&format!("found {value} at 3; ")) && message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn what_is_no_image_or_too_large_is_named() {
        let message = |bytes: &[u8]| parse(Path::new("a.png"), bytes).unwrap_err().to_string();
        assert!(message(b"no image").starts_with("a.png: expected a PNG, JPEG, BMP"));
        let large = message(b"P6 10000 9500 255\n");
        assert!(large.starts_with("a.png: expected an image that is decoded in at most 256 MiB"), "{large}");
        assert!(large.contains("found one of 10000×9500"), "{large}");
    }
}
