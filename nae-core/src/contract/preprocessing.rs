//! The preparation of an image before the engine runs on it: by the host or the camera driver. Images are resized by
//! the host; the conversion of bytes to values is here.

use core::fmt;

/// The range of values a model expects and the filter its images were resized with. The size and the number of channels
/// are those of the input [`Shape`](crate::Shape).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Preprocessing {
    pub(crate) low: f32,
    pub(crate) high: f32,
    pub(crate) filter: ResizeFilter,
}

/// The range of values is not finite, or does not ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PreprocessingError;

impl fmt::Display for PreprocessingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the range of values must be finite and ascend")
    }
}

impl core::error::Error for PreprocessingError {}

/// An image and its bytes have different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LengthError;

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the image has another length than its bytes")
    }
}

impl core::error::Error for LengthError {}

impl Preprocessing {
    /// Returns preprocessing that maps byte 0 to `low` and byte 255 to `high`, up to the rounding of
    /// [`value`](Self::value), and resizes images of another size with `filter`.
    ///
    /// # Errors
    /// [`PreprocessingError`] unless `low` and `high` are finite, `low` < `high`, and their difference is finite.
    pub const fn new(low: f32, high: f32, filter: ResizeFilter) -> Result<Self, PreprocessingError> {
        if (high - low).is_finite() && low < high { Ok(Self { low, high, filter }) } else { Err(PreprocessingError) }
    }

    /// Values in `[0, 1]`.
    pub const fn unit(filter: ResizeFilter) -> Self {
        Self { low: 0.0, high: 1.0, filter }
    }

    /// Whether values are in `[0, 1]`.
    pub const fn is_unit(self) -> bool {
        self.low == 0.0 && self.high == 1.0
    }

    /// The value of a black byte.
    pub const fn low(self) -> f32 {
        self.low
    }

    /// The value of a white byte, up to the rounding of [`value`](Self::value).
    pub const fn high(self) -> f32 {
        self.high
    }

    /// The filter that images of another size are resized with.
    pub const fn filter(self) -> ResizeFilter {
        self.filter
    }

    /// Converts the bytes of an image to values; both are HWC.
    ///
    /// # Errors
    /// [`LengthError`] if the lengths differ; nothing is written then.
    ///
    /// ```
    /// use nae_core::model::Preprocessing;
    /// let mut image = [0.0; 3];
    /// Preprocessing::default().apply(&[0, 51, 255], &mut image)?;
    /// assert_eq!(image, [0.0, 0.2, 1.0]);
    /// # Ok::<(), nae_core::model::LengthError>(())
    /// ```
    pub fn apply(self, bytes: &[u8], image: &mut [f32]) -> Result<(), LengthError> {
        if bytes.len() != image.len() {
            return Err(LengthError);
        }
        for (value, byte) in image.iter_mut().zip(bytes) {
            *value = self.value(*byte);
        }
        Ok(())
    }

    /// The value of a byte: `low` + byte/255·(`high` − `low`), in this order, as hosts compute it for images of any
    /// depth. So byte 0 is `low` exactly, and byte 255 is `high` up to the rounding of the difference and the sum.
    pub fn value(self, byte: u8) -> f32 {
        self.low + f32::from(byte) / 255.0 * (self.high - self.low)
    }
}

impl Default for Preprocessing {
    fn default() -> Self {
        Self::unit(ResizeFilter::Bilinear)
    }
}

/// Filter for resizing images of another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ResizeFilter {
    /// Nearest neighbour.
    Nearest,
    /// Mean over the source area (box).
    Box,
    /// Bilinear (triangle), widened when shrinking, as in Pillow and `fast_image_resize`.
    Bilinear,
    /// Bilinear between four neighbours with aligned corners, as in PyTorch's
    /// `interpolate(align_corners=True)`; never widened.
    BilinearAlignCorners,
    /// Catmull-Rom bicubic, widened when shrinking.
    CatmullRom,
    /// Lanczos with three lobes, widened when shrinking.
    Lanczos3,
}

impl ResizeFilter {
    /// Every filter.
    pub const ALL: [Self; 6] =
        [Self::Nearest, Self::Box, Self::Bilinear, Self::BilinearAlignCorners, Self::CatmullRom, Self::Lanczos3];

    /// The name used in metadata: `nearest`, `box`, `bilinear`, `bilinear-align-corners`,
    /// `catmull-rom`, `lanczos3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Box => "box",
            Self::Bilinear => "bilinear",
            Self::BilinearAlignCorners => "bilinear-align-corners",
            Self::CatmullRom => "catmull-rom",
            Self::Lanczos3 => "lanczos3",
        }
    }

    /// The filter with this [name](Self::name); `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|filter| filter.name() == name)
    }

    /// Number of this filter in the `.nae` header: 0 nearest, 1 box, 2 bilinear, 3 bilinear with
    /// aligned corners, 4 Catmull-Rom, 5 Lanczos3.
    pub const fn id(self) -> u8 {
        match self {
            Self::Nearest => 0,
            Self::Box => 1,
            Self::Bilinear => 2,
            Self::BilinearAlignCorners => 3,
            Self::CatmullRom => 4,
            Self::Lanczos3 => 5,
        }
    }

    /// The filter with this [number](Self::id); `None` if there is none.
    pub const fn from_id(id: u8) -> Option<Self> {
        if (id as usize) < Self::ALL.len() { Some(Self::ALL[id as usize]) } else { None }
    }
}
