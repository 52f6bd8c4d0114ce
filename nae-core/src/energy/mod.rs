//! Reconstruction errors that serve as the energy of the model, and the per-pixel error map. The relation between
//! energy and density is in [`crate::density`].

mod quantized;
mod ssim;

pub(crate) use quantized::are_comparable;

use crate::Shape;
use core::fmt;

/// The difference between an image and its reconstruction: the energy E(x) of the autoencoder.
///
/// ```
/// use nae_core::{Shape, energy::Energy};
/// let shape = Shape::new(1, 2, 2);
/// let image = [0.0, 1.0, 0.0, 1.0];
/// let reconstruction = [0.0, 0.5, 0.0, 1.0];
/// assert_eq!(Energy::SquaredL2.evaluate(&image, &reconstruction, shape), Ok(0.0625));
/// assert_eq!(Energy::L1.evaluate(&image, &reconstruction, shape), Ok(0.125));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Energy {
    /// Squared error divided by the number of dimensions, ‖x − x̂‖²/D (Yoon, Noh and Park, ICML
    /// 2021). In `[0, ∞)`.
    #[default]
    SquaredL2,
    /// Absolute error divided by the number of dimensions, ‖x − x̂‖₁/D. In `[0, ∞)`.
    L1,
    /// One minus the mean structural similarity (Wang, Bovik, Sheikh and Simoncelli, 2004) of
    /// images in `[0, 1]`. In `[0, 2]`; below 0 by rounding counts as 0.
    ///
    /// Gaussian window 11×11 with σ = 1.5, K₁ = 0.01, K₂ = 0.03, dynamic range 1, at every place where the whole window
    /// lies in the image; mean over places and channels. For an image lower or narrower than 11 pixels, the window has
    /// the image's height or width: Gaussian weights around the window's middle, (k − 1)/2, normalized to sum 1.
    Ssim,
}

/// The reason why [`Energy::evaluate`] or [`Energy::error_map`] gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum EnergyError {
    /// The shape contains no value.
    Empty,
    /// The image's length is not the shape's.
    ImageLength,
    /// The reconstruction's length is not the shape's.
    ReconstructionLength,
    /// The error map's length is not height times width.
    MapLength,
    /// An input is NaN or infinite, or the result is beyond `f32`.
    NonFinite,
}

impl fmt::Display for EnergyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the image has no values",
            Self::ImageLength => "the image's length differs from its shape's",
            Self::ReconstructionLength => "the reconstruction's length differs from the shape's",
            Self::MapLength => "the error map's length differs from height times width",
            Self::NonFinite => "a value is NaN or infinite",
        })
    }
}

impl core::error::Error for EnergyError {}

