//! The measurements of `nae-train deploy` for an 8-bit model: the data for quantization, and the loss on these data.
//! Quantization itself is in [`nae_graph::quantize`], reading ONNX in [`nae_onnx::lower`].

pub(crate) mod data;
pub mod report;
pub use data::Data;
