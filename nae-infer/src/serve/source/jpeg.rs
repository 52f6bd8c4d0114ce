//! Cuts a stream of bytes into JPEG images, by their markers (ITU T.81, annex B). Nothing is decoded.

use std::io::{self, BufRead, ErrorKind, Read};

const SOI: u8 = 0xD8;
const EOI: u8 = 0xD9;
const SOS: u8 = 0xDA;

/// Reads from the next start of an image to its end; what lies before it is skipped, and an image that
/// breaks off is left out, with up to 64 KiB of what follows it. `None` at the end of the stream.
///
/// # Errors
/// The stream's; an image of more than `limit` bytes is [`ErrorKind::InvalidData`].
pub(super) fn read(input: &mut impl BufRead, limit: usize) -> io::Result<Option<Vec<u8>>> {
    loop {
        if !skip_to_start(input)? {
            return Ok(None);
        }
        let mut image = vec![0xFF, SOI];
        match segments(input, &mut image, limit) {
            Ok(true) => return Ok(Some(image)),
            // Another image began, or the markers make no sense: look for the next start.
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Reads past the next SOI marker.
fn skip_to_start(input: &mut impl BufRead) -> io::Result<bool> {
    let mut last = 0;
    loop {
        let Some(byte) = next_byte(input)? else { return Ok(false) };
        if last == 0xFF && byte == SOI {
            return Ok(true);
        }
        last = byte;
    }
}

fn next_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    let byte = input.fill_buf()?.first().copied();
    input.consume(usize::from(byte.is_some()));
    Ok(byte)
}

fn byte(input: &mut impl BufRead) -> io::Result<u8> {
    next_byte(input)?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

/// Segments after SOI, through EOI; false where they are not a JPEG's.
fn segments(input: &mut impl BufRead, image: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
    let mut marker = None;
    loop {
        let code = match marker.take() {
            Some(code) => code,
            None => {
                if byte(input)? != 0xFF {
                    return Ok(false);
                }
                byte(input)?
            }
        };
        match code {
            // Fill bytes before a marker.
            0xFF => marker = Some(byte(input)?),
            EOI => {
                image.extend([0xFF, EOI]);
                return Ok(true);
            }
            // Markers without a segment: TEM, restarts.
            0x01 | 0xD0..=0xD7 => image.extend([0xFF, code]),
            0x00 | SOI => return Ok(false),
            _ => {
                let length = [byte(input)?, byte(input)?];
                let Some(rest) = u16::from_be_bytes(length).checked_sub(2) else { return Ok(false) };
                image.extend([0xFF, code]);
                image.extend(length);
                if input.take(u64::from(rest)).read_to_end(image)? < usize::from(rest) {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                if code == SOS {
                    marker = Some(scan(input, image, limit)?);
                }
            }
        }
        if image.len() > limit {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("an image of more than {limit} bytes")));
        }
    }
}

/// Entropy-coded data, up to the marker that ends it, which is given back.
fn scan(input: &mut impl BufRead, image: &mut Vec<u8>, limit: usize) -> io::Result<u8> {
    while image.len() <= limit {
        if input.read_until(0xFF, image)? == 0 || image.last() != Some(&0xFF) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match byte(input)? {
            // A stuffed zero, a restart: still data.
            code @ (0x00 | 0xD0..=0xD7) => image.push(code),
            code => {
                image.pop();
                return Ok(code);
            }
        }
    }
    Err(io::Error::new(ErrorKind::InvalidData, format!("an image of more than {limit} bytes")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Cursor;

    use nae_infer::image::{DynamicImage, ImageFormat, RgbImage};

    use super::*;

    fn image(seed: u8) -> Vec<u8> {
        let pixels = RgbImage::from_fn(40, 30, |x, y| [seed ^ (x * y) as u8, x as u8, seed].into());
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(pixels).write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
        bytes.into_inner()
    }

    fn all(stream: &[u8], limit: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut input = Cursor::new(stream);
        std::iter::from_fn(|| read(&mut input, limit).transpose()).collect()
    }

    #[test]
    fn images_come_out_as_they_went_in() {
        let images: Vec<Vec<u8>> = (0..5).map(image).collect();
        assert_eq!(all(&images.concat(), 1 << 20).unwrap(), images);
        let stream = [b"noise \xFF\xFF".as_slice(), &images[0], b"between", &images[1], &images[2][..300]].concat();
        assert_eq!(all(&stream, 1 << 20).unwrap(), images[..2], "noise is skipped, and the image that breaks off");
    }

    #[test]
    fn a_thumbnail_inside_is_not_the_end() {
        let (outer, inner) = (image(1), image(2));
        let mut nested = outer[..2].to_vec();
        nested.extend([0xFF, 0xE1]);
        nested.extend((inner.len() as u16 + 2).to_be_bytes());
        nested.extend(&inner);
        nested.extend(&outer[2..]);
        assert_eq!(all(&nested, 1 << 20).unwrap(), [nested.clone()]);
    }

    #[test]
    fn after_an_image_that_breaks_off_others_are_found() {
        // Cut within the head of a segment, what follows is taken for its length: 64 KiB at most are lost.
        let others: Vec<Vec<u8>> = (0..=u8::MAX).map(image).collect();
        let rest = others.concat();
        assert!(rest.len() > (1 << 16) + others[0].len());
        for cut in 2..others[0].len() {
            let found = all(&[&others[0][..cut], &rest].concat(), 1 << 20).unwrap();
            assert_eq!(found.last(), others.last(), "cut after {cut} bytes");
        }
    }

    #[test]
    fn an_image_without_end_is_an_error() {
        let mut endless = image(0);
        endless.truncate(endless.len() - 2);
        endless.extend([0x55; 4000]);
        endless.extend([0xFF, EOI]);
        assert_eq!(all(&endless, 2000).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
