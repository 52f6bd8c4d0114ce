//! Convolution over [`Layout::Paired`](super::Layout): the windows of one or two neighbouring places are widened once
//! into scratch memory, less the zero point, then multiplied with the weights of all outputs. No padding is multiplied
//! if the number of input channels is a multiple of four.
//!
//! The multiplication is in `arithmetic`: `portable.rs`, or `dsp` (SMLAD), whose results are equal to the last bit.

use super::super::{part, part_mut};
use super::Layer;
use super::arithmetic;
use super::geometry::{Convolution, Reach};
use super::lone;
use super::quantize::Channel;

/// Weights of a run of pairs of outputs, to be multiplied with widened windows.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    /// The weights, from the first tap of the first pair that is used.
    pub(super) weights: &'a [u32],
    /// Number of words from one pair to the next.
    pub(super) pair_words: usize,
    /// Number of stretches of taps that are used, with gaps between them.
    pub(super) rows: usize,
    /// Number of groups of four taps in such a stretch.
    pub(super) row_groups: usize,
    /// Number of words from one stretch to the next.
    pub(super) row_words: usize,
    /// Two channels for each pair.
    pub(super) channels: &'a [[Channel; 2]],
    /// Zero point of the output.
    pub(super) zero_point: i8,
}

impl Tile<'_> {
    /// Whether all weights that are read lie inside the slice. The unsafe code of `dsp` depends on this, so it must
    /// hold for any numbers: no sum here wraps.
    pub(super) fn fits(&self) -> bool {
        let row = self.row_groups.saturating_mul(2);
        let last_pair = self.channels.len().saturating_sub(1).saturating_mul(self.pair_words);
        let used = self.rows.saturating_sub(1).saturating_mul(self.row_words).saturating_add(row);
        self.row_words >= row
            && self.pair_words >= used
            && self.weights.len() >= last_pair.saturating_add(used)
            // Twice this number, for two windows, must also be a valid `usize`.
            && self.activation_words() <= usize::MAX / 2
    }

    /// Number of words of a widened window: halfwords of each group in the order t, t + 2, t + 1, t + 3; the words of
    /// two windows alternate.
    pub(super) fn activation_words(&self) -> usize {
        self.rows.saturating_mul(self.row_groups.saturating_mul(2))
    }

    /// Number of values of a result.
    pub(super) fn outputs(&self) -> usize {
        self.channels.len().saturating_mul(2)
    }
}

/// All outputs of windows that use the same taps: checked once, and used for one or two windows at a time.
struct Filters<'a> {
    pairs: Option<arithmetic::Ready<'a>>,
    /// The last output, if their number is odd.
    last: Option<arithmetic::Ready<'a>>,
    outputs: usize,
}

impl<'a> Filters<'a> {
    fn new(taps: &Taps, layer: &Layer<'a, u32>, odd: &'a [[Channel; 2]]) -> Self {
        let (channels, last) = layer.channels.as_chunks();
        let weights = layer.weights.get(taps.skip..).unwrap_or_default();
        let Taps { rows, row_groups, row_words, pair_words, .. } = *taps;
        let zero_point = layer.range.zero_point;
        let tile = Tile { weights, pair_words, rows, row_groups, row_words, channels, zero_point };
        let last = if last.is_empty() {
            None
        } else {
            let weights = weights.get(channels.len() * pair_words..).unwrap_or_default();
            arithmetic::Ready::new(&Tile { weights, channels: odd, ..tile })
        };
        Self { pairs: arithmetic::Ready::new(&tile), last, outputs: layer.channels.len() }
    }

    /// Computes the results of one widened window and stores them from `place` on.
    fn one(&mut self, activations: &[u32], place: usize, output: &mut [i8]) {
        let output = part_mut(output, place, self.outputs);
        if let Some(pairs) = &mut self.pairs {
            pairs.one_twice(activations, output);
        }
        if let (Some(last), Some(target)) = (&mut self.last, output.last_mut()) {
            let mut pair = [0; 2];
            last.one_twice(activations, &mut pair);
            *target = pair[0];
        }
    }

    /// Computes the results of two widened windows; stores the second one's `step` after the first one's.
    fn two(&mut self, activations: &[u32], place: usize, step: usize, output: &mut [i8]) {
        let (before, after) = output.split_at_mut_checked(place.saturating_add(step)).unwrap_or_default();
        let (first, second) = (part_mut(before, place, self.outputs), part_mut(after, 0, self.outputs));
        if let Some(pairs) = &mut self.pairs {
            pairs.two_twice(activations, first, second);
        }
        if let (Some(last), Some(first), Some(second)) = (&mut self.last, first.last_mut(), second.last_mut()) {
            let mut pairs = [[0; 2]; 2];
            let [a, b] = &mut pairs;
            last.two_twice(activations, a, b);
            (*first, *second) = (pairs[0][0], pairs[1][0]);
        }
    }
}

