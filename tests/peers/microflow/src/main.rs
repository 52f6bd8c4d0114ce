#![no_std]
#![no_main]
//! One inference of `ad01_int8.tflite` by MicroFlow, between the marks that `tests/qemu/insn-count` counts between.

use core::arch::asm;
use core::hint::black_box;
use cortex_m as _;
use microflow::buffer::Buffer2D;
use microflow::model;
use semihosting::process;

#[model("ad01_int8.tflite")]
struct Ad01;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    process::exit(101)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    // SAFETY: these instructions change nothing.
    unsafe { asm!("mov r10, r10", options(nomem, nostack, preserves_flags)) };
    let input: Buffer2D<i8, 1, 640> = black_box(Buffer2D::from_element(7));
    black_box(Ad01::predict_quantized(input));
    // SAFETY: as above.
    unsafe { asm!("mov r11, r11", options(nomem, nostack, preserves_flags)) };
    process::exit(0)
}
