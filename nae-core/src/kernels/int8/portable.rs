//! The innermost loops in portable Rust: the same computations as in `dsp`, instruction by instruction where it matters
//! (widening, the order of halfwords, sums in two parts). One of the two is the module `arithmetic`.

use super::super::{part, part_mut};
use super::lone::Filter;
use super::paired::Tile;
use super::pool::Maximum;
use super::quantize::{Range, Rounding};

/// Number of groups of four taps after which the odd output's sum is extracted: 256 products of at most 255 · 127 stay
/// below 2^23, so that the sum fits the 24 bits above the even output's.
const CHUNK: usize = 64;

/// SXTB16: the bytes 0 and 2 as halfwords, sign-extended.
fn sxtb16(word: u32) -> u32 {
    sxtab16(0, word)
}

/// SXTAB16: the same, added to halfwords.
fn sxtab16(sum: u32, word: u32) -> u32 {
    let low = (sum as u16).wrapping_add(word as i8 as u16);
    let high = ((sum >> 16) as u16).wrapping_add((word >> 16) as i8 as u16);
    u32::from(low) | u32::from(high) << 16
}

/// The halfwords to add to widened values to subtract the zero point.
fn centre(zero_point: i8) -> u32 {
    u32::from((-i16::from(zero_point)) as u16) * 0x1_0001
}

/// SMLAD: adds both products of halfwords to a sum.
fn smlad(a: u32, b: u32, sum: i32) -> i32 {
    let low = i32::from(a as i16) * i32::from(b as i16);
    let high = i32::from((a >> 16) as i16) * i32::from((b >> 16) as i16);
    sum.wrapping_add(low).wrapping_add(high)
}

/// Subtracts the zero point from four values at a time and writes halfwords (0, 2), then (1, 3).
pub(super) fn widen_one(zero_point: i8, values: &[i8], target: &mut [u32]) {
    let centre = centre(zero_point);
    for (value, target) in values.as_chunks::<4>().0.iter().zip(target.as_chunks_mut::<2>().0) {
        let word = u32::from_le_bytes(value.map(|byte| byte as u8));
        *target = [sxtab16(centre, word), sxtab16(centre, word.rotate_right(8))];
    }
}

/// As [`widen_one`], for the first `4 * groups` values of each of some rows, `row_len` values apart; does nothing if
/// they do not lie inside `window`, or do not fit `target`.
pub(super) fn widen_rows(zero_point: i8, window: &[i8], [rows, row_len, groups]: [usize; 3], target: &mut [u32]) {
    for (row, target) in target.chunks_exact_mut((2 * groups).max(1)).take(rows).enumerate() {
        widen_one(zero_point, part(window, row * row_len, 4 * groups), target);
    }
}

/// As [`widen_rows`], for two windows, the second one `next` values after the first; their words alternate.
pub(super) fn widen_rows_of_two(
    zero_point: i8,
    windows: &[i8],
    next: usize,
    [rows, row_len, groups]: [usize; 3],
    target: &mut [u32],
) {
    let centre = centre(zero_point);
    for (row, target) in target.chunks_exact_mut((4 * groups).max(1)).take(rows).enumerate() {
        let [first, second] =
            [0, next].map(|window| part(windows, window + row * row_len, 4 * groups).as_chunks::<4>().0);
        for ((a, b), target) in first.iter().zip(second).zip(target.as_chunks_mut::<4>().0) {
            let [a, b] = [a, b].map(|value| u32::from_le_bytes(value.map(|byte| byte as u8)));
            *target = [a, b, a.rotate_right(8), b.rotate_right(8)].map(|word| sxtab16(centre, word));
        }
    }
}

/// A filter whose weights have been checked.
pub(super) struct Lone<'a>(Filter<'a>);

impl<'a> Lone<'a> {
    /// `None` if there are no taps or weights would be read beyond their end.
    pub(super) fn new(filter: &Filter<'a>) -> Option<Self> {
        let Filter { zero_point, rows, row_len, groups, weights, weights_row } = *filter;
        filter.fits().then_some(Self(Filter { zero_point, rows, row_len, groups, weights, weights_row }))
    }

    /// The sum of the window at the start of `values`; 0 if they are too short.
    pub(super) fn one(&mut self, values: &[i8]) -> i32 {
        let filter = &self.0;
        let mut sum = 0;
        if values.len() >= filter.values() {
            let centre = centre(filter.zero_point);
            for row in 0..filter.rows {
                let weights = part(filter.weights, row * filter.weights_row, 2 * filter.groups).as_chunks::<2>().0;
                let values = part(values, row * filter.row_len, 4 * filter.groups).as_chunks::<4>().0;
                for (values, [first, second]) in values.iter().zip(weights) {
                    let word = u32::from_le_bytes(values.map(|byte| byte as u8));
                    sum = smlad(sxtab16(centre, word), *first, sum);
                    sum = smlad(sxtab16(centre, word.rotate_right(8)), *second, sum);
                }
            }
        }
        sum
    }

    /// The sums of the window at the start of `values` and of another, `next` values after it; 0 if they are too short.
    pub(super) fn two(&mut self, values: &[i8], next: usize) -> [i32; 2] {
        [self.one(values), self.one(values.get(next..).unwrap_or_default())]
    }
}

