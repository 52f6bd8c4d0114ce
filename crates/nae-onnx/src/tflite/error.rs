//! Why a TFLite file cannot become a `.nae` file.

use nae_graph::GraphError;

use super::schema::Tensor;

/// Why a TFLite file cannot become a `.nae` file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TfliteError {
    /// The file is damaged, or no TFLite file.
    #[error("not a readable .tflite file: {what} lies outside it or is malformed (it has {len} bytes)")]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// Length of the file.
        len: usize,
    },
    /// The model as a whole is not a chain from one input to one output.
    #[error("the model is not an autoencoder that can be taken: {reason}")]
    Chain {
        /// What is in the way.
        reason: String,
    },
    /// An operator, or a form of it, that is not taken.
    #[error("operator {index} ({operator}): {reason}")]
    Operator {
        /// Which, from 0.
        index: usize,
        /// Its name, or number.
        operator: String,
        /// What is not taken.
        reason: String,
    },
    /// A tensor that is not taken.
    #[error("tensor `{name}`: {reason}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is not taken.
        reason: String,
    },
    /// The writer of the format refuses the graph.
    #[error(transparent)]
    Write(GraphError),
}

impl TfliteError {
    pub(super) fn tensor(tensor: &Tensor<'_>, reason: String) -> Self {
        Self::Tensor { name: tensor.name(), reason }
    }
}
