//! Whether the 80 bytes of a layer are valid by themselves: ids, numbers, and that unused fields are
//! zero. Also little-endian numbers in a `const fn`.

use super::RECORD_LEN;
use super::error::LayerFault;
use super::layer::Element;
use super::record::{Kind, Record, UNIFORM};
use crate::kernels::int8::Layout;
use crate::quantization::Quantization;

/// Reads a record; checks ids, numbers and that unused fields are zero.
pub(super) const fn decode(bytes: &[u8; RECORD_LEN]) -> Result<Record, LayerFault> {
    let Some(kind) = Kind::from_id(bytes[0]) else {
        return Err(LayerFault::Kind);
    };
    let parameter = f32_at(bytes, 44);
    if !parameter.is_finite() {
        return Err(LayerFault::Parameter);
    }
    if bytes[3] > 1 {
        return Err(LayerFault::Element);
    }
    if bytes[3] == 1 && Quantization::new(f32_at(bytes, 64), bytes[68] as i8).is_err() {
        return Err(LayerFault::Quantization);
    }
    // 8-bit activations are tables, and 8-bit normalisation has no epsilon.
    let is_f32 = bytes[3] == 0;
    let activates = is_f32 && (kind.has_weights() || matches!(kind, Kind::Activation));
    if bytes[1] > 4 || bytes[1] != 0 && !activates {
        return Err(LayerFault::Activation);
    }
    let normalizes = is_f32 && kind.has_epsilon();
    let parameter_used = normalizes || bytes[1] == 2;
    if (!parameter_used && parameter.to_bits() != 0) || (normalizes && parameter <= 0.0) {
        return Err(LayerFault::Parameter);
    }
    let is_mode = match kind {
        Kind::AveragePool2d | Kind::ResizeBilinear => bytes[2] < 2,
        Kind::Dense if !is_f32 => bytes[2] <= UNIFORM,
        Kind::GroupNormalize => bytes[2] > 0,
        _ => bytes[2] == 0,
    };
    if !is_mode {
        return Err(LayerFault::Kind);
    }
    if Layout::from_tag(bytes[71]).is_none() {
        return Err(LayerFault::Weights);
    }
    let record = Record::read(bytes);
    let is_table = !is_f32 && matches!(kind, Kind::Activation);
    let clamps = !is_f32 && (kind.has_weights() || kind.has_other());
    if !kind.has_windows() && !all_zero(bytes, 24, 44)
        || !matches!(kind, Kind::ConvTranspose2d) && !all_zero(bytes, 40, 44)
        || !kind.has_parameters() && !is_table && !all_zero(bytes, 48, 56)
        || !kind.has_parameters() && !all_zero(bytes, 56, 64)
        || !kind.has_other() && record.other != 0
        || is_f32 && !all_zero(bytes, 64, 80)
        || !clamps && !all_zero(bytes, 69, 71)
        || !kind.has_weights() && (bytes[71] != 0 || !all_zero(bytes, 76, 80))
        || record.multiplier_count() == 0 && !all_zero(bytes, 72, 76)
    {
        return Err(LayerFault::Reserved);
    }
    if matches!(record.element, Element::I8(_)) && clamps && record.clamp[0] > record.clamp[1] {
        return Err(LayerFault::Quantization);
    }
    Ok(record)
}

/// Little-endian u16; 0 beyond the end.
pub(super) const fn u16_at(bytes: &[u8], at: usize) -> usize {
    match bytes.split_at_checked(at) {
        Some((_, rest)) => match rest.first_chunk() {
            Some(chunk) => u16::from_le_bytes(*chunk) as usize,
            None => 0,
        },
        None => 0,
    }
}

/// Little-endian u32; 0 beyond the end.
pub(super) const fn u32_at(bytes: &[u8], at: usize) -> usize {
    match bytes.split_at_checked(at) {
        Some((_, rest)) => match rest.first_chunk() {
            Some(chunk) => u32::from_le_bytes(*chunk) as usize,
            None => 0,
        },
        None => 0,
    }
}

/// Little-endian f32; 0 beyond the end.
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
