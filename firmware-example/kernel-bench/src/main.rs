#![no_std]
#![no_main]
#![allow(unsafe_code)]
//! Runs each layer of the table between the marks of the plugin `insn-count`, in both layouts of
//! weights where it has some; prints the checksums of both results. Then compares the two for many
//! small layers of any geometry. Unsafe for the marks alone.

use core::arch::asm;
use kernel_bench::{Kind, Memory, WORKS, Work, any_work};
use nae_core::kernels::int8::Layout;
use semihosting::{println, process};
use static_cell::ConstStaticCell;

static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::new());

/// Small layers to compare.
const ANY_WORKS: u32 = 2000;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    println!("{info}");
    process::exit(101)
}

/// Runs a layer between the marks; its checksum.
fn count(work: &Work, layout: Layout, memory: &mut Memory) -> u32 {
    work.prepare(layout, memory);
    memory.mark();
    // SAFETY: these instructions change nothing.
    unsafe { asm!("mov r10, r10", options(nostack, preserves_flags)) };
    work.run(layout, memory);
    // SAFETY: as above.
    unsafe { asm!("mov r11, r11", options(nostack, preserves_flags)) };
    work.checksum(memory)
}

/// The checksum by the reference kernels.
fn reference(work: &Work, memory: &mut Memory) -> u32 {
    work.prepare(Layout::Plain, memory);
    memory.mark();
    match work.kind {
        Kind::MaxPool => work.pool_slowly(memory),
        _ => work.run(Layout::Plain, memory),
    }
    work.checksum(memory)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let memory = MEMORY.take();
    for (index, work) in WORKS.iter().enumerate() {
        let checksum = count(work, Layout::Paired, memory);
        let plain = if work.kind.has_weights() { count(work, Layout::Plain, memory) } else { reference(work, memory) };
        println!("work {index} {checksum:08x} {plain:08x}");
    }
    for number in 0..ANY_WORKS {
        let work = any_work(number);
        work.prepare(Layout::Paired, memory);
        memory.mark();
        work.run(Layout::Paired, memory);
        let (fast, own) = (work.checksum(memory), memory.is_marked_behind(work.lengths(Layout::Paired)));
        if !own || fast != reference(&work, memory) {
            println!("layer {number}, {work}: writes to its own memory only: {own}; results {fast:08x}");
            process::exit(1)
        }
        // With slices too short: nothing is written behind them.
        work.prepare(Layout::Paired, memory);
        memory.mark();
        let lengths = work.lengths(Layout::Paired).cut(number);
        work.run_within(Layout::Paired, lengths, memory);
        if !memory.is_marked_behind(lengths) {
            println!("layer {number}, {work}, {lengths:?}: writes behind its memory");
            process::exit(1)
        }
    }
    process::exit(0)
}
