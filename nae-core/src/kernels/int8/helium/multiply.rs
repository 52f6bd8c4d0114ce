//! Multiplies windows with the weights of all outputs.
//!
//! # Registers
//! Four outputs at a time: the sums of two pairs go to the stack, then are converted to 8-bit values together. Sums
//! must be in registers with even numbers (VMLADAVA), so addresses are in registers with odd ones. A sum of (value −
//! zero point) · weight is computed as the sum of value · weight, less the zero point times the sum of the weights, for
//! which vectors of 8 bits suffice.
//!
//! | register | while products are summed |
//! |---|---|
//! | r0, r2 | sums of the first window: of the even output, of the odd one |
//! | r4, r6 | of the second window |
//! | r8, r10 | sums of the weights of both outputs |
//! | r1, r3 | values of both windows |
//! | r5, r7 | weights of both outputs |
//! | r9, r11, r12 | rows left, the gap between rows of values, temporary values |
//! | lr | values left in a row |
//! | q5, q6, q7 | least and greatest value; offsets of a channel's numbers |

use super::super::Layer;
use super::super::quantize::Channel;
use core::arch::naked_asm;
use core::marker::PhantomData;
use core::mem::offset_of;

/// The part of a window that is multiplied: rows of values, and the weights that belong to them.
#[derive(Clone, Copy)]
pub(super) struct Taps {
    /// Number of weights of an output before the first that is used.
    pub(super) skip: usize,
    pub(super) rows: usize,
    /// Number of values in a row.
    pub(super) bytes: usize,
    /// Distance from one row of values to the next.
    pub(super) values_step: usize,
    /// Distance from one row of weights to the next.
    pub(super) weights_step: usize,
    /// Distance from one output's weights to the next one's.
    pub(super) output_step: usize,
}

impl Taps {
    /// Returns this number of taps, in one row.
    pub(super) fn all(taps: usize) -> Self {
        Self { skip: 0, rows: 1, bytes: taps, values_step: taps, weights_step: taps, output_step: taps }
    }

    /// The distance from the first value of a row to the end of the last row, for rows `step` apart.
    fn reach(&self, step: usize) -> usize {
        self.rows.saturating_sub(1).saturating_mul(step).saturating_add(self.bytes)
    }

    /// Whether all weights that are read lie among `weights` of them. The assembly depends on this, so it must hold for
    /// any numbers: no sum here wraps.
    fn fit(&self, weights: usize, outputs: usize) -> bool {
        let last = outputs.saturating_sub(1).saturating_mul(self.output_step);
        weights >= last.saturating_add(self.skip).saturating_add(self.reach(self.weights_step))
    }
}

/// Arguments of the assembly, in the order of its frame.
#[repr(C)]
struct Arguments {
    values: [*const i8; 2],
    weights: *const i8,
    channels: *const Channel,
    outputs: [*mut i8; 2],
    /// Number of outputs; not 0.
    count: usize,
    /// Not 0.
    rows: usize,
    /// Not 0.
    bytes: usize,
    /// Distance from the end of the vectors that cover a row to the next row.
    values_gap: usize,
    weights_gap: usize,
    /// Distance from one output's weights to the next one's.
    output_step: usize,
    input_zero_point: i32,
    zero_point: i32,
    min: i32,
    max: i32,
}

/// The offsets that the assembly uses.
const _: () = {
    assert!(size_of::<Arguments>() == 64);
    assert!(32 + offset_of!(Arguments, values) == 32);
    assert!(32 + offset_of!(Arguments, weights) == 40);
    assert!(32 + offset_of!(Arguments, channels) == 44);
    assert!(32 + offset_of!(Arguments, outputs) == 48);
    assert!(32 + offset_of!(Arguments, count) == 56);
    assert!(32 + offset_of!(Arguments, rows) == 60);
    assert!(32 + offset_of!(Arguments, bytes) == 64);
    assert!(32 + offset_of!(Arguments, values_gap) == 68);
    assert!(32 + offset_of!(Arguments, weights_gap) == 72);
    assert!(32 + offset_of!(Arguments, output_step) == 76);
    assert!(32 + offset_of!(Arguments, input_zero_point) == 80);
    assert!(32 + offset_of!(Arguments, zero_point) == 84);
    assert!(32 + offset_of!(Arguments, min) == 88);
    assert!(32 + offset_of!(Arguments, max) == 92);
};

