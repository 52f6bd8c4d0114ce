//! What is done to an image before it has the size of the network's input.

use serde::{Deserialize, Serialize};

/// Steps between a decoded image and the network's input, in this order: the middle is cut out, the rest brought to
/// size, black and white exchanged. Grey or RGB is the input's number of channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transforms {
    /// Side of the square in the middle that is taken, in pixels; an image's own side where that is smaller. All of the
    /// image where this is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<usize>,
    /// How another size becomes that of the input.
    #[serde(skip_serializing_if = "is_default")]
    pub fit: Fit,
    /// Whether black and white are exchanged.
    #[serde(skip_serializing_if = "is_default")]
    pub invert: bool,
}

/// How an image of another size becomes one of the input's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Resized, whatever the proportions.
    #[default]
    Stretch,
    /// The largest part in the middle that has the input's proportions, resized.
    Crop,
    /// Resized to lie within the input if it is larger, proportions kept; put in the middle of zeros.
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

    /// The one with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Stretch, Self::Crop, Self::Pad].into_iter().find(|fit| fit.name() == name)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
