//! Images over a serial line: two sync bytes, the image, and a checksum of it. For boards without a camera.

use crate::ImageSource;
use embedded_hal_nb::serial::Read;

/// The bytes before each image. An image may contain them, too.
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

    /// Skips bytes before the sync bytes, then reads the image. An image with a wrong checksum is skipped: the search goes on
    /// right after its sync bytes, since these may have been pixels. Waits without a limit.
    fn capture(&mut self, image: &mut [u8]) -> Result<(), R::Error> {
        self.find_sync([0; 2])?;
        let mut received = 0;
        loop {
            for byte in &mut image[received..] {
                *byte = nb::block!(self.line.read())?;
            }
            let sum = [nb::block!(self.line.read())?, nb::block!(self.line.read())?];
            if checksum(image) == u16::from_be_bytes(sum) {
                return Ok(());
            }
            // The bytes after the next sync bytes move to the front, followed by those that were taken for a checksum.
            received = match image.windows(SYNC.len()).position(|bytes| bytes == SYNC) {
                Some(at) => {
                    let start = at + SYNC.len();
                    image.copy_within(start.., 0);
                    let kept = image.len() - start;
                    image[kept..kept + sum.len()].copy_from_slice(&sum);
                    kept + sum.len()
                }
                None => {
                    if image.last() == SYNC.first() && sum[0] == SYNC[1] {
                        image[0] = sum[1];
                        1
                    } else {
                        self.find_sync(sum)?;
                        0
                    }
                }
            };
        }
    }
}

impl<R: Read> SerialImages<R> {
    /// Reads up to the end of the next sync bytes, of which `last` may be the first or all.
    fn find_sync(&mut self, mut last: [u8; 2]) -> Result<(), R::Error> {
        while last != SYNC {
            last = [last[1], nb::block!(self.line.read())?];
        }
        Ok(())
    }
}

/// CRC-16 of the polynomial 0x1021 that begins with 0xFFFF, as `binascii.crc_hqx(image, 0xFFFF)` in Python.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |sum, &byte| {
        let start = sum ^ (u16::from(byte) << 8);
        (0..8).fold(start, |sum, _| if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 })
    })
}
