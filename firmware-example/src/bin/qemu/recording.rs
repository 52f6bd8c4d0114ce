//! A recording in place of a camera or a microphone: the timer's interrupt takes the next piece of it every
//! millisecond, and puts it into the ring if there is room. (A sensor would not wait: there, [`Feed::offer`] loses the
//! piece and counts it.) The binary defines the recording: `RECORDING`, in pieces of `LEN` bytes.

use super::{LEN, RECORDING};
use core::cell::RefCell;
use cortex_m::interrupt::{self, Mutex};
use cortex_m::peripheral::syst::SystClkSource;
use firmware_example::{Feed, ImageSource, QueuedImages, Ring, StoredImages, ring};
use static_cell::ConstStaticCell;

/// Clock ticks between two pieces.
const PERIOD: u32 = 25_000;

/// Room for two pieces.
static RING: ConstStaticCell<Ring<LEN, 3>> = ConstStaticCell::new(Ring::new());
static PLAYER: Mutex<RefCell<Option<Player>>> = Mutex::new(RefCell::new(None));

struct Player {
    pieces: StoredImages<'static>,
    feed: Feed<'static, LEN>,
    has_ended: bool,
}

/// Starts the timer; returns the other end of the ring. `None` if called again.
pub(crate) fn start() -> Option<QueuedImages<'static, LEN, fn() -> bool>> {
    let mut timer = cortex_m::Peripherals::take()?.SYST;
    let (feed, images) = ring(RING.try_take()?, wait as fn() -> bool);
    let player = Player { pieces: StoredImages::new(RECORDING), feed, has_ended: false };
    interrupt::free(|token| PLAYER.borrow(token).replace(Some(player)));
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(PERIOD - 1);
    timer.clear_current();
    timer.enable_interrupt();
    timer.enable_counter();
    Some(images)
}

/// Sleeps until the next interrupt, unless a piece is available; returns whether more pieces can come.
///
/// Interrupts are masked from the check of the ring on. An interrupt before `wfi` stays pending, and `wfi` returns at
/// once; it is served when the mask is lifted. Without a mask it would be served in between, and `wfi` would wait for
/// the next.
fn wait() -> bool {
    with(|player| {
        if player.feed.is_empty() && !player.has_ended {
            cortex_m::asm::wfi();
        }
        !player.has_ended
    })
}

/// Number of pieces that found no room.
pub(crate) fn lost() -> u32 {
    with(|player| player.feed.lost())
}

fn with<T: Default>(work: impl FnOnce(&mut Player) -> T) -> T {
    interrupt::free(|token| PLAYER.borrow(token).borrow_mut().as_mut().map(work)).unwrap_or_default()
}

#[cortex_m_rt::exception]
fn SysTick() {
    with(|player| {
        let mut piece = [0; LEN];
        if player.feed.is_full() {
            return;
        }
        match player.pieces.capture(&mut piece) {
            Ok(()) => _ = player.feed.offer(piece),
            Err(_) => player.has_ended = true,
        }
    });
}
