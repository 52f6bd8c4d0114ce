//! The small parts of a layer's description, shared by graphs, the format and the kernels: type of values, activation,
//! padding, resize mode. Weights are not included.

use crate::quantization::Quantization;

/// Function applied to every value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Activation {
    /// x
    #[default]
    Identity,
    /// max(x, 0)
    Relu,
    /// x if x ≥ 0, else `slope`·x
    LeakyRelu {
        /// Factor of negative values; finite.
        slope: f32,
    },
    /// x if x ≥ 0, else `alpha`·(exp(x) − 1) (Clevert, Unterthiner and Hochreiter, ICLR 2016)
    Elu {
        /// The limit for x → −∞, negated; finite.
        alpha: f32,
    },
    /// 1/(1 + exp(−x))
    Sigmoid,
    /// tanh x
    Tanh,
}

impl Activation {
    /// Returns the function's value at x, with the functions of `libm`, as the engine computes it.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            // NaN stays NaN: an overflow must not look like a result.
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::LeakyRelu { slope } => {
                if x >= 0.0 {
                    x
                } else {
                    slope * x
                }
            }
            Self::Elu { alpha } => {
                if x >= 0.0 {
                    x
                } else {
                    alpha * libm::expm1f(x)
                }
            }
            Self::Sigmoid => 1.0 / (1.0 + libm::expf(-x)),
            Self::Tanh => libm::tanhf(x),
        }
    }

    /// Whether the function's parameter, if it has one, is finite.
    pub const fn is_finite(self) -> bool {
        match self {
            Self::LeakyRelu { slope: parameter } | Self::Elu { alpha: parameter } => parameter.is_finite(),
            Self::Identity | Self::Relu | Self::Sigmoid | Self::Tanh => true,
        }
    }
}

/// Type of a tensor's values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Element {
    /// 32-bit floats.
    #[default]
    F32,
    /// 8-bit integers that represent real values.
    I8(Quantization),
}

impl Element {
    /// Number of words of four bytes that `len` values take.
    pub const fn words(self, len: usize) -> usize {
        match self {
            Self::F32 => len,
            Self::I8(_) => len.div_ceil(4),
        }
    }

    /// Scale and zero point of 8-bit values; `None` for `f32`.
    pub const fn quantization(self) -> Option<Quantization> {
        match self {
            Self::F32 => None,
            Self::I8(quantization) => Some(quantization),
        }
    }

    /// Whether both are `f32` or both `i8`, with any scales.
    pub(crate) const fn has_type_of(self, other: Self) -> bool {
        matches!((self, other), (Self::F32, Self::F32) | (Self::I8(_), Self::I8(_)))
    }
}

/// Rows and columns added around the image, in pixels; filled with zeros for convolutions.
///
/// For a transposed convolution, the rows and columns that are cut off the result, as in ONNX and PyTorch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Padding {
    /// Rows above.
    pub top: usize,
    /// Columns to the left.
    pub left: usize,
    /// Rows below.
    pub bottom: usize,
    /// Columns to the right.
    pub right: usize,
}

impl Padding {
    /// No padding.
    pub const NONE: Self = Self::all(0);

    /// The same padding on all four sides.
    pub const fn all(pixels: usize) -> Self {
        Self { top: pixels, left: pixels, bottom: pixels, right: pixels }
    }

    /// Converts ONNX's `pads` of a 2-D operator: top, left, bottom, right.
    pub const fn from_onnx(pads: [usize; 4]) -> Self {
        let [top, left, bottom, right] = pads;
        Self { top, left, bottom, right }
    }
}

/// The method by which an activation is resized to another height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ResizeMode {
    /// Nearest neighbour, source index ⌊i·in/out⌋: PyTorch's `nearest`, ONNX's `asymmetric` with `floor`, up to the
    /// rounding of their scale (in/out as a float: from 2 to 82 pixels, i = 41 differs). If `out` is a multiple of
    /// `in`, ONNX's default (`half_pixel`, `round_prefer_floor`) gives the same result.
    Nearest,
    /// Bilinear with the corners' centres aligned: source i·(in − 1)/(out − 1), or 0 if `out` is 1.
    BilinearAlignCorners,
    /// Bilinear, source (i + ½)·in/out − ½ clamped to the image, without antialiasing.
    BilinearHalfPixel,
}