/// Runs one convolution. `scratch` has the size that [`scratch_words`] returns. If the range of `layer` is not full,
/// the whole output is clamped.
pub(super) fn convolve(
    convolution: &Convolution,
    layer: &Layer<'_, u32>,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    let odd = [[layer.channels.last().copied().unwrap_or(NO_CHANNEL), NO_CHANNEL]];
    let whole = is_whole(convolution.input.channels);
    if let (true, [channel]) = (whole, layer.channels) {
        lone::convolve(convolution, layer, *channel, scratch, input, output);
    } else if whole {
        convolve_whole(convolution, layer, &odd, scratch, input, output);
    } else {
        convolve_band(convolution, layer, &odd, scratch, input, output);
    }
    if !layer.range.is_full() {
        layer.range.clamp(output);
    }
}

/// Whether a pixel with this number of channels is whole groups of four taps. Then the taps of a window outside the
/// image can be left out.
pub const fn is_whole(channels: usize) -> bool {
    channels.is_multiple_of(4)
}

/// Number of words of scratch memory for a convolution with this number of results in a row.
pub(super) const fn scratch_words(kernel: [usize; 2], stride: usize, channels: usize, places: usize) -> usize {
    let column = kernel[0].saturating_mul(channels);
    let groups = kernel[1].saturating_mul(column).div_ceil(4);
    let windows = groups.saturating_mul(if places > 1 { 4 } else { 2 });
    if is_whole(channels) { windows } else { windows.saturating_add(band_words(column, kernel[1], stride, places)) }
}

/// Number of bytes that are written to bands under `rows` rows of results, of which `columns` columns are in a band.
pub(super) const fn band_bytes(kernel_height: usize, channels: usize, rows: usize, columns: usize) -> u64 {
    if is_whole(channels) {
        return 0;
    }
    let column = (kernel_height as u64).saturating_mul(channels as u64);
    column.saturating_mul(rows as u64).saturating_mul(columns as u64)
}

/// Number of columns of the band under a row of results.
pub(super) const fn band_columns(kernel_width: usize, stride: usize, places: usize) -> usize {
    places.saturating_sub(1).saturating_mul(stride).saturating_add(kernel_width)
}

/// Number of words of the band under a row of results; a column of it has `column` bytes.
const fn band_words(column: usize, kernel_width: usize, stride: usize, places: usize) -> usize {
    // The last group of the last window may reach three bytes beyond the band.
    band_columns(kernel_width, stride, places).saturating_mul(column).saturating_add(3).div_ceil(4)
}

/// Runs a convolution whose pixels are whole groups: rows of a window are widened directly from the input. Columns of
/// results are computed one after the other, so that the taps of a window are determined rarely.
fn convolve_whole(
    convolution: &Convolution,
    layer: &Layer<'_, u32>,
    odd: &[[Channel; 2]],
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    let mut columns = Columns { convolution, layer, odd, made: None };
    let [_, width] = convolution.places;
    let mut x = 0;
    while x < width {
        let across = convolution.across(x);
        // Consecutive windows use the same taps as long as they lie inside the image across.
        let windows = convolution.uncut(across).min(width - x).max(1);
        let pairs = windows / 2;
        if pairs > 0 {
            columns.beside_each_other(x, across, pairs, scratch, input, output);
        }
        if !windows.is_multiple_of(2) {
            columns.above_each_other(x + 2 * pairs, scratch, input, output);
        }
        x += windows;
    }
}

/// Columns of results whose windows' pixels are whole groups.
struct Columns<'a> {
    convolution: &'a Convolution,
    layer: &'a Layer<'a, u32>,
    odd: &'a [[Channel; 2]],
    /// The filters of the previous row, and the windows' reach there: most rows use the same taps.
    made: Option<([Reach; 2], Filters<'a>)>,
}

impl<'a> Columns<'a> {
    /// Computes the results of `pairs` pairs of windows from column `x` on, all of the same reach across.
    fn beside_each_other(
        &mut self,
        x: usize,
        across: Reach,
        pairs: usize,
        scratch: &mut [u32],
        input: &[i8],
        output: &mut [i8],
    ) {
        let Convolution { places: [height, _], stride, input: shape, step, .. } = *self.convolution;
        for y in 0..height {
            let down = self.convolution.down(y);
            let mut source = self.source(down, across, stride[1] * shape.channels);
            let mut place = self.convolution.place(y, x);
            let filters = self.filters(down, across);
            for _ in 0..pairs {
                source.widen_two(input, scratch);
                filters.two(scratch, place, step[1], output);
                place += 2 * step[1];
            }
        }
    }

