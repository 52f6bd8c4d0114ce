#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`image`](mod@image) | image files and `.npy` arrays |
//! | [`table`] | tables of readings: each row is a sample |
//! | [`window`] | time series: several consecutive rows are a sample |
//! | [`tiling`] | images larger than the network's input |
//! | [`layout`] | channels first and channels last |

mod decoding;
mod fit;
mod folders;
pub mod image;
mod jpeg;
pub mod layout;
mod name;
mod npy;
mod pixels;
mod resize;
pub mod table;
pub mod tiling;
pub mod window;

pub use self::image::{
    DecodeError, MAX_DECODED, MAX_SIDE, PrepareError, TooLarge, decode, decode_upright, dimensions, is_image_name,
    parse, prepare, read,
};
pub use folders::FoldersAbove;
pub use nae_onnx::metadata::Transforms;
pub use name::path_name;
pub use pixels::{InputError, Named, Pixels};

/// The largest size of a file, in bytes.
pub const MAX_FILE: u64 = 1 << 30;
