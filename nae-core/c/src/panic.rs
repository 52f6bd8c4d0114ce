//! The panic handler. No panic can be reached in an optimized build, which `tests/qemu.sh` proves by linking; without
//! optimization the compiler leaves checks that never fail.

use core::panic::PanicInfo;

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    #[cfg(feature = "panic-hook")]
    {
        unsafe extern "C" {
            fn nae_core_panicked() -> !;
        }
        // SAFETY: the program that enables the feature defines it, as a function without arguments that does not
        // return.
        unsafe { nae_core_panicked() }
    }
    #[cfg(not(feature = "panic-hook"))]
    loop {
        core::hint::spin_loop();
    }
}
