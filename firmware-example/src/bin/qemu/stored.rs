//! The recording without a timer, for processors whose timer is part of the board: images one after the other from
//! flash.

use super::RECORDING;
use firmware_example::StoredImages;

/// Returns the recording from its start.
pub(crate) fn start() -> Option<StoredImages<'static>> {
    Some(StoredImages::new(RECORDING))
}

/// No image is lost, since the application requests each image.
pub(crate) fn lost() -> u32 {
    0
}
