#![allow(unsafe_code)]
//! The innermost loops for cores with the DSP extension (Cortex-M4, M7, M33, M55): ARMv7E-M
//! instructions only. Portable code that does the same is in `portable.rs`; a bench compares the two on the
//! target. One of the two is the module `arithmetic`.
//!
//! # Why there is unsafe code here
//! Stable Rust has no DSP intrinsics, and inline assembly cannot have all the registers the inner
//! loops need, so these are naked functions. Each is called from one safe function beside it, which first
//! checks that everything the assembly reads and writes lies in the slices it was given. The
//! assembly touches nothing else but its own stack frame (104 bytes), keeps the registers the calling
//! convention (AAPCS) asks for, and leaves the flags and the saturation bit as it likes, which the convention allows.
//!
//!
//! Activations are read in words from any address, which these cores can do unless the program has set `UNALIGN_TRP` in
//! the register `CCR`; it is clear after reset.
//!
//! # Registers
//! Pair after pair, a loop over groups of four taps sums two outputs at once. `both` is
//! 256 · odd + even, `even` the even output's sum, so that the odd output's is (both − even) / 256, which is exact
//! as long as it fits 24 bits; so it is taken out after every [`CHUNK`] groups.
//!
//! | register | one window | two windows |
//! |---|---|---|
//! | r0 | weights, as they are read | the same |
//! | r1 | activations, as they are read | the same |
//! | r2 | end of the weights of this chunk | the same |
//! | r3 | even | even of the first |
//! | r4 | both | even of the second |
//! | r5, r6 | weights (r5 to r8) | both of the first, both of the second |
//! | r7, r8 | | weights |
//! | r9 to r12 | activations | activations |
//! | lr | groups left in this row | the same |

use super::paired::Tile;
use super::pool::Maximum;
use super::quantize::Channel;
use core::arch::naked_asm;

/// Groups of four taps after which the odd output's sum is taken out: 256 products of at most
/// 255 · 127 stay below 2^23.
const CHUNK: usize = 64;

/// Tells the assembler that the DSP extension is there, at the start of each function. On ARMv7E-M it knows; on ARMv8-M, where
/// the extension is optional, it does not hear of the compiler's target in all builds (link-time optimisation). Cortex-M33 is the least
/// core of those that `build.rs` takes.
#[cfg(nae_dsp = "v8")]
macro_rules! dsp {
    () => {
        ".cpu cortex-m33"
    };
}
#[cfg(not(nae_dsp = "v8"))]
macro_rules! dsp {
    () => {
        ""
    };
}

/// What the assembly takes, in the order in which it keeps it in its frame.
#[repr(C)]
struct Arguments {
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
    /// 2 · zero point + 1: shifted to the left and halved it is the zero point and a half.
    twice_zero_point_and_one: i32,
    /// For the assembly to use.
    free: usize,
}