/// A tile whose weights have been checked.
pub(super) struct Ready<'a>(Tile<'a>);

impl<'a> Ready<'a> {
    /// `None` if weights would be read beyond their end.
    pub(super) fn new(tile: &Tile<'a>) -> Option<Self> {
        tile.fits().then_some(Self(*tile))
    }

    /// Multiplies one window with all pairs, rounded once.
    pub(super) fn one_once(&mut self, activations: &[u32], output: &mut [i8]) {
        columns(&self.0, Rounding::Once, activations, [output]);
    }

    /// Multiplies one window with all pairs, rounded twice.
    pub(super) fn one_twice(&mut self, activations: &[u32], output: &mut [i8]) {
        columns(&self.0, Rounding::Twice, activations, [output]);
    }

    /// Multiplies two windows with all pairs, rounded twice.
    pub(super) fn two_twice(&mut self, activations: &[u32], first: &mut [i8], second: &mut [i8]) {
        columns(&self.0, Rounding::Twice, activations, [first, second]);
    }
}

fn columns<const N: usize>(tile: &Tile<'_>, rounding: Rounding, activations: &[u32], mut outputs: [&mut [i8]; N]) {
    let fits = activations.len() >= N * tile.activation_words();
    if !fits || outputs.iter().any(|output| output.len() < tile.outputs()) {
        return;
    }
    let range = Range::full(tile.zero_point);
    for (pair, [even_channel, odd_channel]) in tile.channels.iter().enumerate() {
        let mut even = [even_channel[0]; N];
        let mut odd = [odd_channel[0]; N];
        let mut activations = activations.chunks_exact(2 * N);
        for row in 0..tile.rows {
            let start = pair * tile.pair_words + row * tile.row_words;
            let weights = part(tile.weights, start, 2 * tile.row_groups);
            for chunk in weights.chunks(2 * CHUNK) {
                let mut both = even;
                for (weights, values) in chunk.chunks_exact(2).zip(activations.by_ref()) {
                    for (weights, values) in weights.iter().zip(values.chunks_exact(N)) {
                        let weights = u32::from_le(*weights);
                        for ((both, even), value) in both.iter_mut().zip(&mut even).zip(values) {
                            *both = smlad(*value, weights, *both);
                            *even = smlad(*value, sxtb16(weights), *even);
                        }
                    }
                }
                for ((odd, both), even) in odd.iter_mut().zip(both).zip(even) {
                    *odd = odd.wrapping_add(both.wrapping_sub(even) >> 8);
                }
            }
        }
        for ((output, even), odd) in outputs.iter_mut().zip(even).zip(odd) {
            let results = [range.finish(rounding, even, *even_channel), range.finish(rounding, odd, *odd_channel)];
            for (output, result) in part_mut(output, 2 * pair, 2).iter_mut().zip(results) {
                *output = result;
            }
        }
    }
}

/// Computes the mean of four pixels with these weights, whose sum is 2^20, channel by channel: the pixels of one row
/// that begin at `low` and `high`, then those of another row. `target` stays unchanged if they do not lie in the rows.
pub(super) fn blend(rows: [&[i8]; 2], [low, high]: [usize; 2], weights: [i32; 4], target: &mut [i8]) {
    let channels = target.len();
    let [a, c] = rows.map(|row| part(row, low, channels));
    let [b, d] = rows.map(|row| part(row, high, channels));
    for (value, ((a, b), (c, d))) in target.iter_mut().zip(a.iter().zip(b).zip(c.iter().zip(d))) {
        let values = [*a, *b, *c, *d].map(i32::from);
        let sum: i32 = values.iter().zip(&weights).map(|(value, weight)| value * weight).sum();
        // Rounds half away from zero. The mean of 8-bit values is an 8-bit value.
        *value = ((sum + (1 << 19) + (sum >> 31)) >> 20) as i8;
    }
}

/// Writes the greatest of four pixels, for one window after the other.
pub(super) fn maximum(windows: &Maximum<'_>, output: &mut [i8]) {
    if !windows.fits(output.len()) {
        return;
    }
    let step = windows.channels + windows.gap;
    if windows.fourth.is_some() {
        output.fill(i8::MIN);
    }
    for (index, pixel) in output.chunks_exact_mut(windows.channels).enumerate() {
        for source in windows.sources.iter().chain(&windows.fourth) {
            let source = part(source, index * step, windows.channels);
            for (value, x) in pixel.iter_mut().zip(source) {
                *value = (*value).max(*x);
            }
        }
    }
}

/// Returns Σx, Σy, Σx², Σxy, Σy² over slices of the same length, up to 2^12 values; values after the last whole group
/// of four are left out.
pub(super) fn sums(x: &[i8], y: &[i8]) -> [i32; 5] {
    let mut sums = [0i32; 5];
    for (x, y) in x.as_chunks::<4>().0.as_flattened().iter().zip(y.as_chunks::<4>().0.as_flattened()) {
        let (x, y) = (i32::from(*x), i32::from(*y));
        for (sum, term) in sums.iter_mut().zip([x, y, x * x, x * y, y * y]) {
            *sum += term;
        }
    }
    sums
}
