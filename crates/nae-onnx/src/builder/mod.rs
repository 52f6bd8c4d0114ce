//! Builds ONNX graphs: values with known shapes, operations that check them, and finally one model.
//!
//! [`GraphBuilder`] does not depend on autoencoders, energies or this project's metadata; its callers add
//! those. Operations are in `layers` (those with weights), `normalize`, `pointwise` and `spatial`; this file
//! has the values, their names, and the finished model. Nothing here reads ONNX.
//!
//! Models have IR version 8 and operator set 17, which ONNX Runtime from 1.12, tract and burn-onnx can read.
//! The batch size is the symbol `N`; no operation fixes it.
//!
//! ```
//! use nae_onnx::builder::{Conv2d, GraphBuilder};
//!
//! let mut graph = GraphBuilder::new("edges");
//! let image = graph.image_input("image", [1, 8, 8])?;
//! let weight = [0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0];
//! let y = graph.conv2d("laplace", image, &Conv2d::new(1, [3, 3], &weight, None))?;
//! let y = graph.relu("positive", y)?;
//! graph.output("edges", y)?;
//! let model = graph.finish()?;
//! assert_eq!(model.graph.unwrap().node.len(), 2);
//! # Ok::<(), nae_onnx::builder::BuildError>(())
//! ```

mod error;
mod layers;
mod normalize;
mod pointwise;
mod spatial;

use std::collections::HashSet;

pub use error::BuildError;
pub use layers::{Conv2d, ConvTranspose2d, Gemm};
pub use normalize::GroupNorm;
pub use spatial::Pool2d;

use crate::proto::{
    AttributeProto, DataType, DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};

/// The IR version of the written models.
pub const IR_VERSION: i64 = 8;
/// The version of the standard operator set of the written models.
pub const OPSET_VERSION: i64 = 17;
/// The symbol of the batch dimension.
pub const BATCH_SYMBOL: &str = "N";

/// One extent of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    /// The batch size: any number, chosen when the model runs.
    Batch,
    /// A number that is known when the model is built.
    Fixed(usize),
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Batch => f.write_str(BATCH_SYMBOL),
            Self::Fixed(n) => write!(f, "{n}"),
        }
    }
}

/// The form of a shape in messages: `[N, 3, 28, 28]`.
pub fn display_shape(shape: &[Dim]) -> String {
    let dims: Vec<String> = shape.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}

/// A value of a graph under construction: an input, a constant or a result. It is cheap to copy, and only
/// valid for the builder that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value(usize);

struct ValueEntry {
    name: String,
    shape: Vec<Dim>,
    /// Whether it is the result of a node and not yet an output, so that its name may still change.
    renamable: bool,
}

struct Node {
    name: String,
    operator: &'static str,
    inputs: Vec<Option<Value>>,
    output: Value,
    /// A second output that the operator requires, and that no node reads.
    unused: Option<Value>,
    attributes: Vec<AttributeProto>,
}

/// Builds one graph and the model that contains it.
///
/// The first argument of an operation is the name of the node. The node's result, weight and bias have the
/// names `name`, `name.weight` and `name.bias`; a result that becomes an output takes the output's name.
///
/// After an error, the graph may contain constants of the failed node: build a new graph.
pub struct GraphBuilder {
    name: String,
    values: Vec<ValueEntry>,
    nodes: Vec<Node>,
    initializers: Vec<(Value, TensorProto)>,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    names: HashSet<String>,
    metadata: Vec<(String, String)>,
    producer: (String, String),
    description: Option<String>,
}