/// All outputs, for windows that use the same taps.
pub(super) struct Filters<'a> {
    arguments: Arguments,
    /// Number of values of a window from its first to its last; 0 if there are no taps.
    reach: usize,
    borrows: PhantomData<&'a [i8]>,
}

/// The weight and value of a window that has no taps in the image.
static ZERO: i8 = 0;

impl<'a> Filters<'a> {
    /// Returns the outputs of `layer`, with these taps. Without taps, or if weights would be read beyond their end,
    /// sums are 0.
    pub(super) fn new(taps: &Taps, layer: &Layer<'a, i8>) -> Self {
        let Layer { input_zero_point, weights, channels, range } = *layer;
        let some = taps.rows > 0 && taps.bytes > 0 && taps.fit(weights.len(), channels.len());
        // Vectors of sixteen cover a row; addresses advance to their end.
        let gap = |step: usize| step.wrapping_sub(taps.bytes.div_ceil(16).wrapping_mul(16));
        let none = Taps { skip: 0, rows: 1, bytes: 1, values_step: 0, weights_step: 0, output_step: 0 };
        let taps = if some { *taps } else { none };
        let arguments = Arguments {
            values: [core::ptr::null(); 2],
            weights: if some { weights.as_ptr().wrapping_add(taps.skip) } else { &ZERO },
            channels: channels.as_ptr(),
            outputs: [core::ptr::null_mut(); 2],
            count: channels.len(),
            rows: taps.rows,
            bytes: taps.bytes,
            values_gap: gap(taps.values_step),
            weights_gap: gap(taps.weights_step),
            output_step: taps.output_step,
            input_zero_point: i32::from(input_zero_point),
            zero_point: i32::from(range.zero_point),
            min: i32::from(range.min),
            max: i32::from(range.max),
        };
        let reach = if some { taps.reach(taps.values_step) } else { 0 };
        Self { arguments, reach, borrows: PhantomData }
    }

    /// Computes the results of the window at the start of `values`, stored from `place` on, and of another, `next`
    /// values after it, stored `step` places further on.
    pub(super) fn two(&mut self, values: &[i8], next: usize, place: usize, step: usize, output: &mut [i8]) {
        let count = self.arguments.count;
        let (before, after) = output.split_at_mut_checked(place.saturating_add(step)).unwrap_or_default();
        let first = before.get_mut(place..).unwrap_or_default();
        let second = values.get(next..).unwrap_or_default();
        if count > 0 && first.len() >= count && after.len() >= count && second.len() >= self.reach {
            self.arguments.values = [self.window(values), self.window(second)];
            self.arguments.outputs = [first.as_mut_ptr(), after.as_mut_ptr()];
            // SAFETY: `new` has checked the weights; both windows have `reach` values, both outputs `count` places.
            unsafe { two_twice_asm(&self.arguments) };
        }
    }

    /// Computes the results of the window at the start of `values`, stored from `place` on.
    pub(super) fn one(&mut self, values: &[i8], place: usize, output: &mut [i8]) {
        if let Some(arguments) = self.with(values, output.get_mut(place..).unwrap_or_default()) {
            // SAFETY: `new` and `with` have checked the function's requirements.
            unsafe { one_twice_asm(arguments) };
        }
    }

    /// As [`Filters::one`] at the first place, rounded once.
    pub(super) fn one_once(&mut self, values: &[i8], output: &mut [i8]) {
        if let Some(arguments) = self.with(values, output) {
            // SAFETY: `new` and `with` have checked the function's requirements.
            unsafe { one_once_asm(arguments) };
        }
    }

