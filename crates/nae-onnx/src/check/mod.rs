//! Checks an ONNX model of unknown origin before a backend runs it.
//!
//! Runtimes trust their models: some were observed to panic on a stride of zero or a duplicate name, to run for 20
//! seconds on a resize by a million, and to turn a NaN weight into finite energies. Therefore, [`check`] accepts only
//! what it supports: known operators with known attributes, shapes that are consistent and within [`Limits`], constants
//! that are finite and have the declared length, unique names, and no data in other files.
//!
//! Accepted are:
//! - operator sets 11 to 21 of the standard domain; one input `[N, C, H, W]` or `[N, D]` of
//!   float32, where N is a symbol, unknown, or a number;
//! - `Conv`, `ConvTranspose`, `Gemm`, `MatMul`, `BatchNormalization` (inference), `InstanceNormalization`,
//!   `GroupNormalization`;
//!   `Add`, `Sub`, `Mul`, `Div`, `Pow`; `Relu`, `LeakyRelu`, `Elu`, `Sigmoid`, `Tanh`, `Abs`, `Sqrt`,
//!   `Clip`; `MaxPool`, `AveragePool`, `GlobalAveragePool` (two-dimensional);
//!   `Resize` (linear with `align_corners`, where sizes times scales are whole numbers, or `half_pixel`; nearest);
//!   `Flatten`, `Reshape`, `Squeeze`, `Unsqueeze` (to constant shapes, with the batch in front);
//!   `ReduceMean`, `ReduceSum`, `ReduceL2`, `LpNormalization`, `Softmax`, `Concat` of channels, `TopK`,
//!   `Expand`; `Constant`, `Identity`, `Dropout`;
//! - operators that exporters use to compute shapes: `Shape`, `Gather`, `Slice`, `Concat`, `Cast` and arithmetic of
//!   integers, if the result is known in advance except for the batch size;
//! - `QuantizeLinear` with `DequantizeLinear` (QDQ, as ONNX Runtime's quantizer writes it), of `int8` and `uint8`,
//!   around float operators. They are folded: weights are converted to real numbers, activations are not rounded. A
//!   quantizer omits a `Relu` whose result it quantizes, since the range begins at zero; it is restored here. The
//!   range's upper end is not kept, so that an omitted `Clip` is also restored as a `Relu`, unless the model is
//!   quantized again with the stored scales of its values ([`graph::Stored`]).
//!
//! Not accepted are integer operators such as `QLinearConv`, float16, sub-graphs, functions, one- and three-dimensional
//! convolutions, and shapes that depend on an image's content.
//!
//! [`lower`](crate::lower) determines which of the accepted graphs can be converted to a `.nae` file.

mod attributes;
mod error;
pub mod graph;
mod operator;
mod shape;
mod tensor;
mod wire;

use std::collections::{HashMap, HashSet};

use prost::Message;

pub use error::CheckError;
use graph::{CheckedModel, Dim, OnnxGraph, OnnxNode, Stored, ValueId, ValueInfo};
use operator::{Meaning, Scale};

use crate::excerpt::excerpt;
use crate::proto::{DataType, DimensionValue, GraphProto, ModelProto, NodeProto, ValueInfoProto};

/// The supported operator sets.
const OPSETS: std::ops::RangeInclusive<i64> = 11..=21;

/// The limits for the size of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of the file, in bytes.
    pub bytes: u64,
    /// The maximum number of messages and strings in the file: nodes, attributes, names, metadata.
    pub messages: u64,
    /// The maximum number of elements of one constant, or of one value for one image.
    pub elements: u64,
    /// The maximum number of elements of all values that are in memory at the same time, for one image.
    pub live_elements: u64,
    /// The maximum number of elements of all constants: those of the file, and those computed from them.
    pub constants: u64,
    /// The maximum number of nodes that compute something at run time. Runtimes need a time for them that grows faster
    /// than their square.
    pub nodes: u64,
    /// The maximum number of multiply-accumulate operations for one image.
    pub operations: u64,
}

impl Default for Limits {
    /// 256 MiB, 2¹⁸ messages, 2²⁶ elements, 2²⁸ at the same time and of constants, 2,048 nodes, 2³⁶ operations: far more
    /// than any autoencoder for edge devices needs, and acceptable on a small machine.
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            messages: 1 << 18,
            elements: 1 << 26,
            live_elements: 1 << 28,
            constants: 1 << 28,
            nodes: 2048,
            operations: 1 << 36,
        }
    }
}

