//! The shape of an image or activation.

/// Channels, height and width of an image or activation. Stored as HWC, channels last.
///
/// A vector of `n` values is `n` channels of height and width 1.
///
/// ```
/// let shape = nae_core::Shape::new(3, 4, 5);
/// assert_eq!(shape.len(), 60);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shape {
    /// Number of channels.
    pub channels: usize,
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
}

impl Shape {
    /// A shape from channels, height and width.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width }
    }

    /// A vector of `len` values: `len` channels of one pixel.
    pub const fn vector(len: usize) -> Self {
        Self::new(len, 1, 1)
    }

    /// Number of values; saturates at `usize::MAX`, the length of no slice.
    pub const fn len(self) -> usize {
        self.channels.saturating_mul(self.height).saturating_mul(self.width)
    }

    /// Whether the shape contains no value.
    pub const fn is_empty(self) -> bool {
        self.channels == 0 || self.height == 0 || self.width == 0
    }
}

impl core::fmt::Display for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}x{}x{}", self.channels, self.height, self.width)
    }
}
