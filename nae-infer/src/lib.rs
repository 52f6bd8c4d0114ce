#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | `detector` | [`Detector`] and its builder, [`Scored`] |
//! | `stream` | one camera's images in turn, and the alarm filter: [`Stream`] |
//! | [`backend`] | nae-simd (feature `simd`, default), tract (`tract`, default), ONNX Runtime (`ort`), nae-core's engine (always) |
//! | [`heat_map`] | pictures of where the energy lies, and regions above a threshold |
//! | [`input`] | the crate `nae-input`: image files, `.npy` batches and tables, and how they become a network's input |
//! | [`card`] | what a model file says about itself |
//!
//! Models are checked before a backend sees them ([`nae_onnx::check`]), and a backend's panic is an error here.

pub mod backend;
pub mod card;
mod detector;
pub mod heat_map;
mod stream;
mod tiling;

pub use backend::{BackendChoice, BackendKind, ExecutionProvider, Limits};
pub use detector::{Detector, DetectorBuilder, OpenError, ScoreError, Scored};
pub use image;
pub use nae_core::Shape;
pub use nae_input as input;
pub use stream::{LONGEST_WINDOW, Observed, Stream};
