//! The kinds of layers: their numbers in the file, and the fields and properties of each.

/// Kind of a layer in the file, numbered from 1 (convolution) to 16 (group normalization) in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum Kind {
    /// Convolution.
    Conv2d = 1,
    /// Transposed convolution.
    ConvTranspose2d = 2,
    /// Fully connected.
    Dense = 3,
    /// Maximum over windows.
    MaxPool2d = 4,
    /// Mean over windows.
    AveragePool2d = 5,
    /// Nearest neighbour at another size.
    ResizeNearest = 6,
    /// Bilinear interpolation at another size.
    ResizeBilinear = 7,
    /// A function of every value.
    Activation = 8,
    /// Division by the norm.
    L2Normalize = 9,
    /// The same values under another shape.
    Reshape = 10,
    /// The sum of two tensors.
    Add = 11,
    /// The product of two tensors, value by value.
    Multiply = 12,
    /// Conversion from `f32` to `i8`.
    Quantize = 13,
    /// Conversion from `i8` to `f32`.
    Dequantize = 14,
    /// Conversion from `i8` to `i8` of another scale.
    Requantize = 15,
    /// Groups of channels brought to mean 0 and variance 1.
    GroupNormalize = 16,
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u32);

impl Kinds {
    pub(crate) const ALL: Self = Self(u32::MAX);
    /// The empty set, for reading only where an output lies and its type.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the set of kinds whose numbers are the bits that are set.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(super) const fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

impl Kind {
    /// The kind with this number; `None` if there is none.
    pub const fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            1 => Self::Conv2d,
            2 => Self::ConvTranspose2d,
            3 => Self::Dense,
            4 => Self::MaxPool2d,
            5 => Self::AveragePool2d,
            6 => Self::ResizeNearest,
            7 => Self::ResizeBilinear,
            8 => Self::Activation,
            9 => Self::L2Normalize,
            10 => Self::Reshape,
            11 => Self::Add,
            12 => Self::Multiply,
            13 => Self::Quantize,
            14 => Self::Dequantize,
            15 => Self::Requantize,
            16 => Self::GroupNormalize,
            _ => return None,
        })
    }

    /// Whether the output may lie exactly on the (first) input.
    pub const fn works_in_place(self) -> bool {
        matches!(
            self,
            Self::Activation
                | Self::L2Normalize
                | Self::Reshape
                | Self::Add
                | Self::Multiply
                | Self::Requantize
                | Self::GroupNormalize
        )
    }

    /// Whether it reads two tensors.
    pub const fn has_other(self) -> bool {
        matches!(self, Self::Add | Self::Multiply)
    }

    /// Whether its 8-bit form keeps the scale and zero point of its input.
    pub const fn keeps_quantization(self) -> bool {
        matches!(
            self,
            Self::MaxPool2d | Self::AveragePool2d | Self::ResizeNearest | Self::ResizeBilinear | Self::Reshape
        )
    }

    /// Whether it multiplies its input with weights.
    pub const fn has_weights(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::Dense)
    }

    /// Whether it has weights and biases, [of outputs](Self::has_weights) or of channels.
    pub const fn has_parameters(self) -> bool {
        self.has_weights() || matches!(self, Self::GroupNormalize)
    }

    /// Whether its `f32` form has an epsilon.
    pub const fn has_epsilon(self) -> bool {
        matches!(self, Self::L2Normalize | Self::GroupNormalize)
    }

    /// Whether it has a kernel, a stride and padding.
    pub const fn has_windows(self) -> bool {
        matches!(self, Self::Conv2d | Self::ConvTranspose2d | Self::MaxPool2d | Self::AveragePool2d)
    }
}