impl Arguments {
    /// `None` where there is nothing to do or something would be read or written out of bounds. What is
    /// checked: for every pair, `rows` rows of `row_groups` groups, `row_words` apart, lie in the weights; as many
    /// groups lie in the activations; the output holds two values a pair; the channels are one element a
    /// pair. The output is borrowed mutably and so apart from the rest.
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
        // Where there is one row or one pair, what is between it and the next is of no use and may be beyond any address.
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

/// One window against all pairs, rounded once.
pub(super) fn one_once(tile: &Tile<'_>, output: &mut [i8]) {
    if let Some(arguments) = Arguments::of_one(tile, output) {
        // SAFETY: `of_one` has checked what it asks for.
        unsafe { one_once_asm(&arguments) };
    }
}

/// One window against all pairs, rounded twice.
pub(super) fn one_twice(tile: &Tile<'_>, output: &mut [i8]) {
    if let Some(arguments) = Arguments::of_one(tile, output) {
        // SAFETY: `of_one` has checked what it asks for.
        unsafe { one_twice_asm(&arguments) };
    }
}

/// Two windows against all pairs, rounded twice.
pub(super) fn two_twice(tile: &Tile<'_>, first: &mut [i8], second: &mut [i8]) {
    if let Some(arguments) = Arguments::of_two(tile, first, second) {
        // SAFETY: `of_two` has checked what they ask for.
        unsafe {
            if tile.rows == 1 && (1..=CHUNK).contains(&tile.row_groups) {
                two_short_twice_asm(&arguments);
            } else {
                two_twice_asm(&arguments);
            }
        }
    }
}

/// The greatest of four pixels, for one window after the other.
pub(super) fn maximum(windows: &Maximum<'_>, output: &mut [i8]) {
    if !windows.fits(output.len()) {
        return;
    }
    let [first, second, third] = windows.sources.map(<[i8]>::as_ptr);
    let target = output.as_mut_ptr();
    let (fourth, fourth_gap) = match windows.fourth {
        Some(source) => (source.as_ptr(), windows.gap),
        None => (target.cast_const(), 0),
    };
    let arguments = MaximumArguments {
        sources: [first, second, third, fourth],
        output: target,
        channels: windows.channels,
        // `fits` has refused pixels of no length.
        pixels: output.len().checked_div(windows.channels).unwrap_or(0),
        gap: windows.gap,
        fourth_gap,
    };
    // SAFETY: `fits` says that the output is whole pixels, at least one, up to less than a pixel, and that each source
    // has as many, `gap` apart; the output itself has them without gaps.
    unsafe { maximum_asm(&arguments) };
}

/// What [`maximum_asm`] takes.
#[repr(C)]
struct MaximumArguments {
    sources: [*const i8; 4],
    output: *mut i8,
    /// Not 0, like `pixels`.
    channels: usize,
    pixels: usize,
    gap: usize,
    fourth_gap: usize,
}

/// One word of the four sources.
macro_rules! maximum_word {
    () => {
        concat!(
            "ldr r10, [r1], #4\n",
            "ldr r11, [r2], #4\n",
            "ldr r12, [r3], #4\n",
            "ssub8 r0, r10, r11\n",
            "sel r10, r10, r11\n",
            "ldr r11, [r4], #4\n",
            "ssub8 r0, r10, r12\n",
            "sel r10, r10, r12\n",
            "ssub8 r0, r10, r11\n",
            "sel r10, r10, r11\n",
            "str r10, [r5], #4\n",
        )
    };
}

/// Words of four values, then single ones: SSUB8 compares, SEL takes the greater.
///
/// # Safety
/// The output has `pixels` times `channels` values, each source as many with a gap after every pixel but the last.
#[unsafe(naked)]
unsafe extern "C" fn maximum_asm(arguments: &MaximumArguments) {
    naked_asm!(
        dsp!(),
        "push {{r4-r11, lr}}",
        "ldm r0, {{r1-r9}}",
        // A pixel.
        "1:",
        "lsrs lr, r6, #2",
        "beq 3f",
        "subs lr, lr, #4",
        "blo 7f",
        "2:",
        maximum_word!(),
        maximum_word!(),
        maximum_word!(),
        maximum_word!(),
        "subs lr, lr, #4",
        "bhs 2b",
        "7:",
        "adds lr, lr, #4",
        "beq 3f",
        "6:",
        maximum_word!(),
        "subs lr, lr, #1",
        "bne 6b",
        "3:",
        "ands lr, r6, #3",
        "beq 5f",
        "4:",
        "ldrb r10, [r1], #1",
        "ldrb r11, [r2], #1",
        "ldrb r12, [r3], #1",
        "ssub8 r0, r10, r11",
        "sel r10, r10, r11",
        "ldrb r11, [r4], #1",
        "ssub8 r0, r10, r12",
        "sel r10, r10, r12",
        "subs lr, lr, #1",
        "ssub8 r0, r10, r11",
        "sel r10, r10, r11",
        "strb r10, [r5], #1",
        "bne 4b",
        "5:",
        "add r1, r1, r8",
        "add r2, r2, r8",
        "add r3, r3, r8",
        "add r4, r4, r9",
        "subs r7, r7, #1",
        "bne 1b",
        "pop {{r4-r11, pc}}",
    )
}

/// Takes the zero point off, four values at a time: halfwords (0, 2), then (1, 3).
pub(super) fn widen_one(zero_point: i8, values: &[i8], target: &mut [u32]) {
    let groups = (values.len() / 4).min(target.len() / 2);
    // SAFETY: it reads 4 bytes and writes 2 words a group; both slices have as many.
    unsafe { widen_one_groups(values.as_ptr(), target.as_mut_ptr(), groups, centre(zero_point)) };
}

/// As [`widen_one`], two windows word by word in turn.
pub(super) fn widen_two(zero_point: i8, first: &[i8], second: &[i8], target: &mut [u32]) {
    let groups = (first.len() / 4).min(second.len() / 4).min(target.len() / 4);
    // SAFETY: it reads 4 bytes of each window and writes 4 words a group; the slices have as many.
    unsafe {
        widen_two_groups(first.as_ptr(), second.as_ptr(), target.as_mut_ptr(), groups, centre(zero_point));
    }
}

/// What is added to centre widened values.
fn centre(zero_point: i8) -> u32 {
    u32::from((-i16::from(zero_point)) as u16) * 0x1_0001
}

/// # Safety
/// `values` has `4 * groups` bytes, at any address, `target` `2 * groups` words.
#[unsafe(naked)]
unsafe extern "C" fn widen_one_groups(values: *const i8, target: *mut u32, groups: usize, centre: u32) {
    naked_asm!(
        dsp!(),
        "cbz r2, 2f",
        "push {{r4, lr}}",
        "1:",
        "ldr r12, [r0], #4",
        "subs r2, r2, #1",
        "sxtab16 r4, r3, r12",
        "sxtab16 r12, r3, r12, ror #8",
        "stm r1!, {{r4, r12}}",
        "bne 1b",
        "pop {{r4, pc}}",
        "2:",
        "bx lr",
    )
}

/// # Safety
/// `first` and `second` have `4 * groups` bytes, at any address, `target` `4 * groups` words.
#[unsafe(naked)]
unsafe extern "C" fn widen_two_groups(
    first: *const i8,
    second: *const i8,
    target: *mut u32,
    groups: usize,
    centre: u32,
) {
    naked_asm!(
        dsp!(),
        "cbz r3, 2f",
        "ldr r12, [sp]",
        "push {{r4-r9}}",
        "1:",
        "ldr r4, [r0], #4",
        "ldr r5, [r1], #4",
        "subs r3, r3, #1",
        "sxtab16 r6, r12, r4",
        "sxtab16 r7, r12, r5",
        "sxtab16 r8, r12, r4, ror #8",
        "sxtab16 r9, r12, r5, ror #8",
        "stm r2!, {{r6-r9}}",
        "bne 1b",
        "pop {{r4-r9}}",
        "2:",
        "bx lr",
    )
}

/// Bias, multiplier and shift of both outputs of a pair, for [`result_once`]: the multipliers in r2 and r7, the half
/// and the zero point at the shift's place in r1 and r6, the shifts in r5 and r8. Moves r12 on.
macro_rules! factors_once {
    () => {
        concat!(
            "ldr r11, [sp, #56]\n",
            "ldm r12!, {{r1, r2, r5, r6, r7, r8}}\n",
            // The shift is 31 − shift; the upper word of the product leaves −1 − shift.
            "mvn r5, r5\n",
            "mvn r8, r8\n",
            "lsl r1, r11, r5\n",
            "lsl r6, r11, r8\n",
            "asr r1, r1, #1\n",
            "asr r6, r6, #1\n",
        )
    };
}

/// (sum · multiplier + half) >> shift, within 8 bits: rounded once, since nothing below the upper word of the product is
/// lost that could matter.
macro_rules! result_once {
    ($sum:literal, $multiplier:literal, $half:literal, $shift:literal) => {
        concat!(
            "smmla ",
            $sum,
            ", ",
            $sum,
            ", ",
            $multiplier,
            ", ",
            $half,
            "\n",
            "asr ",
            $sum,
            ", ",
            $sum,
            ", ",
            $shift,
            "\n",
            "ssat ",
            $sum,
            ", #8, ",
            $sum,
            "\n",
        )
    };
}

/// As [`factors_once`], for [`result_twice`].
macro_rules! factors_twice {
    () => {
        concat!(
            "ldr r11, [sp, #56]\n",
            "ldm r12!, {{r1, r2, r5, r6, r7, r8}}\n",
            "rsb r5, r5, #0\n",
            "rsb r8, r8, #0\n",
            // 2 · multiplier − 2^32, as a signed word.
            "lsl r2, r2, #1\n",
            "lsl r7, r7, #1\n",
            "lsl r1, r11, r5\n",
            "lsl r6, r11, r8\n",
            "asr r1, r1, #1\n",
            "asr r6, r6, #1\n",
        )
    };
}

/// The sum times 2 · multiplier − 2^32, the sum itself added to the upper word, rounded there (SMMLAR); then less one where
/// negative, so that the half added next sends halves away from zero.
macro_rules! result_twice {
    ($sum:literal, $multiplier:literal, $half:literal, $shift:literal) => {
        concat!(
            "smmlar ",
            $sum,
            ", ",
            $sum,
            ", ",
            $multiplier,
            ", ",
            $sum,
            "\n",
            "add ",
            $sum,
            ", ",
            $sum,
            ", ",
            $sum,
            ", asr #31\n",
            "add ",
            $sum,
            ", ",
            $sum,
            ", ",
            $half,
            "\n",
            "asr ",
            $sum,
            ", ",
            $sum,
            ", ",
            $shift,
            "\n",
            "ssat ",
            $sum,
            ", #8, ",
            $sum,
            "\n",
        )
    };
}

/// The frame: 16 bytes (odd sums, rows left), then `Arguments`.
/// Weights 16, activations 20, channels 24, outputs 28 and 32, pairs 36, rows 40, row groups 44, row gap 48, pair gap 52, zero
/// point 56.
macro_rules! enter {
    () => {
        concat!(
            "push {{r3-r11, lr}}\n",
            "ldm r0, {{r1-r12}}\n",
            "push {{r1-r12}}\n",
            "sub sp, sp, #16\n",
            "mov r0, r1\n",
        )
    };
}

/// The next chunk of a row: r2 to where its weights end, less `back` bytes; lr to what is left after it.
macro_rules! chunk {
    () => {
        concat!(
            "mov r2, lr\n",
            "cmp lr, #{chunk}\n",
            "it hi\n",
            "movhi r2, #{chunk}\n",
            "sub lr, lr, r2\n",
            "add r2, r0, r2, lsl #3\n",
        )
    };
}

/// One group of four taps of one window.
macro_rules! group_one {
    () => {
        concat!(
            "ldm r0!, {{r5, r6}}\n",
            "ldm r1!, {{r9, r10}}\n",
            "smlad r4, r9, r5, r4\n",
            "sxtb16 r5, r5\n",
            "smlad r4, r10, r6, r4\n",
            "sxtb16 r6, r6\n",
            "smlad r3, r9, r5, r3\n",
            "smlad r3, r10, r6, r3\n",
        )
    };
}

/// Two groups of one window.
macro_rules! groups_one {
    () => {
        concat!(
            "ldm r0!, {{r5-r8}}\n",
            "ldm r1!, {{r9-r12}}\n",
            "smlad r4, r9, r5, r4\n",
            "sxtb16 r5, r5\n",
            "smlad r4, r10, r6, r4\n",
            "sxtb16 r6, r6\n",
            "smlad r4, r11, r7, r4\n",
            "sxtb16 r7, r7\n",
            "smlad r4, r12, r8, r4\n",
            "sxtb16 r8, r8\n",
            "smlad r3, r9, r5, r3\n",
            "smlad r3, r10, r6, r3\n",
            "smlad r3, r11, r7, r3\n",
            "smlad r3, r12, r8, r3\n",
        )
    };
}

/// One group of two windows.
macro_rules! group_two {
    () => {
        concat!(
            "ldm r0!, {{r7, r8}}\n",
            "ldm r1!, {{r9-r12}}\n",
            "smlad r5, r9, r7, r5\n",
            "smlad r6, r10, r7, r6\n",
            "sxtb16 r7, r7\n",
            "smlad r5, r11, r8, r5\n",
            "smlad r6, r12, r8, r6\n",
            "sxtb16 r8, r8\n",
            "smlad r3, r9, r7, r3\n",
            "smlad r4, r10, r7, r4\n",
            "smlad r3, r11, r8, r3\n",
            "smlad r4, r12, r8, r4\n",
        )
    };
}

macro_rules! kernel_one {
    ($name:ident, $factors:ident, $result:ident) => {
        /// # Safety
        /// As [`Arguments::of_one`] checks it.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(arguments: &Arguments) {
            naked_asm!(
                dsp!(),
                enter!(),
                // A pair.
                "1:",
                "ldr r12, [sp, #24]",
                "ldr r1, [sp, #20]",
                "ldr r10, [sp, #40]",
                "ldr r3, [r12]",
                "ldr r9, [r12, #12]",
                "strd r9, r10, [sp]",
                // A row.
                "2:",
                "ldr lr, [sp, #44]",
                // A chunk.
                "3:",
                "mov r4, r3",
                chunk!(),
                "sub r2, r2, #56",
                "cmp r0, r2",
                "bhs 5f",
                "4:",
                groups_one!(),
                groups_one!(),
                groups_one!(),
                groups_one!(),
                "cmp r0, r2",
                "blo 4b",
                "5:",
                "add r2, r2, #56",
                "cmp r0, r2",
                "bhs 7f",
                "6:",
                group_one!(),
                "cmp r0, r2",
                "blo 6b",
                "7:",
                "ldrd r9, r10, [sp]",
                "sub r4, r4, r3",
                "add r9, r9, r4, asr #8",
                "cmp lr, #0",
                "bne 8f",
                "subs r10, r10, #1",
                "bne 9f",
                "ldr r12, [sp, #24]",
                $factors!(),
                $result!("r3", "r2", "r1", "r5"),
                $result!("r9", "r7", "r6", "r8"),
                "ldr r5, [sp, #28]",
                "ldr r7, [sp, #52]",
                "ldr r8, [sp, #36]",
                "strb r3, [r5], #1",
                "strb r9, [r5], #1",
                "add r0, r0, r7",
                "str r12, [sp, #24]",
                "str r5, [sp, #28]",
                "subs r8, r8, #1",
                "str r8, [sp, #36]",
                "bne 1b",
                "add sp, sp, #64",
                "pop {{r3-r11, pc}}",
                // The next chunk of the row.
                "8:",
                "str r9, [sp]",
                "b 3b",
                // The next row.
                "9:",
                "ldr r7, [sp, #48]",
                "strd r9, r10, [sp]",
                "add r0, r0, r7",
                "b 2b",
                chunk = const CHUNK,
            )
        }
    };
}

