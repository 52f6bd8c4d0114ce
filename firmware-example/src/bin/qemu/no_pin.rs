//! A pin for QEMU's board, which has no LED of interest.

use core::convert::Infallible;
use embedded_hal::digital::{ErrorType, OutputPin};

/// A pin without hardware.
pub(crate) struct NoPin;

impl ErrorType for NoPin {
    type Error = Infallible;
}

impl OutputPin for NoPin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
