//! NumPy's `.npy` files: `[N, C, H, W]`, `[N, H, W, C]`, `[N, H, W]`, `[H, W, C]` or `[H, W]` of floats in
//! `[0, 1]` (32 or 64 bits), or uint8. C is 1 or 3; if both orders fit four axes, the first is taken.
//!
//! Three axes are one image if the last has 1, 3 or 4 values, and otherwise grey images. The fourth channel, transparency, is
//! dropped. Ambiguous arrays are refused: `[3, H, W]` and `[4, H, W]`, which can be a coloured image with channels first or
//! three or four grey images, and `[N, 3, 3]` and `[N, 4, 4]`. So are arrays of more than 2²⁰ images.

use std::path::Path;

use nae_core::Shape;
use npyz::{DType, NpyFile, Order};

use crate::layout::to_channels_last;
use crate::pixels::{InputError, Named, Pixels};

/// The first bytes of a `.npy` file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header, in bytes, and the largest number of opening brackets in it: those of the dictionary and of the shape.
/// The header is a Python literal. Its parser reads the contents of a bracket up to three times, so its time is exponential
/// in the number of nested brackets.
const MAX_HEADER: usize = 4096;
const MAX_BRACKETS: usize = 2;
/// The largest number of images: each is some hundred bytes in memory beside its values.
const MOST_IMAGES: usize = 1 << 20;
/// Arrays `[3, H, W]` and `[4, H, W]` with sides up to this are grey images: a coloured image is not that small.
const TINY: usize = 4;
/// The two readings of an ambiguous array of three axes, and how to make it unambiguous.
const CHANNELS_OR_IMAGES: &str = "[N, H, W, 1] for grey images (a[..., None]), or [H, W, C] for one coloured image \
                                  (a.transpose(1, 2, 0))";
const IMAGE_OR_SQUARES: &str = "[N, H, W, 1] for grey images (a[..., None]), or [1, H, W, 3] for one coloured image \
                                (a[None, ..., :3])";

