#![no_std]
#![no_main]
#![allow(unsafe_code)]
//! Runs each layer of the table between the marks of the plugin `insn-count`, and again with the
//! reference kernels; prints the checksums of both results. Unsafe for the marks alone.

use core::arch::asm;
use kernel_bench::{Memory, WORKS};
use nae_core::kernels::int8::Layout;
use semihosting::{println, process};
use static_cell::ConstStaticCell;

static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::new());

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    println!("{info}");
    process::exit(101)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let memory = MEMORY.take();
    for (index, work) in WORKS.iter().enumerate() {
        work.prepare(Layout::Paired, memory);
        memory.output.fill(0x55);
        // SAFETY: these instructions change nothing.
        unsafe { asm!("mov r10, r10", options(nostack, preserves_flags)) };
        work.run(Layout::Paired, memory);
        // SAFETY: as above.
        unsafe { asm!("mov r11, r11", options(nostack, preserves_flags)) };
        let fast = work.checksum(memory);
        work.prepare(Layout::Plain, memory);
        memory.output.fill(0x55);
        work.run(Layout::Plain, memory);
        println!("work {index} {fast:08x} {:08x}", work.checksum(memory));
    }
    process::exit(0)
}
