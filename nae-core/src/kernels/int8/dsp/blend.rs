//! The weighted mean of four pixels, channel by channel, for bilinear resizing.

#[cfg(nae_mve)]
use super::super::helium::blend_asm;
#[cfg(not(nae_mve))]
use core::arch::naked_asm;

/// Computes the mean of four pixels with these weights, whose sum is 2^20, channel by channel: the pixels of one row
/// that begin at `low` and `high`, then those of another row. `target` stays unchanged if they do not lie in the rows.
pub(in super::super) fn blend(
    [top, bottom]: [&[i8]; 2],
    [low, high]: [usize; 2],
    weights: [i32; 4],
    target: &mut [i8],
) {
    let room = top.len().min(bottom.len()).checked_sub(target.len());
    if room.is_some_and(|room| low <= room && high <= room) {
        // SAFETY: pixels that begin at `low` or `high` have as many values in both rows as `target`, and the assembly
        // reads and writes no more.
        unsafe {
            let [a, c] = [top, bottom].map(|row| row.as_ptr().add(low));
            let [b, d] = [top, bottom].map(|row| row.as_ptr().add(high));
            blend_asm(a, b, c, d, &weights, target.as_mut_ptr(), target.len());
        }
    }
}

/// Computes one value: reads the next value of each pixel, at the registers r0 to r3, which it increments, and writes
/// the next value of the target.
#[cfg(not(nae_mve))]
macro_rules! value {
    () => {
        "ldrsb r10, [r0], #1
        ldrsb r11, [r1], #1
        ldrsb r12, [r2], #1
        mul r10, r10, r4
        mla r10, r11, r5, r10
        ldrsb r11, [r3], #1
        mla r10, r12, r6, r10
        mla r10, r11, r7, r10
        // Rounds half away from zero.
        add r10, r10, r10, asr #31
        add r10, r10, lr
        asr r10, r10, #20
        strb r10, [r8], #1"
    };
}

/// # Safety
/// Each pixel has `channels` values, and so has `target`.
#[cfg(not(nae_mve))]
#[unsafe(naked)]
unsafe extern "C" fn blend_asm(
    a: *const i8,
    b: *const i8,
    c: *const i8,
    d: *const i8,
    weights: &[i32; 4],
    target: *mut i8,
    channels: usize,
) {
    naked_asm!(
        dsp!(),
        "push {{r4-r11, lr}}",
        "ldr r12, [sp, #36]",
        "ldrd r8, r9, [sp, #40]",
        "ldm r12, {{r4-r7}}",
        "mov lr, #0x80000",
        // Four values at a time, then those left over.
        "subs r9, r9, #4",
        "blo 2f",
        "1:",
        value!(),
        value!(),
        value!(),
        value!(),
        "subs r9, r9, #4",
        "bhs 1b",
        "2:",
        "adds r9, r9, #4",
        "beq 4f",
        "3:",
        value!(),
        "subs r9, r9, #1",
        "bne 3b",
        "4:",
        "pop {{r4-r11, pc}}",
    )
}
