//! The model file on the host: ONNX written, read, checked, and lowered to `.nae`.
//!
//! | module | holds |
//! |---|---|
//! | [`proto`] | the ONNX messages |
//! | [`builder`] | graphs from layers, with shapes checked; knows nothing of autoencoders |

pub mod builder;
pub mod proto;
