//! Convolution with a single output over [`Layout::Paired`](super::Layout), whose last output is alone in its pair: the
//! last layer of an autoencoder of grey images. Values are widened as they are multiplied, since no other output would
//! use them again. Pixels must be whole groups of four channels; all others are handled by `paired`.

use super::super::part_mut;
use super::Layer;
use super::arithmetic;
use super::geometry::{Convolution, Reach};
use super::paired::Taps;
use super::quantize::{Channel, Rounding};

/// The taps that multiply windows.
pub(super) struct Filter<'a> {
    pub(super) zero_point: i8,
    /// Number of rows of a window, and of values from one row to the next.
    pub(super) rows: usize,
    pub(super) row_len: usize,
    /// Number of groups of four values in a row.
    pub(super) groups: usize,
    /// Two words per group, of halfwords in the order of widened activations: taps t and t + 2, then t + 1 and t + 3.
    pub(super) weights: &'a [u32],
    /// Number of words of weights from one row to the next.
    pub(super) weights_row: usize,
}

impl Filter<'_> {
    /// Whether there are taps and all weights that are read lie inside the slice. The unsafe code of `dsp` depends on
    /// this, so it must hold for any numbers: no sum here wraps.
    pub(super) fn fits(&self) -> bool {
        let words = self.groups.saturating_mul(2);
        let used = self.rows.saturating_sub(1).saturating_mul(self.weights_row).saturating_add(words);
        let some = self.rows > 0 && self.groups > 0;
        let apart = self.row_len >= self.groups.saturating_mul(4) && self.weights_row >= words;
        some && apart && self.weights.len() >= used
    }

    /// Number of values from a window's first to its last, both included.
    pub(super) fn values(&self) -> usize {
        self.rows.saturating_sub(1).saturating_mul(self.row_len).saturating_add(self.groups.saturating_mul(4))
    }
}

/// Runs one convolution with the output `channel`. `scratch` has as many words as the layer has weights.
pub(super) fn convolve(
    convolution: &Convolution,
    layer: &Layer<'_, u32>,
    channel: Channel,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    let Convolution { places: [height, width], input: shape, kernel, step, .. } = *convolution;
    let row_len = shape.width * shape.channels;
    let weights = part_mut(scratch, 0, convolution.taps() / 2);
    for (wide, word) in weights.iter_mut().zip(layer.weights) {
        *wide = lower_bytes(u32::from_le(*word));
    }
    let [bias, ..] = channel;
    let finish = |sum: i32| layer.range.finish(Rounding::Twice, bias.wrapping_add(sum), channel);
    for x in 0..width {
        let across = convolution.across(x);
        let make = |down: Reach| {
            let skip = Taps::of(convolution, down, across).skip;
            arithmetic::Lone::new(&Filter {
                zero_point: layer.input_zero_point,
                rows: down.len,
                row_len,
                groups: across.len * shape.channels / 4,
                weights: weights.get(skip..).unwrap_or_default(),
                weights_row: kernel[1] * shape.channels / 2,
            })
        };
        // The filter of the previous row: most rows use the same taps.
        let mut made: Option<([usize; 2], Option<arithmetic::Lone<'_>>)> = None;
        let (mut y, mut down) = (0, convolution.down(0));
        while y < height {
            let below = convolution.down(y + 1);
            let two = y + 1 < height && down.taps() == below.taps();
            let (_, lone) = match &mut made {
                Some(made) if made.0 == down.taps() => made,
                made => made.insert((down.taps(), make(down))),
            };
            let window = input.get(down.at * row_len + across.at * shape.channels..).unwrap_or_default();
            let place = convolution.place(y, x);
            if two {
                let next = below.at.saturating_sub(down.at) * row_len;
                // Without taps in the image, a sum is 0.
                let sums = lone.as_mut().map_or([0; 2], |lone| lone.two(window, next));
                for (place, sum) in [place, place + step[0]].into_iter().zip(sums) {
                    if let Some(value) = output.get_mut(place) {
                        *value = finish(sum);
                    }
                }
                y += 2;
                down = convolution.down(y);
            } else {
                let sum = lone.as_mut().map_or(0, |lone| lone.one(window));
                if let Some(value) = output.get_mut(place) {
                    *value = finish(sum);
                }
                y += 1;
                down = below;
            }
        }
    }
}

/// SXTB16: the lower byte of each halfword, sign-extended.
const fn lower_bytes(word: u32) -> u32 {
    (word as i8 as u16) as u32 | ((word >> 16) as i8 as u16 as u32) << 16
}
