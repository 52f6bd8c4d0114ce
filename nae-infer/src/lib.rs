#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | `detector` | [`Detector`] and its builder, [`Scored`] |
//! | `stream` | [`Stream`]: the images of one camera, with an alarm filter |
//! | [`backend`] | nae-simd (feature `simd`, default), tract (`tract`, default), ONNX Runtime (`ort`), nae-core's engine (always) |
//! | [`heat_map`] | heat maps, and the regions above a threshold |
//! | [`input`] | the crate `nae-input`: reads image files, `.npy` arrays and tables, and converts them to a network's input |
//! | [`card`] | model files: contents, description and scoring settings |
//!
//! A model is checked before a backend gets it ([`nae_onnx::check`]). A panic of a backend is returned as an error.

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
