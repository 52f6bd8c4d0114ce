//! Layers whose results are known by other means than the kernels', for what layers with made-up weights seldom or never do:
//! factors of every shift, negative zero points, and halves below zero. Run on the host and by the firmware.

mod drawn;

use nae_core::Shape;
use nae_core::kernels::int8::{Channel, Layout, Multiplier, Range, Weights, Windows, bilinear, conv2d};

use super::hash;

/// The first of them whose result is another; `None` where all are right.
pub fn wrong_result() -> Option<&'static str> {
    if !factors_of_every_shift() {
        return Some("a convolution with factors of every shift");
    }
    if !biases_near_the_end_of_32_bits() {
        return Some("a convolution with large biases");
    }
    if !drawn::agree() {
        return Some("a dense layer or a convolution with drawn weights");
    }
    if !halves_below_zero() { Some("bilinear resizing with halves") } else { None }
}

/// The windows of a convolution of one tap a channel, over places in a row.
fn places(channels: usize, outputs: usize, places: usize) -> Windows {
    Windows {
        input: Shape::new(channels, 1, places),
        output: Shape::new(outputs, 1, places),
        kernel: [1, 1],
        stride: [1, 1],
        padding: Default::default(),
    }
}

/// A convolution with an output for each shift that a factor may have, over three places: two windows at a time and one.
fn factors_of_every_shift() -> bool {
    const OUTPUTS: usize = 62;
    const PLACES: usize = 3;
    const ZERO_POINT: i8 = -5;
    // Small, so that results of factors near 1 are within 8 bits.
    let words: [u32; OUTPUTS] = core::array::from_fn(|index| hash(index as u32) & 0x0101_0101);
    let input: [i8; 4 * PLACES] = core::array::from_fn(|index| hash(1000 + index as u32) as i8 >> 4);
    let channels: [Channel; OUTPUTS] = core::array::from_fn(|index| {
        let shift = index as i32 - 31;
        // Of the size that becomes one of 8 bits, and of either sign.
        let bias = (hash(2000 + index as u32) as i8 as i32) << (-shift).clamp(0, 23);
        [bias, (1 << 30) + (hash(3000 + index as u32) >> 2) as i32, shift]
    });
    let range = Range { zero_point: 3, min: -100, max: 90 };
    let windows = places(4, OUTPUTS, PLACES);
    let mut output = [0; OUTPUTS * PLACES];
    let weights = Weights { layout: Layout::Plain, words: &words, channels: &channels };
    conv2d(&windows, ZERO_POINT, weights, range, &mut [], &input, &mut output);
    let (pixels, _) = input.as_chunks::<4>();
    output.chunks_exact(OUTPUTS).zip(pixels).all(|(output, pixel)| {
        output.iter().zip(&words).zip(&channels).all(|((output, word), [bias, value, shift])| {
            let products = pixel.iter().zip(word.to_ne_bytes());
            let sum: i32 = products.map(|(x, w)| (i32::from(*x) - i32::from(ZERO_POINT)) * i32::from(w as i8)).sum();
            let result = Multiplier { value: *value, shift: *shift }.apply_twice(bias.wrapping_add(sum));
            i32::from(*output) == result.saturating_add(3).clamp(-100, 90)
        })
    })
}

/// A convolution whose sums are so large that a half added to them before the shift passes 32 bits; over two places and one.
fn biases_near_the_end_of_32_bits() -> bool {
    const OUTPUTS: usize = 22;
    const PLACES: usize = 3;
    let range = Range { zero_point: -10, min: -128, max: 127 };
    let channels: [Channel; OUTPUTS] = core::array::from_fn(|index| {
        let bias = i32::MAX - 40_000 - index as i32;
        [if index % 2 == 0 { bias } else { -bias }, i32::MAX, index as i32 / 2 - 31]
    });
    let windows = places(1, OUTPUTS, PLACES);
    let mut output = [0; OUTPUTS * PLACES];
    let weights = Weights { layout: Layout::Plain, words: &[0; OUTPUTS.div_ceil(4)], channels: &channels };
    conv2d(&windows, 0, weights, range, &mut [], &[1; PLACES], &mut output);
    output.chunks_exact(OUTPUTS).all(|output| {
        output.iter().zip(&channels).all(|(output, [bias, value, shift])| {
            // The shift is below 0 here. Halves go away from zero.
            let high = (i64::from(*bias) * i64::from(*value) + (1 << 30)) >> 31;
            let size = (high.abs() + (1i64 << (-shift - 1))) >> -shift;
            i64::from(*output) == (size * high.signum() - 10).clamp(-128, 127)
        })
    })
}

/// One pixel of ±8 among zeros at twice the size: it has parts of 9, 3 and 1 sixteenths of the four places in the middle, which
/// are halves, and go away from zero.
fn halves_below_zero() -> bool {
    const CHANNELS: usize = 5;
    [8i8, -8].into_iter().all(|value| {
        let mut input = [0; 4 * CHANNELS];
        for channel in input.iter_mut().take(CHANNELS) {
            *channel = value;
        }
        let mut output = [0; 16 * CHANNELS];
        bilinear(true, Shape::new(CHANNELS, 2, 2), Shape::new(CHANNELS, 4, 4), &input, &mut output);
        let sign = value.signum();
        [(1, 1, 5), (1, 2, 2), (2, 1, 2), (2, 2, 1)].into_iter().all(|(y, x, expected)| {
            let pixel = output.chunks_exact(CHANNELS).nth(4 * y + x).unwrap_or_default();
            pixel.len() == CHANNELS && pixel.iter().all(|result| *result == sign * expected)
        })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_as_known() {
        assert_eq!(super::wrong_result(), None);
    }
}
