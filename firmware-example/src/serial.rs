//! Images over a serial line: two sync bytes, then the image. For boards without a camera.

use crate::ImageSource;
use embedded_hal_nb::serial::Read;

/// The bytes before each image.
const SYNC: [u8; 2] = [0xA5, 0x5A];

/// Receives images from any serial port that implements `embedded-hal-nb`.
#[derive(Debug)]
pub struct SerialImages<R> {
    line: R,
}

impl<R> SerialImages<R> {
    /// Returns a source that reads `line`.
    pub const fn new(line: R) -> Self {
        Self { line }
    }
}

impl<R: Read> ImageSource for SerialImages<R> {
    type Error = R::Error;

    /// Skips bytes before the sync bytes, then reads the image. Waits without a limit.
    fn capture(&mut self, image: &mut [u8]) -> Result<(), R::Error> {
        let mut last = [0; 2];
        while last != SYNC {
            last = [last[1], nb::block!(self.line.read())?];
        }
        for byte in image {
            *byte = nb::block!(self.line.read())?;
        }
        Ok(())
    }
}
