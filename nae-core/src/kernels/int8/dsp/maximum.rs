//! Pooling by the greatest value, four channels at a time.

use super::super::pool::Maximum;
use core::arch::naked_asm;

/// Writes the greatest of four pixels, for one window after the other.
pub(in super::super) fn maximum(windows: &Maximum<'_>, output: &mut [i8]) {
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
        // `fits` has refused pixels of length zero.
        pixels: output.len().checked_div(windows.channels).unwrap_or(0),
        gap: windows.gap,
        fourth_gap,
    };
    // SAFETY: `fits` has checked that the output is one or more pixels, up to less than a pixel more, and that each
    // source has as many, `gap` apart; the output itself has them without gaps.
    unsafe { maximum_asm(&arguments) };
}

/// Arguments of [`maximum_asm`].
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

/// Words of four values, then single values: SSUB8 compares, SEL selects the greater.
///
/// # Safety
/// The output has `pixels` times `channels` values, each source as many with a gap after every
/// pixel but the last.
#[unsafe(naked)]
unsafe extern "C" fn maximum_asm(arguments: &MaximumArguments) {
    naked_asm!(
        dsp!(),
        "push {{r4-r11, lr}}",
        "ldm r0, {{r1-r9}}",
        // One pixel.
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
