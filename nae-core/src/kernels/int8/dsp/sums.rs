//! The sums of the energy, four values at a time.

use core::arch::naked_asm;

/// Returns Σx, Σy, Σx², Σxy, Σy² over slices of the same length, up to 2^12 values; values after the last whole group
/// of four are left out.
pub(in super::super) fn sums(x: &[i8], y: &[i8]) -> [i32; 5] {
    let words = x.len().min(y.len()) / 4;
    let mut sums = [0; 5];
    // SAFETY: the assembly reads four bytes per word from both slices, which have as many, and writes five sums.
    unsafe { sums_asm(x.as_ptr(), y.as_ptr(), words, &mut sums) };
    sums
}

/// Adds four more values to the sums.
macro_rules! word {
    () => {
        concat!(
            "ldr r10, [r0], #4\n",
            "ldr r11, [r1], #4\n",
            "sxtb16 r12, r10\n",
            "sxtb16 lr, r11\n",
            "smlad r4, r12, r9, r4\n",
            "smlad r5, lr, r9, r5\n",
            "smlad r6, r12, r12, r6\n",
            "smlad r7, r12, lr, r7\n",
            "smlad r8, lr, lr, r8\n",
            "sxtb16 r12, r10, ror #8\n",
            "sxtb16 lr, r11, ror #8\n",
            "smlad r4, r12, r9, r4\n",
            "smlad r5, lr, r9, r5\n",
            "smlad r6, r12, r12, r6\n",
            "smlad r7, r12, lr, r7\n",
            "smlad r8, lr, lr, r8\n",
        )
    };
}

/// # Safety
/// `x` and `y` have `4 * words` values, at any address.
#[unsafe(naked)]
unsafe extern "C" fn sums_asm(x: *const i8, y: *const i8, words: usize, sums: &mut [i32; 5]) {
    naked_asm!(
        dsp!(),
        "cbnz r2, 2f",
        "bx lr",
        "2:",
        "push {{r4-r11, lr}}",
        "mov r4, #0",
        "mov r5, #0",
        "mov r6, #0",
        "mov r7, #0",
        "mov r8, #0",
        // Ones, to add halfwords.
        "mov r9, #0x00010001",
        // Two words per turn; if their number is odd, the loop is entered in the middle.
        "lsrs r2, r2, #1",
        "bcc 1f",
        "add r2, r2, #1",
        "b 3f",
        "1:",
        word!(),
        "3:",
        word!(),
        "subs r2, r2, #1",
        "bne 1b",
        "stm r3, {{r4-r8}}",
        "pop {{r4-r11, pc}}",
    )
}
