//! Decodes image files, with limits on size and memory, and turns them as their orientation tags say.

use std::fmt;
use std::panic::UnwindSafe;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, Limits};

use crate::jpeg;

/// The largest width and height of an image, in pixels.
pub const MAX_SIDE: u32 = 32_767;
/// The largest amount of memory for decoding an image, in bytes.
pub const MAX_DECODED: u64 = 1 << 28;
/// The memory for what is read of a file before its pixels: a colour profile that takes more is ignored, which is compressed
/// and may be a thousand times as long as the file.
const MAX_HEADER: u64 = 1 << 24;

/// Why an image could not be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The image is too large.
    #[error(transparent)]
    TooLarge(TooLarge),
    /// The format is not supported or the file is damaged: the decoder's message.
    #[error(transparent)]
    Format(ImageError),
}

/// An image whose sides, or whose memory for decoding, exceed the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct TooLarge {
    /// Its width and height, if the header could be read.
    pub size: Option<(u32, u32)>,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MEMORY: u64 = MAX_DECODED >> 20;
        const MEGAPIXELS: u64 = MAX_DECODED / 3 / 1_000_000;
        match self.size {
            Some((width, height)) if width.max(height) > MAX_SIDE => {
                write!(f, "expected an image of at most {MAX_SIDE} pixels a side, found {width}×{height}")?;
            }
            size => {
                write!(
                    f,
                    "expected an image that is decoded in at most {MEMORY} MiB ({MEGAPIXELS} million pixels of 3 bytes), "
                )?;
                match size {
                    Some((width, height)) => write!(f, "found one of {width}×{height} that takes more")?,
                    None => f.write_str("found one that takes more")?,
                }
            }
        }
        f.write_str("; cut it into parts, or scale it down")
    }
}

/// Decodes an image as [`decode`](crate::decode) does, but keeps the file's type of values and its channels, including
/// transparency. For images that are displayed or written again.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_upright(bytes: &[u8]) -> Result<DynamicImage, DecodeError> {
    guarded(bytes, || upright(bytes))
}

/// Returns the width and height of an image after turning, from its header only. The rest of the file may still be damaged.
///
/// # Errors
/// [`DecodeError`].
pub fn dimensions(bytes: &[u8]) -> Result<(u32, u32), DecodeError> {
    guarded(bytes, || turned_size(bytes, limits()))
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODED);
    limits
}

pub(super) fn upright(bytes: &[u8]) -> Result<DynamicImage, ImageError> {
    let (mut decoder, orientation) = opened(bytes, limits())?;
    let mut left = limits();
    left.reserve(decoder.total_bytes())?;
    if jpeg::is_cut(bytes) {
        let format = ImageFormat::Jpeg.into();
        let reason = "the file ends before the image does";
        return Err(ImageError::Decoding(image::error::DecodingError::new(format, reason)));
    }
    decoder.set_limits(left)?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

fn turned_size(bytes: &[u8], limits: Limits) -> Result<(u32, u32), ImageError> {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    let (decoder, orientation) = opened(bytes, limits)?;
    let (width, height) = decoder.dimensions();
    let is_quarter = matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH);
    Ok(if is_quarter { (height, width) } else { (width, height) })
}

/// Returns a decoder that has read the header, and the image's orientation; no turning if the tag cannot be read.
fn opened(bytes: &[u8], limits: Limits) -> Result<(impl ImageDecoder, Orientation), ImageError> {
    let mut of_header = limits.clone();
    of_header.max_alloc = Some(MAX_HEADER);
    // Other decoders count the pixels here, too; and a long text in a PNG must not give its colour profile more memory.
    let is_png = image::guess_format(bytes).is_ok_and(|format| format == ImageFormat::Png);
    opened_in(bytes, of_header).or_else(|error| match error {
        ImageError::Limits(_) if !is_png => opened_in(bytes, limits),
        error => Err(error),
    })
}

fn opened_in(bytes: &[u8], limits: Limits) -> Result<(impl ImageDecoder, Orientation), ImageError> {
    let mut reader = image::ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format()?;
    reader.limits(limits);
    let is_webp = reader.format() == Some(ImageFormat::WebP);
    let mut decoder = reader.into_decoder()?;
    let orientation =
        if is_webp { webp_exif(bytes).and_then(Orientation::from_exif_chunk) } else { decoder.orientation().ok() };
    Ok((decoder, orientation.unwrap_or(Orientation::NoTransforms)))
}

/// Finds the EXIF data of a WebP file. The decoder would reserve as many bytes for them as the file claims, up to 4 GB.
fn webp_exif(bytes: &[u8]) -> Option<&[u8]> {
    // "RIFF", a length and "WEBP" are followed by chunks: a name, a length, that many bytes, and a padding byte if it is odd.
    let mut chunks = bytes.get(12..)?;
    loop {
        let (name, rest) = chunks.split_at_checked(4)?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        if name == b"EXIF" {
            return rest.get(..length);
        }
        chunks = rest.get(length.checked_next_multiple_of(2)?..)?;
    }
}

