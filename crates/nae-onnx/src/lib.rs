#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`proto`] | the ONNX messages |
//! | [`builder`] | ONNX graphs from layers, with shapes checked; knows nothing of autoencoders |
//! | [`autoencoder`] | names of input and outputs, the energy node |
//! | [`metadata`] | the `nae.*` entries: contract, how samples become inputs, provenance |
//! | [`check`] | what is verified of a model of unknown origin before anything runs it |
//! | [`lower`] | to a `Graph` of `nae-graph`, and to `.nae` |
//! | [`raise`] | from a `Graph` of `nae-graph` |
//! | [`tflite`] | the same from TFLite, for dense int8 networks |
//! | [`mod@file`] | files read and written whole |

mod activation;
pub mod autoencoder;
pub mod builder;
pub mod check;
mod excerpt;
pub mod file;
pub mod lower;
pub mod metadata;
pub mod proto;
pub mod raise;
pub mod tflite;