/// Checks the bytes of an `.onnx` file.
///
/// # Errors
/// [`CheckError`], with what is refused, and where.
///
/// ```
/// use nae_onnx::check::{CheckError, Limits, check};
/// let error = check(b"not a model", &Limits::default()).unwrap_err();
/// assert!(matches!(error, CheckError::Decode { .. }));
/// ```
pub fn check(bytes: &[u8], limits: &Limits) -> Result<CheckedModel, CheckError> {
    let decode = |e: prost::DecodeError| CheckError::Decode { reason: e.to_string() };
    if bytes.is_empty() {
        return Err(CheckError::Decode { reason: "it is empty".to_owned() });
    }
    within("bytes", limits.bytes, bytes.len() as u64)?;
    let messages = wire::count(bytes, wire::Kind::Model, limits.messages).map_err(decode)?;
    within("messages", limits.messages, messages)?;
    let model = ModelProto::decode(bytes).map_err(decode)?;

    let refuse = |expected: &str, found: String| Err(CheckError::Model { expected: expected.into(), found });
    let mut opset = None;
    for entry in &model.opset_import {
        if !is_standard(entry.domain()) {
            continue; // Harmless unless a node uses it, which is refused there.
        }
        if opset.replace(entry.version()).is_some() {
            return refuse("one version of the standard operator set", "two".into());
        }
    }
    let opset = match opset {
        Some(version) if OPSETS.contains(&version) => version,
        Some(version) => {
            let remedy = "export for one of them, in PyTorch with `opset_version=18`";
            return refuse("a standard operator set from 11 to 21", format!("{version}: {remedy}"));
        }
        None => return refuse("a standard operator set from 11 to 21", "none".into()),
    };
    let Some(graph) = &model.graph else {
        return refuse("a graph", "none".into());
    };
    let mut checker = Checker::new(opset, limits);
    checker.constants(graph)?;
    checker.input(graph)?;
    for (index, node) in graph.node.iter().enumerate() {
        checker.node(index, node)?;
    }
    Ok(CheckedModel {
        graph: checker.finish(graph)?,
        opset,
        producer: format!("{} {}", model.producer_name(), model.producer_version()).trim().to_owned(),
        metadata_props: model.metadata_props.iter().map(|e| (e.key().to_owned(), e.value().to_owned())).collect(),
    })
}

/// Checks a limit of the model as a whole.
///
/// # Errors
/// [`CheckError::Limit`] if `found` of `what` exceeds `limit`.
pub fn within(what: &'static str, limit: u64, found: u64) -> Result<(), CheckError> {
    if found <= limit { Ok(()) } else { Err(CheckError::Limit { place: "the model".into(), what, limit, found }) }
}

fn is_standard(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// The state of a check.
struct Checker<'a> {
    opset: i64,
    limits: &'a Limits,
    values: Vec<ValueInfo>,
    names: HashMap<String, ValueId>,
    /// The names of results of `QuantizeLinear`, which only `DequantizeLinear` may read.
    quantized: HashMap<String, Scale>,
    node_names: HashSet<String>,
    nodes: Vec<OnnxNode>,
    input: Option<ValueId>,
    fixed_batch: Option<usize>,
    operations: u64,
    /// The number of elements of all constants so far, with the scales that are stored of them.
    constant_elements: u64,
}

impl<'a> Checker<'a> {
    fn new(opset: i64, limits: &'a Limits) -> Self {
        Self {
            opset,
            limits,
            values: Vec::new(),
            names: HashMap::new(),
            quantized: HashMap::new(),
            node_names: HashSet::new(),
            nodes: Vec::new(),
            input: None,
            fixed_batch: None,
            operations: 0,
            constant_elements: 0,
        }
    }

    /// Checks that there may be `more` elements of constants than there are.
    fn room_for_constants(&self, place: impl FnOnce() -> String, more: usize) -> Result<u64, CheckError> {
        let found = self.constant_elements.saturating_add(more as u64);
        let limit = self.limits.constants;
        if found <= limit {
            return Ok(found);
        }
        Err(CheckError::Limit { place: place(), what: "elements of constants", limit, found })
    }