    /// Computes the results of column `x`, two at a time if both use the same taps.
    fn above_each_other(&mut self, x: usize, scratch: &mut [u32], input: &[i8], output: &mut [i8]) {
        let Convolution { places: [height, width], input: shape, step, .. } = *self.convolution;
        let across = self.convolution.across(x);
        let mut y = 0;
        while y < height {
            let (down, below) = (self.convolution.down(y), self.convolution.down(y + 1));
            // Scratch memory has room for one window if a row of results has one.
            let two = width > 1 && y + 1 < height && down.taps() == below.taps();
            let next = below.at.saturating_sub(down.at) * shape.width * shape.channels;
            let mut source = self.source(down, across, next);
            let place = self.convolution.place(y, x);
            let filters = self.filters(down, across);
            if two {
                source.widen_two(input, scratch);
                filters.two(scratch, place, step[0], output);
                y += 2;
            } else {
                source.widen_one(input, scratch);
                filters.one(scratch, place, output);
                y += 1;
            }
        }
    }

    fn source(&self, down: Reach, across: Reach, next: usize) -> Source {
        let shape = self.convolution.input;
        Source {
            zero_point: self.layer.input_zero_point,
            start: (down.at * shape.width + across.at) * shape.channels,
            next,
            rows: down.len,
            row_len: shape.width * shape.channels,
            groups: across.len * shape.channels / 4,
        }
    }

    fn filters(&mut self, down: Reach, across: Reach) -> &mut Filters<'a> {
        let same =
            |(made, _): &([Reach; 2], Filters<'a>)| made[0].taps() == down.taps() && made[1].taps() == across.taps();
        if !self.made.as_ref().is_some_and(same) {
            self.made = None;
        }
        let (convolution, layer, odd) = (self.convolution, self.layer, self.odd);
        let make = || ([down, across], Filters::new(&Taps::of(convolution, down, across), layer, odd));
        &mut self.made.get_or_insert_with(make).1
    }
}

/// Runs a convolution with other pixels: for each row of results, the rows of the image under it are copied, column by
/// column, into a band with the padding around it. There a window is one stretch of bytes.
fn convolve_band(
    convolution: &Convolution,
    layer: &Layer<'_, u32>,
    odd: &[[Channel; 2]],
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    let [height, width] = convolution.places;
    let groups = convolution.taps().div_ceil(4);
    let windows = groups * if width > 1 { 4 } else { 2 };
    let column = convolution.kernel[0] * convolution.input.channels;
    let (widened, band) = scratch.split_at_mut_checked(windows).unwrap_or_default();
    let band_words = band_words(column, convolution.kernel[1], convolution.stride[1], width);
    let band: &mut [i8] = bytemuck::cast_slice_mut(part_mut(band, 0, band_words));
    let taps = Taps { skip: 0, rows: 1, row_groups: groups, row_words: 2 * groups, pair_words: 2 * groups };
    let mut filters = Filters::new(&taps, layer, odd);
    for y in 0..height {
        fill_band(convolution, y, layer.input_zero_point, input, band);
        let mut source = Source {
            zero_point: layer.input_zero_point,
            start: 0,
            next: convolution.stride[1] * column,
            rows: 1,
            row_len: 0,
            groups,
        };
        let mut place = convolution.place(y, 0);
        for _ in 0..width / 2 {
            source.widen_two(band, widened);
            filters.two(widened, place, convolution.step[1], output);
            place += 2 * convolution.step[1];
        }
        if !width.is_multiple_of(2) {
            source.widen_one(band, widened);
            filters.one(widened, place, output);
        }
    }
}

/// Consecutive windows, to be widened one or two at a time.
struct Source {
    zero_point: i8,
    /// Index of the first value of the next window.
    start: usize,
    /// Number of values from one window to the next.
    next: usize,
    /// Number of rows of a window, and of values from one row to the next.
    rows: usize,
    row_len: usize,
    /// Number of groups of four values in a row.
    groups: usize,
}

impl Source {
    fn widen_one(&mut self, input: &[i8], target: &mut [u32]) {
        let window = input.get(self.start..).unwrap_or_default();
        arithmetic::widen_rows(self.zero_point, window, [self.rows, self.row_len, self.groups], target);
        self.start += self.next;
    }

