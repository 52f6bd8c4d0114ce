//! The weighted mean of four pixels, four channels at a time, for bilinear resizing; `dsp/blend.rs` has checked the
//! arguments.

use core::arch::naked_asm;

/// # Safety
/// Each pixel has `channels` values, and so has `target`.
#[unsafe(naked)]
pub(in super::super) unsafe extern "C" fn blend_asm(
    a: *const i8,
    b: *const i8,
    c: *const i8,
    d: *const i8,
    weights: &[i32; 4],
    target: *mut i8,
    channels: usize,
) {
    naked_asm!(
        ".cpu cortex-m55",
        "push {{r4-r11, lr}}",
        "ldr r12, [sp, #36]",
        "ldrd r4, r5, [sp, #40]",
        "ldm r12, {{r8-r11}}",
        "wlstp.32 lr, r5, 2f",
        "1:",
        "vldrb.s32 q0, [r0], #4",
        "vmul.i32 q0, q0, r8",
        "vldrb.s32 q1, [r1], #4",
        "vmla.i32 q0, q1, r9",
        "vldrb.s32 q1, [r2], #4",
        "vmla.i32 q0, q1, r10",
        "vldrb.s32 q1, [r3], #4",
        "vmla.i32 q0, q1, r11",
        // Rounds half away from zero.
        "vshr.s32 q1, q0, #31",
        "vadd.i32 q0, q0, q1",
        "vrshr.s32 q0, q0, #20",
        "vstrb.32 q0, [r4], #4",
        "letp lr, 1b",
        "2:",
        "pop {{r4-r11, pc}}",
    )
}
