//! Convolution over [`Layout::Paired`](super::Layout): the windows of one or two neighbouring
//! places are widened once into scratch memory, less the zero point, then multiplied with the weights of all outputs. No padding is
//! multiplied where the input's channels are a multiple of four.
//!
//! The multiplying is in `model` (portable) or `dsp` (SMLAD), which do the same to the last bit.

use super::super::{part, part_mut};
#[cfg(nae_dsp)]
use super::dsp as arithmetic;
use super::geometry::{Convolution, Reach};
#[cfg(not(nae_dsp))]
use super::model as arithmetic;
use super::quantize::{Channel, Range, Rounding};

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
    /// Halfwords of each group in the order t, t + 2, t + 1, t + 3; of two windows, word by word in turn.
    pub(super) activations: &'a [u32],
    /// Two for each pair.
    pub(super) channels: &'a [[Channel; 2]],
    /// Of the output.
    pub(super) zero_point: i8,
    pub(super) rounding: Rounding,
}

impl Tile<'_> {
    /// Whether all that is read for `columns` windows lies inside the slices, and `outputs` hold the results.
    pub(super) fn fits(&self, columns: usize, outputs: &[usize]) -> bool {
        let row = self.row_groups * 2;
        let last_pair = self.channels.len().saturating_sub(1) * self.pair_words;
        let last_row = self.rows.saturating_sub(1) * self.row_words;
        self.row_words >= row
            && self.pair_words >= last_row + row
            && self.weights.len() >= last_pair + last_row + row
            && self.activations.len() >= self.rows * row * columns
            && outputs.iter().all(|len| *len >= 2 * self.channels.len())
    }
}

/// One convolution. `scratch` has [`scratch_words`](super::scratch_words).
pub(super) fn convolve(
    convolution: &Convolution,
    layer: &Layer<'_>,
    scratch: &mut [u32],
    input: &[i8],
    output: &mut [i8],
) {
    // Taps in whole groups can be left out where a window reaches beyond the image.
    let whole = convolution.input.channels.is_multiple_of(4);
    let [height, width] = convolution.places;
    for y in 0..height {
        let down = convolution.down(y);
        let mut x = 0;
        while x < width {
            let across = convolution.across(x);
            let two = x + 1 < width && (!whole || across.same_cut(convolution.across(x + 1)));
            let window = Window { convolution, down, across, x, whole, columns: if two { 2 } else { 1 } };
            window.gather(layer.input_zero_point, scratch, input);
            window.multiply(layer, scratch, convolution.place(y, x), output);
            x += window.columns;
        }
    }
    if !layer.range.is_full() {
        layer.range.clamp(output);
    }
}

/// The windows of one place, or of two neighbours; in whole groups these are cut alike.
struct Window<'a> {
    convolution: &'a Convolution,
    down: Reach,
    across: Reach,
    x: usize,
    whole: bool,
    columns: usize,
}

