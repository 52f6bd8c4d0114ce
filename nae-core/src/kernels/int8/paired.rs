//! Convolution over [`Layout::Paired`](super::Layout): the windows of one or two neighbouring
//! places are widened once into scratch memory, less the zero point, then multiplied with the
//! weights of all outputs. No padding is multiplied where the input's channels are a multiple of
//! four.
//!
//! The multiplying is in `arithmetic`: `portable.rs`, or `dsp` (SMLAD), which do the same to the
//! last bit.

use super::super::{part, part_mut};
use super::arithmetic;
use super::geometry::{Convolution, Reach};
use super::quantize::{Channel, Range};

/// What does not change from place to place.
pub(super) struct Layer<'a> {
    pub(super) input_zero_point: i8,
    pub(super) words: &'a [u32],
    pub(super) channels: &'a [Channel],
    pub(super) range: Range,
}

/// Widened windows against a run of pairs of outputs.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    /// Starts at the first tap of the first pair that is used.
    pub(super) weights: &'a [u32],
    /// Words from one pair to the next.
    pub(super) pair_words: usize,
    /// Stretches of taps that are used, with gaps between them.
    pub(super) rows: usize,
    /// Groups of four taps in such a stretch.
    pub(super) row_groups: usize,
    /// Words from one stretch to the next.
    pub(super) row_words: usize,
    /// Halfwords of each group in the order t, t + 2, t + 1, t + 3; of two windows, word by word in
    /// turn.
    pub(super) activations: &'a [u32],
    /// Two for each pair.
    pub(super) channels: &'a [[Channel; 2]],
    /// Of the output.
    pub(super) zero_point: i8,
}

impl Tile<'_> {
    /// Whether all that is read for `columns` windows lies inside the slices, and `outputs` hold
    /// the results. The unsafe code of `dsp` rests on this, so it must hold for any numbers: no sum
    /// here wraps.
    pub(super) fn fits(&self, columns: usize, outputs: &[usize]) -> bool {
        let row = self.row_groups.saturating_mul(2);
        let last_pair = self.channels.len().saturating_sub(1).saturating_mul(self.pair_words);
        let used = self.rows.saturating_sub(1).saturating_mul(self.row_words).saturating_add(row);
        self.row_words >= row
            && self.pair_words >= used
            && self.weights.len() >= last_pair.saturating_add(used)
            && self.activations.len() >= self.rows.saturating_mul(row).saturating_mul(columns)
            && outputs.iter().all(|len| *len / 2 >= self.channels.len())
    }
}

/// One convolution. `scratch` has what [`scratch_words`] says.
pub(super) fn convolve(
    convolution: &Convolution,
    layer: &Layer<'_>,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    if is_whole(convolution.input.channels) {
        convolve_whole(convolution, layer, scratch, input, output);
    } else {
        convolve_band(convolution, layer, scratch, input, output);
    }
    if !layer.range.is_full() {
        layer.range.clamp(output);
    }
}

/// Whether a pixel of so many channels is whole groups of four taps. Then taps can be left out where a window reaches beyond
/// the image.
pub const fn is_whole(channels: usize) -> bool {
    channels.is_multiple_of(4)
}

/// Words of scratch memory for a convolution of this many results in a row.
pub(super) const fn scratch_words(kernel: [usize; 2], stride: usize, channels: usize, places: usize) -> usize {
    let column = kernel[0].saturating_mul(channels);
    let groups = kernel[1].saturating_mul(column).div_ceil(4);
    let windows = groups.saturating_mul(if places > 1 { 4 } else { 2 });
    if is_whole(channels) { windows } else { windows.saturating_add(band_words(column, kernel[1], stride, places)) }
}

/// Words of the band under a row of results; a column of it has `column` bytes.
const fn band_words(column: usize, kernel_width: usize, stride: usize, places: usize) -> usize {
    let columns = places.saturating_sub(1).saturating_mul(stride).saturating_add(kernel_width);
    // The last group of the last window may reach three bytes beyond the band.
    columns.saturating_mul(column).saturating_add(3).div_ceil(4)
}

/// Pixels of whole groups: rows of a window are widened from where they lie.
fn convolve_whole(convolution: &Convolution, layer: &Layer<'_>, scratch: &mut [u32], input: &[i8], output: &mut [i8]) {
    let [height, width] = convolution.places;
    for y in 0..height {
        let down = convolution.down(y);
        let mut x = 0;
        while x < width {
            let across = convolution.across(x);
            let two = x + 1 < width && convolution.uncut(across) > 1;
            let window = Window { convolution, down, across, columns: if two { 2 } else { 1 } };
            window.gather(layer.input_zero_point, scratch, input);
            window.multiply(layer, scratch, convolution.place(y, x), output);
            x += window.columns;
        }
    }
}

