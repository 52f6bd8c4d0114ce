//! Checks that a layer's parameters lie inside the file, that their number is right, and that sums of products stay in
//! the range of their numbers. A multiplier far above the range of 8-bit values is not refused: where a kernel rounds
//! twice, its shift wraps, so that results that would saturate have other values. All functions are `const`.

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    extern crate std;

    use super::*;
    use crate::format::Int8Pair;
    use crate::layer::{Activation, Element, Padding};
    use crate::quantization::Quantization;
    use std::vec;
    use std::vec::Vec;

    const LAYOUTS: [Layout; 2] = [Layout::Plain, Layout::Paired];
    /// A factor of 2⁻³, which both layouts take.
    const FACTOR: [i32; 2] = [1 << 30, -2];

    const fn span(start: usize, len: usize) -> Span {
        Span { start, len }
    }

    /// Checks a layer of `outputs` values that reads `input` and has these words as parameters.
    fn check_words(operation: Operation, input: Shape, outputs: usize, words: &[i32]) -> Result<(), LayerFault> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let element = Element::I8(Quantization::new(1.0, 0).unwrap());
        let record = Record { input: 0, output: Shape::vector(outputs), element, offset: 0, operation };
        check(&record, input, &bytes)
    }

    fn floats(weights: Span, bias: Span) -> Linear {
        Linear::F32 { weights, bias, activation: Activation::Identity }
    }

    fn integers(layout: Layout, weights: Span, bias: Span, shared_multiplier: Option<usize>) -> Linear {
        Linear::I8(Int8Linear { layout, weights, bias, shared_multiplier, clamp: [-128, 127], scratch: 0 })
    }

    fn pair(multipliers: usize) -> Pair {
        Pair { other: 0, int8: Some(Int8Pair { multipliers, clamp: [-128, 127] }) }
    }

    fn group_normalize(scale: Span, shift: Span) -> Operation {
        Operation::GroupNormalize { groups: 1, epsilon: 1.0, scale, shift }
    }

    /// Each range of parameters once at the end of the file: its last word is the file's.
    #[test]
    fn every_range_lies_inside_the_file() {
        // Two outputs of three products: 6 weights, in two words, or one pair of outputs and one group of taps.
        let (input, outputs) = (Shape::vector(3), 2);
        let dense =
            |weights, bias, shared| Operation::Dense(integers(Layout::Plain, span(weights, 8), span(bias, 2), shared));
        for (operation, words) in [
            (Operation::Dense(floats(span(2, 6), span(0, 2))), 8),
            (Operation::Dense(floats(span(0, 6), span(6, 2))), 8),
            (dense(6, 0, None), 8),
            (dense(0, 2, None), 8),
            (dense(4, 0, Some(2)), 6),
            (dense(0, 4, Some(2)), 6),
            (dense(0, 2, Some(4)), 6),
            (group_normalize(span(2, 2), span(0, 2)), 4),
            (group_normalize(span(0, 2), span(2, 2)), 4),
            (Operation::Table(span(3, 256)), 67),
            (Operation::Add(pair(5)), 11),
            (Operation::Multiply(pair(5)), 7),
            (Operation::Requantize { multiplier: 5 }, 7),
        ] {
            let check = |words: usize| check_words(operation, input, outputs, &vec![0; words]);
            assert_eq!(check(words), Ok(()), "{operation:?}");
            for fewer in [words - 1, 1, 0] {
                assert_eq!(check(fewer), Err(LayerFault::Weights), "{operation:?} in {fewer} words");
            }
        }
    }

    #[test]
    fn every_range_has_the_length_that_the_shapes_give() {
        let (image, vector) = (Shape::new(3, 5, 5), Shape::vector(18));
        let geometry = Geometry { kernel: [3, 2], stride: [2, 2], padding: Padding::NONE };
        let conv = |linear| (Operation::Conv2d(geometry, linear), image);
        let up = |linear| (Operation::ConvTranspose2d { geometry, output_padding: [0, 0], linear }, image);
        let dense = |linear| (Operation::Dense(linear), vector);
        for (less, more) in [(0, 0), (1, 0), (0, 1)] {
            let len = |len: usize| len + more - less;
            // 18 products for each of five outputs.
            let weights = floats(span(0, len(90)), span(0, 5));
            let biases = floats(span(0, 90), span(0, len(5)));
            let mut layers = vec![conv(weights), up(weights), dense(weights), conv(biases), up(biases), dense(biases)];
            // Plain: 90 bytes; or phases of 2×1, 2×1, 1×1 and 1×1 taps of three channels, of whole words each. Paired: three
            // pairs of five groups of taps; or of two, two, one and one.
            for (layout, words, phases) in [(Layout::Plain, 23, 8 + 8 + 4 + 4), (Layout::Paired, 30, 12 + 12 + 6 + 6)] {
                let weights = |words: usize| integers(layout, span(0, 4 * len(words)), span(0, 5), None);
                layers.extend([conv(weights(words)), up(weights(phases)), dense(weights(words))]);
                let channels = |shared| integers(layout, span(0, 4 * words), span(0, len(5)), shared);
                layers.extend([conv(channels(None)), dense(channels(None)), dense(channels(Some(0)))]);
            }
            layers.push((Operation::Table(span(0, len(256))), image));
            layers.push((group_normalize(span(0, len(5)), span(0, 5)), image));
            layers.push((group_normalize(span(0, 5), span(0, len(5))), image));
            for (operation, input) in layers {
                let is_refused = check_words(operation, input, 5, &[0; 300]) == Err(LayerFault::Weights);
                assert_eq!(is_refused, less + more > 0, "{operation:?}, {less} less, {more} more");
            }
        }
    }

    #[test]
    fn infinite_floats_are_refused() {
        let dense = Operation::Dense(floats(span(0, 2), span(2, 1)));
        let norm = group_normalize(span(0, 2), span(2, 2));
        for (operation, outputs, words) in [(dense, 1, 3), (norm, 2, 4)] {
            for at in 0..words {
                let check = |bits: u32| {
                    let mut values = vec![0; words];
                    values[at] = bits as i32;
                    check_words(operation, Shape::vector(2), outputs, &values)
                };
                for value in [f32::MAX, f32::MIN, 1.0, 1e-40, f32::from_bits(0x7F00_0000)] {
                    assert_eq!(check(value.to_bits()), Ok(()), "{value} at {at}");
                }
                // Infinite, the first and the last NaN, of either sign.
                for bits in [0x7F80_0000, 0x7F80_0001, 0x7FFF_FFFF, 0xFF80_0000, 0xFF80_0001, 0xFFFF_FFFF] {
                    assert_eq!(check(bits), Err(LayerFault::NonFiniteWeight), "{bits:#x} at {at}");
                }
            }
        }
    }

    /// Whether a dense layer of `taps` products is taken whose last output of three has this channel: of its own, and if
    /// all share its multiplier.
    fn takes(layout: Layout, taps: usize, [bias, value, shift]: [i32; 3]) -> bool {
        let weights = layout.words(3, taps);
        let check = |parameters: &[i32], bias, shared| {
            let words = [&vec![0; weights], parameters].concat();
            let linear = integers(layout, span(0, 4 * weights), span(bias, 3), shared);
            check_words(Operation::Dense(linear), Shape::vector(taps), 3, &words)
        };
        let [factor, exponent] = FACTOR;
        let own = check(&[0, factor, exponent, 0, factor, exponent, bias, value, shift], weights, None);
        let shared = check(&[value, shift, 0, 0, bias], weights + 2, Some(weights));
        assert_eq!(own, shared, "{layout:?}, {taps} products: {bias}, {value}, {shift}");
        assert!(matches!(own, Ok(()) | Err(LayerFault::Quantization)), "{own:?}");
        own.is_ok()
    }

    #[test]
    fn no_sum_exceeds_32_bits() {
        let [value, shift] = FACTOR;
        let bias = |layout, taps, bias: i32| {
            let takes = [bias, -bias].map(|bias| takes(layout, taps, [bias, value, shift]));
            assert_eq!(takes[0], takes[1], "{layout:?}: {bias} and its negative after {taps} products");
            takes[0]
        };
        // Each product is less than 2^15.
        for taps in [1, 100, (1 << 16) - 1] {
            let most = i32::MAX - ((taps as i32) << 15);
            assert!(bias(Layout::Plain, taps, most) && !bias(Layout::Plain, taps, most + 1), "{taps} products");
        }
        assert!(takes(Layout::Plain, (1 << 16) - 1, [0, value, shift]));
        assert!(!takes(Layout::Plain, 1 << 16, [0, value, shift]));
        assert!(!takes(Layout::Plain, 1, [i32::MIN, value, shift]));
        // 30 bits.
        for taps in [1, 1 << 14] {
            assert!(
                bias(Layout::Paired, taps, 1 << 29) && !bias(Layout::Paired, taps, (1 << 29) + 1),
                "{taps} products"
            );
        }
        assert!(!takes(Layout::Paired, (1 << 14) + 1, [0, value, shift]));
    }

    #[test]
    fn the_factors_of_outputs_are_those_that_the_kernels_take() {
        for layout in LAYOUTS {
            for (value, expected) in [
                (1 << 30, true),
                (i32::MAX, true),
                ((1 << 30) - 1, false),
                (1, false),
                (-1, false),
                (i32::MIN, false),
                // Plain layers of zeros are taken.
                (0, layout == Layout::Plain),
            ] {
                assert_eq!(takes(layout, 4, [0, value, -2]), expected, "{layout:?}, value {value}");
            }
            let [least, most] = match layout {
                Layout::Plain => [-31, 30],
                Layout::Paired => [-22, -2],
            };
            for (shift, expected) in [
                (least, true),
                (most, true),
                (least - 1, false),
                (most + 1, false),
                (i32::MIN, false),
                (i32::MAX, false),
            ] {
                assert_eq!(takes(layout, 4, [0, 1 << 30, shift]), expected, "{layout:?}, shift {shift}");
            }
        }
    }

    #[test]
    fn the_factors_of_sums_and_products_are_those_that_the_kernels_take() {
        // The addends of a sum do not grow.
        let any = [-31, 30];
        for (operation, most) in [
            (Operation::Multiply(pair(1)), &[any][..]),
            (Operation::Requantize { multiplier: 1 }, &[any]),
            (Operation::Add(pair(1)), &[[-31, 0], [-31, 0], any]),
        ] {
            for (at, [least, most]) in most.iter().enumerate() {
                let check = |value, shift| {
                    let mut words = vec![0; 7];
                    words[1 + 2 * at..][..2].copy_from_slice(&[value, shift]);
                    check_words(operation, Shape::vector(1), 1, &words)
                };
                let wrong = Err(LayerFault::Quantization);
                for value in [0, 1 << 30, i32::MAX] {
                    assert_eq!((check(value, *least), check(value, *most)), (Ok(()), Ok(())), "{operation:?} {at}");
                    assert_eq!((check(value, least - 1), check(value, most + 1)), (wrong, wrong), "{operation:?} {at}");
                }
                for value in [1, (1 << 30) - 1, -1, i32::MIN] {
                    assert_eq!(check(value, 0), wrong, "{operation:?} {at}: {value}");
                }
            }
        }
    }
}
