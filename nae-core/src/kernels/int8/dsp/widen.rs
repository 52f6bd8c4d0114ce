//! From 8-bit values to halfwords less the zero point.

use core::arch::naked_asm;

/// Takes the zero point off, four values at a time: halfwords (0, 2), then (1, 3).
pub(in super::super) fn widen_one(zero_point: i8, values: &[i8], target: &mut [u32]) {
    let groups = (values.len() / 4).min(target.len() / 2);
    // SAFETY: it reads 4 bytes and writes 2 words a group; both slices have as many.
    unsafe { widen_one_groups(values.as_ptr(), target.as_mut_ptr(), groups, centre(zero_point)) };
}

/// As [`widen_one`], two windows word by word in turn.
pub(in super::super) fn widen_two(zero_point: i8, first: &[i8], second: &[i8], target: &mut [u32]) {
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