impl GraphBuilder {
    /// Creates an empty graph.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            values: Vec::new(),
            nodes: Vec::new(),
            initializers: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            names: HashSet::new(),
            metadata: Vec::new(),
            producer: (env!("CARGO_PKG_NAME").into(), env!("CARGO_PKG_VERSION").into()),
            description: None,
        }
    }

    /// Sets the name and version of the program that writes the model; the default is this crate.
    pub fn producer(&mut self, name: &str, version: &str) -> &mut Self {
        self.producer = (name.into(), version.into());
        self
    }

    /// Sets the model's description for users.
    pub fn description(&mut self, text: &str) -> &mut Self {
        self.description = Some(text.into());
        self
    }

    /// Adds a metadata entry, and replaces one with the same key.
    pub fn metadata(&mut self, key: &str, value: &str) -> &mut Self {
        match self.metadata.iter_mut().find(|(k, _)| k == key) {
            Some(entry) => entry.1 = value.into(),
            None => self.metadata.push((key.into(), value.into())),
        }
        self
    }

    /// Adds a float32 input.
    ///
    /// # Errors
    /// [`BuildError::DuplicateName`], [`BuildError::EmptyName`], and [`BuildError::Geometry`] for a
    /// zero extent.
    pub fn input(&mut self, name: &str, shape: &[Dim]) -> Result<Value, BuildError> {
        if shape.contains(&Dim::Fixed(0)) {
            return Err(geometry(name, "input", "an extent is zero"));
        }
        let value = self.value(name, shape.to_vec(), false)?;
        self.inputs.push(value);
        Ok(value)
    }

    /// Adds an input of images `[N, channels, height, width]`.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn image_input(&mut self, name: &str, [c, h, w]: [usize; 3]) -> Result<Value, BuildError> {
        self.input(name, &[Dim::Batch, Dim::Fixed(c), Dim::Fixed(h), Dim::Fixed(w)])
    }

    /// Makes a value an output of the graph with the name `name`. Outputs have the order of these calls.
    ///
    /// # Errors
    /// [`BuildError::DuplicateName`], [`BuildError::EmptyName`], [`BuildError::ForeignValue`].
    pub fn output(&mut self, name: &str, value: Value) -> Result<(), BuildError> {
        self.shape_of(name, value)?;
        let output = if self.values[value.0].renamable {
            let old = self.values[value.0].name.clone();
            if old != name {
                self.claim(name, "an output")?;
                self.names.remove(&old);
                self.values[value.0].name = name.into();
            }
            self.values[value.0].renamable = false;
            value
        } else {
            self.node(name, "Identity", &[value], self.values[value.0].shape.clone(), Vec::new()).inspect(|v| {
                self.values[v.0].renamable = false;
            })?
        };
        self.outputs.push(output);
        Ok(())
    }

    /// The shape of a value; `None` if the value belongs to another builder.
    pub fn shape(&self, value: Value) -> Option<&[Dim]> {
        self.values.get(value.0).map(|v| v.shape.as_slice())
    }

    /// Returns the finished model. Encode it with `prost::Message::encode_to_vec`, or use
    /// [`finish_bytes`](Self::finish_bytes).
    ///
    /// # Errors
    /// [`BuildError::Incomplete`] if there are no inputs or no outputs.
    pub fn finish(self) -> Result<ModelProto, BuildError> {
        if self.inputs.is_empty() {
            return Err(BuildError::Incomplete { what: "input" });
        }
        if self.outputs.is_empty() {
            return Err(BuildError::Incomplete { what: "output" });
        }
        let name_of = |v: Value| self.values[v.0].name.clone();
        let info_of = |v: &Value| value_info(&self.values[v.0]);
        let graph = GraphProto {
            node: self
                .nodes
                .iter()
                .map(|n| NodeProto {
                    input: n.inputs.iter().map(|i| i.map(name_of).unwrap_or_default()).collect(),
                    output: std::iter::once(n.output).chain(n.unused).map(name_of).collect(),
                    name: Some(n.name.clone()),
                    op_type: Some(n.operator.into()),
                    attribute: n.attributes.clone(),
                    ..NodeProto::default()
                })
                .collect(),
            name: Some(self.name.clone()),
            initializer: self.initializers.iter().map(|(_, tensor)| tensor.clone()).collect(),
            input: self.inputs.iter().map(info_of).collect(),
            output: self.outputs.iter().map(info_of).collect(),
            ..GraphProto::default()
        };
        Ok(ModelProto {
            ir_version: Some(IR_VERSION),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(OPSET_VERSION) }],
            producer_name: Some(self.producer.0),
            producer_version: Some(self.producer.1),
            doc_string: self.description,
            graph: Some(graph),
            metadata_props: self
                .metadata
                .into_iter()
                .map(|(key, value)| StringStringEntryProto { key: Some(key), value: Some(value) })
                .collect(),
            ..ModelProto::default()
        })
    }

    /// Returns the finished model as the bytes of an `.onnx` file.
    ///
    /// # Errors
    /// As for [`finish`](Self::finish).
    pub fn finish_bytes(self) -> Result<Vec<u8>, BuildError> {
        Ok(prost::Message::encode_to_vec(&self.finish()?))
    }

    fn claim(&mut self, name: &str, what: &'static str) -> Result<(), BuildError> {
        if name.is_empty() {
            return Err(BuildError::EmptyName { what });
        }
        if !self.names.insert(name.into()) {
            return Err(BuildError::DuplicateName { name: name.into() });
        }
        Ok(())
    }

    fn value(&mut self, name: &str, shape: Vec<Dim>, renamable: bool) -> Result<Value, BuildError> {
        self.claim(name, "a value")?;
        self.values.push(ValueEntry { name: name.into(), shape, renamable });
        Ok(Value(self.values.len() - 1))
    }

    fn shape_of(&self, node: &str, value: Value) -> Result<&[Dim], BuildError> {
        self.shape(value).ok_or_else(|| BuildError::ForeignValue { node: node.into() })
    }

    /// The extents of a batch of feature maps `[N, C, H, W]`.
    fn maps_of(&self, node: &str, operator: &'static str, value: Value) -> Result<[usize; 3], BuildError> {
        match *self.shape_of(node, value)? {
            [Dim::Batch, Dim::Fixed(c), Dim::Fixed(h), Dim::Fixed(w)] => Ok([c, h, w]),
            ref other => Err(BuildError::Shape {
                node: node.into(),
                operator,
                expected: "[N, channels, height, width]".into(),
                found: other.to_vec(),
            }),
        }
    }

    /// Adds a node with one result.
    fn node(
        &mut self,
        name: &str,
        operator: &'static str,
        inputs: &[Value],
        shape: Vec<Dim>,
        attributes: Vec<AttributeProto>,
    ) -> Result<Value, BuildError> {
        self.node_optional(name, operator, inputs.iter().map(|&v| Some(v)).collect(), shape, attributes)
    }

    /// Adds a node with optional inputs.
    fn node_optional(
        &mut self,
        name: &str,
        operator: &'static str,
        inputs: Vec<Option<Value>>,
        shape: Vec<Dim>,
        attributes: Vec<AttributeProto>,
    ) -> Result<Value, BuildError> {
        let output = self.value(name, shape, true)?;
        self.nodes.push(Node { name: name.into(), operator, inputs, output, unused: None, attributes });
        Ok(output)
    }

    /// Adds a constant of floats, checked for size and finiteness.
    fn weights(
        &mut self,
        node: &str,
        operator: &'static str,
        tensor: &'static str,
        dims: &[usize],
        data: &[f32],
    ) -> Result<Value, BuildError> {
        let expected = dims.iter().product();
        if data.len() != expected {
            return Err(BuildError::Elements {
                node: node.into(),
                operator,
                tensor,
                dims: dims.to_vec(),
                expected,
                found: data.len(),
            });
        }
        finite(node, tensor, data)?;
        let name = format!("{node}.{tensor}");
        let value = self.value(&name, dims.iter().map(|&d| Dim::Fixed(d)).collect(), false)?;
        self.initializers.push((value, TensorProto::floats(&name, dims, data)));
        Ok(value)
    }

    /// Adds a constant vector of integers.
    fn integers(&mut self, name: &str, data: &[i64]) -> Result<Value, BuildError> {
        let value = self.value(name, vec![Dim::Fixed(data.len())], false)?;
        self.initializers.push((value, TensorProto::int64s(name, data)));
        Ok(value)
    }
}

fn value_info(entry: &ValueEntry) -> ValueInfoProto {
    let dim = entry
        .shape
        .iter()
        .map(|d| DimensionProto {
            value: Some(match *d {
                Dim::Batch => DimensionValue::Symbol(BATCH_SYMBOL.into()),
                Dim::Fixed(n) => DimensionValue::Size(n as i64),
            }),
        })
        .collect();
    ValueInfoProto {
        name: Some(entry.name.clone()),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: Some(DataType::Float as i32),
                shape: Some(TensorShapeProto { dim }),
            }),
        }),
        ..ValueInfoProto::default()
    }
}

fn finite(node: &str, tensor: &'static str, data: &[f32]) -> Result<(), BuildError> {
    match data.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(BuildError::NotFinite { node: node.into(), tensor, index, value: data[index].to_string() }),
        None => Ok(()),
    }
}

fn geometry(node: &str, operator: &'static str, reason: impl Into<String>) -> BuildError {
    BuildError::Geometry { node: node.into(), operator, reason: reason.into() }
}
