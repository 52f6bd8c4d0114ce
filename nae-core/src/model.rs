//! The `.nae` model format, version 1 (f32): an autoencoder, its preprocessing, energy and
//! calibration in one file that is read in place. [`Model::parse`] checks everything, in a `const`
//! if wanted ([`include_model!`](crate::include_model)); the module `writer` (feature `std`) makes
//! the file. Running it is in [`crate::engine`].
//!
//! # The file, byte by byte
//! All numbers are little-endian; `f32` are IEEE 754. The file must lie at an address divisible
//! by 4. Four parts follow each other without gaps: header, layers, calibration, weights.
//!
//! ## Header, 128 bytes
//! | at | type | |
//! |---|---|---|
//! | 0 | 8 bytes | magic: `89 4E 41 45 0D 0A 1A 0A` (`\x89NAE\r\n\x1a\n`) |
//! | 8 | u16 | format version, 1 |
//! | 10 | u16 | length of the header, 128 |
//! | 12 | u32 | length of the file in bytes |
//! | 16 | u32 | CRC-32 (IEEE 802.3, as in zip and PNG) of everything from byte 20 on |
//! | 20 | u32 | number of layers, 1 to 256 |
//! | 24 | u32 | number n of calibration energies; 0 without calibration |
//! | 28 | u32 | entries of the calibration table: min(n, 256) |
//! | 32 | u32 | number of weights (`f32`) |
//! | 36 | u32 | length of the arena (`f32`) |
//! | 40 | 3 × u32 | the image's channels, height, width |
//! | 52 | u32 | latent tensor; 0 if there is none |
//! | 56 | u8 | energy: 0 squared L2, 1 L1, 2 SSIM |
//! | 57 | u8 | [resize filter](ResizeFilter::id) |
//! | 58 | u8 | flags: 1 log Ω is there, 2 threshold is there |
//! | 59 | u8 | type of weights and activations: 0 f32 |
//! | 60 | 2 × f32 | value of byte 0 and of byte 255 |
//! | 68 | f32 | temperature T |
//! | 72 | f32 | log Ω, or 0 |
//! | 76 | f32 | target false-positive rate, or 0 |
//! | 80 | f32 | threshold, or 0 |
//! | 84 | | zeros |
//!
//! ## Layers, 64 bytes each
//! Tensor 0 is the image, which the caller holds; tensor k + 1 is the output of layer k, in the
//! arena. The last one is the reconstruction. A layer reads tensors of earlier layers only.
//!
//! | at | type | |
//! |---|---|---|
//! | 0 | u8 | [kind](Kind), 1 to 11 |
//! | 1 | u8 | activation: 0 none, 1 ReLU, 2 leaky ReLU, 3 sigmoid, 4 tanh (kinds 1, 2, 3, 8) |
//! | 2 | u8 | mode. Kind 5: 1 if padding counts in the divisor. Kind 7: 0 aligned corners, 1 half-pixel centres |
//! | 3 | u8 | 0 |
//! | 4 | u16 | tensor it reads |
//! | 6 | u16 | second tensor (kind 11), else 0 |
//! | 8 | 3 × u32 | the output's channels, height, width |
//! | 20 | u32 | where in the arena the output starts (`f32`) |
//! | 24 | 2 × u16 | kernel height, width |
//! | 28 | 2 × u16 | stride down, across |
//! | 32 | 4 × u16 | padding: top, left, bottom, right |
//! | 40 | 2 × u16 | output padding down, across (kind 2) |
//! | 44 | f32 | slope of leaky ReLU, or epsilon of kind 9 |
//! | 48 | u32 | where among the weights the layer's start |
//! | 52 | u32 | how many they are |
//! | 56 | u32 | where among the weights the biases start |
//! | 60 | u32 | how many they are |
//!
//! Fields that a kind does not use are zero.
//!
//! ## Calibration
//! The table of [`Calibration`](crate::calibration::Calibration): ascending `f32`.
//!
//! ## Weights
//! Kinds 1 to 3 have weights in blocks of 8 outputs, the outputs that are left over (fewer than
//! 8) in blocks of one. A block is stored `[kernel row][kernel column][input channel][output of
//! the block]`; a dense layer is a kernel of the size of its input. Biases are one an output.
//!
//! # What is checked
//! Every field: the lengths, the checksum, that each layer's output has the shape its input and
//! geometry give, that weights and arena ranges lie inside, that no layer overwrites a tensor that
//! is still to be read (the latent tensor is read at the end), that a layer's output is apart
//! from its inputs or, where the kind can work in place, exactly on it, that all numbers are finite
//! and unused fields zero. What passes cannot make the engine read or write out of bounds.

mod crc;
mod error;
mod include;
pub mod layer;
mod operators;
mod parse;
mod preprocessing;
mod record;
mod validate;
#[cfg(feature = "std")]
pub mod writer;

pub use error::{LayerFault, ModelError};
pub use operators::Operators;
pub use parse::Model;
pub use preprocessing::{LengthError, Preprocessing, PreprocessingError, ResizeFilter};
pub use record::{Kind, Record, Span};

pub(crate) const MAGIC: [u8; 8] = *b"\x89NAE\r\n\x1a\n";
pub(crate) const VERSION: u16 = 1;
pub(crate) const HEADER_LEN: usize = 128;
pub(crate) const RECORD_LEN: usize = 64;
/// Where the checksummed part of the file starts.
pub(crate) const CHECKED_FROM: usize = 20;
/// Most layers a model can have.
pub const MAX_LAYERS: usize = 256;
/// Greatest height or width of any tensor: resize coordinates then fit 32 bits.
pub const MAX_SIDE: usize = 32_767;
/// Most values in a tensor, in the arena and among the weights.
pub const MAX_VALUES: usize = 1 << 28;
/// Outputs in a block of weights.
pub(crate) const BLOCK: usize = 8;
