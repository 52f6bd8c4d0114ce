#![no_std]
#![no_main]
//! The application as an async task of [embassy](https://embassy.dev): a timer's interrupt puts an image of
//! `vectors/digits.u8` into a channel, which wakes the task; the task scores it, drives the alarm, and awaits the next.
//! Meanwhile the processor sleeps.
//!
//! A score does not await: other tasks of the same executor wait until it is finished. Tasks that cannot wait can run
//! in their own executor with a higher priority (embassy's `InterruptExecutor`).

#[path = "qemu/log.rs"]
mod log;
#[path = "qemu/measure.rs"]
mod measure;
#[path = "qemu/no_pin.rs"]
mod no_pin;
#[path = "qemu/panics.rs"]
mod panics;

use core::cell::RefCell;
use cortex_m::interrupt::{self, Mutex};
use cortex_m::peripheral::syst::SystClkSource;
use defmt_semihosting as _;
use embassy_executor::Executor;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use firmware_example::model::{self, BLANK, Digits, Pixel};
use firmware_example::{ImageSource, Judge, StoredImages};
use no_pin::NoPin;
use semihosting::process;
use static_cell::{ConstStaticCell, StaticCell};

const LEN: usize = Digits::IMAGE_LEN;
/// Clock ticks between two images.
const PERIOD: u32 = 25_000;

/// The channel from the interrupt to the task, with room for two images; `None` after the last image.
static IMAGES: Channel<CriticalSectionRawMutex, Option<[u8; LEN]>, 2> = Channel::new();
/// The recording that replaces a camera.
static RECORDING: Mutex<RefCell<StoredImages<'static>>> =
    Mutex::new(RefCell::new(StoredImages::new(include_bytes!("../../vectors/digits.u8"))));

static EXECUTOR: StaticCell<Executor> = StaticCell::new();
static IMAGE: ConstStaticCell<[Pixel; LEN]> = ConstStaticCell::new([BLANK; LEN]);
static ARENA: ConstStaticCell<[f32; Digits::ARENA_LEN]> = ConstStaticCell::new([0.0; Digits::ARENA_LEN]);

#[embassy_executor::task]
async fn watch(image: &'static mut [Pixel; LEN], arena: &'static mut [f32; Digits::ARENA_LEN]) {
    let (engine, judge) = (Digits::engine(), Judge::new(NoPin, Digits::MODEL.threshold()));
    let (Ok(engine), Ok(mut judge)) = (engine, judge) else { defmt::panic!("the model is refused") };
    defmt::println!("arena {=usize} bytes", Digits::ARENA_LEN * 4);
    let (mut index, mut peak_stack) = (0u32, 0);
    while let Some(bytes) = IMAGES.receive().await {
        model::prepare(&bytes, image);
        // The timer waits meanwhile, so that the measurement is the same in every run.
        let (scored, stack) = interrupt::free(|_| measure::region(|| model::score(&engine, image, arena)));
        peak_stack = peak_stack.max(stack);
        let (score, verdict) = match scored {
            Ok(scored) => scored,
            Err(error) => defmt::panic!("{}", error),
        };
        let Ok(report) = judge.observe(score, verdict);
        log::image(index, &report);
        index += 1;
    }
    defmt::println!("stack {=usize} bytes", peak_stack);
    process::exit(0)
}

/// Sends the next image if there is room; a camera would not wait, and would lose it.
#[cortex_m_rt::exception]
fn SysTick() {
    if IMAGES.is_full() {
        return;
    }
    let mut bytes = [0; LEN];
    let captured = interrupt::free(|token| RECORDING.borrow(token).borrow_mut().capture(&mut bytes));
    // There is room, so this does not fail.
    let _ = IMAGES.try_send(captured.ok().map(|()| bytes));
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let (Some(mut peripherals), Ok(token)) = (cortex_m::Peripherals::take(), watch(IMAGE.take(), ARENA.take())) else {
        defmt::panic!("the task or the timer is taken")
    };
    peripherals.SYST.set_clock_source(SystClkSource::Core);
    peripherals.SYST.set_reload(PERIOD - 1);
    peripherals.SYST.clear_current();
    peripherals.SYST.enable_interrupt();
    peripherals.SYST.enable_counter();
    EXECUTOR.init(Executor::new()).run(|spawner| spawner.spawn(token))
}
