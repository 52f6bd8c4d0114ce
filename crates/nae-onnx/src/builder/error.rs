//! What can be wrong with a graph under construction.

use super::Dim;

/// Why an operation cannot be added, or a graph cannot be finished.
///
/// Every message names the node, by the name it was to have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two nodes, inputs, outputs or constants would have the same name.
    #[error("the name `{name}` is taken: names of nodes and values are unique in a graph")]
    DuplicateName {
        /// The name given twice.
        name: String,
    },
    /// A name is empty; ONNX reads an empty name as an input left out.
    #[error("an empty name was given to {what}")]
    EmptyName {
        /// What was to have the name.
        what: &'static str,
    },
    /// A value of another builder.
    #[error("{node}: an operand is not a value of this graph")]
    ForeignValue {
        /// Node that was to be added.
        node: String,
    },
    /// An operand's shape does not suit the operator.
    #[error("{node}: {operator} takes {expected}, found {}", super::display_shape(.found))]
    Shape {
        /// Node that was to be added.
        node: String,
        /// Its operator.
        operator: &'static str,
        /// Shapes the operator takes.
        expected: String,
        /// Shape of the operand.
        found: Vec<Dim>,
    },
    /// A weight or bias has too few or too many elements.
    #[error("{node}: {operator} needs {expected} elements in its {tensor} {dims:?}, found {found}")]
    Elements {
        /// Node that was to be added.
        node: String,
        /// Its operator.
        operator: &'static str,
        /// `weight` or `bias`.
        tensor: &'static str,
        /// Extents the tensor must have.
        dims: Vec<usize>,
        /// Elements in those extents.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// A weight, bias or attribute is NaN or infinite.
    #[error("{node}: {tensor}[{index}] is {value}, not a finite number")]
    NotFinite {
        /// Node that was to be added.
        node: String,
        /// `weight`, `bias` or an attribute.
        tensor: &'static str,
        /// Position of the first such element.
        index: usize,
        /// The value, as text.
        value: String,
    },
    /// Attributes that cannot be: a zero stride, a kernel larger than its input, …
    #[error("{node}: {operator}: {reason}")]
    Geometry {
        /// Node that was to be added.
        node: String,
        /// Its operator.
        operator: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The graph has no inputs, or no outputs.
    #[error("the graph has no {what}")]
    Incomplete {
        /// `input` or `output`.
        what: &'static str,
    },
}
