//! NumPy's `.npy` files: `[N, C, H, W]`, `[N, H, W, C]`, `[N, H, W]` or `[H, W]` of floats in
//! `[0, 1]` (32 or 64 bits), or uint8. C is 1 or 3; where both readings fit, the first is taken.

use std::path::Path;

use nae_core::Shape;
use npyz::{DType, NpyFile, Order};

use crate::layout::to_channels_last;
use crate::pixels::{InputError, Named, Pixels};

/// First bytes of the format.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header, and most brackets in it. NumPy's have some hundred bytes and two brackets; the
/// header is a Python literal, whose parser recurses.
const MAX_HEADER: usize = 4096;
const MAX_BRACKETS: usize = 16;

pub(super) fn read(path: &Path, name: &str, bytes: &[u8]) -> Result<Vec<Named>, InputError> {
    let wrong = |expected: &'static str, found: String| InputError::Npy { path: path.to_owned(), expected, found };
    const FILE: &str = "a .npy file";
    let header = header(bytes).ok_or_else(|| wrong(FILE, "another format, or a truncated file".into()))?;
    let brackets = header.iter().filter(|b| b"[({".contains(b)).count();
    if header.len() > MAX_HEADER || brackets > MAX_BRACKETS {
        return Err(wrong(FILE, "a header no program writes".into()));
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
