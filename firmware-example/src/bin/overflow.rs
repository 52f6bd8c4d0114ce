#![no_std]
#![no_main]
#![allow(unsafe_code)]
//! Overflows its stack, to show the effect of the linker under QEMU. With flip-link the stack ends at the start of RAM,
//! the overflow ends in a fault with the statics intact, and the exit status is 0. Without it the statics are silently
//! overwritten, and the exit status is 1. Unsafe because a fault handler without a stack needs it.

#[path = "qemu/panics.rs"]
mod panics;

use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use cortex_m as _; // its critical section
use defmt_semihosting as _;
use semihosting::process;

const PATTERN: u32 = 0x5555_5555;

/// Represents a program's statics.
static STATICS: [AtomicU32; 4096] = [const { AtomicU32::new(PATTERN) }; 4096];

/// Inlined, since the fault handler has no stack for a return.
#[inline(always)]
fn statics_are_intact() -> bool {
    STATICS.iter().all(|value| value.load(Relaxed) == PATTERN)
}

/// # Safety
/// Only the processor may call it.
#[cortex_m_rt::exception]
unsafe fn HardFault(_frame: &cortex_m_rt::ExceptionFrame) -> ! {
    // The stack is used up, so the arguments of semihosting must be in registers. SYS_EXIT with
    // ADP_Stopped_ApplicationExit is status 0, with ADP_Stopped_RunTimeErrorUnknown 1.
    let reason = if statics_are_intact() { 0x20026 } else { 0x20023 };
    // SAFETY: the program ends here.
    unsafe { asm!("bkpt #0xAB", in("r0") 0x18, in("r1") reason, options(noreturn)) }
}

/// Uses 256 bytes of stack per call.
#[inline(never)]
fn descend(depth: u32) -> u32 {
    let frame = black_box([depth; 64]);
    if depth == 0 { 0 } else { descend(depth - 1) + frame[3] }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    // 128 KiB of RAM minus 16 KiB of statics are left; this takes a little more.
    black_box(descend(black_box(450)));
    // No fault: the overflow was not detected.
    process::exit(if statics_are_intact() { 2 } else { 1 })
}
