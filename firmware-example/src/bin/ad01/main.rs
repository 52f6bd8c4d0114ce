#![no_std]
#![no_main]
//! MLPerf Tiny's anomaly detector on QEMU's Cortex-M boards: runs the inputs of `tests/vectors/tflite/ad01.bin`,
//! compares every output with TFLite's, logs each energy with its bits, and ends with the lengths of the arena and the
//! peak stack. The model is not part of the project: `NAE_AD01` is the path of `ad01.nae` at compile time (`nae-train
//! deploy ad01_int8.tflite -o ad01.nae`).

#[path = "../qemu/measure.rs"]
mod measure;
#[path = "../qemu/panics.rs"]
mod panics;

use cortex_m as _; // its critical section
use defmt_semihosting as _;
use semihosting::process;
use static_cell::ConstStaticCell;

nae_core::include_model! {
    /// The model, checked at compile time.
    struct Ad01 = env!("NAE_AD01");
}

/// Inputs and outputs, alternating, as bytes.
static SAMPLES: &[u8] = include_bytes!("../../../../tests/vectors/tflite/ad01.bin");
static ARENA: ConstStaticCell<[f32; Ad01::ARENA_LEN]> = ConstStaticCell::new([0.0; Ad01::ARENA_LEN]);
static INPUT: ConstStaticCell<[i8; Ad01::IMAGE_LEN]> = ConstStaticCell::new([0; Ad01::IMAGE_LEN]);

#[cortex_m_rt::entry]
fn main() -> ! {
    let (arena, input) = (ARENA.take(), INPUT.take());
    let engine = match Ad01::engine() {
        Ok(engine) => engine,
        Err(error) => defmt::panic!("{}", error),
    };
    let mut peak_stack = 0;
    let (vectors, _) = SAMPLES.as_chunks::<{ Ad01::IMAGE_LEN }>();
    let (samples, _) = vectors.as_chunks();
    for (index, [image, expected]) in samples.iter().enumerate() {
        for (value, byte) in input.iter_mut().zip(image) {
            *value = *byte as i8;
        }
        let (output, stack) = measure::region(|| engine.run_i8(input, arena));
        peak_stack = peak_stack.max(stack);
        let output = match output {
            Ok(output) => output,
            Err(error) => defmt::panic!("{}", error),
        };
        if output.reconstruction.iter().zip(expected).any(|(found, expected)| *found != *expected as i8) {
            defmt::panic!("sample {=usize} is not what TFLite gives", index);
        }
        let energy = output.score.energy;
        defmt::println!("image {=usize} energy {=u32:08x} {=f32}", index, energy.to_bits(), energy);
    }
    defmt::println!("arena {=usize} bytes", Ad01::ARENA_LEN * 4);
    defmt::println!("stack {=usize} bytes", peak_stack);
    process::exit(0)
}
