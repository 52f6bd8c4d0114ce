//! What can be wrong with a model of unknown origin.

/// Why a model is refused. Messages name the node, its operator and what is wrong; names from the
/// file are shortened and their control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The bytes are not an ONNX model.
    #[error("not an ONNX model, or a truncated one: {reason}")]
    Decode {
        /// What the decoder said.
        reason: String,
    },
    /// A limit is exceeded.
    #[error("{place}: {found} {what}, more than the limit of {limit}")]
    Limit {
        /// `the model`, or a node.
        place: String,
        /// What there is too much of.
        what: &'static str,
        /// The most that is accepted.
        limit: u64,
        /// How much there is; an arithmetic overflow counts as the largest number.
        found: u64,
    },
    /// The model as a whole is not of a form that is read.
    #[error("the model: expected {expected}, found {found}")]
    Model {
        /// What is read.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An operator that is not known, or a form of it.
    #[error("node `{node}`: operator {operator} is not supported")]
    Operator {
        /// The node, or its output where it has no name.
        node: String,
        /// Its operator, with its domain where that is not the standard one.
        operator: String,
    },
    /// An attribute, input or output is not as the operator needs it.
    #[error("node `{node}` ({operator}): {what}: expected {expected}, found {found}")]
    Node {
        /// The node, or its output where it has no name.
        node: String,
        /// Its operator.
        operator: String,
        /// The attribute or input concerned.
        what: String,
        /// What the operator needs.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A constant tensor is malformed, of a type that is not read, or not finite.
    #[error("constant `{name}`: expected {expected}, found {found}")]
    Constant {
        /// Its name.
        name: String,
        /// What is read.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Two values or two nodes have one name.
    #[error("the name `{name}` comes twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A value is used that no input, constant or earlier node makes.
    #[error("`{name}`, used by {place}, is made by no input, constant or earlier node")]
    Undefined {
        /// The value.
        name: String,
        /// Who uses it.
        place: String,
    },
}
