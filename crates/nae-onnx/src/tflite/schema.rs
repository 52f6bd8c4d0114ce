//! The tables of TFLite's schema that a dense graph needs, by field numbers. Source:
//! `tensorflow/compiler/mlir/lite/schema/schema.fbs`, version 3.

use std::fmt;

use super::error::TfliteError;
use super::flatbuffer::{Buffer, Table, Vector};
use crate::excerpt::excerpt;

pub(super) const DEQUANTIZE: i32 = 6;
pub(super) const FULLY_CONNECTED: i32 = 9;
pub(super) const RESHAPE: i32 = 22;
pub(super) const QUANTIZE: i32 = 114;
/// If the older, shorter field has this value, `builtin_code` is in its own field.
const PLACEHOLDER: i32 = 127;
/// The maximum number of operators in a model.
const MAX_OPERATORS: usize = 256;
/// The maximum number of dimensions of a tensor, and of tensors that an operator reads.
const MAX_RANK: usize = 8;

/// A file with one subgraph.
pub(super) struct File<'a> {
    tensors: Vector<'a>,
    buffers: Vector<'a>,
    buffer: Buffer<'a>,
    /// The index of the input's tensor.
    pub(super) input: usize,
    /// The index of the output's tensor.
    pub(super) output: usize,
    /// The operators in the order in which they run.
    pub(super) operators: Vec<Operator<'a>>,
}

/// An operator.
pub(super) struct Operator<'a> {
    pub(super) code: i32,
    /// Tensor indices; `None` for a missing optional one.
    pub(super) inputs: Vec<Option<usize>>,
    pub(super) outputs: Vec<usize>,
    options: Option<Table<'a>>,
    buffer: Buffer<'a>,
}

/// The options of a `FULLY_CONNECTED`.
pub(super) struct FullyConnected {
    pub(super) activation: FusedActivation,
    pub(super) weights_format: i8,
}

/// A fused activation, by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FusedActivation(pub(super) i8);

impl FusedActivation {
    pub(super) const NONE: Self = Self(0);
    pub(super) const RELU: Self = Self(1);
    pub(super) const RELU_N1_TO_1: Self = Self(2);
    pub(super) const RELU6: Self = Self(3);
}

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TensorType {
    Float32,
    Int32,
    Int8,
    Other(i8),
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float32 => f.write_str("f32"),
            Self::Int32 => f.write_str("int32"),
            Self::Int8 => f.write_str("int8"),
            Self::Other(id) => write!(f, "type {id}"),
        }
    }
}

/// A tensor.
pub(super) struct Tensor<'a> {
    name: &'a [u8],
    pub(super) shape: Vec<usize>,
    pub(super) kind: TensorType,
    pub(super) scales: Vec<f32>,
    pub(super) zero_points: Vec<i64>,
    /// The dimension along which scales differ.
    pub(super) axis: i32,
    data: &'a [u8],
}