/// Other pixels: for each row of results the rows of the image under it are copied, column by
/// column, into a band with the padding around it. In there a window is one stretch of bytes.
fn convolve_band(convolution: &Convolution, layer: &Layer<'_>, scratch: &mut [u32], input: &[i8], output: &mut [i8]) {
    let [height, width] = convolution.places;
    let groups = convolution.taps().div_ceil(4);
    let windows = groups * if width > 1 { 4 } else { 2 };
    let column = convolution.kernel[0] * convolution.input.channels;
    let (widened, band) = scratch.split_at_mut_checked(windows).unwrap_or_default();
    let band_words = band_words(column, convolution.kernel[1], convolution.stride[1], width);
    let band: &mut [i8] = bytemuck::cast_slice_mut(part_mut(band, 0, band_words));
    let step = convolution.stride[1] * column;
    for y in 0..height {
        fill_band(convolution, y, layer.input_zero_point, input, band);
        let mut x = 0;
        while x < width {
            let columns = if x + 1 < width { 2 } else { 1 };
            let (first, second) = (part(band, x * step, 4 * groups), part(band, (x + 1) * step, 4 * groups));
            widen(columns, layer.input_zero_point, first, second, part_mut(widened, 0, 2 * groups * columns));
            let taps = Taps { skip: 0, rows: 1, row_groups: groups, row_words: 2 * groups, pair_words: 2 * groups };
            multiply(&taps, columns, layer, widened, convolution.place(y, x), convolution.step[1], output);
            x += columns;
        }
    }
}

/// Copies the rows under row `y` of the results: `[column][row][channel]`.
fn fill_band(convolution: &Convolution, y: usize, zero_point: i8, input: &[i8], band: &mut [i8]) {
    let Convolution { input: shape, kernel, before, .. } = *convolution;
    let row_len = shape.width * shape.channels;
    let column_len = kernel[0] * shape.channels;
    let down = convolution.down(y);
    // Columns of the band left of the image, columns of the image left of the band.
    let (outside, unused) = (before[1].max(0) as usize, (-before[1]).max(0) as usize);
    band.fill(zero_point);
    let band = band.get_mut(outside * column_len..).unwrap_or_default();
    for row in 0..down.len {
        let pixels = part(input, (down.at + row) * row_len, row_len).chunks_exact(shape.channels.max(1)).skip(unused);
        let at = (down.from + row) * shape.channels;
        for (column, pixel) in band.chunks_exact_mut(column_len.max(1)).zip(pixels) {
            for (target, value) in column.iter_mut().skip(at).zip(pixel) {
                *target = *value;
            }
        }
    }
}

/// A dense layer. `scratch` has [`dense_scratch_words`](super::dense_scratch_words).
pub(super) fn dense(layer: &Layer<'_>, scratch: &mut [u32], input: &[i8], output: &mut [i8]) {
    let groups = input.len().div_ceil(4);
    let (whole, rest) = input.as_chunks::<4>();
    arithmetic::widen_one(layer.input_zero_point, whole.as_flattened(), part_mut(scratch, 0, 2 * whole.len()));
    if !rest.is_empty() {
        // A loop over both would become a call of memcpy, for three bytes.
        let last: [i8; 4] = core::array::from_fn(|index| rest.get(index).copied().unwrap_or(0));
        arithmetic::widen_one(layer.input_zero_point, &last, part_mut(scratch, 2 * whole.len(), 2));
    }
    let (channels, last) = layer.channels.as_chunks();
    let words = 2 * groups;
    let tile = Tile {
        weights: layer.words,
        pair_words: words,
        rows: 1,
        row_groups: groups,
        row_words: words,
        activations: scratch,
        channels,
        zero_point: layer.range.zero_point,
    };
    arithmetic::one_once(&tile, output);
    if let [channel] = last {
        let weights = layer.words.get(channels.len() * words..).unwrap_or_default();
        let mut pair = [0; 2];
        arithmetic::one_once(&Tile { weights, channels: &[[*channel, NO_CHANNEL]], ..tile }, &mut pair);
        for (target, value) in output.iter_mut().skip(2 * channels.len()).zip(pair) {
            *target = value;
        }
    }
    if !layer.range.is_full() {
        layer.range.clamp(output);
    }
}

