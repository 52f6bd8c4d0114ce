//! Images in memory, and why a file gives none.

use std::path::PathBuf;

use image::ImageError;
use nae_core::Shape;

use crate::decoding::TooLarge;

/// An image: floats in `[0, 1]`, channels last.
#[derive(Debug, Clone, PartialEq)]
pub struct Pixels {
    /// Channels (1 or 3), height, width.
    pub shape: Shape,
    /// As many values as the shape says.
    pub values: Vec<f32>,
}

/// An image and what to call it.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The file's path; with `[i]` for image i of a `.npy` file of several.
    pub name: String,
    /// The image.
    pub pixels: Pixels,
}

/// Why a file gives no input. Messages name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] nae_onnx::file::FileError),
    /// The file is no image that is read.
    #[error("{}: expected a PNG, JPEG, BMP, TIFF, WebP or PNM image, or a .npy file: {error}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        error: ImageError,
    },
    /// The file is an image that is too large.
    #[error("{}: {found}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How large it is.
        found: TooLarge,
    },
    /// The `.npy` file is not of a form that is read.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is read.
        expected: &'static str,
        /// What is there.
        found: String,
    },
}
