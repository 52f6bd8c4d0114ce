#![doc = include_str!("../README.md")]
//!
//! | module | contents |
//! |---|---|
//! | `graph`, `op`, `layers`, `int8_op` | [`Graph`], the operations of its nodes, and layers from weights in the layouts of ONNX and PyTorch |
//! | `shape` | the shape of every tensor |
//! | `readers`, `steps` | the readers of each tensor; nodes with their activations fused, for running or writing them |
//! | [`quantize`] | 8-bit layers in place of f32 ones |
//! | `plan`, `record`, `parameters`, `emit` | the arena's plan, and the bytes of a `.nae` file |
//! | [`int8_weights`] | 8-bit weights in the order of the kernels of `nae-core` |

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
