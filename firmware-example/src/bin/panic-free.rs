#![no_std]
#![no_main]
#![allow(unsafe_code)]
//! A device that takes a model, images and sound from outside: it parses bytes that are unknown to the compiler, runs
//! the engine with every operator, f32 and 8-bit, converts samples to log-mel features, decides by calibration, alarm
//! filter and drift watch, and makes calibrations of its own. The panic handler calls a function that does not exist: if
//! any path to a panic is left, this does not link. Unsafe code is used for that declaration only.

use core::hint::{black_box, spin_loop};
#[cfg(target_arch = "arm")]
use cortex_m as _; // its critical section
use nae_core::audio::{FrameWindow, HOP, LogMel};
use nae_core::calibration::{self, Calibration, CalibrationError, Collector, Spacing};
use nae_core::drift::PageHinkley;
use nae_core::engine::Engine;
use nae_core::model::Model;
use nae_core::verdict::{AlarmFilter, AlarmSettings, Score, Verdict};
#[cfg(target_arch = "riscv32")]
use riscv as _; // its critical section
use static_cell::ConstStaticCell;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe extern "C" {
        fn nae_core_can_panic() -> !;
    }
    // SAFETY: this is never called: a program that could call it does not link.
    unsafe { nae_core_can_panic() }
}

// Small enough for the RAM of Cortex-M0; their contents are unknown to the compiler.
static FILE: ConstStaticCell<[u8; 1024]> = ConstStaticCell::new([0; 1024]);
static ARENA: ConstStaticCell<[f32; 512]> = ConstStaticCell::new([0.0; 512]);
static IMAGE: ConstStaticCell<[i8; 256]> = ConstStaticCell::new([0; 256]);
static REALS: ConstStaticCell<[f32; 256]> = ConstStaticCell::new([0.0; 256]);
static LOG_MEL: ConstStaticCell<LogMel> = ConstStaticCell::new(LogMel::new());
static WINDOW: ConstStaticCell<FrameWindow<640>> = ConstStaticCell::new(FrameWindow::new());

/// Converts samples, integer and float, to features.
fn listen() {
    let (Some(log_mel), Some(window)) = (LOG_MEL.try_take(), WINDOW.try_take()) else { wait() };
    black_box(log_mel.push_i16(black_box(&[0; HOP])).and_then(|frame| window.push(frame)));
    black_box(log_mel.push(black_box(&[0.0; HOP])).is_ok());
}

/// Calibrates on the device: from energies that arrive one by one, from a slice, and from a table that was stored.
fn calibrate(energies: &mut [f32]) -> Result<(), CalibrationError> {
    let mut collector = Collector::<64>::new();
    for energy in energies.iter() {
        black_box(collector.observe(*energy).is_ok());
    }
    black_box((collector.len(), collector.is_empty()));
    ask(&collector.finish()?)?;
    ask(&Calibration::from_sorted(energies)?)?;
    ask(&Calibration::from_energies(energies)?)?;
    let stored = Calibration::from_table(black_box(1000), black_box(Spacing::Even), energies)?;
    ask(&stored.view().to_owned())
}

/// Asks a calibration all that there is to ask.
fn ask(calibration: &Calibration) -> Result<(), CalibrationError> {
    let (rate, confidence) = (black_box(0.05), black_box(0.9));
    black_box(calibration.threshold(rate)?);
    black_box(calibration.p_value(black_box(1.0))?);
    black_box(calibration.rate_interval(rate, confidence)?);
    let (count, table) = (calibration.count(), calibration.table().len());
    black_box((calibration::confident_rate(count, rate, confidence)?, table));
    black_box(calibration::count_for_rate(rate)?);
    black_box(calibration::count_for_confidence(rate, confidence)?);
    black_box(calibration::share_interval(count, table, confidence)?);
    Ok(())
}

/// Decides from a score and a verdict, with settings that are unknown to the compiler.
fn decide(score: Score, verdict: Option<Verdict>) -> bool {
    let settings = AlarmSettings::new(black_box(3), black_box(1), black_box(5));
    let filter = settings.and_then(AlarmFilter::<8>::new);
    let alarm = filter.map(|mut filter| filter.observe(verdict.unwrap_or(Verdict::Normal)));
    let drift = PageHinkley::new(black_box(0.1), black_box(5.0)).map(|mut drift| drift.observe(score.energy));
    black_box(alarm.is_ok()) && black_box(drift.is_ok())
}

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    let memory = (FILE.try_take(), ARENA.try_take(), IMAGE.try_take(), REALS.try_take());
    let (Some(file), Some(arena), Some(image), Some(reals)) = memory else { wait() };
    let (file, arena) = (black_box(&file[..]), black_box(&mut arena[..]));
    let (image, reals) = (black_box(&mut image[..]), black_box(&mut reals[..]));
    listen();
    black_box(calibrate(reals).is_ok());
    if let Ok(model) = Model::parse(file) {
        let bytes = black_box(&[0; 64][..]);
        black_box(model.quantize_bytes(bytes, image).is_ok());
        black_box(model.preprocessing().apply(bytes, reals).is_ok());
        if let Ok(engine) = Engine::new(&model) {
            if let Ok(output) = engine.run_i8(image, arena) {
                black_box(decide(output.score, output.verdict));
                black_box((output.reconstruction.len(), output.latent.map(<[i8]>::len)));
            }
            if let Ok(output) = engine.run(reals, arena) {
                black_box(decide(output.score, output.verdict));
                black_box((output.reconstruction.len(), output.latent.map(<[f32]>::len)));
            }
        }
    }
    wait()
}

fn wait() -> ! {
    loop {
        spin_loop();
    }
}
