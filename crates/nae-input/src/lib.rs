//! From images, tables and time series to a network's input, and from tiles back to an image's score.
//!
//! Training and scoring read their input by this crate, so that a model sees in scoring what it saw in training.
//! Running a network is not here (`nae-infer`), nor are data sets, their archives and their division (`nae-data`).
//!
//! ```
//! use nae_core::{Shape, model::Preprocessing};
//! use nae_input::{Pixels, Transforms, prepare};
//!
//! // A grey image of two pixels becomes the input of a network for RGB images of 1 × 2 pixels, channels first.
//! let pixels = Pixels { shape: Shape::new(1, 1, 2), values: vec![0.0, 1.0] };
//! let input = prepare(&pixels, Shape::new(3, 1, 2), Preprocessing::default(), Transforms::default())?;
//! assert_eq!(input, [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
//! # Ok::<(), nae_input::PrepareError>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`image`](mod@image) | image files and `.npy` batches |
//! | [`table`] | tables of readings, a row a sample |
//! | [`window`] | time series, some rows a sample |
//! | [`tiling`] | images larger than the network's input |
//! | [`layout`] | channels first and channels last |

mod fit;
pub mod image;
pub mod layout;
mod npy;
mod pixels;
mod resize;
pub mod table;
pub mod tiling;
pub mod window;

pub use self::image::{MAX_SIDE, PrepareError, decode, dimensions, parse, prepare, read};
pub use nae_onnx::metadata::Transforms;
pub use pixels::{InputError, Named, Pixels};

/// Largest file that is read, in bytes.
pub const MAX_FILE: u64 = 1 << 30;
