//! Why a model cannot be lowered, or become a `.nae` file.

use nae_graph::GraphError;

use crate::check::CheckError;
use crate::metadata::MetadataError;

/// Why a model cannot be lowered, or become a `.nae` file. Messages name the node and its operator.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The model does not pass the check.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The metadata cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The metadata and the graph contradict each other.
    #[error("metadata `{key}` says {expected}, the graph has {found}")]
    Mismatch {
        /// The key.
        key: &'static str,
        /// What the metadata says.
        expected: String,
        /// What the graph has.
        found: String,
    },
    /// No output is the reconstruction.
    #[error(
        "no reconstruction: expected an output called `reconstruction`, or one output of the image's shape {image}; \
         found {found}"
    )]
    NoReconstruction {
        /// The image's shape.
        image: String,
        /// Names and shapes of the outputs.
        found: String,
    },
    /// There is no such output, or none of maps or vectors.
    #[error("no output `{name}` of shape [N, C, H, W] or [N, D]; found {found}")]
    NoOutput {
        /// Its name.
        name: String,
        /// Names and shapes of the outputs.
        found: String,
    },
    /// An operator the engine does not have, or a form of it.
    #[error("node `{node}`: operator {operator} cannot be lowered: {reason}")]
    Unsupported {
        /// The node.
        node: String,
        /// Its operator.
        operator: String,
        /// What is not supported.
        reason: String,
    },
    /// The writer of the format refuses the graph.
    #[error("{}{error}", node.as_ref().map(|n| format!("node `{n}`: ")).unwrap_or_default())]
    Write {
        /// The node, where one is concerned.
        node: Option<String>,
        /// What is wrong.
        error: GraphError,
    },
}
