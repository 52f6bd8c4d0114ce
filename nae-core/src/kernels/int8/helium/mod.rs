#![allow(unsafe_code)]
//! Convolution and dense layers over [`Layout::Plain`](super::Layout) for cores with the vector extension Helium
//! (Cortex-M55, M85): sixteen products per instruction. Results are those of `plain.rs`, which does the same without
//! assembly. Also the inner loop of bilinear resizing (`blend`).
//!
//! Two windows that use the same taps are multiplied with two outputs at a time (`multiply`). The windows lie in the
//! input, and no padding is multiplied. If the rows of a window are shorter than half a vector, the window is first
//! copied into one piece (`copy`), with the zero point for values outside the image.
//!
//! # Why there is unsafe code here
//! Stable Rust has no intrinsics for Helium, so the loops are naked functions. Each is called from one safe function,
//! which first checks that everything the assembly reads and writes lies in the given slices. The assembly accesses
//! nothing else but its own stack frame (204 bytes), and preserves the registers that the calling convention (AAPCS)
//! requires.

mod blend;
mod copy;
mod multiply;

pub(super) use blend::blend_asm;

use super::super::part_mut;
use super::Layer;
use super::geometry::{Convolution, Reach};
use copy::copy;
use multiply::{Filters, Taps};

/// The largest window, in values, that is copied if its rows are short.
const COPIED: usize = 64;
/// Half a vector.
const SHORT_ROW: usize = 8;

/// Runs one convolution.
pub(super) fn convolve(convolution: &Convolution, layer: &Layer<'_, i8>, input: &[i8], output: &mut [i8]) {
    let Convolution { kernel, input: shape, .. } = *convolution;
    if kernel[1] * shape.channels < SHORT_ROW && convolution.taps() <= COPIED {
        convolve_copies(convolution, layer, input, output);
    } else {
        convolve_in_place(convolution, layer, input, output);
    }
}

/// Runs a convolution whose windows are read in place.
fn convolve_in_place(convolution: &Convolution, layer: &Layer<'_, i8>, input: &[i8], output: &mut [i8]) {
    let mut columns = Columns { convolution, layer, made: None };
    let [_, width] = convolution.places;
    let mut x = 0;
    while x < width {
        // Consecutive windows use the same taps as long as they lie inside the image across.
        let across = convolution.across(x);
        let windows = convolution.uncut(across).clamp(1, width - x);
        if windows > 1 {
            columns.beside_each_other(x, across, windows / 2, input, output);
        }
        x += windows;
        if !windows.is_multiple_of(2) {
            columns.above_each_other(x - 1, input, output);
        }
    }
}

/// Columns of results.
struct Columns<'a> {
    convolution: &'a Convolution,
    layer: &'a Layer<'a, i8>,
    /// The filters of the previous row, and the windows' reach there: most rows use the same taps.
    made: Option<([Reach; 2], Filters<'a>)>,
}

impl<'a> Columns<'a> {
    /// Computes the results of `pairs` pairs of windows from column `x` on, all of the same reach across.
    fn beside_each_other(&mut self, x: usize, across: Reach, pairs: usize, input: &[i8], output: &mut [i8]) {
        let Convolution { places: [height, _], stride, input: shape, step, .. } = *self.convolution;
        let next = stride[1] * shape.channels;
        for y in 0..height {
            let down = self.convolution.down(y);
            let mut windows = self.windows(down, across, input);
            let mut place = self.convolution.place(y, x);
            let filters = self.filters(down, across);
            for _ in 0..pairs {
                filters.two(windows, next, place, step[1], output);
                windows = windows.get(2 * next..).unwrap_or_default();
                place += 2 * step[1];
            }
        }
    }

    /// Computes the results of column `x`, two at a time if both use the same taps.
    fn above_each_other(&mut self, x: usize, input: &[i8], output: &mut [i8]) {
        let Convolution { places: [height, _], input: shape, step, .. } = *self.convolution;
        let across = self.convolution.across(x);
        let (mut y, mut down) = (0, self.convolution.down(0));
        while y < height {
            let below = self.convolution.down(y + 1);
            let two = y + 1 < height && down.taps() == below.taps();
            let windows = self.windows(down, across, input);
            let place = self.convolution.place(y, x);
            let filters = self.filters(down, across);
            if two {
                let next = below.at.saturating_sub(down.at) * shape.width * shape.channels;
                filters.two(windows, next, place, step[0], output);
                y += 2;
                down = self.convolution.down(y);
            } else {
                filters.one(windows, place, output);
                y += 1;
                down = below;
            }
        }
    }

    /// The values from a window's first value on.
    fn windows<'i>(&self, down: Reach, across: Reach, input: &'i [i8]) -> &'i [i8] {
        let shape = self.convolution.input;
        input.get((down.at * shape.width + across.at) * shape.channels..).unwrap_or_default()
    }

    fn filters(&mut self, down: Reach, across: Reach) -> &mut Filters<'a> {
        let same =
            |(made, _): &([Reach; 2], Filters<'a>)| made[0].taps() == down.taps() && made[1].taps() == across.taps();
        if !self.made.as_ref().is_some_and(same) {
            self.made = None;
        }
        let (convolution, layer) = (self.convolution, self.layer);
        let make = || ([down, across], Filters::new(&taps(convolution, down, across), layer));
        &mut self.made.get_or_insert_with(make).1
    }
}

/// The taps of a window that lie in the image.
fn taps(convolution: &Convolution, down: Reach, across: Reach) -> Taps {
    let Convolution { input, kernel, .. } = *convolution;
    let (values_step, weights_step) = (input.width * input.channels, kernel[1] * input.channels);
    let skip = down.from * weights_step + across.from * input.channels;
    let bytes = across.len * input.channels;
    let output_step = convolution.taps();
    if values_step == bytes && weights_step == bytes {
        // The rows of the image follow each other without gaps.
        Taps { skip, bytes: down.len * bytes, ..Taps::all(output_step) }
    } else {
        Taps { skip, rows: down.len, bytes, values_step, weights_step, output_step }
    }
}

/// Runs a convolution whose windows are copied, with all their taps.
fn convolve_copies(convolution: &Convolution, layer: &Layer<'_, i8>, input: &[i8], output: &mut [i8]) {
    let [height, width] = convolution.places;
    let taps = convolution.taps();
    let mut filters = Filters::new(&Taps::all(taps), layer);
    let mut windows = [0; 2 * COPIED];
    let windows = part_mut(&mut windows, 0, 2 * taps);
    for y in 0..height {
        let down = convolution.down(y);
        let mut place = convolution.place(y, 0);
        for x in (0..width).step_by(2) {
            let (first, second) = windows.split_at_mut_checked(taps).unwrap_or_default();
            copy(convolution, layer.input_zero_point, down, convolution.across(x), input, first);
            if x + 1 < width {
                copy(convolution, layer.input_zero_point, down, convolution.across(x + 1), input, second);
                filters.two(windows, taps, place, convolution.step[1], output);
            } else {
                filters.one(first, place, output);
            }
            place += 2 * convolution.step[1];
        }
    }
}

/// Runs a dense layer.
pub(super) fn dense(layer: &Layer<'_, i8>, input: &[i8], output: &mut [i8]) {
    Filters::new(&Taps::all(input.len()), layer).one_once(input, output);
}
