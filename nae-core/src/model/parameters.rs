//! Checks that a layer's parameters lie inside the file, that their number is right, and that they cannot lead the
//! kernels beyond the range of their numbers. All functions are `const`.

use super::validate::inside;
use super::{Geometry, Int8Linear, LayerFault, Linear, Operation, Pair, Record, Span};
use crate::Shape;
use crate::format::check;
use crate::kernels::int8::Layout;

/// Number of entries of the table of an 8-bit activation.
pub(super) const TABLE_LEN: usize = 256;

/// Checks the weights, biases and multipliers of `record`, whose output shape is valid; `words` is the part of the file
/// that contains them.
pub(super) const fn check(record: &Record, input: Shape, words: &[u8]) -> Result<(), LayerFault> {
    let channels = record.output.channels;
    match &record.operation {
        Operation::Conv2d(geometry, linear) => {
            let taps = taps(geometry, input);
            let int8 = match linear {
                Linear::F32 { .. } => 0,
                Linear::I8(linear) => linear.layout.words(channels, taps),
            };
            check_linear(linear, channels, taps, int8, words)
        }
        Operation::ConvTranspose2d { geometry: geometry @ Geometry { kernel, stride, .. }, linear, .. } => {
            let int8 = match linear {
                Linear::F32 { .. } => 0,
                Linear::I8(linear) => linear.layout.transposed_words(channels, *kernel, *stride, input.channels),
            };
            check_linear(linear, channels, taps(geometry, input), int8, words)
        }
        Operation::Dense(linear) => {
            let (outputs, taps) = (record.output.len(), input.len());
            let int8 = match linear {
                Linear::F32 { .. } => 0,
                Linear::I8(linear) => linear.layout.words(outputs, taps),
            };
            check_linear(linear, outputs, taps, int8, words)
        }
        Operation::GroupNormalize { scale, shift, .. } => check_floats([*scale, *shift], [channels; 2], words),
        Operation::Table(table) if !fits(*table, TABLE_LEN, 1, words) => Err(LayerFault::Weights),
        Operation::Add(Pair { int8: Some(int8), .. }) => {
            let factors = Span { start: int8.multipliers, len: 3 };
            check!(check_multipliers(factors, words));
            if addends_shrink(factors, words) { Ok(()) } else { Err(LayerFault::Quantization) }
        }
        Operation::Multiply(Pair { int8: Some(int8), .. }) => {
            check_multipliers(Span { start: int8.multipliers, len: 1 }, words)
        }
        Operation::Requantize { multiplier } => check_multipliers(Span { start: *multiplier, len: 1 }, words),
        _ => Ok(()),
    }
}
/// Number of weights of one output of a convolution.
const fn taps(geometry: &Geometry, input: Shape) -> usize {
    Shape::new(input.channels, geometry.kernel[0], geometry.kernel[1]).len()
}

/// Checks weights and biases; `taps` is the number of products of one output, `int8` the number of words that 8-bit
/// weights take.
const fn check_linear(
    linear: &Linear,
    outputs: usize,
    taps: usize,
    int8: usize,
    words: &[u8],
) -> Result<(), LayerFault> {
    let linear = match linear {
        Linear::F32 { weights, bias, .. } => {
            return check_floats([*weights, *bias], [outputs.saturating_mul(taps), outputs], words);
        }
        Linear::I8(linear) => linear,
    };
    let multiplier = match linear.shared_multiplier {
        Some(start) => Some(Span { start, len: 1 }),
        None => None,
    };
    let bias_bytes = if multiplier.is_some() { 4 } else { 12 };
    if !fits(linear.weights, int8.saturating_mul(4), 1, words) || !fits(linear.bias, outputs, bias_bytes, words) {
        return Err(LayerFault::Weights);
    }
    let valid = match multiplier {
        Some(multiplier) if !fits(multiplier, 1, 8, words) => return Err(LayerFault::Weights),
        Some(multiplier) => biases_are_valid(linear, multiplier, taps, words),
        None => channels_are_valid(linear, taps, words),
    };
    if valid { Ok(()) } else { Err(LayerFault::Quantization) }
}

/// Checks two ranges of finite values with these lengths.
const fn check_floats(spans: [Span; 2], lens: [usize; 2], words: &[u8]) -> Result<(), LayerFault> {
    if !fits(spans[0], lens[0], 4, words) || !fits(spans[1], lens[1], 4, words) {
        return Err(LayerFault::Weights);
    }
    match are_finite(spans[0], words) && are_finite(spans[1], words) {
        true => Ok(()),
        false => Err(LayerFault::NonFiniteWeight),
    }
}

/// Checks multipliers that are not part of a layer's channels.
const fn check_multipliers(span: Span, words: &[u8]) -> Result<(), LayerFault> {
    if !fits(span, span.len, 8, words) {
        return Err(LayerFault::Weights);
    }
    if multipliers_are_valid(span, words) { Ok(()) } else { Err(LayerFault::Quantization) }
}

/// Whether `span` has `len` values of `size` bytes and lies inside the parameters.
const fn fits(span: Span, len: usize, size: usize, words: &[u8]) -> bool {
    span.len == len
        && inside(Span { start: span.start, len: span.len.saturating_mul(size).div_ceil(4) }, words.len() / 4)
}

/// Returns `len` words from word `start` on, or none beyond the end.
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
        // An exponent of all ones means infinity or NaN. The check by bytes takes fewer steps of the compiler.
        let [_, _, high, top] = words[i];
        if top & 0x7F == 0x7F && high >= 0x80 {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether the kernels accept every channel's multiplier, and no sum exceeds 32 bits.
const fn channels_are_valid(linear: &Int8Linear, taps: usize, words: &[u8]) -> bool {
    let (channels, _) = part(words, linear.bias.start, linear.bias.len.saturating_mul(3)).as_chunks();
    let mut i = 0;
    while i < channels.len() {
        let [bias, value, shift] = channels[i];
        if !channel_is_valid(linear.layout, taps, bias, value, shift) {
            return false;
        }
        i += 1;
    }
    true
}

/// As [`channels_are_valid`], for outputs that share one multiplier.
const fn biases_are_valid(linear: &Int8Linear, multiplier: Span, taps: usize, words: &[u8]) -> bool {
    let [value, shift] = part(words, multiplier.start, 2) else {
        return false;
    };
    let biases = part(words, linear.bias.start, linear.bias.len);
    let mut i = 0;
    while i < biases.len() {
        if !channel_is_valid(linear.layout, taps, biases[i], *value, *shift) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether the kernels accept a multiplier, and no sum of the bias and `taps` products can exceed `i32`, in any
/// order: a product of a weight and a value less its zero point is less than 2^15.
const fn channel_is_valid(layout: Layout, taps: usize, bias: [u8; 4], value: [u8; 4], shift: [u8; 4]) -> bool {
    let channel = [i32::from_le_bytes(bias), i32::from_le_bytes(value), i32::from_le_bytes(shift)];
    taps < 1 << 16
        && channel[0].unsigned_abs() <= i32::MAX as u32 - ((taps as u32) << 15)
        && is_factor(channel[1])
        && layout.takes(taps, channel)
}

/// Whether the value is 0, or has its leading one at bit 30.
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

/// Whether no addend's factor is above one, since addends are shifted by 20 bits first.
const fn addends_shrink(span: Span, words: &[u8]) -> bool {
    match part(words, span.start, 4) {
        [_, a, _, b] => i32::from_le_bytes(*a) <= 0 && i32::from_le_bytes(*b) <= 0,
        _ => false,
    }
}