    fn widen_two(&mut self, input: &[i8], target: &mut [u32]) {
        let windows = input.get(self.start..).unwrap_or_default();
        arithmetic::widen_rows_of_two(
            self.zero_point,
            windows,
            self.next,
            [self.rows, self.row_len, self.groups],
            target,
        );
        self.start += 2 * self.next;
    }
}

/// Copies the rows under row `y` of the results: `[column][row][channel]`.
fn fill_band(convolution: &Convolution, y: usize, zero_point: i8, input: &[i8], band: &mut [i8]) {
    let Convolution { input: shape, kernel, before, .. } = *convolution;
    let row_len = shape.width * shape.channels;
    let column_len = kernel[0] * shape.channels;
    let down = convolution.down(y);
    // Columns of the band left of the image, and columns of the image left of the band.
    let (outside, unused) = (before[1].max(0) as usize, (-before[1]).max(0) as usize);
    band.fill(zero_point);
    let band = band.get_mut(outside * column_len..).unwrap_or_default();
    for row in 0..down.len {
        let pixels = part(input, (down.at + row) * row_len, row_len).get(unused * shape.channels..).unwrap_or_default();
        for channel in 0..shape.channels {
            let values = pixels.get(channel..).unwrap_or_default().chunks(shape.channels.max(1));
            let at = (down.from + row) * shape.channels + channel;
            for (column, pixel) in band.chunks_exact_mut(column_len.max(1)).zip(values) {
                if let (Some(target), [value, ..]) = (column.get_mut(at), pixel) {
                    *target = *value;
                }
            }
        }
    }
}

/// Runs a dense layer. `scratch` has [`dense_scratch_words`](super::dense_scratch_words).
pub(super) fn dense(layer: &Layer<'_, u32>, scratch: &mut [u32], input: &[i8], output: &mut [i8]) {
    let groups = input.len().div_ceil(4);
    let (whole, rest) = input.as_chunks::<4>();
    arithmetic::widen_one(layer.input_zero_point, whole.as_flattened(), part_mut(scratch, 0, 2 * whole.len()));
    if !rest.is_empty() {
        // The compiler would convert a loop over both to a call of memcpy, for three bytes.
        let last: [i8; 4] = core::array::from_fn(|index| rest.get(index).copied().unwrap_or(0));
        arithmetic::widen_one(layer.input_zero_point, &last, part_mut(scratch, 2 * whole.len(), 2));
    }
    let (channels, last) = layer.channels.as_chunks();
    let words = 2 * groups;
    let (weights, zero_point) = (layer.weights, layer.range.zero_point);
    let tile = Tile { weights, pair_words: words, rows: 1, row_groups: groups, row_words: words, channels, zero_point };
    if let Some(mut pairs) = arithmetic::Ready::new(&tile) {
        pairs.one_once(scratch, output);
    }
    if let [channel] = last {
        let weights = weights.get(channels.len() * words..).unwrap_or_default();
        let odd = [[*channel, NO_CHANNEL]];
        let mut pair = [0; 2];
        if let Some(mut last) = arithmetic::Ready::new(&Tile { weights, channels: &odd, ..tile }) {
            last.one_once(scratch, &mut pair);
        }
        if let Some(target) = output.get_mut(2 * channels.len()) {
            *target = pair[0];
        }
    }
    if !layer.range.is_full() {
        layer.range.clamp(output);
    }
}

/// The partner of the last output, if their number is odd; its weights are zeros.
const NO_CHANNEL: Channel = [0, 1 << 30, -2];

/// The taps of each pair that are used. See [`Tile`].
pub(super) struct Taps {
    /// Number of words before the first tap.
    pub(super) skip: usize,
    rows: usize,
    row_groups: usize,
    row_words: usize,
    pair_words: usize,
}

impl Taps {
    /// Returns the taps that overlap the image, for windows whose pixels are whole groups.
    pub(super) fn of(convolution: &Convolution, down: Reach, across: Reach) -> Self {
        let [_, kernel_width] = convolution.kernel;
        let depth = convolution.input.channels;
        let row_words = kernel_width * depth / 2;
        let (skip, rows, row_groups) = if across.len == kernel_width || down.len == 0 {
            // The rows follow each other without gaps.
            (down.from * row_words, 1, down.len * row_words / 2)
        } else {
            (down.from * row_words + across.from * depth / 2, down.len, across.len * depth / 4)
        };
        let pair_words = convolution.taps() / 2;
        Self { skip, rows, row_groups, row_words: row_words.max(2 * row_groups), pair_words }
    }
}
