//! Two windows against all pairs.

use super::multiply::{Arguments, CHUNK};
use core::arch::naked_asm;

macro_rules! kernel_two {
    ($name:ident, $factors:ident, $result:ident) => {
        /// # Safety
        /// The conditions that [`Ready`](super::multiply::Ready) checks: `weights` is valid for `rows` rows of
        /// `row_groups` groups for each pair, with the gaps between them; `channels` for one element per pair;
        /// `activations` for two windows of that many groups; both of `outputs` for two values per pair. `pairs` and
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
                "mov r4, r3",
                "strd r9, r9, [sp]",
                "str r10, [sp, #8]",
                // One row.
                "2:",
                "ldr lr, [sp, #44]",
                // One chunk.
                "3:",
                "mov r5, r3",
                "mov r6, r4",
                chunk!(),
                "subs r2, r2, #4",
                "blo 5f",
                "4:",
                group_two!(),
                group_two!(),
                group_two!(),
                group_two!(),
                "subs r2, r2, #4",
                "bhs 4b",
                "5:",
                "adds r2, r2, #4",
                "beq 7f",
                "6:",
                group_two!(),
                "subs r2, r2, #1",
                "bne 6b",
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

/// Two windows of one row, with at least 1 and at most [`CHUNK`] groups: fewer instructions around the sums. The loop
/// over groups is entered at the point from which it ends with the last group; a group is 48 bytes of code.
macro_rules! kernel_two_short {
    ($name:ident, $factors:ident, $result:ident) => {
        /// # Safety
        /// As for the kernel for rows of any length; one row of 1 to [`CHUNK`] groups.
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
                "and r3, r3, #3",
                "adr.w r4, 4f + 1",
                "add r3, r3, r3, lsl #1",
                "str r2, [sp, #44]",
                "add r4, r4, r3, lsl #4",
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

kernel_two!(two_twice_asm, factors_twice, result_twice);
kernel_two_short!(two_short_twice_asm, factors_twice, result_twice);
