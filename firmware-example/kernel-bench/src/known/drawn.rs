//! Dense layers and convolutions of one tap a channel, drawn at random, beside the sums that define them: channels of every shift of
//! each layout, factors and biases at their ends, sums near halves, zero points and clamps of either sign. The layers of the bench
//! have one zero point and one shift each.

use nae_core::kernels::int8::{Channel, Layout, Multiplier, Range, Weights, conv2d, dense};

use crate::hash;

/// Layers of each layout.
const ROUNDS: usize = 2000;
const MOST_OUTPUTS: usize = 5;
const MOST_TAPS: usize = 12;
const PLACES: usize = 3;
/// Words of the weights of the largest layer, in either layout.
const WORDS: usize = MOST_OUTPUTS.div_ceil(2) * MOST_TAPS.div_ceil(4) * 2;
/// More than any of these layers needs.
const SCRATCH: usize = 256;

/// Whether all have the results of their definition.
pub(super) fn agree() -> bool {
    let mut draws = Draws(0);
    let mut agree = |layout| (0..ROUNDS).all(|_| Layer::draw(&mut draws, layout).agrees());
    agree(Layout::Plain) && agree(Layout::Paired)
}

struct Draws(u32);

impl Draws {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        hash(self.0)
    }

    fn byte(&mut self) -> i8 {
        self.next() as i8
    }

    fn one_of<T: Copy, const N: usize>(&mut self, values: [T; N]) -> T {
        values[self.next() as usize % N]
    }
}

struct Layer {
    layout: Layout,
    outputs: usize,
    taps: usize,
    weights: [i8; MOST_OUTPUTS * MOST_TAPS],
    channels: [Channel; MOST_OUTPUTS],
    input_zero_point: i8,
    range: Range,
    input: [i8; PLACES * MOST_TAPS],
}

impl Layer {
    fn draw(draws: &mut Draws, layout: Layout) -> Self {
        let (outputs, taps) = (draws.one_of([1, 3, 4, 5]), draws.one_of([3, 4, 12]));
        // `Paired` has no −128. With weights of zero, the sum is the bias.
        let scale = draws.one_of([0, 1, 1, 1]);
        let weights = core::array::from_fn(|_| draws.byte().max(-127) * scale);
        let (shifts, most) = match layout == Layout::Paired {
            true => (-22..=-2, 1 << 29),
            false => (Multiplier::SHIFTS, i32::MAX - ((MOST_TAPS as i32) << 15)),
        };
        let channels = core::array::from_fn(|_| {
            let shift = shifts.start() + (draws.next() % (shifts.end() - shifts.start() + 1) as u32) as i32;
            let factor = (1 << 30) + (draws.next() >> 2) as i32;
            // Of results within 8 bits and a little more, to within one.
            let result = i64::from(draws.next() % 601) - 300;
            let near = (result << (-shift).max(0)) + i64::from(draws.one_of([-1, 0, 1]));
            let near = near.clamp(-i64::from(most), i64::from(most)) as i32;
            [draws.one_of([most, -most, near, near]), draws.one_of([1 << 30, i32::MAX, factor]), shift]
        });
        let ends = [draws.byte(), draws.byte()];
        let (min, max) = draws.one_of([(-128, 127), (ends[0].min(ends[1]), ends[0].max(ends[1]))]);
        let zero_point = draws.one_of([-128, -77, 0, 3, 127]);
        Self {
            layout,
            outputs,
            taps,
            weights,
            channels,
            input_zero_point: draws.one_of([-128, 3, 127]),
            range: Range { zero_point, min, max },
            input: core::array::from_fn(|_| draws.byte()),
        }
    }

    fn agrees(&self) -> bool {
        let (outputs, taps) = (self.outputs, self.taps);
        let words = self.words();
        let (layout, channels) = (self.layout, &self.channels[..outputs]);
        let weights = Weights { layout, words: &words[..layout.words(outputs, taps)], channels };
        let windows = super::places(taps, outputs, PLACES);
        let (input, mut scratch) = (&self.input[..PLACES * taps], [0; SCRATCH]);
        let mut found = [0; PLACES * MOST_OUTPUTS];
        let found = &mut found[..PLACES * outputs];
        conv2d(&windows, self.input_zero_point, weights, self.range, &mut scratch, input, found);
        let mut convolutions = input.chunks_exact(taps).zip(found.chunks_exact(outputs));
        let agree = convolutions.all(|(input, found)| self.is_result(input, found, |by, sum| by.apply_twice(sum)));

        let (input, found) = (&input[..taps], &mut found[..outputs]);
        dense(self.input_zero_point, weights, self.range, &mut scratch, input, found);
        agree && self.is_result(input, found, |by, sum| by.apply(sum))
    }

    /// Whether `found` are the outputs of one place, where `scaled` multiplies a sum by a factor.
    fn is_result(&self, input: &[i8], found: &[i8], scaled: impl Fn(Multiplier, i32) -> i32) -> bool {
        let rows = self.weights.chunks_exact(self.taps);
        found.iter().zip(rows).zip(&self.channels).all(|((&found, row), &[bias, value, shift])| {
            let products = input.iter().zip(row);
            let sum: i32 =
                products.map(|(&x, &w)| (i32::from(x) - i32::from(self.input_zero_point)) * i32::from(w)).sum();
            let result = scaled(Multiplier { value, shift }, bias + sum);
            let Range { zero_point, min, max } = self.range;
            i32::from(found) == result.saturating_add(zero_point.into()).clamp(min.into(), max.into())
        })
    }

    /// The weights in the layer's layout.
    fn words(&self) -> [u32; WORDS] {
        let (outputs, taps) = (self.outputs, self.taps);
        let weight = |output: usize, tap: usize| match output < outputs && tap < taps {
            true => i32::from(self.weights[output * taps + tap]),
            false => 0,
        };
        core::array::from_fn(|word| {
            if self.layout == Layout::Paired {
                let (pair, group) = (word / 2 / taps.div_ceil(4), word / 2 % taps.div_ceil(4));
                let half = |tap| {
                    let tap = 4 * group + word % 2 + tap;
                    u32::from((256 * weight(2 * pair + 1, tap) + weight(2 * pair, tap)) as u16)
                };
                half(0) | half(2) << 16
            } else {
                u32::from_le_bytes(core::array::from_fn(|byte| {
                    let at = 4 * word + byte;
                    weight(at / taps, at % taps) as u8
                }))
            }
        })
    }
}