pub(super) fn read(path: &Path, name: &str, bytes: &[u8]) -> Result<Vec<Named>, InputError> {
    let wrong = |expected: &'static str, found: String| InputError::Npy { path: path.to_owned(), expected, found };
    const FILE: &str = "a .npy file";
    let header = header(bytes).ok_or_else(|| wrong(FILE, "another format, or a truncated file".into()))?;
    let brackets = header.iter().filter(|b| b"[({".contains(b)).count();
    if header.len() > MAX_HEADER {
        return Err(wrong(FILE, format!("a header of {} bytes", header.len())));
    }
    if brackets > MAX_BRACKETS {
        return Err(wrong("an array of floats or uint8", "records, or a header that NumPy does not write".into()));
    }
    // The header parser multiplies extents; its panic at an overflow is returned as an error.
    let file = std::panic::catch_unwind(|| NpyFile::new(bytes))
        .unwrap_or_else(|_| Err(std::io::Error::other("a malformed header")))
        .map_err(|e| wrong(FILE, e.to_string()))?;
    if file.order() != Order::C {
        return Err(wrong("C order (numpy.ascontiguousarray)", "Fortran order".into()));
    }
    let shape = file.shape().to_vec();
    let extents: Option<Vec<usize>> = shape.iter().map(|&d| usize::try_from(d).ok()).collect();
    let channels = |c: usize| c == 1 || c == 3;
    let (n, c, h, w, last) = match extents.as_deref() {
        Some(&[n, c, h, w]) if channels(c) => (n, c, h, w, false),
        Some(&[n, h, w, c]) if channels(c) => (n, c, h, w, true),
        Some(&[_, w @ (3 | 4), c]) if w == c => return Err(wrong(IMAGE_OR_SQUARES, format!("{shape:?}"))),
        Some(&[h, w, c @ (1 | 3 | 4)]) => (1, c, h, w, true),
        Some(&[3 | 4, h, w]) if h > TINY && w > TINY => return Err(wrong(CHANNELS_OR_IMAGES, format!("{shape:?}"))),
        Some(&[n, h, w]) => (n, 1, h, w, false),
        Some(&[h, w]) => (1, 1, h, w, false),
        Some([_, _, _, _]) => {
            return Err(wrong("1 or 3 channels, [N, C, H, W] or [N, H, W, C]", format!("{shape:?}")));
        }
        _ => return Err(wrong("[N, C, H, W], [N, H, W, C], [N, H, W], [H, W, C] or [H, W]", format!("{shape:?}"))),
    };
    if n == 0 {
        return Err(wrong("at least one image", format!("{shape:?}")));
    }
    if n > MOST_IMAGES {
        return Err(wrong(
            "at most 1,048,576 images; divide the array into several files",
            format!("{n} in {shape:?}"),
        ));
    }
    // Three axes are several images only if these are grey.
    let is_one = shape.len() == 2 || (shape.len() == 3 && last);
    let per_image = [c, h, w].iter().try_fold(1usize, |a, &b| a.checked_mul(b)).filter(|&l| l > 0);
    let Some((per_image, total)) = per_image.and_then(|l| Some((l, l.checked_mul(n)?))) else {
        return Err(wrong("images of at least one pixel", format!("{shape:?}")));
    };
    let DType::Plain(dtype) = file.dtype() else {
        return Err(wrong("floats or uint8", "records".into()));
    };
    let dtype = dtype.to_string();
    // The elements are read from the slice: the shape is a claim of the file, the bytes are really there.
    let data = file.into_inner();
    let width = match dtype.as_str() {
        "<f4" => 4,
        "<f8" => 8,
        "|u1" | "<u1" | ">u1" => 1,
        _ => {
            let found = format!("{dtype}; {}", converted(&dtype));
            return Err(wrong("little-endian float32 ('<f4') or float64 ('<f8'), or uint8 ('|u1')", found));
        }
    };
    if Some(data.len()) != total.checked_mul(width) {
        return Err(wrong("as many bytes as its header says", format!("{} for {shape:?} of {dtype}", data.len())));
    }
    let images = data.chunks_exact(per_image * width).enumerate().map(|(i, raw)| {
        let mut read: Vec<f32> = match width {
            4 => raw.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            8 => raw.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
            _ => raw.iter().map(|&b| f32::from(b) / 255.0).collect(),
        };
        if c == 4 {
            // Transparency is dropped, as for a PNG.
            read = read.as_chunks::<4>().0.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect();
        }
        let shape = Shape::new(if c == 4 { 3 } else { c }, h, w);
        let values = if last { read } else { to_channels_last(&read, shape) };
        let name = if is_one { name.to_owned() } else { format!("{name}[{i}]") };
        Named { name, pixels: Pixels { shape, values } }
    });
    Ok(images.collect())
}

/// How to convert an array of another type.
fn converted(dtype: &str) -> &'static str {
    match dtype.get(1..) {
        Some("u2") => "convert values of 16 bits by (a / 65535).astype('float32')",
        Some(kind) if kind.starts_with(['i', 'u']) => {
            "convert values of 0 to 255 by a.astype('uint8'); divide others by the largest value there can be, the same for all \
             files, as float32"
        }
        Some(kind) if kind.starts_with(['f', 'b']) => "convert them by a.astype('float32')",
        _ => "convert them to numbers from 0 to 1 of float32",
    }
}

