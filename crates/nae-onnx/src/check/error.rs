//! Errors in a model of unknown origin.

/// The reason why a model is refused. Messages contain the node, its operator and what is wrong;
/// names from the file are shortened and their control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The bytes are not an ONNX model.
    #[error("not an ONNX model, or a truncated one: {reason}")]
    Decode {
        /// The error of the decoder.
        reason: String,
    },
    /// A limit is exceeded.
    #[error("{place}: {found} {what}, more than the limit of {limit}")]
    Limit {
        /// `the model`, or a node.
        place: String,
        /// The limited quantity.
        what: &'static str,
        /// The maximum that is accepted.
        limit: u64,
        /// The value found; an arithmetic overflow counts as the largest number.
        found: u64,
    },
    /// The model as a whole has an unsupported form.
    #[error("the model: expected {expected}, found {found}")]
    Model {
        /// What is supported.
        expected: String,
        /// What was found.
        found: String,
    },
    /// An operator is not supported, or not in this form.
    #[error("node `{node}`: operator {operator} is not supported; docs/scoring.md lists those that are")]
    Operator {
        /// The node, or its output if it has no name.
        node: String,
        /// The operator, with its domain if that is not the standard one.
        operator: String,
    },
    /// An attribute, input or output does not meet the operator's requirements.
    #[error("node `{node}` ({operator}): {what}: expected {expected}, found {found}")]
    Node {
        /// The node, or its output if it has no name.
        node: String,
        /// The operator of the node.
        operator: String,
        /// The attribute or input.
        what: String,
        /// What the operator requires.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A constant tensor is malformed, has an unsupported type, or is not finite.
    #[error("constant `{name}`: expected {expected}, found {found}")]
    Constant {
        /// The name of the tensor.
        name: String,
        /// What is supported.
        expected: String,
        /// What was found.
        found: String,
    },
    /// Two values or two nodes have the same name.
    #[error("the name `{name}` comes twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A value is used that is neither an input, nor a constant, nor the result of an earlier node.
    #[error("`{name}`, used by {place}, is made by no input, constant or earlier node")]
    Undefined {
        /// The name of the value.
        name: String,
        /// The node or output that uses it.
        place: String,
    },
}