macro_rules! kernel_two {
    ($name:ident, $factors:ident, $result:ident) => {
        /// # Safety
        /// As [`Arguments::of_two`] checks it.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(arguments: &Arguments) {
            naked_asm!(
                dsp!(),
                enter!(),
                // A pair.
                "1:",
                "ldr r12, [sp, #24]",
                "ldr r1, [sp, #20]",
                "ldr r10, [sp, #40]",
                "ldr r3, [r12]",
                "ldr r9, [r12, #12]",
                "mov r4, r3",
                "strd r9, r9, [sp]",
                "str r10, [sp, #8]",
                // A row.
                "2:",
                "ldr lr, [sp, #44]",
                // A chunk.
                "3:",
                "mov r5, r3",
                "mov r6, r4",
                chunk!(),
                "sub r2, r2, #24",
                "cmp r0, r2",
                "bhs 5f",
                "4:",
                group_two!(),
                group_two!(),
                group_two!(),
                group_two!(),
                "cmp r0, r2",
                "blo 4b",
                "5:",
                "add r2, r2, #24",
                "cmp r0, r2",
                "bhs 7f",
                "6:",
                group_two!(),
                "cmp r0, r2",
                "blo 6b",
                "7:",
                "ldrd r9, r10, [sp]",
                "sub r5, r5, r3",
                "sub r6, r6, r4",
                "add r9, r9, r5, asr #8",
                "add r10, r10, r6, asr #8",
                "cmp lr, #0",
                "bne 8f",
                "ldr r11, [sp, #8]",
                "subs r11, r11, #1",
                "bne 9f",
                "ldr r12, [sp, #24]",
                $factors!(),
                $result!("r3", "r2", "r1", "r5"),
                $result!("r4", "r2", "r1", "r5"),
                $result!("r9", "r7", "r6", "r8"),
                $result!("r10", "r7", "r6", "r8"),
                "ldrd r5, r6, [sp, #28]",
                "ldr r7, [sp, #52]",
                "ldr r8, [sp, #36]",
                "strb r3, [r5], #1",
                "strb r9, [r5], #1",
                "strb r4, [r6], #1",
                "strb r10, [r6], #1",
                "add r0, r0, r7",
                "str r12, [sp, #24]",
                "strd r5, r6, [sp, #28]",
                "subs r8, r8, #1",
                "str r8, [sp, #36]",
                "bne 1b",
                "add sp, sp, #64",
                "pop {{r3-r11, pc}}",
                // The next chunk of the row.
                "8:",
                "strd r9, r10, [sp]",
                "b 3b",
                // The next row.
                "9:",
                "ldr r7, [sp, #48]",
                "strd r9, r10, [sp]",
                "str r11, [sp, #8]",
                "add r0, r0, r7",
                "b 2b",
                chunk = const CHUNK,
            )
        }
    };
}