/// Extracts the header's text without the parser.
fn header(bytes: &[u8]) -> Option<&[u8]> {
    let version = *bytes.strip_prefix(MAGIC)?.first()?;
    let (length, start) = if version == 1 {
        (usize::from(u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?)), 10)
    } else {
        (usize::try_from(u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?)).ok()?, 12)
    };
    bytes.get(start..)?.get(..length)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A file of `header` and of `values`, format version 1.
    fn file(header: &str, values: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), values].concat()
    }

    fn refused(header: &str) -> String {
        read(Path::new("a.npy"), "a", &file(header, &[0; 24])).unwrap_err().to_string()
    }

    /// Names and images of a file of the `shape` whose byte i is i.
    fn images(shape: &str, bytes: u8) -> Vec<Named> {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
        let values: Vec<u8> = (0..bytes).collect();
        read(Path::new("a.npy"), "a", &file(&header, &values)).unwrap()
    }

    fn bytes(image: &Pixels) -> Vec<u8> {
        image.values.iter().map(|value| (value * 255.0).round() as u8).collect()
    }

    #[test]
    fn three_axes_with_channels_last_are_one_image() {
        for (shape, length, expected) in [
            ("(2, 5, 3)", 30, Shape::new(3, 2, 5)),
            ("(2, 5, 1)", 10, Shape::new(1, 2, 5)),
            ("(3, 7, 3)", 63, Shape::new(3, 3, 7)),
        ] {
            let found = images(shape, length);
            assert_eq!((found.len(), found[0].name.as_str(), found[0].pixels.shape), (1, "a", expected), "{shape}");
            assert_eq!(bytes(&found[0].pixels), (0..length).collect::<Vec<u8>>(), "{shape}");
        }
        let found = images("(1, 2, 4)", 8);
        assert_eq!((found.len(), found[0].pixels.shape), (1, Shape::new(3, 1, 2)));
        assert_eq!(bytes(&found[0].pixels), [0, 1, 2, 4, 5, 6], "without transparency");
    }

    #[test]
    fn other_arrays_of_three_axes_are_grey_images() {
        for (shape, length, number, expected) in [
            ("(5, 2, 6)", 60, 5, Shape::new(1, 2, 6)),
            ("(1, 5, 6)", 30, 1, Shape::new(1, 5, 6)),
            ("(3, 2, 6)", 36, 3, Shape::new(1, 2, 6)),
            ("(2, 2, 2)", 8, 2, Shape::new(1, 2, 2)),
        ] {
            let found = images(shape, length);
            assert_eq!((found.len(), found[0].name.as_str(), found[0].pixels.shape), (number, "a[0]", expected));
            assert_eq!(bytes(&found[0].pixels), (0..length / number as u8).collect::<Vec<u8>>(), "{shape}");
        }
    }

    #[test]
    fn what_may_be_one_image_or_several_is_refused() {
        for (shape, one_image) in [
            ("(3, 5, 6)", "a.transpose(1, 2, 0)"),
            ("(4, 20, 18)", "a.transpose(1, 2, 0)"),
            ("(1000, 4, 4)", "a[None, ..., :3]"),
            ("(3, 3, 3)", "a[None, ..., :3]"),
        ] {
            let message = refused(&format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"));
            let found = shape.replace('(', "[").replace(')', "]");
            for part in ["a.npy", "a[..., None]", one_image, &found] {
                assert!(message.contains(part), "{message}");
            }
        }
    }

    /// Found by fuzzing: eleven nested brackets kept the parser busy for minutes.
    #[test]
    fn nested_brackets_are_refused_at_once() {
        let begun = Instant::now();
        for brackets in [12, 16] {
            let header = format!("{{'descr':'|u1', {}'shape': (2, 3, 4), }}", "{".repeat(brackets - 2));
            assert!(refused(&header).contains("a header that NumPy does not write"), "{header}");
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[test]
    fn records_are_refused_by_name() {
        let message = refused("{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (3,), }");
        assert!(message.contains("floats or uint8") && message.contains("records"), "{message}");
    }

    #[test]
    fn another_type_is_refused_with_the_conversion() {
        for (dtype, todo) in [
            ("<i8", "a.astype('uint8')"),
            // Each file has its own largest value, so that dividing by it would scale every file differently.
            ("<i8", "divide others by the largest value there can be"),
            ("<u2", "(a / 65535).astype('float32')"),
            ("<f2", "by a.astype('float32')"),
            (">f4", "by a.astype('float32')"),
            ("|b1", "by a.astype('float32')"),
        ] {
            let message = refused(&format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': (2, 3, 4), }}"));
            assert!(message.contains(&format!("found {dtype}; convert ")) && message.contains(todo), "{message}");
        }
    }

    /// Each is an image with a name in memory, of a file of a byte each.
    #[test]
    fn many_images_are_refused() {
        let header = |n: usize| format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({n}, 1, 1, 1), }}");
        let message = refused(&header(MOST_IMAGES + 1));
        assert!(message.starts_with("a.npy: expected at most 1,048,576 images"), "{message}");
        assert!(message.ends_with("found 1048577 in [1048577, 1, 1, 1]"), "{message}");
        assert_eq!(images("(200, 1, 1, 1)", 200).len(), 200);
    }

    #[test]
    fn a_long_header_is_refused() {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }}{}", " ".repeat(5000));
        assert!(refused(&header).contains(&format!("a header of {} bytes", header.len())));
    }
}
