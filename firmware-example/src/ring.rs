//! Images through a ring buffer in fixed memory: whoever has them, an interrupt or a DMA driver, puts them in; the
//! application takes them out at its own pace. No locks: one end each.

use crate::{EndOfImages, ImageSource};
use heapless::spsc::{Consumer, Producer, Queue};

/// Room for `N` − 1 images of `LEN` bytes, to be put in a `static`.
pub type Ring<const LEN: usize, const N: usize> = Queue<Queued<LEN>, N>;

/// An image in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Queued<const LEN: usize> {
    image: [u8; LEN],
    /// How many were lost before it, since the start.
    lost: u32,
}

/// The end that an interrupt holds.
pub struct Feed<'a, const LEN: usize> {
    producer: Producer<'a, Queued<LEN>>,
    lost: u32,
}

/// The end that the application holds: a source of images. `wait` is called after the ring was found empty, to sleep until
/// the next interrupt; it says whether more can come. An image may come before it sleeps: it has to mask interrupts, look
/// at [`Feed::is_empty`], and sleep in the mask, where a pending interrupt wakes the processor as well.
pub struct QueuedImages<'a, const LEN: usize, W> {
    consumer: Consumer<'a, Queued<LEN>>,
    wait: W,
    lost: u32,
    follows: bool,
}

/// Both ends of `ring`.
///
/// ```
/// use firmware_example::{ImageSource, Ring, ring};
/// let mut memory = Ring::<4, 3>::new();
/// let (mut feed, mut images) = ring(&mut memory, || false);
/// assert!(feed.offer([1; 4]) && feed.offer([2; 4]) && !feed.offer([3; 4]));
/// assert_eq!((feed.is_full(), feed.is_empty(), feed.lost()), (true, false, 1));
/// let mut image = [0; 4];
/// assert_eq!((images.capture(&mut image), image), (Ok(()), [1; 4]));
/// assert!(feed.offer([4; 4]));
/// assert_eq!((images.capture(&mut image), image, images.follows()), (Ok(()), [2; 4], true));
/// // Between 2 and 4, one was lost.
/// assert_eq!((images.capture(&mut image), image, images.follows()), (Ok(()), [4; 4], false));
/// assert!(images.capture(&mut image).is_err() && feed.is_empty());
/// ```
pub fn ring<const LEN: usize, const N: usize, W: FnMut() -> bool>(
    ring: &mut Ring<LEN, N>,
    wait: W,
) -> (Feed<'_, LEN>, QueuedImages<'_, LEN, W>) {
    let (producer, consumer) = ring.split();
    (Feed { producer, lost: 0 }, QueuedImages { consumer, wait, lost: 0, follows: true })
}

impl<const LEN: usize> Feed<'_, LEN> {
    /// Puts an image in; `false` where there is no room, and the image is lost.
    pub fn offer(&mut self, image: [u8; LEN]) -> bool {
        let fits = self.producer.enqueue(Queued { image, lost: self.lost }).is_ok();
        self.lost = self.lost.saturating_add(u32::from(!fits));
        fits
    }

    /// Whether the next image would be lost.
    pub fn is_full(&self) -> bool {
        !self.producer.ready()
    }

    /// Whether the application has taken all images.
    pub fn is_empty(&self) -> bool {
        self.producer.is_empty()
    }

    /// Images that were lost so far.
    pub const fn lost(&self) -> u32 {
        self.lost
    }
}

impl<const LEN: usize, W> QueuedImages<'_, LEN, W> {
    /// Whether the last image follows the one before, and none was lost in between.
    pub const fn follows(&self) -> bool {
        self.follows
    }
}

impl<const LEN: usize, W: FnMut() -> bool> ImageSource for QueuedImages<'_, LEN, W> {
    type Error = EndOfImages;

    /// Waits for the next image. Copies as much of it as `image` takes.
    fn capture(&mut self, image: &mut [u8]) -> Result<(), EndOfImages> {
        let mut can_come = true;
        loop {
            if let Some(next) = self.consumer.dequeue() {
                self.follows = next.lost == self.lost;
                self.lost = next.lost;
                image.iter_mut().zip(next.image).for_each(|(to, from)| *to = from);
                return Ok(());
            }
            // One may have come between the look at the ring and the answer.
            if !can_come {
                return Err(EndOfImages);
            }
            can_come = (self.wait)();
        }
    }
}
