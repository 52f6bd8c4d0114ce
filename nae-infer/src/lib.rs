//! Scores images with a normalized autoencoder: one model file in, energies and verdicts out.
//!
//! ```no_run
//! use nae_infer::Detector;
//!
//! let detector = Detector::open("model.onnx")?;
//! let scored = detector.score(&nae_infer::image::open("part-0017.png")?)?;
//! println!("energy {}, verdict {:?}", scored.energy, scored.verdict);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Detector`] reads the model and its metadata, prepares images as the metadata says, has a
//! [`backend`] reconstruct them, and leaves energy, calibration and verdict to `nae-core`,
//! whichever backend ran. Models are checked before a backend sees them
//! ([`nae_onnx::check`]), and a backend's panic is an error here.
//!
//! | module | holds |
//! |---|---|
//! | `detector` | [`Detector`] and its builder, [`Scored`] |
//! | `stream` | one camera's images in turn, and the alarm filter |
//! | [`backend`] | nae-simd (feature `simd`, default), tract (`tract`, default), ONNX Runtime (`ort`), nae-core's engine (always) |
//! | [`heat_map`] | pictures of where the energy lies, and regions above a threshold |
//! | [`input`] | the crate `nae-input`: image files, `.npy` batches and tables, and how they become a network's input |
//! | [`card`] | what a model file says about itself |
//!
//! The camera service is in the program `nae-infer`, not here; the library for C is `nae-infer-c`. Training is
//! in `nae-train`, microcontrollers are `nae-core`'s.

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
pub use stream::LONGEST_WINDOW;
