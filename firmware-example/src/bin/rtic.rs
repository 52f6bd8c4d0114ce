#![no_std]
#![no_main]
#![allow(unsafe_code)]
//! The application under [RTIC](https://rtic.rs): the timer's task, which may interrupt, puts an image of `vectors/digits.u8`
//! into a queue; `idle` scores it, drives the alarm, and sleeps until the next. A score takes long and has the least priority,
//! so that every task of the application goes before it.
//!
//! The unsafe code is what RTIC's macro writes.

#[path = "qemu/log.rs"]
mod log;
#[path = "qemu/measure.rs"]
mod measure;
#[path = "qemu/no_pin.rs"]
mod no_pin;
#[path = "qemu/panics.rs"]
mod panics;

/// What RTIC wants to know of a chip; otherwise it is the chip's crate. QEMU's board needs no interrupts but the core's timer.
mod device {
    pub(crate) const NVIC_PRIO_BITS: u8 = 3;
}

#[rtic::app(device = crate::device, peripherals = false)]
mod app {
    use crate::no_pin::NoPin;
    use crate::{log, measure};
    use cortex_m::interrupt;
    use cortex_m::peripheral::syst::SystClkSource;
    use cortex_m_rt as _; // the vector table
    use defmt_semihosting as _;
    use firmware_example::model::{self, BLANK, Digits, Pixel};
    use firmware_example::{ImageSource as _, Judge, StoredImages};
    use heapless::spsc::{Consumer, Producer, Queue};
    use semihosting::process;

    const LEN: usize = Digits::IMAGE_LEN;
    /// Clock ticks between two images.
    const PERIOD: u32 = 25_000;

    #[shared]
    struct Shared {}

    #[local]
    struct Local {
        /// In place of a camera.
        recording: StoredImages<'static>,
        /// `None` after the last image.
        captured: Producer<'static, Option<[u8; LEN]>>,
        images: Consumer<'static, Option<[u8; LEN]>>,
    }

    // Room for two images.
    #[init(local = [queue: Queue<Option<[u8; LEN]>, 3> = Queue::new()])]
    fn init(context: init::Context) -> (Shared, Local) {
        let mut timer = context.core.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(PERIOD - 1);
        timer.clear_current();
        timer.enable_interrupt();
        timer.enable_counter();
        let (captured, images) = context.local.queue.split();
        let recording = StoredImages::new(include_bytes!("../../vectors/digits.u8"));
        (Shared {}, Local { recording, captured, images })
    }

    /// The next image, where there is room; a camera would not wait, and lose it.
    #[task(binds = SysTick, local = [recording, captured])]
    fn capture(context: capture::Context) {
        let capture::LocalResources { recording, captured, .. } = context.local;
        if captured.ready() {
            let mut bytes = [0; LEN];
            // There is room.
            let _ = captured.enqueue(recording.capture(&mut bytes).ok().map(|()| bytes));
        }
    }

    #[idle(local = [images, image: [Pixel; LEN] = [BLANK; LEN], arena: [f32; Digits::ARENA_LEN] = [0.0; Digits::ARENA_LEN]])]
    fn idle(context: idle::Context) -> ! {
        let idle::LocalResources { images, image, arena, .. } = context.local;
        let (engine, judge) = (Digits::engine(), Judge::new(NoPin, Digits::MODEL.threshold()));
        let (Ok(engine), Ok(mut judge)) = (engine, judge) else { defmt::panic!("the model is refused") };
        defmt::println!("arena {=usize} bytes", Digits::ARENA_LEN * 4);
        let (mut index, mut peak_stack) = (0u32, 0);
        loop {
            let Some(next) = images.dequeue() else {
                // An interrupt between the look at the queue and `wfi` stays pending while they are masked, and `wfi` returns
                // at once; it is served when the mask is lifted.
                interrupt::free(|_| {
                    if !images.ready() {
                        cortex_m::asm::wfi();
                    }
                });
                continue;
            };
            let Some(bytes) = next else { break };
            model::prepare(&bytes, image);
            // The timer waits meanwhile, so that what is measured is the same in every run.
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
}