/// Calls `read` with `bytes` and returns a panic in it as an error.
pub(super) fn guarded<T>(
    bytes: &[u8],
    read: impl FnOnce() -> Result<T, ImageError> + UnwindSafe,
) -> Result<T, DecodeError> {
    let caught = std::panic::catch_unwind(read).unwrap_or_else(|_| {
        let format = image::error::ImageFormatHint::Unknown;
        Err(ImageError::Decoding(image::error::DecodingError::new(format, "the decoder panicked")))
    });
    caught.map_err(|error| match error {
        ImageError::Limits(_) => {
            // Only the header is read here, so any size is allowed.
            let mut limits = Limits::no_limits();
            limits.max_alloc = Some(MAX_DECODED);
            let size = std::panic::catch_unwind(|| turned_size(bytes, limits).ok()).ok().flatten();
            DecodeError::TooLarge(TooLarge { size })
        }
        error => DecodeError::Format(error),
    })
}

#[cfg(test)]
mod tests {
    use image::codecs::{jpeg::JpegEncoder, png::PngEncoder, webp::WebPEncoder};
    use image::{ExtendedColorType, ImageEncoder, RgbImage};
    use nae_core::Shape;

    use super::*;
    use crate::image::decode;

    /// Red, green and blue from left to right above white, cells of 16 pixels: JPEG changes their edges only.
    fn picture() -> RgbImage {
        let cells = [[255, 0, 0], [0, 255, 0], [0, 0, 255]];
        RgbImage::from_fn(48, 32, |x, y| image::Rgb(if y < 16 { cells[x as usize / 16] } else { [255; 3] }))
    }

    /// EXIF data of an orientation, as in a file.
    fn exif(orientation: u8) -> Vec<u8> {
        let tag = [&[0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0][..], &[0; 4]].concat();
        [&b"II*\0\x08\0\0\0\x01\0"[..], &tag].concat()
    }

