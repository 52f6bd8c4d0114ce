//! Errors of parsing a file as a model, and of writing a number into one.

use core::fmt;

/// The reason why a file is not a valid model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum ModelError {
    /// The file ends before its header does.
    Truncated,
    /// The file does not start with the magic bytes.
    Magic,
    /// The file has another version of the format.
    Version,
    /// The file's length is not the one that its header contains or implies.
    Length,
    /// The checksum is wrong: the file was altered.
    Checksum,
    /// A flag or type of values is unknown, or a reserved field is not zero: a newer version may have made the file.
    Reserved,
    /// The model has no layers, or too many.
    LayerCount,
    /// The image's shape is empty or too large.
    InputShape,
    /// The arena is too large.
    ArenaLength,
    /// The energy is unknown, or it is SSIM and the image is 8-bit or has another range than `[0, 1]`.
    Energy,
    /// The resize filter is unknown, or the range of values does not ascend.
    Preprocessing,
    /// The temperature is not above zero, or log Ω is not finite.
    Temperature,
    /// The calibration table is malformed, the rate or threshold is out of range, or the threshold is not the one that
    /// the table gives for the rate.
    Calibration,
    /// The latent tensor does not exist, or has another type than the image.
    Latent,
    /// The scale of the 8-bit image is out of range.
    Quantization,
    /// The last layer's output has another shape or type than the image, or its scale is too far from the image's
    /// scale.
    Reconstruction,
    /// A layer is invalid.
    Layer {
        /// The index of the layer, from 0.
        index: u16,
        /// The fault of the layer.
        fault: LayerFault,
    },
}

/// The fault of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum LayerFault {
    /// The kind, the mode or the layout of the weights is unknown: a newer version may have made the file.
    Kind,
    /// The activation is unknown, and a newer version may have written it; or the layer cannot have one.
    Activation,
    /// The slope or epsilon is not finite, not positive or not used.
    Parameter,
    /// A field that must be zero is not: a newer version may have given it a meaning.
    Reserved,
    /// The layer reads a tensor that no earlier layer writes, or two tensors of different shapes.
    Tensor,
    /// The kernel, stride or padding is impossible.
    Geometry,
    /// The output's shape does not follow from the input and the geometry.
    Shape,
    /// The weights or biases lie outside the file, their number is wrong, or the layers together have more than the
    /// file.
    Weights,
    /// The output lies outside the arena.
    Arena,
    /// The output overwrites a tensor that is still to be read.
    Overlap,
    /// A weight or bias is NaN or infinite.
    NonFiniteWeight,
    /// The type of the layer's values is unknown, or does not follow from its input.
    Element,
    /// A scale, multiplier, clamp or integer bias is out of range.
    Quantization,
}

impl LayerFault {
    const fn message(self) -> &'static str {
        match self {
            Self::Kind => "a layer has an unknown kind, mode or layout of weights (made by a newer version?)",
            Self::Activation => {
                "a layer has an unknown activation (made by a newer version?), or one where there can be none"
            }
            Self::Parameter => "a layer's slope or epsilon is invalid",
            Self::Reserved => "a layer has a field of unknown meaning that is not zero (made by a newer version?)",
            Self::Tensor => "a layer reads a tensor that is not there or does not fit",
            Self::Geometry => "a layer's kernel, stride or padding is impossible",
            Self::Shape => "a layer's output shape does not follow from its input",
            Self::Weights => "a layer's weights are outside the file, not as many as needed, or another layer's",
            Self::Arena => "a layer's output lies outside the arena",
            Self::Overlap => "a layer overwrites a tensor that is still to be read",
            Self::NonFiniteWeight => "a layer has a weight that is NaN or infinite",
            Self::Element => "a layer's type of values is unknown (made by a newer version?) or does not fit its input",
            Self::Quantization => "a layer's scale, multiplier, clamp or bias is out of range",
        }
    }
}

impl ModelError {
    /// Describes the fault in words, for messages of failed builds.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Truncated => "the file is shorter than its header",
            Self::Magic => "not a .nae file",
            Self::Version => "the .nae file has another version than 2",
            Self::Length => "the file's length is not what its header says",
            Self::Checksum => "the checksum is wrong: the file was altered or cut",
            Self::Reserved => {
                "the header has an unknown flag, or a field of unknown meaning that is not zero (made by a newer version?)"
            }
            Self::LayerCount => "the model has no layers or more than 256",
            Self::InputShape => "the image's shape is empty or too large",
            Self::ArenaLength => "the arena is too large",
            Self::Energy => {
                "the energy is unknown (made by a newer version?) or does not fit the image's type or range"
            }
            Self::Preprocessing => {
                "the resize filter is unknown (made by a newer version?) or the range of values invalid"
            }
            Self::Temperature => "the temperature or log Omega is invalid",
            Self::Calibration => "the calibration is malformed, or the threshold does not follow from it",
            Self::Latent => "the latent tensor is not there or has another type than the image",
            Self::Quantization => "the scale of the 8-bit image is out of range",
            Self::Reconstruction => "the last output's shape, type or scale does not fit the image's",
            Self::Layer { fault, .. } => fault.message(),
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Layer { index, .. } = self {
            write!(f, "layer {index}: ")?;
        }
        f.write_str(self.message())
    }
}

impl core::error::Error for ModelError {}

/// A number does not fit its field of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FieldRange;

impl fmt::Display for FieldRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size does not fit its field in the format")
    }
}

impl core::error::Error for FieldRange {}
