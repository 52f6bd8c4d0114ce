//! The model file on the host: ONNX written, read, checked, and lowered to `.nae`.
//!
//! | module | holds |
//! |---|---|
//! | [`proto`] | the ONNX messages |
//! | [`builder`] | graphs from layers, with shapes checked; knows nothing of autoencoders |
//! | [`autoencoder`] | names of input and outputs, the energy node |
//! | [`metadata`] | the `nae.*` entries: preprocessing, calibration, provenance |
//! | [`check`] | what is verified of a model of unknown origin before anything runs it |
//! | [`lower`] | to the layer list of `nae-core`, and to `.nae` |
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
pub mod tflite;
