//! One window against all pairs.

use super::multiply::{Arguments, CHUNK};
use core::arch::naked_asm;

macro_rules! kernel_one {
    ($name:ident, $factors:ident, $result:ident) => {
        /// # Safety
        /// The conditions that [`Ready`](super::multiply::Ready) checks: `weights` is valid for `rows` rows of
        /// `row_groups` groups for each pair, with the gaps between them; `channels` for one element per pair;
        /// `activations` for a window of that many groups; the first of `outputs` for two values per pair. `pairs` and
        /// `rows` are not 0.
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(arguments: &Arguments) {
            naked_asm!(
                dsp!(),
                enter!(),
                // One pair.
                "1:",
                "ldr r12, [sp, #24]",
                "ldr r1, [sp, #20]",
                "ldr r10, [sp, #40]",
                "ldr r3, [r12]",
                "ldr r9, [r12, #12]",
                "strd r9, r10, [sp]",
                // One row.
                "2:",
                "ldr lr, [sp, #44]",
                // One chunk.
                "3:",
                "mov r4, r3",
                chunk!(),
                "subs r2, r2, #8",
                "blo 5f",
                "4:",
                groups_one!(),
                groups_one!(),
                groups_one!(),
                groups_one!(),
                "subs r2, r2, #8",
                "bhs 4b",
                "5:",
                "adds r2, r2, #8",
                "beq 7f",
                "6:",
                group_one!(),
                "subs r2, r2, #1",
                "bne 6b",
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

/// One window of one row, with an even number of groups, at least 2 and at most [`CHUNK`]: fewer instructions around
/// the sums. The loop over groups is entered at the point from which it ends with the last groups; two groups are 56
/// bytes of code.
macro_rules! kernel_one_short {
    ($name:ident, $factors:ident, $result:ident) => {
        /// # Safety
        /// As for the kernel for rows of any length; one row of 2, 4, … [`CHUNK`] groups.
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(arguments: &Arguments) {
            naked_asm!(
                dsp!(),
                // ADR takes the program counter as a multiple of four.
                ".p2align 2",
                enter!(),
                "ldr r2, [sp, #44]",
                "rsb r3, r2, #0",
                "lsl r2, r2, #3",
                "ubfx r3, r3, #1, #2",
                "adr.w r4, 4f + 1",
                "rsb r3, r3, r3, lsl #3",
                "str r2, [sp, #44]",
                "add r4, r4, r3, lsl #3",
                "str r4, [sp, #60]",
                // One pair.
                "1:",
                "ldr r12, [sp, #24]",
                "ldr r1, [sp, #20]",
                "ldr r2, [sp, #44]",
                "ldr r3, [r12]",
                "ldr r7, [sp, #60]",
                "add r2, r0, r2",
                "mov r4, r3",
                "bx r7",
                "4:",
                groups_one!(),
                groups_one!(),
                groups_one!(),
                groups_one!(),
                "cmp r0, r2",
                "blo 4b",
                "ldr r12, [sp, #24]",
                "sub r4, r4, r3",
                "ldr r9, [r12, #12]",
                "add r9, r9, r4, asr #8",
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
            )
        }
    };
}

kernel_one!(one_once_asm, factors_once, result_once);
kernel_one!(one_twice_asm, factors_twice, result_twice);
kernel_one_short!(one_short_twice_asm, factors_twice, result_twice);
