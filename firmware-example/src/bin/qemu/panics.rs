//! A panic ends the emulator with exit status 101 and prints nothing: printing would take more flash than the programs
//! that are measured.

use semihosting::process;

#[defmt::panic_handler]
fn defmt_panic() -> ! {
    process::exit(101)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    process::exit(101)
}
