#![no_std]
#![no_main]
//! Log-mel features on QEMU's Cortex-M boards: converts the sound of `nae-core/tests/audio` to frames and logs a
//! checksum of each, to be compared with the host's.

#[path = "qemu/measure.rs"]
mod measure;
#[path = "qemu/panics.rs"]
mod panics;

use cortex_m as _; // its critical section
use defmt_semihosting as _;
use nae_core::audio::{HOP, LogMel};
use semihosting::process;
use static_cell::ConstStaticCell;

static SAMPLES: &[u8] = include_bytes!("../../../nae-core/tests/audio/samples.i16");
static LOG_MEL: ConstStaticCell<LogMel> = ConstStaticCell::new(LogMel::new());

#[cortex_m_rt::entry]
fn main() -> ! {
    let log_mel = LOG_MEL.take();
    let mut peak_stack = 0;
    let (hops, _) = SAMPLES.as_chunks::<{ 2 * HOP }>();
    for (index, bytes) in hops.iter().enumerate() {
        let samples = core::array::from_fn(|i| i16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]));
        let (frame, stack) = measure::region(|| log_mel.push_i16(&samples));
        peak_stack = peak_stack.max(stack);
        if let Some(frame) = frame {
            let checksum = frame.iter().fold(0u32, |sum, band| sum.rotate_left(5) ^ band.to_bits());
            defmt::println!("frame {=usize} checksum {=u32:08x}", index, checksum);
        }
    }
    defmt::println!("arena {=usize} bytes", size_of::<LogMel>());
    defmt::println!("stack {=usize} bytes", peak_stack);
    process::exit(0)
}