    /// The CRC-32 of a PNG's chunk.
    fn checksum(chunk: &[u8]) -> u32 {
        !chunk.iter().fold(u32::MAX, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xEDB8_8320 } else { 0 })
        })
    }

    /// A colour profile of 64 MiB takes 64 KiB in a file.
    #[test]
    fn a_colour_profile_takes_no_memory() {
        let with_profile = |length: usize| {
            let mut bytes = Vec::new();
            let mut encoder = PngEncoder::new(&mut bytes);
            encoder.set_icc_profile(vec![0; length]).unwrap();
            written(encoder, Vec::new());
            bytes
        };
        for (length, kept) in [(1 << 10, true), (64 << 20, false)] {
            let bytes = with_profile(length);
            assert!(bytes.len() < 200_000);
            let (mut decoder, _) = opened(&bytes, limits()).unwrap();
            assert_eq!(decoder.icc_profile().unwrap().is_some(), kept, "{length}");
            assert_eq!(dimensions(&bytes).unwrap(), (48, 32));
            assert_eq!(decode_upright(&bytes).unwrap().to_rgb8(), picture());
        }
        // With a text of 17 MiB behind the header, an IHDR chunk of 25 bytes after the signature of 8.
        let text = [&b"tEXt"[..], b"Comment\0", &vec![b' '; 17 << 20]].concat();
        let length = (text.len() - 4) as u32;
        let chunk = [&length.to_be_bytes()[..], &text, &checksum(&text).to_be_bytes()].concat();
        let bytes = with_profile(64 << 20);
        let bytes = [&bytes[..33], &chunk, &bytes[33..]].concat();
        let kept = opened(&bytes, limits()).is_ok_and(|(mut decoder, _)| decoder.icc_profile().unwrap().is_some());
        assert!(!kept);
    }

    fn written(mut encoder: impl ImageEncoder, exif: Vec<u8>) {
        if !exif.is_empty() {
            encoder.set_exif_metadata(exif).unwrap();
        }
        let picture = picture();
        encoder.write_image(picture.as_raw(), picture.width(), picture.height(), ExtendedColorType::Rgb8).unwrap();
    }

    fn jpeg(exif: Vec<u8>) -> Vec<u8> {
        let mut bytes = Vec::new();
        written(JpegEncoder::new_with_quality(&mut bytes, 100), exif);
        bytes
    }

    fn png(exif: Vec<u8>) -> Vec<u8> {
        let mut bytes = Vec::new();
        written(PngEncoder::new(&mut bytes), exif);
        bytes
    }

    fn webp(exif: Vec<u8>) -> Vec<u8> {
        let mut bytes = Vec::new();
        written(WebPEncoder::new_lossless(&mut bytes), exif);
        bytes
    }

    /// A TIFF of two grey pixels, 0 and 255.
    fn tiff(orientation: u8) -> Vec<u8> {
        let entry = |tag: u16, value: u8| [&tag.to_le_bytes()[..], &[3, 0, 1, 0, 0, 0, value, 0, 0, 0]].concat();
        let entries =
            [(256, 2), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (274, orientation), (277, 1), (279, 2)];
        let entries: Vec<u8> = entries.into_iter().flat_map(|(tag, value)| entry(tag, value)).collect();
        [&b"II*\0\x0a\0\0\0\0\xff\x09\0"[..], &entries, &[0; 4]].concat()
    }

    /// What is in the cells, row after row.
    fn cells(bytes: &[u8]) -> (Shape, String) {
        let image = decode(bytes).unwrap();
        let Shape { height, width, .. } = image.shape;
        let cell = |x: usize, y: usize| {
            let at = 3 * ((16 * y + 8) * width + 16 * x + 8);
            match [0, 1, 2].map(|channel| image.values[at + channel] > 0.5) {
                [true, false, false] => 'r',
                [false, true, false] => 'g',
                [false, false, true] => 'b',
                [true, true, true] => 'w',
                _ => '?',
            }
        };
        let rows: Vec<String> = (0..height / 16).map(|y| (0..width / 16).map(|x| cell(x, y)).collect()).collect();
        (image.shape, rows.join(" "))
    }

    #[test]
    fn an_image_is_turned_as_its_tag_says() {
        for (orientation, expected) in [
            (1, "rgb www"),
            (2, "bgr www"),
            (3, "www bgr"),
            (4, "www rgb"),
            (5, "rw gw bw"),
            (6, "wr wg wb"),
            (7, "wb wg wr"),
            (8, "bw gw rw"),
        ] {
            let (height, width) = if orientation < 5 { (32, 48) } else { (48, 32) };
            for (format, bytes) in
                [("JPEG", jpeg(exif(orientation))), ("PNG", png(exif(orientation))), ("WebP", webp(exif(orientation)))]
            {
                let found = cells(&bytes);
                assert_eq!(found, (Shape::new(3, height, width), expected.to_owned()), "{format}, {orientation}");
                assert_eq!(dimensions(&bytes).unwrap(), (width as u32, height as u32), "{format}, {orientation}");
                let shown = decode_upright(&bytes).unwrap();
                assert_eq!((shown.width() as usize, shown.height() as usize), (width, height));
            }
        }
        for (orientation, shape, expected) in [
            (1, Shape::new(1, 1, 2), [0.0, 1.0]),
            (3, Shape::new(1, 1, 2), [1.0, 0.0]),
            (6, Shape::new(1, 2, 1), [0.0, 1.0]),
        ] {
            let found = decode(&tiff(orientation)).unwrap();
            assert_eq!((found.shape, &found.values[..]), (shape, &expected[..]), "TIFF, {orientation}");
        }
    }

    #[test]
    fn without_a_tag_that_can_be_read_an_image_is_as_it_is() {
        let cut = exif(6)[..14].to_vec();
        let unknown = exif(9);
        // Many entries, of which there is one.
        let mut short = exif(1);
        short[8] = 200;
        short[10] = 0;
        for exif in [Vec::new(), b"no EXIF data".to_vec(), cut, unknown, short] {
            for bytes in [jpeg(exif.clone()), png(exif.clone()), webp(exif.clone())] {
                assert_eq!(cells(&bytes), (Shape::new(3, 32, 48), "rgb www".to_owned()), "{exif:?}");
                assert_eq!(dimensions(&bytes).unwrap(), (48, 32), "{exif:?}");
            }
        }
        assert_eq!(decode(&tiff(0)).unwrap().values, [0.0, 1.0]);
    }

    /// The decoder would reserve four gigabytes for them.
    #[test]
    fn exif_data_longer_than_the_file_are_none() {
        let mut bytes = webp(exif(6));
        let at = bytes.windows(4).position(|name| name == b"EXIF").unwrap();
        assert_eq!(webp_exif(&bytes), Some(&exif(6)[..]));
        bytes[at + 4..at + 8].copy_from_slice(&[0xff; 4]);
        assert_eq!(webp_exif(&bytes), None);
        assert_eq!(cells(&bytes).1, "rgb www");
        bytes.truncate(at + 6);
        assert_eq!(webp_exif(&bytes), None);
    }

    #[test]
    fn an_image_that_is_too_large_says_so() {
        let found = |header: &str| {
            let error = decode(header.as_bytes()).unwrap_err();
            let DecodeError::TooLarge(found) = error else { panic!("{error}") };
            (found.size, found.to_string())
        };
        let (size, message) = found("P6 10000 9500 255\n");
        assert_eq!(size, Some((10_000, 9500)));
        assert_eq!(
            message,
            "expected an image that is decoded in at most 256 MiB (89 million pixels of 3 bytes), found one of 10000×9500 \
             that takes more; cut it into parts, or scale it down"
        );
        let (size, message) = found("P5 40000 2 255\n");
        assert_eq!(size, Some((40_000, 2)));
        assert!(
            message.starts_with("expected an image of at most 32767 pixels a side, found 40000×2; cut"),
            "{message}"
        );
        assert!(matches!(dimensions(b"P5 40000 2 255\n"), Err(DecodeError::TooLarge(_))));
        assert!(TooLarge { size: None }.to_string().contains("256 MiB"));
        assert!(matches!(decode(b"P5 2 2 255\n"), Err(DecodeError::Format(_))), "too short");
        assert!(matches!(decode(b"no image"), Err(DecodeError::Format(_))));
    }
}
