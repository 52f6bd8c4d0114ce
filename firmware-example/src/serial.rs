//! Images over a serial line: two sync bytes, then the image. For boards without a camera.

use crate::ImageSource;
use embedded_io::{Read, ReadExactError};

/// The bytes before each image.
pub(crate) const SYNC: [u8; 2] = [0xA5, 0x5A];

/// Receives images from anything that reads bytes.
///
/// ```
/// use firmware_example::{ImageSource, SerialImages};
/// let line: &[u8] = &[0x00, 0xA5, 0xA5, 0x5A, 7, 8];
/// let mut image = [0; 2];
/// SerialImages::new(line).capture(&mut image).unwrap();
/// assert_eq!(image, [7, 8]);
/// ```
#[derive(Debug)]
pub struct SerialImages<R> {
    line: R,
}

/// Why no image came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "firmware", derive(defmt::Format))]
pub enum SerialError<E> {
    /// The line ended.
    Closed,
    /// The line reported an error.
    Line(E),
}

impl<R> SerialImages<R> {
    /// A source that reads `line`.
    pub const fn new(line: R) -> Self {
        Self { line }
    }
}

impl<R: Read> SerialImages<R> {
    fn exact(&mut self, bytes: &mut [u8]) -> Result<(), SerialError<R::Error>> {
        self.line.read_exact(bytes).map_err(|error| match error {
            ReadExactError::UnexpectedEof => SerialError::Closed,
            ReadExactError::Other(error) => SerialError::Line(error),
        })
    }
}

impl<R: Read> ImageSource for SerialImages<R> {
    type Error = SerialError<R::Error>;

    /// Skips what comes before the sync bytes, then reads the image. Waits as long as the line
    /// does.
    fn capture(&mut self, image: &mut [u8]) -> Result<(), Self::Error> {
        let mut last = [0; 2];
        while last != SYNC {
            let mut next = [0];
            self.exact(&mut next)?;
            last = [last[1], next[0]];
        }
        self.exact(image)
    }
}
