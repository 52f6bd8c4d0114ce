//! Whether a layer's parameters lie inside the file, are as many as the layer needs, and cannot
//! lead the kernels beyond the range of their numbers. All `const`.

use super::validate::inside;
use super::{Kind, LayerFault, Record, Span};
use crate::Shape;
use crate::layer::Element;

/// Entries of the table of an 8-bit activation.
pub(super) const TABLE_LEN: usize = 256;

/// Checks the weights, biases and multipliers of `record`, whose output shape is valid; `words` is
/// the part of the file that holds them.
pub(super) const fn check(record: &Record, input: Shape, words: &[u8]) -> Result<(), LayerFault> {
    let is_f32 = matches!(record.element, Element::F32);
    let outputs = match record.kind {
        Kind::Dense => record.output.len(),
        _ => record.output.channels,
    };
    let taps = match record.kind {
        Kind::Dense => input.len(),
        Kind::GroupNormalize => 1,
        _ => Shape::new(input.channels, record.kernel[0], record.kernel[1]).len(),
    };
    match record.kind {
        Kind::Conv2d | Kind::ConvTranspose2d | Kind::Dense | Kind::GroupNormalize if is_f32 => {
            if !fits(record.weights, outputs.saturating_mul(taps), 4, words) || !fits(record.bias, outputs, 4, words) {
                return Err(LayerFault::Weights);
            }
            if !are_finite(record.weights, words) || !are_finite(record.bias, words) {
                return Err(LayerFault::NonFiniteWeight);
            }
        }
        Kind::Conv2d | Kind::ConvTranspose2d | Kind::Dense => {
            let weights = match record.kind {
                Kind::ConvTranspose2d => {
                    record.layout.transposed_words(outputs, record.kernel, record.stride, input.channels)
                }
                _ => record.layout.words(outputs, taps),
            };
            let uniform = record.multiplier_count() == 1;
            if !fits(record.weights, weights.saturating_mul(4), 1, words)
                || !fits(record.bias, outputs, if uniform { 4 } else { 12 }, words)
                || uniform && !fits(Span { start: record.multipliers, len: 1 }, 1, 8, words)
            {
                return Err(LayerFault::Weights);
            }
            let valid = match uniform {
                true => biases_are_valid(record, taps, words),
                false => channels_are_valid(record, taps, words),
            };
            if !valid {
                return Err(LayerFault::Quantization);
            }
        }
        Kind::Add | Kind::Multiply | Kind::Requantize if !is_f32 => {
            let span = Span { start: record.multipliers, len: record.multiplier_count() };
            if !fits(span, span.len, 8, words) {
                return Err(LayerFault::Weights);
            }
            if !multipliers_are_valid(span, words) || matches!(record.kind, Kind::Add) && !addends_shrink(span, words) {
                return Err(LayerFault::Quantization);
            }
        }
        Kind::Activation if !is_f32 && !fits(record.weights, TABLE_LEN, 1, words) => return Err(LayerFault::Weights),
        _ => {}
    }
    Ok(())
}

/// Whether `span` has `len` values of `size` bytes and lies inside the parameters.
const fn fits(span: Span, len: usize, size: usize, words: &[u8]) -> bool {
    span.len == len
        && inside(Span { start: span.start, len: span.len.saturating_mul(size).div_ceil(4) }, words.len() / 4)
}

/// `len` words from word `start` on; none beyond the end.
const fn part(words: &[u8], start: usize, len: usize) -> &[[u8; 4]] {
    let (words, _) = words.as_chunks();
    let Some((_, rest)) = words.split_at_checked(start) else {
        return &[];
    };
    match rest.split_at_checked(len) {
        Some((part, _)) => part,
        None => &[],
    }
}

const fn are_finite(span: Span, words: &[u8]) -> bool {
    let words = part(words, span.start, span.len);
    let mut i = 0;
    while i < words.len() {
        // An exponent of all ones is infinity or NaN. By bytes: fewer steps for the compiler.
        let [_, _, high, top] = words[i];
        if top & 0x7F == 0x7F && high >= 0x80 {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether the kernels take every channel's multiplier, and no sum leaves 32 bits.
const fn channels_are_valid(record: &Record, taps: usize, words: &[u8]) -> bool {
    let (channels, _) = part(words, record.bias.start, record.bias.len.saturating_mul(3)).as_chunks();
    let mut i = 0;
    while i < channels.len() {
        let [bias, value, shift] = channels[i];
        if !channel_is_valid(record, taps, bias, value, shift) {
            return false;
        }
        i += 1;
    }
    true
}

/// As [`channels_are_valid`], where there is one multiplier for all.
const fn biases_are_valid(record: &Record, taps: usize, words: &[u8]) -> bool {
    let [value, shift] = part(words, record.multipliers, 2) else {
        return false;
    };
    let biases = part(words, record.bias.start, record.bias.len);
    let mut i = 0;
    while i < biases.len() {
        if !channel_is_valid(record, taps, biases[i], *value, *shift) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether the kernels take a multiplier, and no sum of the bias and `taps` products can leave `i32`, in
/// whatever order: a product of a weight and a value less its zero point is less than 2^15.
const fn channel_is_valid(record: &Record, taps: usize, bias: [u8; 4], value: [u8; 4], shift: [u8; 4]) -> bool {
    let channel = [i32::from_le_bytes(bias), i32::from_le_bytes(value), i32::from_le_bytes(shift)];
    taps < 1 << 16
        && channel[0].unsigned_abs() <= i32::MAX as u32 - ((taps as u32) << 15)
        && is_factor(channel[1])
        && record.layout.takes(taps, channel)
}

/// 0, or with its leading one at bit 30.
const fn is_factor(value: i32) -> bool {
    value == 0 || value >= 1 << 30
}

const fn multipliers_are_valid(span: Span, words: &[u8]) -> bool {
    let (multipliers, _) = part(words, span.start, span.len.saturating_mul(2)).as_chunks();
    let mut i = 0;
    while i < multipliers.len() {
        let [value, shift] = multipliers[i];
        let shift = i32::from_le_bytes(shift);
        if !is_factor(i32::from_le_bytes(value)) || shift < -31 || shift > 30 {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether no addend's factor is above one: addends are shifted by 20 bits first.
const fn addends_shrink(span: Span, words: &[u8]) -> bool {
    match part(words, span.start, 4) {
        [_, a, _, b] => i32::from_le_bytes(*a) <= 0 && i32::from_le_bytes(*b) <= 0,
        _ => false,
    }
}
