//! The limit for the size of an image, checked before it is decoded: a request of a few KiB can contain an image
//! that takes a gigabyte of memory.

use nae_infer::input::dimensions;

/// The maximum number of pixels of an image that is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LargestImage(u64);

/// The error for an image with more pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an image of at most {} million pixels (`max_megapixels`), found {width}×{height}: make it smaller", most / MILLION)]
pub(crate) struct TooManyPixels {
    width: u32,
    height: u32,
    most: u64,
}

const MILLION: u64 = 1_000_000;

impl LargestImage {
    pub(crate) fn of_megapixels(millions: u32) -> Self {
        Self(u64::from(millions) * MILLION)
    }

    /// Checks the size in the image's header. An image without a readable header passes, since its decoder
    /// refuses it.
    ///
    /// # Errors
    /// [`TooManyPixels`] if the image has more pixels than the limit.
    pub(crate) fn check(self, image: &[u8]) -> Result<(), TooManyPixels> {
        match dimensions(image) {
            Ok((width, height)) if u64::from(width) * u64::from(height) > self.0 => {
                Err(TooManyPixels { width, height, most: self.0 })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_counted_by_the_header() {
        let largest = LargestImage::of_megapixels(1);
        assert_eq!(largest.check(b"P5 1000 1000 255\n"), Ok(()));
        let error = largest.check(b"P5 1000 1001 255\n").unwrap_err();
        assert_eq!(error, TooManyPixels { width: 1000, height: 1001, most: 1_000_000 });
        assert!(error.to_string().contains("at most 1 million pixels"), "{error}");
        assert_eq!(largest.check(b"no image"), Ok(()));
    }
}
