//! An autoencoder as a graph of layers with their weights: the one form between everything that reads a network and
//! everything that runs or writes one, on the host.
//!
//! ONNX and TFLite files become a [`Graph`] (`nae-onnx`), and so does a network in training (`nae-train`). A graph becomes
//! a `.nae` file here ([`emit()`]), and a program for the processor (`nae-simd`). Nothing is run here, and no model file is
//! read.
//!
//! ```
//! use nae_core::layer::{Activation, Padding};
//! use nae_core::{Shape, model::Model};
//! use nae_graph::{Conv2d, Graph, emit};
//!
//! // A 3×3 box blur as the "autoencoder" of 4×4 images.
//! let blur = Conv2d::from_oihw(&[1.0 / 9.0; 9], [1, 1, 3, 3], None)?
//!     .with_padding(Padding::all(1))
//!     .with_activation(Activation::Relu);
//! let mut graph = Graph::new(Shape::new(1, 4, 4));
//! graph.push(blur);
//! let file = emit(&graph)?;
//! assert_eq!(Model::parse(&file)?.arena_len(), 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `op` | what a node does |
//! | `layers` | the layers with weights or windows, from weights as ONNX and PyTorch have them |
//! | `int8_op` | the 8-bit layers |
//! | `steps` | nodes with their activations fused, for whatever runs or writes them |
//! | `readers` | who reads which tensor |
//! | [`quantize`] | 8-bit layers in place of f32 ones |
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
pub use layers::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, GroupNormalize, MaxPool2d};
pub use op::Op;
pub use readers::Readers;
pub use steps::{Step, readers};