    /// The address of the window at the start of `values`.
    fn window(&self, values: &[i8]) -> *const i8 {
        if self.reach == 0 { &ZERO } else { values.as_ptr() }
    }

    /// Returns the arguments for a window and its output, if they are long enough.
    fn with(&mut self, values: &[i8], output: &mut [i8]) -> Option<&Arguments> {
        let count = self.arguments.count;
        if count == 0 || output.len() < count || values.len() < self.reach {
            return None;
        }
        self.arguments.values[0] = self.window(values);
        self.arguments.outputs[0] = output.as_mut_ptr();
        Some(&self.arguments)
    }
}

/// Makes the frame, to which the stack pointer points from then on.
///
/// | offset | |
/// |---|---|
/// | 0 | sums of four outputs of the first window, then of the second |
/// | 32 | [`Arguments`]: weights, channels and outputs advance, `count` is the number left |
/// | 96 | address of the next pair's sums |
macro_rules! enter {
    () => {
        concat!(
            ".cpu cortex-m55\n",
            "push {{r4-r11, lr}}\n",
            "vpush {{d8-d15}}\n",
            "sub sp, sp, #104\n",
            "vldrw.u32 q0, [r0]\n",
            "vldrw.u32 q1, [r0, #16]\n",
            "vldrw.u32 q2, [r0, #32]\n",
            "vldrw.u32 q3, [r0, #48]\n",
            "vstrw.32 q0, [sp, #32]\n",
            "vstrw.32 q1, [sp, #48]\n",
            "vstrw.32 q2, [sp, #64]\n",
            "vstrw.32 q3, [sp, #80]\n",
        )
    };
}

macro_rules! leave {
    () => {
        concat!("add sp, sp, #104\n", "vpop {{d8-d15}}\n", "pop {{r4-r11, pc}}\n")
    };
}

/// Loads the vector registers that [`results_twice`] uses.
macro_rules! constants {
    () => {
        concat!(
            "ldrd r0, r1, [sp, #88]\n",
            "vdup.32 q5, r0\n",
            "vdup.32 q6, r1\n",
            // A channel is three words: 0, 3, 6, 9.
            "mov r0, #0\n",
            "mov r1, #3\n",
            "vidup.u32 q7, r0, #1\n",
            "vmul.i32 q7, q7, r1\n",
        )
    };
}

/// The next pair: weights to r5 and r7, values to r1 and r3, rows to r9, the gap between them to r11; sums are 0. An
/// output without a partner is paired with itself.
macro_rules! pair {
    () => {
        concat!(
            "ldr r5, [sp, #40]\n",
            "ldr r11, [sp, #76]\n",
            "ldr r12, [sp, #56]\n",
            "add r9, r5, r11, lsl #1\n",
            "str r9, [sp, #40]\n",
            "cmp r12, #1\n",
            "it eq\n",
            "moveq r11, #0\n",
            "add r7, r5, r11\n",
            "ldrd r1, r3, [sp, #32]\n",
            "ldr r9, [sp, #60]\n",
            "ldr r11, [sp, #68]\n",
            "mov r0, #0\n",
            "mov r2, #0\n",
            "mov r8, #0\n",
            "mov r10, #0\n",
        )
    };
}

/// Computes the sums of one window and a pair, in r0 and r2; their address is in r9.
macro_rules! one_window {
    () => {
        concat!(
            "3:\n",
            "ldr r12, [sp, #64]\n",
            "dlstp.8 lr, r12\n",
            "4:\n",
            "vldrb.u8 q0, [r1], #16\n",
            "vldrb.u8 q2, [r5], #16\n",
            "vmladava.s8 r0, q0, q2\n",
            "vldrb.u8 q3, [r7], #16\n",
            "vmladava.s8 r2, q0, q3\n",
            "vaddva.s8 r8, q2\n",
            "vaddva.s8 r10, q3\n",
            "letp lr, 4b\n",
            "subs r9, r9, #1\n",
            "itttt ne\n",
            "ldrne r12, [sp, #72]\n",
            "addne r1, r1, r11\n",
            "addne r5, r5, r12\n",
            "addne r7, r7, r12\n",
            "bne 3b\n",
            "ldr r12, [sp, #80]\n",
            "ldr r9, [sp, #96]\n",
            "mls r0, r8, r12, r0\n",
            "mls r2, r10, r12, r2\n",
        )
    };
}

