//! A frame as a model sees it, as a file from which nae-train reads exactly the values that are scored. JPEG would
//! change them, especially along the edges of hidden parts.

use std::io;

use nae_infer::image::{DynamicImage, ImageBuffer, ImageFormat, Luma, Rgb};
use nae_infer::input::Pixels;

/// Encodes the image as PNG, with 8 bits if that is exact, else with 16.
///
/// # Errors
/// If the image does not have 1 or 3 channels, or is too large for a PNG.
pub(super) fn png(pixels: &Pixels) -> io::Result<Vec<u8>> {
    let picture =
        picture(pixels).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no image of 1 or 3 channels"))?;
    let mut bytes = io::Cursor::new(Vec::new());
    picture
        .write_to(&mut bytes, ImageFormat::Png)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(bytes.into_inner())
}

fn picture(pixels: &Pixels) -> Option<DynamicImage> {
    let (width, height) = (u32::try_from(pixels.shape.width).ok()?, u32::try_from(pixels.shape.height).ok()?);
    let values = &pixels.values;
    // The same computation as in decoding an image from bytes.
    let is_byte = |value: &f32| f32::from((value * 255.0).round() as u8) / 255.0 == *value;
    let is_bytes = values.iter().all(is_byte);
    let bytes = || values.iter().map(|value| (value * 255.0).round() as u8).collect();
    let words = || values.iter().map(|value| (value * 65_535.0).round() as u16).collect();
    Some(match (pixels.shape.channels, is_bytes) {
        (1, true) => DynamicImage::ImageLuma8(ImageBuffer::<Luma<u8>, Vec<u8>>::from_raw(width, height, bytes())?),
        (1, false) => DynamicImage::ImageLuma16(ImageBuffer::<Luma<u16>, Vec<u16>>::from_raw(width, height, words())?),
        (3, true) => DynamicImage::ImageRgb8(ImageBuffer::<Rgb<u8>, Vec<u8>>::from_raw(width, height, bytes())?),
        (3, false) => DynamicImage::ImageRgb16(ImageBuffer::<Rgb<u16>, Vec<u16>>::from_raw(width, height, words())?),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use nae_infer::Shape;
    use nae_infer::input::decode;

    use super::*;

    /// All values of 8 bits, some of 16, and the grey of hidden pixels.
    #[test]
    fn what_is_read_again_is_the_same_to_the_bit() {
        let fill = 128.0 / 255.0;
        let bytes: Vec<f32> = (0..=255_u8).map(|byte| f32::from(byte) / 255.0).collect();
        let words: Vec<f32> = (0..=255_u16).map(|word| f32::from(word * 257 + 1) / 65_535.0).take(255).collect();
        for (name, mut values) in [("bytes", bytes), ("words", words)] {
            values.resize(258, fill);
            for channels in [1, 3] {
                let pixels = Pixels { shape: Shape::new(channels, 2, 129 / channels), values: values.clone() };
                assert_eq!(decode(&png(&pixels).unwrap()).unwrap(), pixels, "{name}, {channels} channels");
            }
        }
        let two = Pixels { shape: Shape::new(2, 1, 1), values: vec![0.0; 2] };
        assert_eq!(png(&two).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
