//! The small parts that describe a layer, shared by graphs, the format and the kernels:
//! type of values, activation, padding, resize mode. Weights are not here.

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
    /// x where x ≥ 0, else `slope`·x
    LeakyRelu {
        /// Factor of negative values; finite.
        slope: f32,
    },
    /// x where x ≥ 0, else `alpha`·(exp(x) − 1) (Clevert, Unterthiner and Hochreiter, ICLR 2016)
    Elu {
        /// What negative values tend to, negated; finite.
        alpha: f32,
    },
    /// 1/(1 + exp(−x))
    Sigmoid,
    /// tanh x
    Tanh,
}

impl Activation {
    /// Its value at x, with the functions of `libm`, as the engine computes it.
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

    /// Whether its parameter, if it has one, is finite.
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
    /// 8-bit integers that stand for real values.
    I8(Quantization),
}

impl Element {
    /// Words of four bytes that `len` values take.
    pub const fn words(self, len: usize) -> usize {
        match self {
            Self::F32 => len,
            Self::I8(_) => len.div_ceil(4),
        }
    }

    /// Scale and zero point of 8-bit values.
    pub const fn quantization(self) -> Option<Quantization> {
        match self {
            Self::F32 => None,
            Self::I8(quantization) => Some(quantization),
        }
    }

    /// Whether both are `f32` or both `i8`, of whatever scale.
    pub(crate) const fn has_type_of(self, other: Self) -> bool {
        matches!((self, other), (Self::F32, Self::F32) | (Self::I8(_), Self::I8(_)))
    }
}

/// Rows and columns outside the image on each side, in pixels; zeros for convolutions.
///
/// For a transposed convolution: rows and columns cut off the result, as in ONNX and PyTorch.
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

    /// The same on all four sides.
    pub const fn all(pixels: usize) -> Self {
        Self { top: pixels, left: pixels, bottom: pixels, right: pixels }
    }

    /// From ONNX's `pads` of a 2-D operator: top, left, bottom, right.
    pub const fn from_onnx(pads: [usize; 4]) -> Self {
        let [top, left, bottom, right] = pads;
        Self { top, left, bottom, right }
    }
}

/// How an activation is brought to another height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ResizeMode {
    /// Source index ⌊i·in/out⌋: PyTorch's `nearest`, ONNX's `asymmetric` with `floor`. Where `out` is
    /// a multiple of `in`, ONNX's default (`half_pixel`, `round_prefer_floor`) is the same.
    Nearest,
    /// Bilinear, the corners' centres on each other: source i·(in − 1)/(out − 1), or 0 where
    /// `out` is 1.
    BilinearAlignCorners,
    /// Bilinear, (i + ½)·in/out − ½ held within the image, without antialiasing.
    BilinearHalfPixel,
}
