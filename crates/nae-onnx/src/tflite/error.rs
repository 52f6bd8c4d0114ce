//! The reasons why a TFLite file cannot be converted to a `.nae` file.

use nae_graph::GraphError;

use super::schema::Tensor;

/// The reason why a TFLite file cannot be converted to a `.nae` file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TfliteError {
    /// The file is damaged, or not a TFLite file.
    #[error("not a readable .tflite file: {what} lies outside it or is malformed (it has {len} bytes)")]
    Malformed {
        /// The part that was being read.
        what: &'static str,
        /// The length of the file, in bytes.
        len: usize,
    },
    /// The model as a whole is not a chain from one input to one output.
    #[error("the model is not an autoencoder that can be taken: {reason}")]
    Chain {
        /// A description of the problem.
        reason: String,
    },
    /// An operator is not supported, or not in this form.
    #[error("operator {index} ({operator}): {reason}")]
    Operator {
        /// The index of the operator, from 0.
        index: usize,
        /// Its name or number.
        operator: String,
        /// A description of what is not supported.
        reason: String,
    },
    /// A tensor is not supported.
    #[error("tensor `{name}`: {reason}")]
    Tensor {
        /// Its name.
        name: String,
        /// A description of what is not supported.
        reason: String,
    },
    /// The writer of the `.nae` format refuses the graph.
    #[error(transparent)]
    Write(GraphError),
}

impl TfliteError {
    pub(super) fn tensor(tensor: &Tensor<'_>, reason: String) -> Self {
        Self::Tensor { name: tensor.name(), reason }
    }
}
