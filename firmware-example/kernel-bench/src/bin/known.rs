#![no_std]
#![no_main]
//! Ends with exit status 1 where a layer's result is not the known one. A program of its own: in the bench, further calls would
//! change what the compiler makes of the kernels that are counted.

use cortex_m as _; // the critical section
use semihosting::{println, process};

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    println!("{info}");
    process::exit(101)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    if let Some(layer) = kernel_bench::wrong_result() {
        println!("{layer}: the result is not the known one");
        process::exit(1)
    }
    process::exit(0)
}
