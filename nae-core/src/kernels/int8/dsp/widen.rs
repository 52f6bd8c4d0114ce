//! Conversion of 8-bit values to halfwords less the zero point.

use core::arch::naked_asm;

/// Subtracts the zero point from four values at a time and writes halfwords (0, 2), then (1, 3).
pub(in super::super) fn widen_one(zero_point: i8, values: &[i8], target: &mut [u32]) {
    widen_rows(zero_point, values, [1, 0, values.len() / 4], target);
}

/// As [`widen_one`], for the first `4 * groups` values of each of some rows, `row_len` values apart; does nothing if
/// they do not lie inside `window`, or do not fit `target`.
pub(in super::super) fn widen_rows(
    zero_point: i8,
    window: &[i8],
    [rows, row_len, groups]: [usize; 3],
    target: &mut [u32],
) {
    let fits = lies(window.len(), rows, row_len, groups) && target.len() / 2 >= rows.saturating_mul(groups);
    if fits {
        let gap = row_len.wrapping_sub(4 * groups);
        // SAFETY: of each row the assembly reads 4 bytes per group, which `lies` has found in `window`, and writes 2
        // words per group.
        unsafe { widen_rows_asm(window.as_ptr(), target.as_mut_ptr(), groups, centre(zero_point), rows, gap) };
    }
}

/// As [`widen_rows`], for two windows, the second one `next` values after the first; their words alternate.
pub(in super::super) fn widen_rows_of_two(
    zero_point: i8,
    windows: &[i8],
    next: usize,
    [rows, row_len, groups]: [usize; 3],
    target: &mut [u32],
) {
    let second = windows.get(next..).unwrap_or_default();
    let fits = lies(second.len(), rows, row_len, groups) && target.len() / 4 >= rows.saturating_mul(groups);
    if fits {
        let gap = row_len.wrapping_sub(4 * groups);
        let (first, second) = (windows.as_ptr(), second.as_ptr());
        // SAFETY: of each row the assembly reads 4 bytes per group of both windows, which `lies` has found after the
        // second one's start, and thus after the first one's, and writes 4 words per group.
        unsafe { widen_rows_of_two_asm(first, second, target.as_mut_ptr(), groups, centre(zero_point), rows, gap) };
    }
}

/// Whether `rows` rows of `4 * groups` values, `row_len` apart, lie in `len` values; false if there are none.
fn lies(len: usize, rows: usize, row_len: usize, groups: usize) -> bool {
    let last = rows.wrapping_sub(1).saturating_mul(row_len);
    rows > 0 && groups > 0 && groups <= len / 4 && last <= len - 4 * groups
}

/// The halfwords to add to widened values to subtract the zero point.
pub(super) fn centre(zero_point: i8) -> u32 {
    u32::from((-i16::from(zero_point)) as u16) * 0x1_0001
}

/// # Safety
/// Neither `rows` nor `groups` is 0. `values` has `rows` rows of `4 * groups` bytes, `gap` bytes between them, at any
/// address; `target` `2 * rows * groups` words.
#[unsafe(naked)]
unsafe extern "C" fn widen_rows_asm(
    values: *const i8,
    target: *mut u32,
    groups: usize,
    centre: u32,
    rows: usize,
    gap: usize,
) {
    naked_asm!(
        dsp!(),
        "push {{r4-r7, lr}}",
        "ldrd r6, r7, [sp, #20]",
        "2:",
        "mov r5, r2",
        "1:",
        "ldr r12, [r0], #4",
        "subs r5, r5, #1",
        "sxtab16 r4, r3, r12",
        "sxtab16 r12, r3, r12, ror #8",
        "stm r1!, {{r4, r12}}",
        "bne 1b",
        "add r0, r0, r7",
        "subs r6, r6, #1",
        "bne 2b",
        "pop {{r4-r7, pc}}",
    )
}

/// # Safety
/// Neither `rows` nor `groups` is 0. `first` and `second` have `rows` rows of `4 * groups` bytes, `gap` bytes between them,
/// at any address; `target` `4 * rows * groups` words.
#[unsafe(naked)]
unsafe extern "C" fn widen_rows_of_two_asm(
    first: *const i8,
    second: *const i8,
    target: *mut u32,
    groups: usize,
    centre: u32,
    rows: usize,
    gap: usize,
) {
    naked_asm!(
        dsp!(),
        "push {{r4-r11, lr}}",
        "ldr r12, [sp, #36]",
        "ldrd r10, r11, [sp, #40]",
        "2:",
        "mov lr, r3",
        "1:",
        "ldr r4, [r0], #4",
        "ldr r5, [r1], #4",
        "subs lr, lr, #1",
        "sxtab16 r6, r12, r4",
        "sxtab16 r7, r12, r5",
        "sxtab16 r8, r12, r4, ror #8",
        "sxtab16 r9, r12, r5, ror #8",
        "stm r2!, {{r6-r9}}",
        "bne 1b",
        "add r0, r0, r11",
        "add r1, r1, r11",
        "subs r10, r10, #1",
        "bne 2b",
        "pop {{r4-r11, pc}}",
    )
}
