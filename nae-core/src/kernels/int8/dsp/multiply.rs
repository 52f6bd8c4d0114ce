//! Widened windows against weights: the checks, and the arguments of the assembly in `one` and `two`.
//!
//! # Registers
//! For each pair of outputs, a loop over groups of four taps computes the sums of both at once. `both` is 256 · odd +
//! even, and `even` is the even output's sum, so that the odd output's sum is (both − even) / 256. This is exact as
//! long as the odd sum fits 24 bits; therefore it is extracted after every [`CHUNK`] groups.
//!
//! | register | one window | two windows |
//! |---|---|---|
//! | r0 | address of the next weights | the same |
//! | r1 | address of the next activations | the same |
//! | r2 | groups left in this chunk; in the short kernels, the end of the row's weights | the same |
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
use core::marker::PhantomData;
use core::mem::offset_of;

/// Number of groups of four taps after which the odd output's sum is extracted: 256 products of at most 255 · 127 stay
/// below 2^23.
pub(super) const CHUNK: usize = 64;

/// Arguments of the assembly, in the order of its frame.
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
    /// Bytes between the end of a row's weights and the start of the next row's, and the same for pairs.
    row_gap: usize,
    pair_gap: usize,
    /// 2 · zero point + 1: shifted to the left and halved, it is the zero point plus a half.
    twice_zero_point_and_one: i32,
    /// Free space for the assembly.
    free: usize,
}

/// The offsets that the assembly uses: see `enter!`.
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

/// A tile whose weights have been checked, with all arguments of the assembly except activations and outputs.
pub(in super::super) struct Ready<'a> {
    arguments: Arguments,
    /// Number of words of a widened window.
    activation_words: usize,
    /// Number of values of a result.
    outputs: usize,
    /// Whether the short kernels, which do less around the sums, can be used.
    is_short: bool,
    borrows: PhantomData<&'a [u32]>,
}

impl<'a> Ready<'a> {
    /// Returns `None` if there is nothing to do or weights would be read beyond their end.
    ///
    /// Checks that for every pair, `rows` rows of `row_groups` groups, `row_words` apart, lie in the weights; the
    /// channels are one element per pair.
    pub(in super::super) fn new(tile: &Tile<'a>) -> Option<Self> {
        if tile.channels.is_empty() || tile.rows == 0 || !tile.fits() {
            return None;
        }
        let row = 2 * tile.row_groups;
        let used = (tile.rows - 1) * tile.row_words + row;
        // With a single row or pair, the gap to the next is not used and may be beyond any address.
        let bytes = |words: usize| words.wrapping_mul(4);
        let arguments = Arguments {
            weights: tile.weights.as_ptr(),
            activations: core::ptr::null(),
            channels: tile.channels.as_ptr(),
            outputs: [core::ptr::null_mut(); 2],
            pairs: tile.channels.len(),
            rows: tile.rows,
            row_groups: tile.row_groups,
            row_gap: bytes(tile.row_words - row),
            pair_gap: bytes(tile.pair_words - used),
            twice_zero_point_and_one: 2 * i32::from(tile.zero_point) + 1,
            free: 0,
        };
        Some(Self {
            arguments,
            activation_words: tile.activation_words(),
            outputs: tile.outputs(),
            is_short: tile.rows == 1 && (1..=CHUNK).contains(&tile.row_groups),
            borrows: PhantomData,
        })
    }

    /// Returns the arguments for these slices, if they are long enough: as many words of activations as the tile has
    /// for this number of windows, and two values per pair in each output. The outputs are borrowed mutably and thus do
    /// not overlap the rest.
    fn with<const N: usize>(&mut self, activations: &[u32], outputs: [&mut [i8]; N]) -> Option<&Arguments> {
        let fits = activations.len() >= N * self.activation_words;
        if !fits || outputs.iter().any(|output| output.len() < self.outputs) {
            return None;
        }
        self.arguments.activations = activations.as_ptr();
        for (pointer, output) in self.arguments.outputs.iter_mut().zip(outputs) {
            *pointer = output.as_mut_ptr();
        }
        Some(&self.arguments)
    }

    /// Multiplies one window with all pairs, rounded once.
    pub(in super::super) fn one_once(&mut self, activations: &[u32], output: &mut [i8]) {
        if let Some(arguments) = self.with(activations, [output]) {
            // SAFETY: `new` and `with` have checked the function's requirements.
            unsafe { one_once_asm(arguments) };
        }
    }

    /// Multiplies one window with all pairs, rounded twice.
    pub(in super::super) fn one_twice(&mut self, activations: &[u32], output: &mut [i8]) {
        let short = self.is_short && self.arguments.row_groups.is_multiple_of(2);
        if let Some(arguments) = self.with(activations, [output]) {
            // SAFETY: `new` and `with` have checked the functions' requirements.
            unsafe { if short { one_short_twice_asm(arguments) } else { one_twice_asm(arguments) } };
        }
    }

    /// Multiplies two windows with all pairs, rounded twice.
    pub(in super::super) fn two_twice(&mut self, activations: &[u32], first: &mut [i8], second: &mut [i8]) {
        let short = self.is_short;
        if let Some(arguments) = self.with(activations, [first, second]) {
            // SAFETY: `new` and `with` have checked the functions' requirements.
            unsafe { if short { two_short_twice_asm(arguments) } else { two_twice_asm(arguments) } };
        }
    }
}