/// Partner of the last output where their number is odd; its weights are zeros.
const NO_CHANNEL: Channel = [0, 1 << 30, -2];

/// The windows of one place, or of two neighbours that lie inside the image across.
struct Window<'a> {
    convolution: &'a Convolution,
    down: Reach,
    across: Reach,
    columns: usize,
}

impl Window<'_> {
    /// Widens the windows into the start of `scratch`.
    fn gather(&self, zero_point: i8, scratch: &mut [u32], input: &[i8]) {
        let Convolution { input: shape, stride, .. } = *self.convolution;
        let run = self.across.len * shape.channels;
        let words = run / 2 * self.columns;
        for row in 0..self.down.len {
            let start = ((self.down.at + row) * shape.width + self.across.at) * shape.channels;
            let second = start + stride[1] * shape.channels;
            let target = part_mut(scratch, row * words, words);
            widen(self.columns, zero_point, part(input, start, run), part(input, second, run), target);
        }
    }

    /// Multiplies the widened windows with all weights that meet them; stores from `place` on.
    fn multiply(&self, layer: &Layer<'_>, scratch: &[u32], place: usize, output: &mut [i8]) {
        let [_, kernel_width] = self.convolution.kernel;
        let depth = self.convolution.input.channels;
        let row_words = kernel_width * depth / 2;
        let (skip, rows, row_groups) = if self.across.len == kernel_width || self.down.len == 0 {
            // Rows follow each other without gaps.
            (self.down.from * row_words, 1, self.down.len * row_words / 2)
        } else {
            let skip = self.down.from * row_words + self.across.from * depth / 2;
            (skip, self.down.len, self.across.len * depth / 4)
        };
        let pair_words = self.convolution.taps() / 2;
        let taps = Taps { skip, rows, row_groups, row_words: row_words.max(2 * row_groups), pair_words };
        multiply(&taps, self.columns, layer, scratch, place, self.convolution.step[1], output);
    }
}

fn widen(columns: usize, zero_point: i8, first: &[i8], second: &[i8], target: &mut [u32]) {
    if columns == 2 {
        arithmetic::widen_two(zero_point, first, second, target);
    } else {
        arithmetic::widen_one(zero_point, first, target);
    }
}

/// The taps of each pair that are used. See [`Tile`].
struct Taps {
    /// Words before the first.
    skip: usize,
    rows: usize,
    row_groups: usize,
    row_words: usize,
    pair_words: usize,
}

/// Multiplies widened windows with the weights of all outputs; stores from `place` and, the second
/// window's, `step` after it.
fn multiply(
    taps: &Taps,
    columns: usize,
    layer: &Layer<'_>,
    activations: &[u32],
    place: usize,
    step: usize,
    output: &mut [i8],
) {
    let (channels, last) = layer.channels.as_chunks();
    let tile = Tile {
        weights: layer.words.get(taps.skip..).unwrap_or_default(),
        pair_words: taps.pair_words,
        rows: taps.rows,
        row_groups: taps.row_groups,
        row_words: taps.row_words,
        activations,
        channels,
        zero_point: layer.range.zero_point,
    };
    let outputs = layer.channels.len();
    let end = output.len();
    let second = if columns == 2 { (place + step).min(end) } else { end };
    let (before, after) = output.split_at_mut_checked(second).unwrap_or_default();
    let (first, second) = (part_mut(before, place, outputs), part_mut(after, 0, outputs));
    run(columns, &tile, first, second);
    if let [channel] = last {
        let weights = tile.weights.get(channels.len() * taps.pair_words..).unwrap_or_default();
        let (mut first_pair, mut second_pair) = ([0; 2], [0; 2]);
        let tile = Tile { weights, channels: &[[*channel, NO_CHANNEL]], ..tile };
        run(columns, &tile, &mut first_pair, &mut second_pair);
        for (target, value) in first.last_mut().into_iter().zip(first_pair) {
            *target = value;
        }
        for (target, value) in second.last_mut().into_iter().zip(second_pair) {
            *target = value;
        }
    }
}

fn run(columns: usize, tile: &Tile<'_>, first: &mut [i8], second: &mut [i8]) {
    if columns == 2 {
        arithmetic::two_twice(tile, first, second);
    } else {
        arithmetic::one_twice(tile, first);
    }
}
