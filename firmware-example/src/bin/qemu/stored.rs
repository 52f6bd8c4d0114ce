//! The recording without a timer, for processors whose timer is the board's: images one after the other from flash.

use super::RECORDING;
use firmware_example::StoredImages;

/// The recording from its start.
pub(crate) fn start() -> Option<StoredImages<'static>> {
    Some(StoredImages::new(RECORDING))
}

/// Nothing is lost where the application asks for each image.
pub(crate) fn lost() -> u32 {
    0
}