impl Window<'_> {
    /// Groups of four taps in the kernel.
    fn groups(&self) -> usize {
        self.convolution.taps().div_ceil(4)
    }

    /// Widens the windows into the start of `scratch`.
    fn gather(&self, zero_point: i8, scratch: &mut [u32], input: &[i8]) {
        let depth = self.convolution.input.channels;
        if self.whole {
            let run = self.across.len * depth;
            let words = run / 2 * self.columns;
            for row in 0..self.down.len {
                let start = self.start(row, self.across);
                let second = start + self.convolution.stride[1] * depth;
                let (first, second) = (part(input, start, run), part(input, second, run));
                self.widen(zero_point, first, second, part_mut(scratch, row * words, words));
            }
        } else {
            let groups = self.groups();
            let (widened, bytes) = scratch.split_at_mut_checked(4 * groups).unwrap_or_default();
            let (first, second) = bytes.split_at_mut_checked(groups).unwrap_or_default();
            let (first, second) =
                (bytemuck::cast_slice_mut(first), bytemuck::cast_slice_mut(part_mut(second, 0, groups)));
            self.copy(self.across, zero_point, input, first);
            if self.columns == 2 {
                self.copy(self.convolution.across(self.x + 1), zero_point, input, second);
            }
            self.widen(zero_point, first, second, part_mut(widened, 0, 2 * groups * self.columns));
        }
    }

    fn widen(&self, zero_point: i8, first: &[i8], second: &[i8], target: &mut [u32]) {
        if self.columns == 2 {
            arithmetic::widen_two(zero_point, first, second, target);
        } else {
            arithmetic::widen_one(zero_point, first, target);
        }
    }

    /// Copies a window, the input's zero point where it is beyond the image.
    fn copy(&self, across: Reach, zero_point: i8, input: &[i8], target: &mut [i8]) {
        let depth = self.convolution.input.channels;
        let row_len = self.convolution.kernel[1] * depth;
        let run = across.len * depth;
        if self.down.len < self.convolution.kernel[0] || run < row_len {
            target.fill(zero_point);
        }
        for row in 0..self.down.len {
            let source = part(input, self.start(row, across), run);
            let target = part_mut(target, (self.down.from + row) * row_len + across.from * depth, run);
            for (target, value) in target.iter_mut().zip(source) {
                *target = *value;
            }
        }
    }

    /// Where in the input a row of the windows starts.
    fn start(&self, row: usize, across: Reach) -> usize {
        ((self.down.at + row) * self.convolution.input.width + across.at) * self.convolution.input.channels
    }

    /// Multiplies the widened windows with all weights that meet them; stores from `place` on.
    fn multiply(&self, layer: &Layer<'_>, scratch: &[u32], place: usize, output: &mut [i8]) {
        let pair_words = 2 * self.groups();
        let [_, kernel_width] = self.convolution.kernel;
        let depth = self.convolution.input.channels;
        let row_words = kernel_width * depth / 2;
        let (skip, rows, row_groups) = if !self.whole {
            (0, 1, self.groups())
        } else if self.across.len == kernel_width || self.down.len == 0 {
            // Rows follow each other without gaps.
            (self.down.from * row_words, 1, self.down.len * row_words / 2)
        } else {
            let skip = self.down.from * row_words + self.across.from * depth / 2;
            (skip, self.down.len, self.across.len * depth / 4)
        };
        let (channels, last) = layer.channels.as_chunks();
        let tile = Tile {
            weights: layer.words.get(skip..).unwrap_or_default(),
            pair_words,
            rows,
            row_groups,
            row_words: row_words.max(2 * row_groups),
            activations: scratch,
            channels,
            zero_point: layer.range.zero_point,
            rounding: self.convolution.rounding,
        };
        let outputs = layer.channels.len();
        let end = output.len();
        let second = if self.columns == 2 { (place + self.convolution.step[1]).min(end) } else { end };
        let (before, after) = output.split_at_mut_checked(second).unwrap_or_default();
        let (first, second) = (part_mut(before, place, outputs), part_mut(after, 0, outputs));
        self.run(&tile, first, second);
        if let [channel] = last {
            // The odd output is computed with its partner, which is made of zeros.
            let skip = channels.len() * pair_words;
            let channels = [[*channel, [0, 0, -2]]];
            let weights = tile.weights.get(skip..).unwrap_or_default();
            let (mut first_pair, mut second_pair) = ([0; 2], [0; 2]);
            self.run(&Tile { weights, channels: &channels, ..tile }, &mut first_pair, &mut second_pair);
            for (target, value) in first.last_mut().into_iter().zip(first_pair) {
                *target = value;
            }
            for (target, value) in second.last_mut().into_iter().zip(second_pair) {
                *target = value;
            }
        }
    }

    fn run(&self, tile: &Tile<'_>, first: &mut [i8], second: &mut [i8]) {
        if self.columns == 2 {
            arithmetic::two(tile, first, second);
        } else {
            arithmetic::one(tile, first);
        }
    }
}