/// Two windows of one row of at most [`CHUNK`] groups, but some: less to do around the sums. The loop over groups is entered
/// so far in that it ends with the last one; a group is 48 bytes of code.
macro_rules! kernel_two_short {
    ($name:ident, $factors:ident, $result:ident) => {
        /// # Safety
        /// As [`Arguments::of_two`] checks it; one row of 1 to [`CHUNK`] groups.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(arguments: &Arguments) {
            naked_asm!(
                dsp!(),
                // ADR takes the program counter as a multiple of four.
                ".p2align 2",
                enter!(),
                "ldr r2, [sp, #44]",
                "rsb r3, r2, #0",
                "lsl r2, r2, #3",
                "and r3, r3, #3",
                "adr.w r4, 4f + 1",
                "add r3, r3, r3, lsl #1",
                "str r2, [sp, #44]",
                "add r4, r4, r3, lsl #4",
                "str r4, [sp, #60]",
                // A pair.
                "1:",
                "ldr r12, [sp, #24]",
                "ldr r1, [sp, #20]",
                "ldr r2, [sp, #44]",
                "ldr r3, [r12]",
                "ldr r7, [sp, #60]",
                "add r2, r0, r2",
                "mov r4, r3",
                "mov r5, r3",
                "mov r6, r3",
                "bx r7",
                "4:",
                group_two!(),
                group_two!(),
                group_two!(),
                group_two!(),
                "cmp r0, r2",
                "blo 4b",
                "ldr r12, [sp, #24]",
                "sub r5, r5, r3",
                "sub r6, r6, r4",
                "ldr r9, [r12, #12]",
                "add r10, r9, r6, asr #8",
                "add r9, r9, r5, asr #8",
                $factors!(),
                $result!("r3", "r2", "r1", "r5"),
                $result!("r4", "r2", "r1", "r5"),
                $result!("r9", "r7", "r6", "r8"),
                $result!("r10", "r7", "r6", "r8"),
                "ldrd r5, r6, [sp, #28]",
                "ldr r7, [sp, #52]",
                "ldr r8, [sp, #36]",
                "strb r3, [r5], #1",
                "strb r9, [r5], #1",
                "strb r4, [r6], #1",
                "strb r10, [r6], #1",
                "add r0, r0, r7",
                "str r12, [sp, #24]",
                "strd r5, r6, [sp, #28]",
                "subs r8, r8, #1",
                "str r8, [sp, #36]",
                "bne 1b",
                "add sp, sp, #64",
                "pop {{r3-r11, pc}}",
            )
        }
    };
}

kernel_one!(one_once_asm, factors_once, result_once);
kernel_one!(one_twice_asm, factors_twice, result_twice);
kernel_two!(two_twice_asm, factors_twice, result_twice);
kernel_two_short!(two_short_twice_asm, factors_twice, result_twice);
