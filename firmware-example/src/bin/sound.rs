#![no_std]
#![no_main]
//! From sound to alarm on QEMU's Cortex-M boards, with MLPerf Tiny's anomaly detector: a timer's interrupt puts hops of
//! samples into a ring buffer; the main loop computes features of them and scores the last five frames, hop by hop.
//! Logs each energy with its bits. `NAE_AD01` is the path of the model, as for `ad01`; the sound is that of
//! `nae-core`'s tests.

#[path = "qemu/measure.rs"]
mod measure;
#[path = "qemu/no_pin.rs"]
mod no_pin;
#[path = "qemu/panics.rs"]
mod panics;
#[path = "qemu/recording.rs"]
mod recording;

use cortex_m as _; // its critical section
use defmt_semihosting as _;
use firmware_example::{ImageSource, Judge};
use nae_core::audio::{FrameWindow, HOP, LogMel};
use no_pin::NoPin;
use semihosting::process;
use static_cell::ConstStaticCell;

nae_core::include_model! {
    /// The model, checked at compile time.
    struct Ad01 = env!("NAE_AD01");
}

/// The recording that the timer plays: 16-bit samples, little-endian, a hop at a time.
static RECORDING: &[u8] = include_bytes!("../../../nae-core/tests/audio/samples.i16");
const LEN: usize = 2 * HOP;

static LOG_MEL: ConstStaticCell<LogMel> = ConstStaticCell::new(LogMel::new());
static WINDOW: ConstStaticCell<FrameWindow<{ Ad01::IMAGE_LEN }>> = ConstStaticCell::new(FrameWindow::new());
static ARENA: ConstStaticCell<[f32; Ad01::ARENA_LEN]> = ConstStaticCell::new([0.0; Ad01::ARENA_LEN]);
static INPUT: ConstStaticCell<[i8; Ad01::IMAGE_LEN]> = ConstStaticCell::new([0; Ad01::IMAGE_LEN]);

#[cortex_m_rt::entry]
fn main() -> ! {
    let (log_mel, window, arena, input) = (LOG_MEL.take(), WINDOW.take(), ARENA.take(), INPUT.take());
    let (engine, judge) = (Ad01::engine(), Judge::new(NoPin, Ad01::MODEL.threshold()));
    let (Ok(engine), Ok(mut judge)) = (engine, judge) else { defmt::panic!("the model is refused") };
    let Some(scale) = Ad01::MODEL.image_quantization() else { defmt::panic!("the model is not an 8-bit one") };
    let Some(mut hops) = recording::start() else { defmt::panic!("the timer is taken") };
    let (mut bytes, mut peak_stack, mut index) = ([0; LEN], 0, 0u32);
    while hops.capture(&mut bytes).is_ok() {
        // No frame and no input may span a gap.
        if !hops.follows() {
            log_mel.reset();
            window.reset();
        }
        let step = || {
            let samples = core::array::from_fn(|i| i16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]));
            let frames = log_mel.push_i16(&samples).and_then(|frame| window.push(frame))?;
            input.iter_mut().zip(frames).for_each(|(to, decibels)| *to = scale.quantize(*decibels));
            Some(engine.run_i8(input, arena).map(|output| (output.score, output.verdict)))
        };
        // The timer waits meanwhile, so that the measurement is the same in every run.
        let (result, stack) = cortex_m::interrupt::free(|_| measure::region(step));
        peak_stack = peak_stack.max(stack);
        match result {
            // The first frames do not give an input yet.
            None => continue,
            Some(Err(error)) => defmt::panic!("{}", error),
            Some(Ok((score, verdict))) => {
                let Ok(report) = judge.observe(score, verdict);
                defmt::println!(
                    "image {=u32} energy {=u32:08x} {=f32} alarm {=bool} drift {}",
                    index,
                    score.energy.to_bits(),
                    score.energy,
                    report.alarm,
                    report.drift
                );
                index += 1;
            }
        }
    }
    defmt::println!("lost {=u32} hops", recording::lost());
    defmt::println!("arena {=usize} bytes", Ad01::ARENA_LEN * 4);
    defmt::println!("stack {=usize} bytes", peak_stack);
    process::exit(0)
}
