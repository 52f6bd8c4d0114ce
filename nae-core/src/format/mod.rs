//! The `.nae` model format, version 2 (f32 and 8-bit layers): the bytes of its header and of its layers, each parsed
//! and emitted by one type. The validity of a whole file is checked in [`crate::model`]; files are planned and written
//! on the host (`nae-graph`).
//!
//! # The file, byte by byte
//! All numbers are little-endian; `f32` are IEEE 754. The file must lie at an address divisible
//! by 4. Four parts follow each other without gaps: header, layers, calibration, parameters. A
//! *word* has four bytes.
//!
//! ## Header, 128 bytes
//! | at | type | |
//! |---|---|---|
//! | 0 | 8 bytes | magic: `89 4E 41 45 0D 0A 1A 0A` (`\x89NAE\r\n\x1a\n`) |
//! | 8 | u16 | format version, 2 |
//! | 10 | u16 | length of the header, 128 |
//! | 12 | u32 | length of the file in bytes |
//! | 16 | u32 | CRC-32 (IEEE 802.3, as in zip and PNG) of everything from byte 20 on |
//! | 20 | u32 | number of layers, 1 to 256 |
//! | 24 | u32 | number n of calibration energies; 0 without calibration |
//! | 28 | u32 | entries of the calibration table: min(n, 256) |
//! | 32 | u32 | length of the parameters in words |
//! | 36 | u32 | length of the arena in words |
//! | 40 | 3 × u32 | the image's channels, height, width |
//! | 52 | u32 | latent tensor; 0 if there is none |
//! | 56 | u8 | energy: 0 squared L2, 1 L1, 2 SSIM |
//! | 57 | u8 | [resize filter](crate::contract::ResizeFilter::id) |
//! | 58 | u8 | flags: 1 log Ω is present, 2 a threshold is present, 4 the table of more than 256 energies is [denser at its end](crate::calibration::Spacing::Tail), 8 samples are [made by steps that the file does not contain](Header::prepared) |
//! | 59 | u8 | type of the image, the latent and the reconstruction: 0 f32, 1 i8 |
//! | 60 | 2 × f32 | value of byte 0 and of byte 255 |
//! | 68 | f32 | temperature T |
//! | 72 | f32 | log Ω, or 0 |
//! | 76 | f32 | target false-positive rate, or 0 |
//! | 80 | f32 | threshold: the one that the calibration gives for that rate, or 0 |
//! | 84 | f32 | scale of an 8-bit image, 2⁻⁶⁰ to 2⁶⁰, or 0 |
//! | 88 | i8 | zero point of an 8-bit image, or 0 |
//! | 89 | | zeros |
//!
//! ## Layers, 80 bytes each
//! Tensor 0 is the image, which the caller provides; tensor k + 1 is the output of layer k, in the arena. The last
//! tensor is the reconstruction. A layer reads tensors of earlier layers only.
//!
//! | at | type | |
//! |---|---|---|
//! | 0 | u8 | [kind](Kind), 1 to 16 |
//! | 1 | u8 | activation: 0 none, 1 ReLU, 2 leaky ReLU, 3 sigmoid, 4 tanh, 5 ELU (kinds 1, 2, 3, 8 with f32) |
//! | 2 | u8 | mode. Kind 3 with i8: 1 if one multiplier is for all outputs. Kind 5: 1 if padding counts in the divisor. Kind 7: 0 aligned corners, 1 half-pixel centres. Kind 16: groups, 1 to 255 |
//! | 3 | u8 | type of the output: 0 f32, 1 i8 |
//! | 4 | u16 | tensor that the layer reads |
//! | 6 | u16 | second tensor (kinds 11 and 12), else 0 |
//! | 8 | 3 × u32 | the output's channels, height, width |
//! | 20 | u32 | start of the output in the arena, in words |
//! | 24 | 2 × u16 | kernel height, width |
//! | 28 | 2 × u16 | stride down, across |
//! | 32 | 4 × u16 | padding: top, left, bottom, right |
//! | 40 | 2 × u16 | output padding down, across (kind 2) |
//! | 44 | f32 | slope of leaky ReLU, α of ELU, or epsilon of kinds 9 and 16 (f32 only) |
//! | 48 | u32 | start of the layer's weights in the parameters, in words |
//! | 52 | u32 | number of weights; number of bytes if the output is i8 |
//! | 56 | u32 | start of the biases, or channels, in the parameters, in words |
//! | 60 | u32 | number of biases, or channels |
//! | 64 | f32 | i8: scale of the output |
//! | 68 | i8 | i8: zero point of the output |
//! | 69 | 2 × i8 | i8, kinds 1, 2, 3, 11, 12: least and greatest value of the output |
//! | 71 | u8 | i8, kinds 1, 2, 3: [layout](crate::kernels::int8::Layout) of the weights |
//! | 72 | u32 | i8, kinds 11, 12, 15, and 3 in mode 1: start of the multipliers in the parameters, in words |
//! | 76 | u32 | i8, kinds 1, 2, 3: start of the kernel's scratch memory in the arena, in words |
//!
//! Fields that a kind does not use are zero.
//!
//! Kinds 1 to 12 read and write the same type. Kind 13 (quantize) reads f32 and writes i8, kind 14 (dequantize) the
//! reverse; kind 15 (requantize) is i8 only, kind 16 (group normalization) f32 only. A value q of an 8-bit tensor
//! represents scale·(q − zero point). Kinds 4 to 7 and 10 keep the scale and zero point of their input; the output of
//! kind 9 has scale 1/128 and zero point 0.
//!
//! ## Calibration
//! The table of [`Calibration`](crate::calibration::Calibration): ascending `f32`.
//!
//! ## Parameters
//! Each of the following starts at a whole word. The writer fills the last word, and taps and outputs that layout
//! `Paired` adds, with zeros, and gives each layer parameters of its own; see below for what a reader checks of that.
//!
//! **f32.** Kinds 1 to 3 have weights in blocks of 8 outputs; the outputs that are left over (fewer than 8) are in
//! blocks of one. A block is stored `[kernel row][kernel column][input channel][output of the block]`; a dense layer is
//! a kernel of the size of its input. There is one bias per output. Kind 16 has a scale for each channel as weights and
//! a shift as biases.
//!
//! **i8.** Weights of kinds 1 to 3 are stored as [`crate::kernels::int8`] describes for the layer's layout, with a
//! [channel](crate::kernels::int8::Channel) of three i32 for each output: bias, multiplier, shift. Kind 3 in mode 1 has
//! one bias (i32) per output instead, and one multiplier. Kind 8 has a table of 256 bytes in place of weights: entry
//! q + 128 is the result for q. A [multiplier](crate::kernels::int8::Multiplier) is two i32, value and shift. Kind 11
//! has three (first addend, second addend, sum, as in [`Add`](crate::kernels::int8::Add)), kinds 12 and 15 have one.
//!
//! # Versions
//! The version number changes if files of earlier versions can no longer be read, or have another meaning. It does not
//! change if something is added: a kind, a mode, an activation, a layout, an energy, a resize filter, a flag, or a
//! field among those that are zero. Group normalization, ELU and the flags 4 and 8 were added to version 2 in this way. So
//! - a newer reader reads every file of its version;
//! - an older reader reads a newer file that uses nothing that was added since, and refuses any other, since it checks
//!   that every number and flag is known to it and that all other fields are zero. The error is then not
//!   [`ModelError::Version`] but the one of the field, most often [`ModelError::Reserved`] or [`LayerFault::Kind`]; its
//!   text suggests that a newer version made the file.
//!
//! Firmware must therefore be updated before the models that it is sent.
//!
//! # What is checked
//! Every field is checked:
//! - the lengths and the checksum;
//! - each layer's output has the shape and type that follow from its input and geometry;
//! - parameters and arena ranges lie inside, and the layers together have no more parameters than the file;
//! - no layer overwrites a tensor that is still to be read (the latent tensor is read at the end);
//! - a layer's output is apart from its inputs; or exactly on its input, if the kind can work in place; or begins so
//!   far before its input that every row ends before the values that are read for it and later rows (8-bit kind 1, and
//!   kind 2 of stride 1 down; [`Record::lead`]);
//! - scratch memory is apart from all of these;
//! - all floats are finite;
//! - no sum of an 8-bit layer can exceed 32 bits;
//! - the exponents of two of the scales of an 8-bit image and its reconstruction differ by at most 16;
//! - the threshold is the one that the calibration gives for the rate;
//! - unused fields of the header and of the layers are zero.
//!
//! It is not checked that bytes which only fill up are zero: with other values, results of a layer in layout `Paired` can
//! be wrong. Nor is it checked that the ranges of two layers do not overlap, only that all layers together have no more
//! parameters than the file.
//!
//! A file that passes cannot make the engine read or write out of bounds.

mod bytes;
mod crc;
mod error;
mod header;
mod kind;
mod operation;
mod record;
mod work;

pub use error::{FieldRange, LayerFault, ModelError};
pub use header::{HEADER_LEN, Header, seal};
pub use kind::Kind;
pub(crate) use kind::Kinds;
pub use operation::{Geometry, Int8Linear, Int8Pair, Linear, Operation, Pair, Span};
pub use record::{RECORD_LEN, Record};

/// First bytes of every file.
pub const MAGIC: [u8; 8] = header::MAGIC;
/// The largest number of layers of a model.
pub const MAX_LAYERS: usize = 256;
/// Greatest height or width of any tensor: resize coordinates then fit 32 bits.
pub const MAX_SIDE: usize = crate::kernels::MAX_SIDE;
/// The largest number of values in a tensor and in the arena.
pub const MAX_VALUES: usize = 1 << 28;
/// Outputs in a block of `f32` weights.
pub const BLOCK: usize = crate::kernels::BLOCK;

/// The operator `?` for a `const fn`.
macro_rules! check {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
}
pub(crate) use check;
