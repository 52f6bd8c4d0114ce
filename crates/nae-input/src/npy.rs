//! NumPy's `.npy` files: `[N, C, H, W]`, `[N, H, W, C]`, `[N, H, W]` or `[H, W]` of floats in
//! `[0, 1]` (32 or 64 bits), or uint8. C is 1 or 3; where both readings fit, the first is taken.

use std::path::Path;

use nae_core::Shape;
use npyz::{DType, NpyFile, Order};

use crate::layout::to_channels_last;
use crate::pixels::{InputError, Named, Pixels};

/// First bytes of the format.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header, and most opening brackets in it: those of the dictionary and of the shape. The
/// header is a Python literal, whose parser reads what is in a bracket up to three times, so that its
/// time is exponential in their number.
const MAX_HEADER: usize = 4096;
const MAX_BRACKETS: usize = 2;

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
    // The header parser multiplies extents; a panic at an overflow is an error here.
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
        Some(&[n, h, w]) => (n, 1, h, w, false),
        Some(&[h, w]) => (1, 1, h, w, false),
        Some([_, _, _, _]) => {
            return Err(wrong("1 or 3 channels, [N, C, H, W] or [N, H, W, C]", format!("{shape:?}")));
        }
        _ => return Err(wrong("[N, C, H, W], [N, H, W, C], [N, H, W] or [H, W]", format!("{shape:?}"))),
    };
    let per_image = [c, h, w].iter().try_fold(1usize, |a, &b| a.checked_mul(b)).filter(|&l| l > 0);
    let Some((per_image, total)) = per_image.and_then(|l| Some((l, l.checked_mul(n)?))) else {
        return Err(wrong("images of at least one pixel", format!("{shape:?}")));
    };
    let DType::Plain(dtype) = file.dtype() else {
        return Err(wrong("floats or uint8", "records".into()));
    };
    let dtype = dtype.to_string();
    // The elements are read from the slice: the shape was only claimed, the bytes are there.
    let data = file.into_inner();
    let width = match dtype.as_str() {
        "<f4" => 4,
        "<f8" => 8,
        "|u1" | "<u1" | ">u1" => 1,
        _ => return Err(wrong("little-endian float32 ('<f4') or float64 ('<f8'), or uint8 ('|u1')", dtype)),
    };
    if Some(data.len()) != total.checked_mul(width) {
        return Err(wrong("as many bytes as its header says", format!("{} for {shape:?} of {dtype}", data.len())));
    }
    let images = data.chunks_exact(per_image * width).enumerate().map(|(i, raw)| {
        let read: Vec<f32> = match width {
            4 => raw.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            8 => raw.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
            _ => raw.iter().map(|&b| f32::from(b) / 255.0).collect(),
        };
        let shape = Shape::new(c, h, w);
        let values = if last { read } else { to_channels_last(&read, shape) };
        let name =
            if extents.as_ref().is_some_and(|e| e.len() == 2) { name.to_owned() } else { format!("{name}[{i}]") };
        Named { name, pixels: Pixels { shape, values } }
    });
    Ok(images.collect())
}

/// The header's text, found without the parser.
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
    fn a_long_header_is_refused() {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }}{}", " ".repeat(5000));
        assert!(refused(&header).contains(&format!("a header of {} bytes", header.len())));
    }
}