/// Stores the sums of the first window, which are in r0 and r2, and continues with the next pair (label 2), until four
/// outputs have their sums or none is left (label 5). Then r0 is the number of outputs with sums, and r12 the number
/// left.
macro_rules! pair_done {
    () => {
        concat!(
            "strd r0, r2, [r9], #8\n",
            "ldr r12, [sp, #56]\n",
            "add r0, sp, #16\n",
            "subs r12, r12, #2\n",
            "str r12, [sp, #56]\n",
            "ble 5f\n",
            "cmp r9, r0\n",
            "beq 5f\n",
            "str r9, [sp, #96]\n",
            "b 2b\n",
            "5:\n",
            "mov r0, sp\n",
            "sub r0, r9, r0\n",
            "lsr r0, r0, #2\n",
            // An output without a partner has two places.
            "cmp r12, #0\n",
            "it lt\n",
            "sublt r0, r0, #1\n",
        )
    };
}

/// Computes the results of four outputs in q0, and of the second window in q1 if there is one. The bias is added to a
/// sum; it is shifted to the left if the channel's shift is above 0, multiplied, rounded, and shifted to the right if
/// the shift is below 0, with halves rounded away from zero. r0 is the number of the four channels that exist; the last
/// predicate is theirs.
macro_rules! results_twice {
    ($($second:literal)?) => {
        concat!(
            "vctp.32 r0\n",
            "ldr r1, [sp, #44]\n",
            "add r2, r1, #48\n",
            "str r2, [sp, #44]\n",
            "add r2, r1, #4\n",
            "add r3, r1, #8\n",
            "vpstt\n",
            "vldrwt.u32 q4, [r1, q7, uxtw #2]\n",
            "vldrwt.u32 q2, [r3, q7, uxtw #2]\n",
            "vldrw.u32 q0, [sp]\n",
            "vadd.i32 q0, q0, q4\n",
            $("vldrw.u32 q1, [sp, #16]\n", "vadd.i32 q1, q1, q4\n", $second,)?
            "vmov.i32 q3, #0\n",
            "vmax.s32 q4, q2, q3\n",
            "vmin.s32 q2, q2, q3\n",
            "vshl.s32 q0, q0, q4\n",
            $("vshl.s32 q1, q1, q4\n", $second,)?
            "vpst\n",
            "vldrwt.u32 q3, [r2, q7, uxtw #2]\n",
            "vqrdmulh.s32 q0, q0, q3\n",
            $("vqrdmulh.s32 q1, q1, q3\n", $second,)?
            // One less if a negative value is shifted: VRSHL rounds halves up. It adds them without a limit of 32
            // bits, so that sums near the limit are right.
            "vand q4, q0, q2\n",
            "vshr.s32 q4, q4, #31\n",
            "vadd.i32 q0, q0, q4\n",
            "vrshl.s32 q0, q0, q2\n",
            "ldr r1, [sp, #84]\n",
            "vqadd.s32 q0, q0, r1\n",
            "vmin.s32 q0, q0, q6\n",
            "vmax.s32 q0, q0, q5\n",
            $(
                "vand q4, q1, q2\n",
                "vshr.s32 q4, q4, #31\n",
                "vadd.i32 q1, q1, q4\n",
                "vrshl.s32 q1, q1, q2\n",
                "vqadd.s32 q1, q1, r1\n",
                "vmin.s32 q1, q1, q6\n",
                "vmax.s32 q1, q1, q5\n",
                $second,
            )?
        )
    };
}

