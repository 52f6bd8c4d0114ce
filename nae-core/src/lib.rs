#![no_std]
#![deny(unsafe_code)]
//! The part of a normalized autoencoder that runs everywhere: energies, calibration, verdicts,
//! the `.nae` model format and the engine that runs it.
//!
//! It uses no `std` and no heap, panics on no input, and contains `unsafe` only in two folders of assembly for
//! Cortex-M. A program of the parser, the engine, calibration, decisions and features of sound
//! (`firmware-example/src/bin/panic-free.rs`) links only if no panic can be reached. (In a build with overflow checks,
//! the public functions of [`kernels::int8`] can panic on windows and shapes that the parser would refuse.) Training,
//! ONNX, image files, and the host's side of a `.nae` file, which plans and writes it, are in other crates (see
//! `nae-train`, `nae-onnx`, `nae-infer`, `nae-graph`).
//!
//! | module | contents |
//! |---|---|
//! | `audio` | log-mel features of sound, frame by frame (feature `audio`) |
//! | [`energy`] | reconstruction errors that serve as energies; per-pixel error map |
//! | [`calibration`] | thresholds and conformal p-values from held-out normal data |
//! | [`verdict`] | score, verdict, k-of-n alarm filter |
//! | [`drift`] | detection of slow shifts of the energies over time, in fixed memory |
//! | [`density`] | Gibbs relations between energy and log-density |
//! | [`layer`] | the parts of a layer's description: type of values, activation, padding, resize mode |
//! | [`contract`] | the image a network takes, its energy, and its calibration |
//! | [`format`](mod@format) | the bytes of a `.nae` file, parsed and emitted |
//! | [`model`] | a `.nae` file checked as a whole and read in place, by a `const fn` |
//! | [`quantization`] | the map between 8-bit values and real numbers |
//! | [`engine`] | runs a model in the caller's arena |
//! | [`kernels`] | the arithmetic of the layers; the kernels for quantized layers are public |
//!
//! # Numbers
//! Arithmetic is `f32` in a fixed, documented order; roots and exponentials go through `libm`.
//! Exceptions: 8-bit layers and energies are computed in integers, up to their last steps; group
//! normalization adds up its pixels in `f64`; ranks, rates and confidences of thresholds are
//! computed in `f64`. So a result is the same, bit for bit, on every target whose `f32` is IEEE 754 with
//! round-to-nearest and subnormals (hosts, Cortex-M4F with its FPU in the reset state, Cortex-M3
//! by software).
//!
//! # Layout
//! Images and activations are stored by height, width, channels, with channels last (HWC).
//! Trainers and ONNX store channels first (CHW); for one channel the two are the same.
//!
//! # Features
//! - `defmt`: `defmt::Format` on the public types.
//! - `audio`: log-mel features of sound, with the FFT of `microfft`.
//! - `serde`: `Serialize` and `Deserialize` on the small public types.

#[cfg(feature = "audio")]
pub mod audio;
pub mod calibration;
pub mod contract;
pub mod density;
pub mod drift;
pub mod energy;
pub mod engine;
pub mod format;
mod include;
pub mod kernels;
pub mod layer;
pub mod model;
pub mod quantization;
mod shape;
pub mod verdict;

pub use shape::Shape;

/// Runs the examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