impl<'a> File<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, TfliteError> {
        let buffer = Buffer::new(bytes);
        let bad = |what| move || buffer.malformed(what);
        if !super::is_tflite(bytes) {
            return Err(buffer.malformed("the identifier TFL3"));
        }
        let model = buffer.root().ok_or_else(bad("the model"))?;
        let codes = model.vector(1, 4).ok_or_else(bad("the operator codes"))?;
        let subgraphs = model.vector(2, 4).ok_or_else(bad("the subgraphs"))?;
        if subgraphs.tables() != 1 {
            return Err(TfliteError::Chain { reason: format!("{} subgraphs, not one", subgraphs.tables()) });
        }
        let graph = subgraphs.table(0).ok_or_else(bad("the subgraph"))?;
        let one = |field: usize, what: &'static str| {
            let list = indices(graph.vector(field, 4).ok_or_else(bad(what))?);
            match list.as_slice() {
                &[Some(tensor)] => Ok(tensor),
                _ => Err(TfliteError::Chain { reason: format!("{} {what}, not one", list.len()) }),
            }
        };
        let operators = graph.vector(3, 4).ok_or_else(bad("the operators"))?;
        if operators.tables() > MAX_OPERATORS {
            let count = operators.tables();
            return Err(TfliteError::Chain { reason: format!("{count} operators, more than {MAX_OPERATORS}") });
        }
        let operator = |index: usize| {
            let table = operators.table(index)?;
            let code = codes.table(u32::from_le_bytes(table.number(0, [0; 4])?) as usize)?;
            let old = i32::from(i8::from_le_bytes(code.number(0, [0])?));
            let new = i32::from_le_bytes(code.number(3, [0; 4])?);
            let inputs = table.vector(1, 4)?;
            let outputs = table.vector(2, 4)?;
            if inputs.tables() > MAX_RANK || outputs.tables() > MAX_RANK {
                return None;
            }
            Some(Operator {
                code: if old < PLACEHOLDER { old.max(new) } else { new },
                inputs: indices(inputs),
                outputs: indices(outputs).into_iter().collect::<Option<_>>()?,
                options: table.table(4)?,
                buffer,
            })
        };
        Ok(Self {
            tensors: graph.vector(0, 4).ok_or_else(bad("the tensors"))?,
            buffers: model.vector(4, 4).ok_or_else(bad("the buffers"))?,
            buffer,
            input: one(1, "inputs")?,
            output: one(2, "outputs")?,
            operators: (0..operators.tables())
                .map(|index| operator(index).ok_or_else(bad("an operator")))
                .collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn tensor(&self, index: usize) -> Result<Tensor<'a>, TfliteError> {
        self.find_tensor(index).ok_or_else(|| self.buffer.malformed("a tensor"))
    }

    fn find_tensor(&self, index: usize) -> Option<Tensor<'a>> {
        let table = self.tensors.table(index)?;
        let shape = table.vector(0, 4)?;
        if shape.tables() > MAX_RANK {
            return None;
        }
        let shape: Option<Vec<usize>> =
            shape.arrays().iter().map(|extent| usize::try_from(i32::from_le_bytes(*extent)).ok()).collect();
        let kind = match i8::from_le_bytes(table.number(1, [0])?) {
            0 => TensorType::Float32,
            2 => TensorType::Int32,
            9 => TensorType::Int8,
            other => TensorType::Other(other),
        };
        let data = u32::from_le_bytes(table.number(2, [0; 4])?) as usize;
        let (mut scales, mut zero_points, mut axis) = (Vec::new(), Vec::new(), 0);
        if let Some(quantization) = table.table(4)? {
            scales = quantization.vector(2, 4)?.arrays().iter().map(|v| f32::from_le_bytes(*v)).collect();
            zero_points = quantization.vector(3, 8)?.arrays().iter().map(|v| i64::from_le_bytes(*v)).collect();
            axis = i32::from_le_bytes(quantization.number(6, [0; 4])?);
        }
        Some(Tensor {
            name: table.vector(3, 1)?.bytes(),
            shape: shape?,
            kind,
            scales,
            zero_points,
            axis,
            data: self.buffers.table(data)?.vector(0, 1)?.bytes(),
        })
    }
}

/// Tensor indices; −1 means none.
fn indices(vector: Vector<'_>) -> Vec<Option<usize>> {
    vector.arrays().iter().map(|index| usize::try_from(i32::from_le_bytes(*index)).ok()).collect()
}

impl Operator<'_> {
    pub(super) fn name(&self) -> String {
        match self.code {
            DEQUANTIZE => "DEQUANTIZE".to_owned(),
            FULLY_CONNECTED => "FULLY_CONNECTED".to_owned(),
            RESHAPE => "RESHAPE".to_owned(),
            QUANTIZE => "QUANTIZE".to_owned(),
            3 => "CONV_2D".to_owned(),
            4 => "DEPTHWISE_CONV_2D".to_owned(),
            67 => "TRANSPOSE_CONV".to_owned(),
            other => format!("builtin operator {other}"),
        }
    }

    pub(super) fn fully_connected(&self) -> Result<FullyConnected, TfliteError> {
        let read = |index| match self.options {
            None => Some(0),
            Some(options) => options.number(index, [0]).map(i8::from_le_bytes),
        };
        let malformed = || self.buffer.malformed("the options of an operator");
        Ok(FullyConnected {
            activation: FusedActivation(read(0).ok_or_else(malformed)?),
            weights_format: read(1).ok_or_else(malformed)?,
        })
    }
}

impl Tensor<'_> {
    pub(super) fn name(&self) -> String {
        excerpt(&String::from_utf8_lossy(self.name))
    }

    /// The data of a constant int8 tensor of `count` elements.
    pub(super) fn bytes(&self, count: usize) -> Result<Vec<i8>, TfliteError> {
        if self.data.len() == count {
            Ok(self.data.iter().map(|&byte| byte as i8).collect())
        } else {
            Err(TfliteError::tensor(self, format!("{} bytes of data, expected {count}", self.data.len())))
        }
    }

    /// The data of a constant int32 tensor of `count` elements.
    pub(super) fn integers(&self, count: usize) -> Result<Vec<i32>, TfliteError> {
        let (words, rest) = self.data.as_chunks();
        if self.kind == TensorType::Int32 && words.len() == count && rest.is_empty() {
            Ok(words.iter().map(|word| i32::from_le_bytes(*word)).collect())
        } else {
            let (kind, len) = (self.kind, self.data.len());
            Err(TfliteError::tensor(self, format!("{len} bytes of {kind}, expected {count} of int32")))
        }
    }
}