/// # Safety
/// Both windows have `rows` rows of `bytes` values, and each of `count` outputs has as many weights, at any address;
/// there are `count` channels, and as many places in both outputs.
#[unsafe(naked)]
unsafe extern "C" fn two_twice_asm(arguments: &Arguments) {
    naked_asm!(
        enter!(),
        constants!(),
        "1:",
        "str sp, [sp, #96]",
        "2:",
        pair!(),
        "mov r4, #0",
        "mov r6, #0",
        "3:",
        "ldr r12, [sp, #64]",
        "dlstp.8 lr, r12",
        "4:",
        "vldrb.u8 q0, [r1], #16",
        "vldrb.u8 q2, [r5], #16",
        "vmladava.s8 r0, q0, q2",
        "vldrb.u8 q1, [r3], #16",
        "vmladava.s8 r4, q1, q2",
        "vldrb.u8 q3, [r7], #16",
        "vmladava.s8 r2, q0, q3",
        "vaddva.s8 r8, q2",
        "vmladava.s8 r6, q1, q3",
        "vaddva.s8 r10, q3",
        "letp lr, 4b",
        "subs r9, r9, #1",
        "beq 7f",
        "ldr r12, [sp, #72]",
        "add r1, r1, r11",
        "add r3, r3, r11",
        "add r5, r5, r12",
        "add r7, r7, r12",
        "b 3b",
        "7:",
        "ldr r12, [sp, #80]",
        "ldr r9, [sp, #96]",
        "mls r0, r8, r12, r0",
        "mls r2, r10, r12, r2",
        "mls r4, r8, r12, r4",
        "mls r6, r10, r12, r6",
        "strd r4, r6, [r9, #16]",
        pair_done!(),
        results_twice!(""),
        "ldrd r1, r2, [sp, #48]",
        "vpstt",
        "vstrbt.32 q0, [r1], #4",
        "vstrbt.32 q1, [r2], #4",
        "strd r1, r2, [sp, #48]",
        "cmp r12, #0",
        "bgt 1b",
        leave!(),
    )
}

/// # Safety
/// As for [`two_twice_asm`], except the second window and its output, which are not used.
#[unsafe(naked)]
unsafe extern "C" fn one_twice_asm(arguments: &Arguments) {
    naked_asm!(
        enter!(),
        constants!(),
        "1:",
        "str sp, [sp, #96]",
        "2:",
        pair!(),
        one_window!(),
        pair_done!(),
        results_twice!(),
        "ldr r1, [sp, #48]",
        "vpst",
        "vstrbt.32 q0, [r1], #4",
        "str r1, [sp, #48]",
        "cmp r12, #0",
        "bgt 1b",
        leave!(),
    )
}

/// # Safety
/// As for [`one_twice_asm`].
#[unsafe(naked)]
unsafe extern "C" fn one_once_asm(arguments: &Arguments) {
    naked_asm!(
        enter!(),
        "1:",
        "str sp, [sp, #96]",
        "2:",
        pair!(),
        one_window!(),
        pair_done!(),
        // One after the other, since the products need 64 bits.
        "ldr r1, [sp, #44]",
        "ldr r4, [sp, #48]",
        "ldr r11, [sp, #84]",
        "ldrd r9, r10, [sp, #88]",
        "mov r5, sp",
        "dls lr, r0",
        "6:",
        "ldr r0, [r5], #4",
        "ldm r1!, {{r6, r7, r8}}",
        "add r0, r0, r6",
        "rsb r8, r8, #31",
        "smull r2, r3, r0, r7",
        // Rounded and shifted to the right, then saturated to 32 bits in the upper word.
        "sqrshrl r2, r3, #64, r8",
        "sqshll r2, r3, #32",
        "qadd r3, r3, r11",
        "cmp r3, r10",
        "csel r3, r3, r10, lt",
        "cmp r3, r9",
        "csel r3, r3, r9, gt",
        "strb r3, [r4], #1",
        "le lr, 6b",
        "str r1, [sp, #44]",
        "str r4, [sp, #48]",
        "cmp r12, #0",
        "bgt 1b",
        leave!(),
    )
}
