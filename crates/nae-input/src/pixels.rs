//! Images in memory, and the errors of reading them from files.

use std::path::PathBuf;

use image::ImageError;
use nae_core::Shape;

use crate::decoding::TooLarge;

/// A decoded image: floats in `[0, 1]`, channels last.
#[derive(Debug, Clone, PartialEq)]
pub struct Pixels {
    /// The shape: channels (1 or 3), height, width.
    pub shape: Shape,
    /// The values, as many as the shape has, row by row, with the channels of a pixel together.
    pub values: Vec<f32>,
}

/// An image and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The file's path ([`path_name`](crate::path_name)), followed by `[i]` for image i of a `.npy` file of several images.
    pub name: String,
    /// The image.
    pub pixels: Pixels,
}

/// Why no image could be read from a file. Messages name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] nae_onnx::file::FileError),
    /// The file is not an image of a supported format.
    #[error("{}: expected a PNG, JPEG, BMP, TIFF, WebP or PNM image, or a .npy file: {error}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// The decoder's message.
        error: ImageError,
    },
    /// The image is too large.
    #[error("{}: {found}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The image's size and the limit.
        found: TooLarge,
    },
    /// The `.npy` file has a shape or type that is not supported.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// The supported shapes or types.
        expected: &'static str,
        /// What the file has.
        found: String,
    },
}
