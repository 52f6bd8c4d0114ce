//! Divides a stream of bytes into JPEG images, by their markers (ITU T.81, annex B), and adds the Huffman
//! tables that Motion JPEG omits. Nothing is decoded.

use std::io::{self, BufRead, ErrorKind, Read};

const SOI: u8 = 0xD8;
const EOI: u8 = 0xD9;
const SOS: u8 = 0xDA;
const DHT: u8 = 0xC4;

/// Reads from the next start of an image to its end; bytes before it are skipped, and an incomplete image is
/// dropped, with up to 64 KiB of what follows it. `None` at the end of the stream.
///
/// # Errors
/// The error of the stream; [`ErrorKind::InvalidData`] if an image has more than `limit` bytes.
pub(super) fn read(input: &mut impl BufRead, limit: usize) -> io::Result<Option<Vec<u8>>> {
    loop {
        if !skip_to_start(input)? {
            return Ok(None);
        }
        let mut image = vec![0xFF, SOI];
        match segments(input, &mut image, limit) {
            Ok(true) => return Ok(Some(image)),
            // Another image began, or the markers are invalid: look for the next start.
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The tables of ITU T.81, annex K.3.3, as one segment.
#[rustfmt::skip]
const TABLES: [u8; 420] = [
    0xFF, 0xC4, 0x01, 0xA2,
    // Table K.3.
    0x00,
    0x00, 0x01, 0x05, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B,
    // Table K.5.
    0x10,
    0x00, 0x02, 0x01, 0x03, 0x03, 0x02, 0x04, 0x03, 0x05, 0x05, 0x04, 0x04, 0x00, 0x00, 0x01, 0x7D,
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
    0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xA1, 0x08, 0x23, 0x42, 0xB1, 0xC1, 0x15, 0x52, 0xD1, 0xF0,
    0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0A, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x25, 0x26, 0x27, 0x28,
    0x29, 0x2A, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
    0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
    0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
    0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7,
    0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3, 0xC4, 0xC5,
    0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xE1, 0xE2,
    0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8,
    0xF9, 0xFA,
    // Table K.4.
    0x01,
    0x00, 0x03, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B,
    // Table K.6.
    0x11,
    0x00, 0x02, 0x01, 0x02, 0x04, 0x04, 0x03, 0x04, 0x07, 0x05, 0x04, 0x04, 0x00, 0x01, 0x02, 0x77,
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
    0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xA1, 0xB1, 0xC1, 0x09, 0x23, 0x33, 0x52, 0xF0,
    0x15, 0x62, 0x72, 0xD1, 0x0A, 0x16, 0x24, 0x34, 0xE1, 0x25, 0xF1, 0x17, 0x18, 0x19, 0x1A, 0x26,
    0x27, 0x28, 0x29, 0x2A, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
    0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
    0x69, 0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
    0x88, 0x89, 0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0xA2, 0xA3, 0xA4, 0xA5,
    0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3,
    0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA,
    0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8,
    0xF9, 0xFA,
];

/// The image with Huffman tables: those of the standard, if it has none. Bytes that are not a JPEG are
/// returned unchanged.
pub(super) fn with_tables(image: Vec<u8>) -> Vec<u8> {
    let mut at = 2;
    loop {
        match image.get(at..at + 4) {
            Some([0xFF, SOS, ..]) => break,
            Some([0xFF, DHT, ..]) | None => return image,
            Some([0xFF, 0xFF, ..]) => at += 1,
            Some([0xFF, _, high, low]) => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
            Some(_) => return image,
        }
    }
    [&image[..at], &TABLES, &image[at..]].concat()
}

/// Reads past the next SOI marker; false at the end of the stream.
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

/// Reads the segments after SOI through EOI; false if they are not those of a JPEG.
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
                return if image.len() > limit { Err(too_long(limit)) } else { Ok(true) };
            }
            // Markers without a segment: TEM and restarts.
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
            return Err(too_long(limit));
        }
    }
}

/// Reads entropy-coded data up to the marker that ends it, and returns the marker.
fn scan(input: &mut impl BufRead, image: &mut Vec<u8>, limit: usize) -> io::Result<u8> {
    while image.len() <= limit {
        // A stream may have neither a marker nor an end.
        let room = (limit + 1 - image.len()) as u64;
        let read = input.take(room).read_until(0xFF, image)? as u64;
        if image.last() != Some(&0xFF) {
            if read == room {
                break;
            }
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match byte(input)? {
            // A stuffed zero or a restart: the data continue.
            code @ (0x00 | 0xD0..=0xD7) => image.push(code),
            code => {
                image.pop();
                return Ok(code);
            }
        }
    }
    Err(too_long(limit))
}

fn too_long(limit: usize) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("an image of more than {limit} bytes"))
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

    /// The limit is exact to the byte, even if an image's last marker crosses it.
    #[test]
    fn an_image_is_no_longer_than_the_limit() {
        let image = [&[0xFF, SOI, 0xFF, SOS, 0, 2][..], &[7; 20], &[0xFF, EOI]].concat();
        for limit in 1..40 {
            let found = read(&mut Cursor::new(&image), limit);
            if limit >= image.len() {
                assert_eq!(found.unwrap().as_deref(), Some(&image[..]), "{limit}");
            } else {
                assert_eq!(found.unwrap_err().kind(), ErrorKind::InvalidData, "{limit}");
            }
        }
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
        // If an image is cut within the head of a segment, the following bytes are taken as its length: at
        // most 64 KiB are lost.
        let others: Vec<Vec<u8>> = (0..=u8::MAX).map(image).collect();
        let rest = others.concat();
        assert!(rest.len() > (1 << 16) + others[0].len());
        for cut in 2..others[0].len() {
            let found = all(&[&others[0][..cut], &rest].concat(), 1 << 20).unwrap();
            assert_eq!(found.last(), others.last(), "cut after {cut} bytes");
        }
    }

    #[test]
    fn data_without_a_marker_and_without_end_is_not_kept() {
        let whole = image(1);
        let scan = whole.windows(2).position(|pair| pair == [0xFF, SOS]).unwrap();
        let rest = 64 << 20;
        let mut input = io::BufReader::new(whole[..scan + 14].chain(io::repeat(0).take(rest)));
        let error = read(&mut input, 1 << 16).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidData, "an image of more than 65536 bytes")
        );
        let left = io::copy(&mut input, &mut io::sink()).unwrap();
        assert!(left > rest - (1 << 17), "{} bytes of it were read", rest - left);
    }

    #[test]
    fn motion_jpeg_gets_the_tables_it_leaves_out() {
        let whole = image(3);
        let (mut bare, mut at) = (whole[..2].to_vec(), 2);
        while whole[at + 1] != SOS {
            let end = at + 2 + usize::from(u16::from_be_bytes([whole[at + 2], whole[at + 3]]));
            if whole[at + 1] != DHT {
                bare.extend(&whole[at..end]);
            }
            at = end;
        }
        bare.extend(&whole[at..]);
        assert!(nae_infer::input::decode(&bare).is_err(), "the decoder wants them");
        let mended = with_tables(bare);
        assert_eq!(nae_infer::input::decode(&mended).unwrap(), nae_infer::input::decode(&whole).unwrap());
        assert_eq!(with_tables(mended.clone()), mended);
        for length in 0..whole.len() {
            assert_eq!(with_tables(whole[..length].to_vec()), whole[..length], "{length} bytes");
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