    fn define(&mut self, name: &str, info: ValueInfo) -> Result<ValueId, CheckError> {
        let id = self.values.len();
        self.alias(name, id)?;
        self.values.push(info);
        Ok(id)
    }

    fn alias(&mut self, name: &str, id: ValueId) -> Result<(), CheckError> {
        match self.names.insert(name.to_owned(), id) {
            None => Ok(()),
            Some(_) => Err(CheckError::Duplicate { name: excerpt(name) }),
        }
    }

    fn constants(&mut self, graph: &GraphProto) -> Result<(), CheckError> {
        for initializer in &graph.initializer {
            let name = initializer.name();
            let (dims, constant) = tensor::decode(name, initializer, self.limits)?;
            let place = || format!("constant `{}`", excerpt(name));
            self.constant_elements = self.room_for_constants(place, constant.len())?;
            let shape = dims.into_iter().map(Dim::Fixed).collect();
            self.define(name, ValueInfo { name: name.to_owned(), shape, constant: Some(constant), stored: None })?;
        }
        Ok(())
    }

    /// Adds the one input that is not a constant. Old models also list their constants as inputs.
    fn input(&mut self, graph: &GraphProto) -> Result<(), CheckError> {
        let wrong = |found: String| CheckError::Model { expected: "one input of images".into(), found };
        let mut inputs = graph.input.iter().filter(|i| !self.names.contains_key(i.name()));
        let Some(info) = inputs.next() else { return Err(wrong("none".into())) };
        if let Some(second) = inputs.next() {
            return Err(wrong(format!("`{}` and `{}`", excerpt(info.name()), excerpt(second.name()))));
        }
        let (shape, fixed_batch) = self.input_shape(info)?;
        self.fixed_batch = fixed_batch;
        let name = info.name().to_owned();
        self.input = Some(self.define(info.name(), ValueInfo { name, shape, constant: None, stored: None })?);
        Ok(())
    }

