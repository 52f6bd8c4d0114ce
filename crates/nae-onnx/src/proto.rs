//! The ONNX messages this project reads and writes, as `prost` structs.
//!
//! A subset of [`onnx.proto`](https://github.com/onnx/onnx/blob/main/onnx/onnx.proto) (IR version
//! 8): what an autoencoder needs, no more. Field numbers and types are the specification's. Fields
//! that are not here (functions, training information, sparse tensors, sub-graphs) are skipped on
//! reading, as protocol buffers prescribe, and lost on writing again.
//!
//! No meaning lives here: [`builder`](crate::builder) writes these messages and
//! [`check`](crate::check) says which of them are accepted.

use prost::Message;

/// A model: a graph with the operator sets it uses and free-form metadata.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the intermediate representation.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// Operator sets the nodes refer to.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Name of the program that wrote the model.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// Version of the program that wrote the model.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// Reverse-DNS name of the model's namespace.
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    /// Version of the model itself.
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    /// Description for people.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The computation.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Named metadata values.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// An operator set: a domain and its version.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct OperatorSetIdProto {
    /// Domain; empty for the standard operators (`ai.onnx`).
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// Version of the set.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct StringStringEntryProto {
    /// Key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// Value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Nodes in topological order, with the constants, inputs and outputs they refer to by name.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Operations, each after those whose results it uses.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Name of the graph.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Constants: weights, biases, shapes.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Description for people.
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
    /// Inputs. Models of IR version 3 and older list their initializers here too.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Types of values in between, where the writer stated them.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
}

/// One operation.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the values it takes; an empty name is an optional input left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the values it makes.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Name of the node, for people.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// Operator, such as `Conv`.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// Parameters known before running.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Description for people.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// Operator set's domain; empty for the standard one.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
}

/// A named parameter of a node. One of the value fields is set; [`kind`](Self::kind) says which.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Name of the parameter, such as `strides`.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// A float.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A UTF-8 string.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// Floats.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// UTF-8 strings.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// Description for people.
    #[prost(string, optional, tag = "13")]
    pub doc_string: Option<String>,
    /// Which of the fields holds the value.
    #[prost(enumeration = "AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
}

impl AttributeProto {
    /// An integer attribute.
    pub fn int(name: &str, value: i64) -> Self {
        Self { name: Some(name.into()), i: Some(value), r#type: Some(AttributeType::Int as i32), ..Self::default() }
    }

    /// A float attribute.
    pub fn float(name: &str, value: f32) -> Self {
        Self { name: Some(name.into()), f: Some(value), r#type: Some(AttributeType::Float as i32), ..Self::default() }
    }

    /// A string attribute.
    pub fn string(name: &str, value: &str) -> Self {
        Self {
            name: Some(name.into()),
            s: Some(value.as_bytes().to_vec()),
            r#type: Some(AttributeType::String as i32),
            ..Self::default()
        }
    }

    /// A list of integers.
    pub fn ints(name: &str, values: impl IntoIterator<Item = i64>) -> Self {
        Self {
            name: Some(name.into()),
            ints: values.into_iter().collect(),
            r#type: Some(AttributeType::Ints as i32),
            ..Self::default()
        }
    }

    /// The declared type; `None` where it is missing or not one of [`AttributeType`].
    pub fn kind(&self) -> Option<AttributeType> {
        self.r#type.and_then(|t| AttributeType::try_from(t).ok())
    }
}

/// Types of attribute values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    /// Not said.
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
    /// Floats.
    Floats = 6,
    /// Integers.
    Ints = 7,
    /// Strings.
    Strings = 8,
}

/// A constant tensor, row-major. Its values are in `raw_data`, little-endian, or in the field of
/// their type.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Extents.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// Element type: one of [`DataType`], or another number.
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Values, where the type is float.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Values of 32 bits and less.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Values of 64 bits.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Name of the tensor.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Values as little-endian bytes.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// Description for people.
    #[prost(string, optional, tag = "12")]
    pub doc_string: Option<String>,
    /// Where external data lies: file, offset, length.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 where the values are in another file.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

impl TensorProto {
    /// A float tensor. The caller sees to it that `dims` and `values` agree.
    pub fn floats(name: &str, dims: &[usize], values: &[f32]) -> Self {
        Self::raw(name, dims, DataType::Float, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    /// A one-dimensional tensor of 64-bit integers.
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

/// Element types. Only those this project reads or names in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    /// Not said.
    Undefined = 0,
    /// 32-bit IEEE 754.
    Float = 1,
    /// Unsigned, 8 bits.
    Uint8 = 2,
    /// Signed, 8 bits.
    Int8 = 3,
    /// Signed, 32 bits.
    Int32 = 6,
    /// Signed, 64 bits.
    Int64 = 7,
    /// UTF-8.
    String = 8,
    /// True or false.
    Bool = 9,
    /// 16-bit IEEE 754.
    Float16 = 10,
    /// 64-bit IEEE 754.
    Double = 11,
}

/// A value's name and type.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// Description for people.
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
}

/// A type. Sequences, maps and sparse tensors are not read.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A dense tensor's type.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// A dense tensor's type.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// Element type: one of [`DataType`], or another number.
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// Extents.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// Extents of a value.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// One per axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One extent.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct DimensionProto {
    /// A number, a symbol, or unknown.
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub value: Option<DimensionValue>,
}

/// What is known of an extent.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum DimensionValue {
    /// A number.
    #[prost(int64, tag = "1")]
    Size(i64),
    /// A symbol, such as `N`; the same symbol is the same number.
    #[prost(string, tag = "2")]
    Symbol(String),
}
