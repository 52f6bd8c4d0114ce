//! Errors in a graph under construction.

use super::Dim;

/// The reason why an operation cannot be added, or a graph cannot be finished.
///
/// Most messages contain the name that the node would have had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two nodes, inputs, outputs or constants would have the same name.
    #[error("the name `{name}` is taken: names of nodes and values are unique in a graph")]
    DuplicateName {
        /// The repeated name.
        name: String,
    },
    /// A name is empty; in ONNX, an empty name means an omitted input.
    #[error("an empty name was given to {what}")]
    EmptyName {
        /// The kind of object without a name.
        what: &'static str,
    },
    /// The value belongs to another builder.
    #[error("{node}: an operand is not a value of this graph")]
    ForeignValue {
        /// The node to be added.
        node: String,
    },
    /// An operand's shape does not fit the operator.
    #[error("{node}: {operator} takes {expected}, found {}", super::display_shape(.found))]
    Shape {
        /// The node to be added.
        node: String,
        /// The operator of the node.
        operator: &'static str,
        /// The shapes that the operator accepts.
        expected: String,
        /// The shape of the operand.
        found: Vec<Dim>,
    },
    /// A weight or bias has too few or too many elements.
    #[error("{node}: {operator} needs {expected} elements in its {tensor} {dims:?}, found {found}")]
    Elements {
        /// The node to be added.
        node: String,
        /// The operator of the node.
        operator: &'static str,
        /// `weight` or `bias`.
        tensor: &'static str,
        /// The extents that the tensor must have.
        dims: Vec<usize>,
        /// The number of elements for these extents.
        expected: usize,
        /// The number of given elements.
        found: usize,
    },
    /// A weight, bias or attribute is NaN or infinite.
    #[error("{node}: {tensor}[{index}] is {value}, not a finite number")]
    NotFinite {
        /// The node to be added.
        node: String,
        /// `weight`, `bias` or an attribute.
        tensor: &'static str,
        /// The index of the first such element.
        index: usize,
        /// The value, as text.
        value: String,
    },
    /// Invalid attributes, such as a stride of zero or a kernel larger than its input.
    #[error("{node}: {operator}: {reason}")]
    Geometry {
        /// The node to be added.
        node: String,
        /// The operator of the node.
        operator: &'static str,
        /// A description of the error.
        reason: String,
    },
    /// The graph has no inputs, or no outputs.
    #[error("the graph has no {what}")]
    Incomplete {
        /// `input` or `output`.
        what: &'static str,
    },
}