    fn input_shape(&self, info: &ValueInfoProto) -> Result<(Vec<Dim>, Option<usize>), CheckError> {
        let name = excerpt(info.name());
        let wrong = |found: String| CheckError::Model {
            expected: format!("input `{name}` to be float32 [N, C, H, W] or [N, D], all but N fixed"),
            found,
        };
        let Some(tensor) = info.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()) else {
            return Err(wrong("another type".into()));
        };
        if tensor.elem_type() != DataType::Float as i32 {
            return Err(wrong(format!("element type {}", tensor.elem_type())));
        }
        let dims = tensor.shape.as_ref().map_or(&[][..], |s| &s.dim);
        let (Some(batch), 2 | 4) = (dims.first(), dims.len()) else {
            return Err(wrong(format!("{} axes", dims.len())));
        };
        let fixed_batch = match &batch.value {
            Some(DimensionValue::Size(n)) => match usize::try_from(*n) {
                Ok(n @ 1..=4096) => Some(n),
                _ => return Err(wrong(format!("a batch of {n}"))),
            },
            _ => None,
        };
        let mut shape = vec![Dim::Batch];
        for dim in &dims[1..] {
            shape.push(match &dim.value {
                Some(DimensionValue::Size(n)) if *n >= 1 => Dim::Fixed(usize::try_from(*n).unwrap_or(usize::MAX)),
                Some(DimensionValue::Size(n)) => return Err(wrong(format!("an extent of {n}"))),
                Some(DimensionValue::Symbol(s)) => return Err(wrong(format!("a symbol `{}`", excerpt(s)))),
                None => return Err(wrong("an unknown extent".into())),
            });
        }
        self.bounded(&format!("input `{name}`"), &shape)?;
        Ok((shape, fixed_batch))
    }

    fn bounded(&self, place: &str, shape: &[Dim]) -> Result<u64, CheckError> {
        let found = shape::elements(shape);
        let limit = self.limits.elements;
        if found <= limit {
            return Ok(found);
        }
        Err(CheckError::Limit { place: place.into(), what: "elements", limit, found })
    }

    fn node(&mut self, index: usize, node: &NodeProto) -> Result<(), CheckError> {
        let output = node.output.first().map_or("", String::as_str);
        let name = match (node.name(), output) {
            ("", "") => format!("#{index}"),
            ("", output) => output.to_owned(),
            (name, _) => name.to_owned(),
        };
        if !node.name().is_empty() && !self.node_names.insert(name.clone()) {
            return Err(CheckError::Duplicate { name: excerpt(&name) });
        }
        if !is_standard(node.domain()) {
            let operator = format!("{} of {}", excerpt(node.op_type()), excerpt(node.domain()));
            return Err(CheckError::Operator { node: excerpt(&name), operator });
        }
        let mut inputs = Vec::with_capacity(node.input.len());
        for input in &node.input {
            inputs.push(if input.is_empty() {
                None
            } else {
                Some(*self.names.get(input).ok_or_else(|| CheckError::Undefined {
                    name: excerpt(input),
                    place: format!("node `{}`", excerpt(&name)),
                })?)
            });
        }
        let interpreter = operator::Interpreter { checker: self, node, name: &name, inputs: &inputs };
        let interpreted = interpreter.interpret()?;
        let scale = interpreter.scale_of_result()?;
        let stored = interpreter.stored_result()?;
        // `TopK` must have an output for the indices, which no operator here can read.
        let unread = if node.op_type() == "TopK" { 1 } else { 0 };
        if output.is_empty() || node.output[1..].iter().skip(unread).any(|o| !o.is_empty()) {
            return Err(CheckError::Node {
                node: excerpt(&name),
                operator: excerpt(node.op_type()),
                what: "outputs".into(),
                expected: "one".into(),
                found: node.output.iter().filter(|o| !o.is_empty()).count().to_string(),
            });
        }
        if let Some(scale) = scale {
            self.quantized.insert(output.to_owned(), scale);
        }
        let value = match interpreted {
            Meaning::Same(value) => self.alias(output, value).map(|()| value)?,
            Meaning::Constant(dims, constant) => {
                let scales = stored.as_ref().map_or(0, Stored::len);
                let place = || format!("node `{}`", excerpt(&name));
                self.constant_elements = self.room_for_constants(place, constant.len().saturating_add(scales))?;
                let shape = dims.into_iter().map(Dim::Fixed).collect();
                let name = output.to_owned();
                self.define(output, ValueInfo { name, shape, constant: Some(constant), stored: None })?
            }
            Meaning::Node { operator, inputs, shape, operations } => {
                let place = format!("node `{}`", excerpt(&name));
                let elements = self.bounded(&place, &shape)?;
                self.operations = self.operations.saturating_add(operations.max(elements));
                if self.operations > self.limits.operations {
                    let limit = self.limits.operations;
                    return Err(CheckError::Limit { place, what: "operations", limit, found: self.operations });
                }
                within("nodes", self.limits.nodes, self.nodes.len() as u64 + 1)?;
                let value = ValueInfo { name: output.to_owned(), shape, constant: None, stored: None };
                let output = self.define(output, value)?;
                self.nodes.push(OnnxNode { name, op_type: node.op_type().to_owned(), operator, inputs, output });
                output
            }
        };
        if let Some(stored) = stored {
            // If a value has several quantizers, the first counts.
            self.values[value].stored.get_or_insert(stored);
        }
        Ok(())
    }

    fn finish(self, graph: &GraphProto) -> Result<OnnxGraph, CheckError> {
        let (mut outputs, mut names) = (Vec::new(), HashSet::new());
        for output in &graph.output {
            let name = output.name();
            let place = "the outputs".to_owned();
            let undefined = || CheckError::Undefined { name: excerpt(name), place };
            let value = *self.names.get(name).ok_or_else(undefined)?;
            if self.quantized.contains_key(name) {
                let found = format!("`{}`, which is quantized", excerpt(name));
                return Err(CheckError::Model { expected: "outputs of floats".into(), found });
            }
            if !names.insert(name) {
                return Err(CheckError::Duplicate { name: excerpt(name) });
            }
            if self.values[value].constant.is_some() {
                let found = format!("`{}`, a constant", excerpt(name));
                return Err(CheckError::Model { expected: "outputs that are computed".into(), found });
            }
            outputs.push((name.to_owned(), value));
        }
        let Some(input) = self.input.filter(|_| !outputs.is_empty()) else {
            return Err(CheckError::Model { expected: "at least one output".into(), found: "none".into() });
        };
        let limit = self.limits.live_elements;
        let graph = OnnxGraph {
            values: self.values,
            nodes: self.nodes,
            input,
            outputs,
            fixed_batch: self.fixed_batch,
            operations: self.operations,
        };
        within("elements in memory at one time", limit, graph.live_elements())?;
        Ok(graph)
    }
}
