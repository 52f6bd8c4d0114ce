//! The reasons why a model cannot be lowered or converted to a `.nae` file.

use nae_graph::GraphError;

use crate::check::CheckError;
use crate::metadata::MetadataError;

/// The reason why a model cannot be lowered or converted to a `.nae` file. Messages contain the
/// node and its operator.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The model did not pass the check.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The metadata cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The metadata and the graph contradict each other.
    #[error("metadata `{key}` says {expected}, the graph has {found}")]
    Mismatch {
        /// The metadata key.
        key: &'static str,
        /// The value in the metadata.
        expected: String,
        /// The value in the graph.
        found: String,
    },
    /// No output is the reconstruction.
    #[error(
        "no reconstruction: expected an output of the image's shape {image}, called `reconstruction` or the only one; \
         found {found}"
    )]
    NoReconstruction {
        /// The shape of the image.
        image: String,
        /// The names and shapes of the outputs.
        found: String,
    },
    /// There is no such output, or its values are neither maps nor vectors.
    #[error("no output `{name}` of shape [N, C, H, W] or [N, D]; found {found}")]
    NoOutput {
        /// The name of the output.
        name: String,
        /// The names and shapes of the outputs.
        found: String,
    },
    /// The engine does not support an operator, or this form of it.
    #[error("node `{node}`: operator {operator} cannot be lowered: {reason}")]
    Unsupported {
        /// The node.
        node: String,
        /// The operator of the node.
        operator: String,
        /// A description of what is not supported.
        reason: String,
    },
    /// The writer of the `.nae` format refuses the graph.
    #[error("{}{error}", node.as_ref().map(|n| format!("node `{n}`: ")).unwrap_or_default())]
    Write {
        /// The node, if the error concerns one.
        node: Option<String>,
        /// The error.
        error: GraphError,
    },
}
