//! Reads (in a `const fn`) and writes little-endian numbers at given positions of a byte array. The meaning of the
//! numbers is defined in [`header`](super::header) and [`record`](super::record).

use super::FieldRange;

/// Reads a little-endian u16; returns 0 beyond the end.
pub(super) const fn u16_at(bytes: &[u8], at: usize) -> usize {
    match bytes.split_at_checked(at) {
        Some((_, rest)) => match rest.first_chunk() {
            Some(chunk) => u16::from_le_bytes(*chunk) as usize,
            None => 0,
        },
        None => 0,
    }
}

/// Reads a little-endian u32; returns 0 beyond the end.
pub(super) const fn u32_at(bytes: &[u8], at: usize) -> usize {
    match bytes.split_at_checked(at) {
        Some((_, rest)) => match rest.first_chunk() {
            Some(chunk) => u32::from_le_bytes(*chunk) as usize,
            None => 0,
        },
        None => 0,
    }
}

/// Reads a little-endian f32; returns 0 beyond the end.
pub(super) const fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at) as u32)
}

/// Whether all bytes of `from..to` are zero.
pub(super) const fn all_zero(bytes: &[u8], from: usize, to: usize) -> bool {
    let mut i = from;
    while i < to && i < bytes.len() {
        if bytes[i] != 0 {
            return false;
        }
        i += 1;
    }
    true
}

/// Writes bytes at a position; writes nothing if they would pass the end.
pub(super) fn put(bytes: &mut [u8], at: usize, values: &[u8]) {
    let place = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..values.len()));
    if let Some(place) = place {
        place.copy_from_slice(values);
    }
}

/// Writes a number of 16 bits; [`FieldRange`] if it needs more.
pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: usize) -> Result<(), FieldRange> {
    put(bytes, at, &u16::try_from(value).map_err(|_| FieldRange)?.to_le_bytes());
    Ok(())
}

/// Writes a number of 32 bits; [`FieldRange`] if it needs more.
pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: usize) -> Result<(), FieldRange> {
    put(bytes, at, &u32::try_from(value).map_err(|_| FieldRange)?.to_le_bytes());
    Ok(())
}

/// Writes a float.
pub(super) fn put_f32(bytes: &mut [u8], at: usize, value: f32) {
    put(bytes, at, &value.to_le_bytes());
}
