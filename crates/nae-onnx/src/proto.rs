//! The ONNX messages that this project reads and writes, as `prost` structs.
//!
//! They are the subset of [`onnx.proto`](https://github.com/onnx/onnx/blob/main/onnx/onnx.proto)
//! (IR version 8) that an autoencoder needs. Field numbers and types are those of the
//! specification. Other fields (functions, training information, sparse tensors, sub-graphs) are
//! skipped in reading, as protocol buffers prescribe, and are lost when the model is written again.
//!
//! This module defines only the messages: [`builder`](crate::builder) writes them and
//! [`check`](crate::check) decides which are accepted.

use prost::Message;

/// A model: a graph with the operator sets it uses and free-form metadata.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// The version of the intermediate representation.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// The operator sets to which the nodes refer.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The name of the program that wrote the model.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// The version of the program that wrote the model.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// The reverse-DNS name of the model's namespace.
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    /// The version of the model itself.
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    /// A description for users.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The computation graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Metadata entries.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// An operator set: a domain and its version.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct OperatorSetIdProto {
    /// The domain; empty for the standard operators (`ai.onnx`).
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// The version of the set.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct StringStringEntryProto {
    /// The key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// The value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Nodes in topological order, with the constants, inputs and outputs they refer to by name.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// The operations, each after those whose results it uses.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The name of the graph.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The constants: weights, biases, shapes.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// A description for users.
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
    /// The inputs. Models of IR version 3 and older also list their initializers here.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// The outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// The types of intermediate values, if the writer stated them.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
}

/// One operation.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// The names of the input values; an empty name is an omitted optional input.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// The names of the output values.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The name of the node, for users.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The operator, such as `Conv`.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// The parameters of the operator.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// A description for users.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The domain of the operator set; empty for the standard one.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
}

/// A named parameter of a node. One of the value fields is set; [`kind`](Self::kind) determines
/// which.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// The name of the parameter, such as `strides`.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// A float value.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer value.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A UTF-8 string.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// A tensor value.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A list of floats.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// A list of integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// A list of UTF-8 strings.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// A description for users.
    #[prost(string, optional, tag = "13")]
    pub doc_string: Option<String>,
    /// The type, which determines the field with the value.
    #[prost(enumeration = "AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
}

impl AttributeProto {
    /// Creates an integer attribute.
    pub fn int(name: &str, value: i64) -> Self {
        Self { name: Some(name.into()), i: Some(value), r#type: Some(AttributeType::Int as i32), ..Self::default() }
    }

    /// Creates a float attribute.
    pub fn float(name: &str, value: f32) -> Self {
        Self { name: Some(name.into()), f: Some(value), r#type: Some(AttributeType::Float as i32), ..Self::default() }
    }

    /// Creates a string attribute.
    pub fn string(name: &str, value: &str) -> Self {
        Self {
            name: Some(name.into()),
            s: Some(value.as_bytes().to_vec()),
            r#type: Some(AttributeType::String as i32),
            ..Self::default()
        }
    }

    /// Creates an attribute with a list of integers.
    pub fn ints(name: &str, values: impl IntoIterator<Item = i64>) -> Self {
        Self {
            name: Some(name.into()),
            ints: values.into_iter().collect(),
            r#type: Some(AttributeType::Ints as i32),
            ..Self::default()
        }
    }

    /// The declared type; `None` if it is missing or not one of [`AttributeType`].
    pub fn kind(&self) -> Option<AttributeType> {
        self.r#type.and_then(|t| AttributeType::try_from(t).ok())
    }
}

/// The types of attribute values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    /// Not declared.
    Undefined = 0,
    /// A float.
    Float = 1,
    /// An integer.
    Int = 2,
    /// A string.
    String = 3,
    /// A tensor.
    Tensor = 4,
    /// A sub-graph.
    Graph = 5,
    /// A list of floats.
    Floats = 6,
    /// A list of integers.
    Ints = 7,
    /// A list of strings.
    Strings = 8,
}

/// A constant tensor, row-major. Its values are in `raw_data`, little-endian, or in the field for
/// their type.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// The extents.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// The element type: one of [`DataType`], or another number.
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// The values if the type is float.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// The values if the type has 32 bits or fewer.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// The values if the type has 64 bits.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name of the tensor.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// The values as little-endian bytes.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// A description for users.
    #[prost(string, optional, tag = "12")]
    pub doc_string: Option<String>,
    /// The location of external data: file, offset, length.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if the values are in another file.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

impl TensorProto {
    /// Creates a float tensor. The caller must ensure that `dims` and `values` agree.
    pub fn floats(name: &str, dims: &[usize], values: &[f32]) -> Self {
        Self::raw(name, dims, DataType::Float, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    /// Creates a one-dimensional tensor of 64-bit integers.
    pub fn int64s(name: &str, values: &[i64]) -> Self {
        Self::raw(name, &[values.len()], DataType::Int64, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    fn raw(name: &str, dims: &[usize], data_type: DataType, raw_data: Vec<u8>) -> Self {
        Self {
            dims: dims.iter().map(|&d| d as i64).collect(),
            data_type: Some(data_type as i32),
            name: Some(name.into()),
            raw_data: Some(raw_data),
            ..Self::default()
        }
    }
}

/// Element types: only those that this project reads or names in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    /// Not declared.
    Undefined = 0,
    /// 32-bit IEEE 754 float.
    Float = 1,
    /// Unsigned 8-bit integer.
    Uint8 = 2,
    /// Signed 8-bit integer.
    Int8 = 3,
    /// Signed 32-bit integer.
    Int32 = 6,
    /// Signed 64-bit integer.
    Int64 = 7,
    /// UTF-8 string.
    String = 8,
    /// Boolean.
    Bool = 9,
    /// 16-bit IEEE 754 float.
    Float16 = 10,
    /// 64-bit IEEE 754 float.
    Double = 11,
}

/// The name and type of a value.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// A description for users.
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
}

/// A type. Sequences, maps and sparse tensors are not supported.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// The type of a dense tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// The type of a dense tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// The element type: one of [`DataType`], or another number.
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// The extents.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// The extents of a value.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// One dimension per axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One extent.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct DimensionProto {
    /// A number, a symbol, or `None` if unknown.
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub value: Option<DimensionValue>,
}

/// A known extent.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum DimensionValue {
    /// A number.
    #[prost(int64, tag = "1")]
    Size(i64),
    /// A symbol, such as `N`; the same symbol always means the same number.
    #[prost(string, tag = "2")]
    Symbol(String),
}
