//! What `nae-train deploy` measures of an 8-bit model: the data that a model is quantised on, and what 8 bits cost on it.
//! Quantisation itself is in [`nae_graph::quantize`], reading ONNX in [`nae_onnx::lower`].

pub(crate) mod data;
pub mod report;
pub use data::Data;
