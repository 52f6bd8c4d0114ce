#![doc = include_str!("../README.md")]
//!
//! | module | contents |
//! |---|---|
//! | [`proto`] | the ONNX messages |
//! | [`builder`] | ONNX graphs from layers, with checked shapes; independent of autoencoders |
//! | [`autoencoder`] | the names of input and outputs, the energy node |
//! | [`metadata`] | the `nae.*` entries: contract, conversion of samples to inputs, provenance |
//! | [`check`] | the checks of a model of unknown origin before it runs |
//! | [`lower`] | conversion to a `Graph` of `nae-graph`, and to `.nae` |
//! | [`raise`] | conversion from a `Graph` of `nae-graph` |
//! | [`tflite`] | conversion from TFLite, for dense int8 networks |
//! | [`mod@file`] | reading and writing of whole files |
//! | [`ending`] | the formats of model files, by their first bytes and names |

mod activation;
pub mod autoencoder;
pub mod builder;
pub mod check;
pub mod ending;
mod excerpt;
pub mod file;
pub mod lower;
pub mod metadata;
pub mod proto;
pub mod raise;
pub mod tflite;

pub use excerpt::excerpt;
