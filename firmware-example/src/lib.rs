#![no_std]
#![deny(unsafe_code)]
//! The application: captures an image, scores it, drives the alarm pin. It does not depend on a board; it accesses the
//! outside through [`ImageSource`] and `embedded-hal`'s `OutputPin`. The binaries in `src/bin` add a board, logging and
//! the vectors.

mod judge;
pub mod model;
mod ring;
mod serial;
mod watch;

pub use judge::{Judge, Report, SettingsError};
pub use model::Digits;
pub use ring::{Feed, QueuedImages, Ring, ring};
pub use serial::SerialImages;
pub use watch::{Fault, Memory, Watch};

/// A source of images, such as a camera, a serial line, or a list in flash.
pub trait ImageSource {
    /// The reason why there is no image.
    type Error;

    /// Fills `image` with the next image: bytes in HWC order, of the model's size.
    ///
    /// # Errors
    /// The source's error if it cannot give an image; the content of `image` is then undefined.
    fn capture(&mut self, image: &mut [u8]) -> Result<(), Self::Error>;
}

/// A source of consecutive images in memory.
///
/// ```
/// use firmware_example::{ImageSource, StoredImages};
/// let mut source = StoredImages::new(&[1, 2, 3, 4]);
/// let mut image = [0; 2];
/// assert_eq!(source.capture(&mut image), Ok(()));
/// assert_eq!(image, [1, 2]);
/// assert_eq!((source.capture(&mut image), source.capture(&mut image)), (Ok(()), Err(firmware_example::EndOfImages)));
/// ```
#[derive(Clone, Debug)]
pub struct StoredImages<'a> {
    bytes: &'a [u8],
}

/// All stored images have been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub struct EndOfImages;

impl<'a> StoredImages<'a> {
    /// Returns a source of the images that lie one after the other in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl ImageSource for StoredImages<'_> {
    type Error = EndOfImages;

    fn capture(&mut self, image: &mut [u8]) -> Result<(), EndOfImages> {
        let (first, rest) = self.bytes.split_at_checked(image.len()).ok_or(EndOfImages)?;
        image.copy_from_slice(first);
        self.bytes = rest;
        Ok(())
    }
}
