#![no_std]
#![no_main]
//! Computes many energies of any 8-bit model under QEMU: scores the inputs of the file `inputs.i8` and writes the
//! energies, as 32-bit floats, to `energies.f32`, both in the folder that QEMU was started in. `NAE_MODEL` is the path
//! of the model at compile time. The first few inferences are measured, and alarms are counted.

#[path = "qemu/measure.rs"]
mod measure;
#[path = "qemu/panics.rs"]
mod panics;

use core::convert::Infallible;
use cortex_m as _; // its critical section
use defmt_semihosting as _;
use embedded_hal::digital::{ErrorType, OutputPin};
use firmware_example::Judge;
use semihosting::fs::File;
use semihosting::io::{Read, Write};
use semihosting::process;
use static_cell::ConstStaticCell;

nae_core::include_model! {
    /// The model, checked at compile time.
    struct Embedded = env!("NAE_MODEL");
}

/// Number of inferences that are measured.
const MEASURED: u32 = 8;

static ARENA: ConstStaticCell<[f32; Embedded::ARENA_LEN]> = ConstStaticCell::new([0.0; Embedded::ARENA_LEN]);
static INPUT: ConstStaticCell<[u8; Embedded::IMAGE_LEN]> = ConstStaticCell::new([0; Embedded::IMAGE_LEN]);

/// Counts how often the alarm turned on.
#[derive(Default)]
struct Counter {
    is_on: bool,
    count: u32,
}

impl ErrorType for &mut Counter {
    type Error = Infallible;
}

impl OutputPin for &mut Counter {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.is_on = false;
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.count += u32::from(!self.is_on);
        self.is_on = true;
        Ok(())
    }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let (arena, input) = (ARENA.take(), INPUT.take());
    let mut alarms = Counter::default();
    let (engine, judge) = (Embedded::engine(), Judge::new(&mut alarms, Embedded::MODEL.threshold()));
    let (Ok(engine), Ok(mut judge)) = (engine, judge) else { defmt::panic!("the model is refused") };
    let (Ok(mut inputs), Ok(mut energies)) = (File::open(c"inputs.i8"), File::create(c"energies.f32")) else {
        defmt::panic!("inputs.i8 cannot be read, or energies.f32 not written");
    };
    let (mut count, mut peak_stack) = (0u32, 0);
    while inputs.read_exact(input).is_ok() {
        let image = bytemuck::cast_slice(&input[..]);
        let output = if count < MEASURED {
            let (output, stack) = measure::region(|| engine.run_i8(image, arena));
            peak_stack = peak_stack.max(stack);
            output
        } else {
            engine.run_i8(image, arena)
        };
        let (score, verdict) = match output {
            Ok(output) => (output.score, output.verdict),
            Err(error) => defmt::panic!("{}", error),
        };
        let Ok(_) = judge.observe(score, verdict);
        if energies.write_all(&score.energy.to_le_bytes()).is_err() {
            defmt::panic!("energies.f32 cannot be written");
        }
        count += 1;
    }
    defmt::println!("inputs {=u32}", count);
    defmt::println!("alarms {=u32}", alarms.count);
    defmt::println!("arena {=usize} bytes", Embedded::ARENA_LEN * 4);
    defmt::println!("stack {=usize} bytes", peak_stack);
    process::exit(0)
}
