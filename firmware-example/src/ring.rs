//! Images through a ring buffer in fixed memory: the producer, such as an interrupt or a DMA driver, puts them in; the
//! application takes them out at its own pace. There are no locks: each side has one end.

use crate::{EndOfImages, ImageSource};
use heapless::spsc::{Consumer, Producer, Queue};

/// Room for `N` − 1 images of `LEN` bytes; to be placed in a `static`.
pub type Ring<const LEN: usize, const N: usize> = Queue<Queued<LEN>, N>;

/// An image in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Queued<const LEN: usize> {
    image: [u8; LEN],
    /// Number of images lost before this one, since the start: its low 32 bits, to be compared for equality.
    lost: u32,
}

/// The producer's end, for an interrupt.
pub struct Feed<'a, const LEN: usize> {
    producer: Producer<'a, Queued<LEN>>,
    /// Must not stop at its greatest value, or no gap would be seen afterwards.
    lost: u64,
}

/// The application's end: a source of images. `wait` is called after the ring was found empty, to sleep until the next
/// interrupt; it returns whether more images can come. An image may arrive before it sleeps, so it must mask
/// interrupts, check [`Feed::is_empty`], and sleep while they are masked; a pending interrupt wakes the processor all
/// the same.
pub struct QueuedImages<'a, const LEN: usize, W> {
    consumer: Consumer<'a, Queued<LEN>>,
    wait: W,
    lost: u32,
    follows: bool,
}

/// Returns both ends of `ring`.
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
    /// Puts an image in; returns `false` if there is no room, and the image is lost.
    pub fn offer(&mut self, image: [u8; LEN]) -> bool {
        let fits = self.producer.enqueue(Queued { image, lost: self.lost as u32 }).is_ok();
        self.lost = self.lost.wrapping_add(u64::from(!fits));
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

    /// Number of images lost so far, at most [`u32::MAX`].
    pub const fn lost(&self) -> u32 {
        if self.lost > u32::MAX as u64 { u32::MAX } else { self.lost as u32 }
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

    /// Waits for the next image. Copies as much of it as fits `image`.
    fn capture(&mut self, image: &mut [u8]) -> Result<(), EndOfImages> {
        let mut can_come = true;
        loop {
            if let Some(next) = self.consumer.dequeue() {
                self.follows = next.lost == self.lost;
                self.lost = next.lost;
                image.iter_mut().zip(next.image).for_each(|(to, from)| *to = from);
                return Ok(());
            }
            // An image may have arrived between the check of the ring and the answer.
            if !can_come {
                return Err(EndOfImages);
            }
            can_come = (self.wait)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The count of lost images passes the greatest number: gaps are still seen.
    #[test]
    fn a_gap_is_seen_after_any_number_of_lost_images() {
        let mut memory = Ring::<1, 3>::new();
        let (mut feed, mut images) = ring(&mut memory, || false);
        (feed.lost, images.lost) = (u64::from(u32::MAX - 1), u32::MAX - 1);
        let mut image = [0];
        for number in 0..3 {
            assert!(feed.offer([1]) && feed.offer([2]) && !feed.offer([3]));
            assert_eq!((images.capture(&mut image), images.follows()), (Ok(()), number == 0), "{number}");
            assert_eq!((images.capture(&mut image), images.follows()), (Ok(()), true), "{number}");
            assert_eq!(feed.lost(), u32::MAX);
        }
    }
}