impl Energy {
    /// The name used in metadata and configuration: `squared-l2`, `l1` or `ssim`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SquaredL2 => "squared-l2",
            Self::L1 => "l1",
            Self::Ssim => "ssim",
        }
    }

    /// The energy with this [name](Self::name); `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::SquaredL2, Self::L1, Self::Ssim].into_iter().find(|energy| energy.name() == name)
    }

    /// Number of this energy in the `.nae` header.
    pub const fn id(self) -> u8 {
        match self {
            Self::SquaredL2 => 0,
            Self::L1 => 1,
            Self::Ssim => 2,
        }
    }

    /// The energy with this [number](Self::id); `None` if there is none.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::SquaredL2),
            1 => Some(Self::L1),
            2 => Some(Self::Ssim),
            _ => None,
        }
    }

    /// The cost of [`evaluate`](Self::evaluate) for an image of this shape, in units of about one multiply-accumulate:
    /// one for each value, and for structural similarity five for each value of every window.
    pub const fn operations(self, shape: Shape) -> u64 {
        match self {
            Self::SquaredL2 | Self::L1 => shape.len() as u64,
            Self::Ssim => ssim::operations(shape),
        }
    }

    /// The energy of `image` given its `reconstruction`, both HWC.
    ///
    /// [`Energy::SquaredL2`] and [`Energy::L1`] add the terms from first to last with Kahan's
    /// compensation, so the order of the data (HWC or CHW, the same in both slices) matters only
    /// to the last bit or two, and the result is within a few units in the last place of the
    /// exact sum of the rounded terms.
    ///
    /// # Errors
    /// [`EnergyError`] if a length differs from `shape`, the shape is empty, or a value (or the result) is not finite.
    pub fn evaluate(self, image: &[f32], reconstruction: &[f32], shape: Shape) -> Result<f32, EnergyError> {
        check(image, reconstruction, shape)?;
        let energy = match self {
            Self::SquaredL2 => mean(image, reconstruction, square),
            Self::L1 => mean(image, reconstruction, abs),
            // Of equal images, rounding can make the similarity a little more than 1. NaN stays NaN.
            Self::Ssim => match 1.0 - ssim::mean_ssim(image, reconstruction, shape) {
                energy if energy < 0.0 => 0.0,
                energy => energy,
            },
        };
        if energy.is_finite() { Ok(energy) } else { Err(EnergyError::NonFinite) }
    }

    /// Writes each pixel's error, the mean over its channels, to `map` (height × width, row by row). The mean of the
    /// map is the energy, up to rounding, except for structural similarity, which is defined for windows, not pixels:
    /// its map is the squared error.
    ///
    /// # Errors
    /// As [`Energy::evaluate`], and [`EnergyError::MapLength`] if the length of `map` is not height × width. `map` may
    /// have been written to.
    ///
    /// ```
    /// use nae_core::{Shape, energy::Energy};
    /// let mut map = [0.0; 2];
    /// let (image, reconstruction) = ([1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.5, 0.5]);
    /// Energy::SquaredL2.error_map(&image, &reconstruction, Shape::new(2, 1, 2), &mut map)?;
    /// assert_eq!(map, [1.0, 0.25]);
    /// # Ok::<(), nae_core::energy::EnergyError>(())
    /// ```
    pub fn error_map(
        self,
        image: &[f32],
        reconstruction: &[f32],
        shape: Shape,
        map: &mut [f32],
    ) -> Result<(), EnergyError> {
        check(image, reconstruction, shape)?;
        if map.len() != shape.height.saturating_mul(shape.width) {
            return Err(EnergyError::MapLength);
        }
        let term = match self {
            Self::SquaredL2 | Self::Ssim => square,
            Self::L1 => abs,
        };
        let pixels = image.chunks_exact(shape.channels).zip(reconstruction.chunks_exact(shape.channels));
        for (error, (x, y)) in map.iter_mut().zip(pixels) {
            *error = mean(x, y, term);
            if !error.is_finite() {
                return Err(EnergyError::NonFinite);
            }
        }
        Ok(())
    }
}

fn check(image: &[f32], reconstruction: &[f32], shape: Shape) -> Result<(), EnergyError> {
    if shape.is_empty() {
        return Err(EnergyError::Empty);
    }
    if image.len() != shape.len() {
        return Err(EnergyError::ImageLength);
    }
    if reconstruction.len() != shape.len() {
        return Err(EnergyError::ReconstructionLength);
    }
    if !image.iter().chain(reconstruction).all(|v| v.is_finite()) {
        return Err(EnergyError::NonFinite);
    }
    Ok(())
}

fn square(difference: f32) -> f32 {
    difference * difference
}

fn abs(difference: f32) -> f32 {
    difference.abs()
}

fn mean(x: &[f32], y: &[f32], term: fn(f32) -> f32) -> f32 {
    let mut sum = Sum::default();
    for (x, y) in x.iter().zip(y) {
        sum.add(term(x - y));
    }
    sum.total / x.len() as f32
}

/// Kahan's compensated sum (Kahan, 1965); its error is a few units in the last place for any length.
#[derive(Default)]
struct Sum {
    total: f32,
    lost: f32,
}

impl Sum {
    fn add(&mut self, value: f32) {
        let value = value - self.lost;
        let total = self.total + value;
        self.lost = (total - self.total) - value;
        self.total = total;
    }
}
