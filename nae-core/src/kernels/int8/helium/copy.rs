//! Copies a window into one piece.

use super::super::geometry::{Convolution, Reach};
use core::arch::naked_asm;

/// Copies the window of this reach to `target`, which has as many values as the convolution has taps; values outside
/// the image are the zero point.
pub(super) fn copy(
    convolution: &Convolution,
    zero_point: i8,
    down: Reach,
    across: Reach,
    input: &[i8],
    target: &mut [i8],
) {
    let Convolution { input: shape, kernel, .. } = *convolution;
    if [down.len, across.len] != kernel {
        target.fill(zero_point);
    }
    let Reach { from, len, at } = across;
    let (from_step, to_step) = (shape.width * shape.channels, kernel[1] * shape.channels);
    let source = input.get((down.at * shape.width + at) * shape.channels..).unwrap_or_default();
    let target = target.get_mut((down.from * kernel[1] + from) * shape.channels..).unwrap_or_default();
    let (rows, bytes) = (down.len, len * shape.channels);
    let end = |step: usize| rows.saturating_sub(1).saturating_mul(step).saturating_add(bytes);
    if rows > 0 && bytes > 0 && source.len() >= end(from_step) && target.len() >= end(to_step) {
        // SAFETY: `rows` rows of `bytes` values lie in both slices.
        unsafe { copy_asm(source.as_ptr(), target.as_mut_ptr(), rows, bytes, from_step, to_step) };
    }
}

/// # Safety
/// Neither `rows` nor `bytes` is 0; both addresses have this number of rows of this number of bytes, with their steps.
#[unsafe(naked)]
unsafe extern "C" fn copy_asm(
    source: *const i8,
    target: *mut i8,
    rows: usize,
    bytes: usize,
    from_step: usize,
    to_step: usize,
) {
    naked_asm!(
        ".cpu cortex-m55",
        "push {{r4-r7, lr}}",
        "ldrd r6, r7, [sp, #20]",
        "1:",
        "mov r4, r0",
        "mov r5, r1",
        "dlstp.8 lr, r3",
        "2:",
        "vldrb.u8 q0, [r4], #16",
        "vstrb.8 q0, [r5], #16",
        "letp lr, 2b",
        "add r0, r0, r6",
        "add r1, r1, r7",
        "subs r2, r2, #1",
        "bne 1b",
        "pop {{r4-r7, pc}}",
    )
}
