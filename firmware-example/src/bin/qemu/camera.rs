//! In place of a camera: the timer's interrupt has a picture from memory every millisecond, and puts it into the ring
//! when there is room. (A camera would not wait: there, [`Feed::offer`] loses the picture and counts it.)

use core::cell::RefCell;
use cortex_m::interrupt::{self, Mutex};
use cortex_m::peripheral::syst::SystClkSource;
use firmware_example::{Digits, Feed, ImageSource, QueuedImages, Ring, StoredImages, ring};
use static_cell::ConstStaticCell;

const LEN: usize = Digits::IMAGE_LEN;
/// Clock ticks between two pictures.
const PERIOD: u32 = 25_000;

static VECTORS: &[u8] = include_bytes!("../../../vectors/digits.u8");
/// Room for two images.
static RING: ConstStaticCell<Ring<LEN, 3>> = ConstStaticCell::new(Ring::new());
static CAMERA: Mutex<RefCell<Option<Camera>>> = Mutex::new(RefCell::new(None));

struct Camera {
    images: StoredImages<'static>,
    feed: Feed<'static, LEN>,
    has_ended: bool,
}

/// Starts the timer; gives the other end of the ring. `None` when called again.
pub(crate) fn start() -> Option<QueuedImages<'static, LEN, fn() -> bool>> {
    let mut timer = cortex_m::Peripherals::take()?.SYST;
    let (feed, images) = ring(RING.try_take()?, wait as fn() -> bool);
    let camera = Camera { images: StoredImages::new(VECTORS), feed, has_ended: false };
    interrupt::free(|token| CAMERA.borrow(token).replace(Some(camera)));
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(PERIOD - 1);
    timer.clear_current();
    timer.enable_interrupt();
    timer.enable_counter();
    Some(images)
}

/// Sleeps until the next interrupt; whether the camera has more.
fn wait() -> bool {
    let has_ended = with(|camera| camera.has_ended);
    if !has_ended {
        cortex_m::asm::wfi();
    }
    !has_ended
}

/// Pictures that found no room.
pub(crate) fn lost() -> u32 {
    with(|camera| camera.feed.lost())
}

fn with<T: Default>(work: impl FnOnce(&mut Camera) -> T) -> T {
    interrupt::free(|token| CAMERA.borrow(token).borrow_mut().as_mut().map(work)).unwrap_or_default()
}

#[cortex_m_rt::exception]
fn SysTick() {
    with(|camera| {
        let mut image = [0; LEN];
        if camera.feed.is_full() {
            return;
        }
        match camera.images.capture(&mut image) {
            Ok(()) => _ = camera.feed.offer(image),
            Err(_) => camera.has_ended = true,
        }
    });
}
