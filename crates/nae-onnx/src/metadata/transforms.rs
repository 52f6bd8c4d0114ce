//! The transforms of an image before it has the size of the network's input.

use serde::{Deserialize, Serialize};

/// The steps from a decoded image to the network's input, in this order: the middle is cut out, the result is resized,
/// black and white are exchanged. Conversion to grey or RGB follows from the input's number of channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transforms {
    /// The side in pixels of the square that is cut from the middle; smaller images keep their own side. `None` for the
    /// whole image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<usize>,
    /// How an image of another size is fitted to the input.
    #[serde(skip_serializing_if = "is_default")]
    pub fit: Fit,
    /// Whether black and white are exchanged.
    #[serde(skip_serializing_if = "is_default")]
    pub invert: bool,
}

/// How an image of another size is fitted to the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Resizes without keeping the proportions.
    #[default]
    Stretch,
    /// Resizes the largest part in the middle that has the input's proportions.
    Crop,
    /// Reduces a larger image, with its proportions, until it lies within the input; then centres the image on zeros.
    Pad,
}

impl Fit {
    /// `stretch`, `crop` or `pad`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stretch => "stretch",
            Self::Crop => "crop",
            Self::Pad => "pad",
        }
    }

    /// The variant with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Stretch, Self::Crop, Self::Pad].into_iter().find(|fit| fit.name() == name)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
