#![allow(unsafe_code)]
//! Measurements under QEMU: marks for the instruction-counting plugin, and the stack by painting. Unsafe because it
//! writes to memory below the stack pointer and sets marks with assembly.

use core::arch::asm;
use core::ptr;

const PAINT: u32 = 0xC0DE_5AFE;
/// Bytes kept free below the stack pointer for the painting itself.
const MARGIN: usize = 64;

unsafe extern "C" {
    /// End of all statics, from cortex-m-rt's linker script or riscv-rt's.
    #[cfg_attr(target_arch = "riscv32", link_name = "__ebss")]
    static __euninit: u32;
    /// Start of RAM, from the memory map.
    static _ram_start: u32;
}

/// Runs `work` between marks for `insn-count`; returns its result and the bytes of stack it used,
/// including the caller's margin.
#[inline(never)]
pub(crate) fn region<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let top = stack_pointer();
    paint(top);
    // SAFETY: these instructions change nothing.
    #[cfg(target_arch = "arm")]
    unsafe {
        asm!("mov r10, r10", options(nomem, nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        asm!("slti x0, x0, 1", options(nomem, nostack, preserves_flags))
    };
    let result = apart(work);
    // SAFETY: as above.
    #[cfg(target_arch = "arm")]
    unsafe {
        asm!("mov r11, r11", options(nomem, nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        asm!("slti x0, x0, 2", options(nomem, nostack, preserves_flags))
    };
    (result, top - deepest(top))
}

#[cfg(target_arch = "arm")]
#[inline(always)]
fn stack_pointer() -> usize {
    cortex_m::register::msp::read() as usize
}

#[cfg(target_arch = "riscv32")]
#[inline(always)]
fn stack_pointer() -> usize {
    let top;
    // SAFETY: this only reads a register.
    unsafe { asm!("mv {}, sp", out(reg) top, options(nomem, nostack, preserves_flags)) };
    top
}

/// Keeps the frames of `work` out of the caller's frame, so that they lie below the painted top.
#[inline(never)]
fn apart<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// The lowest address that the stack may reach: above the statics, or the start of RAM if flip-link has placed the
/// statics above the stack.
fn bottom(top: usize) -> usize {
    let statics = &raw const __euninit as usize;
    if statics < top { statics } else { &raw const _ram_start as usize }
}

fn paint(top: usize) {
    let mut at = bottom(top);
    while at < top - MARGIN {
        // SAFETY: aligned RAM between the statics and the stack in use, which nothing else owns.
        unsafe { ptr::write_volatile(at as *mut u32, PAINT) };
        at += 4;
    }
}

fn deepest(top: usize) -> usize {
    let mut at = bottom(top);
    // SAFETY: as in `paint`.
    while at < top - MARGIN && unsafe { ptr::read_volatile(at as *const u32) } == PAINT {
        at += 4;
    }
    at
}
