//! Widened windows against weights: the checks, and the arguments of the assembly in `one` and
//! `two`.
//!
//! # Registers
//! Pair after pair, a loop over groups of four taps sums two outputs at once. `both` is 256 · odd +
//! even, `even` the even output's sum, so that the odd output's is (both − even) / 256, which is
//! exact as long as it fits 24 bits; so it is taken out after every [`CHUNK`] groups.
//!
//! | register | one window | two windows |
//! |---|---|---|
//! | r0 | weights, as they are read | the same |
//! | r1 | activations, as they are read | the same |
//! | r2 | groups left in this chunk; in the short kernels the end of the row's weights | the same |
//! | r3 | even | even of the first |
//! | r4 | both | even of the second |
//! | r5, r6 | weights (r5 to r8) | both of the first, both of the second |
//! | r7, r8 | | weights |
//! | r9 to r12 | activations | activations |
//! | lr | groups left in this row | the same |

use super::super::paired::Tile;
use super::super::quantize::Channel;
use super::one::{one_once_asm, one_short_twice_asm, one_twice_asm};
use super::two::{two_short_twice_asm, two_twice_asm};
use core::mem::offset_of;

/// Groups of four taps after which the odd output's sum is taken out: 256 products of at most 255 ·
/// 127 stay below 2^23.
pub(super) const CHUNK: usize = 64;

/// What the assembly takes, in the order in which it keeps it in its frame.
#[repr(C)]
pub(super) struct Arguments {
    weights: *const u32,
    activations: *const u32,
    channels: *const [Channel; 2],
    outputs: [*mut i8; 2],
    /// Not 0.
    pairs: usize,
    /// Not 0.
    rows: usize,
    row_groups: usize,
    /// Bytes between the end of a row's weights and the start of the next row's, and the same for
    /// pairs.
    row_gap: usize,
    pair_gap: usize,
    /// 2 · zero point + 1: shifted to the left and halved it is the zero point and a half.
    twice_zero_point_and_one: i32,
    /// For the assembly to use.
    free: usize,
}

/// The offsets that the assembly is written with: see `enter!`.
const _: () = {
    assert!(size_of::<Arguments>() == 48);
    assert!(16 + offset_of!(Arguments, weights) == 16);
    assert!(16 + offset_of!(Arguments, activations) == 20);
    assert!(16 + offset_of!(Arguments, channels) == 24);
    assert!(16 + offset_of!(Arguments, outputs) == 28);
    assert!(16 + offset_of!(Arguments, pairs) == 36);
    assert!(16 + offset_of!(Arguments, rows) == 40);
    assert!(16 + offset_of!(Arguments, row_groups) == 44);
    assert!(16 + offset_of!(Arguments, row_gap) == 48);
    assert!(16 + offset_of!(Arguments, pair_gap) == 52);
    assert!(16 + offset_of!(Arguments, twice_zero_point_and_one) == 56);
    assert!(16 + offset_of!(Arguments, free) == 60);
};

impl Arguments {
    /// `None` where there is nothing to do or something would be read or written out of bounds.
    /// What is checked: for every pair, `rows` rows of `row_groups` groups, `row_words` apart, lie
    /// in the weights; as many groups lie in the activations; the output holds two values a pair;
    /// the channels are one element a pair. The output is borrowed mutably and so apart from the
    /// rest.
    fn of_one(tile: &Tile<'_>, output: &mut [i8]) -> Option<Self> {
        let some = !tile.channels.is_empty() && tile.rows > 0;
        (some && tile.fits(1, &[output.len()])).then(|| Self::new(tile, [output.as_mut_ptr(), core::ptr::null_mut()]))
    }

    /// As [`Arguments::of_one`], with twice the activations and two outputs.
    fn of_two(tile: &Tile<'_>, first: &mut [i8], second: &mut [i8]) -> Option<Self> {
        let some = !tile.channels.is_empty() && tile.rows > 0;
        let fits = some && tile.fits(2, &[first.len(), second.len()]);
        fits.then(|| Self::new(tile, [first.as_mut_ptr(), second.as_mut_ptr()]))
    }

    fn new(tile: &Tile<'_>, outputs: [*mut i8; 2]) -> Self {
        let row = 2 * tile.row_groups;
        let used = (tile.rows - 1) * tile.row_words + row;
        // Where there is one row or one pair, what is between it and the next is of no use and may
        // be beyond any address.
        let bytes = |words: usize| words.wrapping_mul(4);
        Self {
            weights: tile.weights.as_ptr(),
            activations: tile.activations.as_ptr(),
            channels: tile.channels.as_ptr(),
            outputs,
            pairs: tile.channels.len(),
            rows: tile.rows,
            row_groups: tile.row_groups,
            row_gap: bytes(tile.row_words - row),
            pair_gap: bytes(tile.pair_words - used),
            twice_zero_point_and_one: 2 * i32::from(tile.zero_point) + 1,
            free: 0,
        }
    }
}

/// Whether the short kernels can be taken, which do less around the sums.
fn is_short(tile: &Tile<'_>) -> bool {
    tile.rows == 1 && (1..=CHUNK).contains(&tile.row_groups)
}

/// One window against all pairs, rounded once.
pub(in super::super) fn one_once(tile: &Tile<'_>, output: &mut [i8]) {
    if let Some(arguments) = Arguments::of_one(tile, output) {
        // SAFETY: `of_one` has checked what it asks for.
        unsafe { one_once_asm(&arguments) };
    }
}

/// One window against all pairs, rounded twice.
pub(in super::super) fn one_twice(tile: &Tile<'_>, output: &mut [i8]) {
    if let Some(arguments) = Arguments::of_one(tile, output) {
        let short = is_short(tile) && tile.row_groups.is_multiple_of(2);
        // SAFETY: `of_one` has checked what they ask for.
        unsafe { if short { one_short_twice_asm(&arguments) } else { one_twice_asm(&arguments) } };
    }
}

/// Two windows against all pairs, rounded twice.
pub(in super::super) fn two_twice(tile: &Tile<'_>, first: &mut [i8], second: &mut [i8]) {
    if let Some(arguments) = Arguments::of_two(tile, first, second) {
        // SAFETY: `of_two` has checked what they ask for.
        unsafe {
            if is_short(tile) {
                two_short_twice_asm(&arguments);
            } else {
                two_twice_asm(&arguments);
            }
        }
    }
}
