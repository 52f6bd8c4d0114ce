#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | `graph`, `op`, `layers`, `int8_op` | [`Graph`], what its nodes do, and layers from weights as ONNX and PyTorch have them |
//! | `shape` | the shape of every tensor |
//! | `readers`, `steps` | who reads which tensor; nodes with their activations fused, for whatever runs or writes them |
//! | [`quantize`] | 8-bit layers in place of f32 ones |
//! | `plan`, `record`, `parameters`, `emit` | the arena's plan, and the bytes of a `.nae` file |
//! | [`int8_weights`] | 8-bit weights as the kernels of `nae-core` read them |

mod emit;
mod error;
mod float_weights;
mod graph;
mod int8_op;
pub mod int8_weights;
mod layers;
mod op;
mod parameters;
mod plan;
pub mod quantize;
mod readers;
mod record;
mod shape;
mod steps;

pub use emit::emit;
pub use error::GraphError;
pub use graph::{Graph, Node, TensorId};
pub use int8_op::{Int8Layer, Int8Operation};
pub use layers::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, DepthwiseConv2d, GroupNormalize, MaxPool2d};
pub use op::Op;
pub use readers::Readers;
pub use steps::{Step, readers};
