#![no_std]
#![no_main]
//! The application on QEMU's boards. On Cortex-M, a timer's interrupt puts the images of `vectors/digits.u8` into a
//! ring buffer, from which the main loop takes them; on RISC-V, it takes them from flash. It scores them, logs each
//! energy with its bits, and ends with the peak stack.

mod log;
mod measure;
mod no_pin;
#[cfg_attr(target_arch = "riscv32", path = "stored.rs")]
mod recording;

#[cfg(target_arch = "arm")]
use cortex_m::interrupt::free; // and its critical section
use defmt_semihosting as _;
use firmware_example::{Digits, Fault, Memory, Watch};
use no_pin::NoPin;
#[cfg(target_arch = "riscv32")]
use riscv::interrupt::free; // and its critical section
use semihosting::process;
use static_cell::ConstStaticCell;

/// The recording that the timer plays: images, one after the other.
static RECORDING: &[u8] = include_bytes!("../../../vectors/digits.u8");
#[cfg(target_arch = "arm")]
const LEN: usize = Digits::IMAGE_LEN;
static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::new());

#[defmt::panic_handler]
fn defmt_panic() -> ! {
    process::exit(101)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    defmt::error!("{}", defmt::Display2Format(info));
    process::exit(101)
}

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    let memory = MEMORY.take();
    let Some(images) = recording::start() else { defmt::panic!("the timer is taken") };
    let mut watch = match Watch::new(images, NoPin, memory) {
        Ok(watch) => watch,
        Err(error) => defmt::panic!("{}", error),
    };
    defmt::println!("arena {=usize} bytes", Digits::ARENA_LEN * 4);
    let mut peak_stack = 0;
    let mut index = 0u32;
    loop {
        match watch.capture() {
            Ok(()) => {}
            Err(Fault::Source(_)) => break,
            Err(fault) => defmt::panic!("{}", fault),
        }
        // The timer waits meanwhile, so that the measurement is the same in every run.
        #[cfg(target_arch = "arm")]
        let (report, stack) = free(|_| measure::region(|| watch.judge()));
        #[cfg(target_arch = "riscv32")]
        let (report, stack) = free(|| measure::region(|| watch.judge()));
        peak_stack = peak_stack.max(stack);
        match report {
            Ok(report) => log::image(index, &report),
            Err(fault) => defmt::panic!("{}", fault),
        }
        index += 1;
    }
    defmt::println!("lost {=u32} images", recording::lost());
    defmt::println!("stack {=usize} bytes", peak_stack);
    process::exit(0)
}
