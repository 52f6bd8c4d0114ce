//! A checked graph: operators as an enum with typed attributes, values with shapes, decoded constants.
//! [`check`](super::check) returns it and [`lower`](crate::lower) converts it.

use std::collections::BTreeSet;

use crate::activation;
use nae_core::layer::Activation;
use nae_core::quantization::Quantization;

pub use crate::builder::Dim;
use crate::metadata::{MetadataError, ModelMetadata};

/// The index of a value in [`OnnxGraph::values`].
pub type ValueId = usize;

/// A model that passed [`check`](super::check).
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedModel {
    /// The computation graph.
    pub graph: OnnxGraph,
    /// The version of the standard operator set.
    pub opset: i64,
    /// The name and version of the program that wrote the model, as declared in the file.
    pub producer: String,
    /// The metadata keys and values.
    pub metadata_props: Vec<(String, String)>,
}

impl CheckedModel {
    /// The metadata under `nae.`; see [`ModelMetadata::from_entries`].
    ///
    /// # Errors
    /// As for [`ModelMetadata::from_entries`].
    pub fn metadata(&self) -> Result<Option<ModelMetadata>, MetadataError> {
        ModelMetadata::from_entries(self.metadata_props.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

/// Values and the nodes that compute them, in an executable order.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxGraph {
    /// All values: the input, constants and results.
    pub values: Vec<ValueInfo>,
    /// The nodes. Constants, `Identity`, `Dropout`, `QuantizeLinear` and `DequantizeLinear` have been removed, and
    /// their uses redirected.
    pub nodes: Vec<OnnxNode>,
    /// The input that is not a constant.
    pub input: ValueId,
    /// The outputs: name and value.
    pub outputs: Vec<(String, ValueId)>,
    /// The batch size, if the model was exported for a fixed one.
    pub fixed_batch: Option<usize>,
    /// The number of multiply-accumulate operations for one image; an element that is moved or compared counts as one.
    pub operations: u64,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueInfo {
    /// Its name in the file.
    pub name: String,
    /// Its extents; [`Dim::Batch`] can only be the first.
    pub shape: Vec<Dim>,
    /// Its elements, if it is a constant.
    pub constant: Option<Constant>,
    /// The integers that represent it in a quantized model.
    pub stored: Option<Stored>,
}

/// The 8-bit integers that represent a value in a QDQ-quantized model.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Those of an activation, with `uint8` converted to `int8`.
    Activation(Quantization),
    /// Those of weights: real = scale·q, q from -128 to 127.
    Weights {
        /// One scale, or as many as the extent of `axis`.
        scales: Vec<f32>,
        /// The axis along which scales differ; `None` if there is one for all.
        axis: Option<usize>,
    },
}

impl Stored {
    /// The number of scales in memory.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Activation(_) => 1,
            Self::Weights { scales, .. } => scales.len(),
        }
    }
}

/// The elements of a constant, row-major.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// 32-bit floats, all finite.
    Floats(Vec<f32>),
    /// 64-bit integers: shapes and axes.
    Integers(Vec<i64>),
    /// Integers of 8 or 32 bits that `DequantizeLinear` converts to real numbers.
    Quantized {
        /// The elements.
        values: Vec<i32>,
        /// The minimum and the maximum of the type.
        range: (i32, i32),
    },
}

impl Constant {
    /// The number of elements.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Quantized { values, .. } => values.len(),
        }
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxNode {
    /// Its name, or that of its output if it has none.
    pub name: String,
    /// Its ONNX operator, such as `Flatten`.
    pub op_type: String,
    /// The operator with its attributes.
    pub operator: Operator,
    /// The tensors that it reads, without the shapes and axes that became part of `operator`.
    pub inputs: Vec<ValueId>,
    /// The value that it computes.
    pub output: ValueId,
}

/// The attributes of a convolution or pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowAttributes {
    /// Height and width.
    pub kernel: [usize; 2],
    /// The vertical and the horizontal stride.
    pub stride: [usize; 2],
    /// Top, left, bottom, right.
    pub padding: [usize; 4],
    /// The vertical and the horizontal dilation.
    pub dilation: [usize; 2],
}

/// How `Resize` maps output pixels to input pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResizeKind {
    /// Linear, `align_corners`.
    LinearAlignCorners,
    /// Linear, `half_pixel` (or `pytorch_half_pixel` if it is the same).
    LinearHalfPixel,
    /// Nearest; output i is input ⌊i·in/out⌋.
    Nearest,
    /// Linear or nearest, by a scale that is not the ratio of the sizes, such as `scale_factor=1.7` of 5 pixels. It
    /// cannot be lowered.
    Fractional,
}

/// An operator with its attributes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)] // the names are ONNX's
pub enum Operator {
    Conv {
        window: WindowAttributes,
        groups: usize,
    },
    ConvTranspose {
        window: WindowAttributes,
        output_padding: [usize; 2],
        groups: usize,
    },
    Gemm {
        alpha: f32,
        beta: f32,
        transposed: bool,
    },
    MatMul,
    BatchNormalization {
        epsilon: f32,
    },
    InstanceNormalization {
        epsilon: f32,
    },
    GroupNormalization {
        groups: usize,
        epsilon: f32,
    },
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    /// `Relu`, `LeakyRelu`, `Elu`, `Sigmoid`, `Tanh`.
    Activation(Activation),
    Abs,
    Sqrt,
    Clip {
        min: f32,
        max: f32,
    },
    MaxPool(WindowAttributes),
    AveragePool {
        window: WindowAttributes,
        count_include_padding: bool,
    },
    GlobalAveragePool,
    Resize(ResizeKind),
    /// `Flatten`, `Reshape`, `Squeeze`, `Unsqueeze`: the same elements with the output's shape.
    Reshape,
    /// Repetition along axes of extent 1.
    Expand,
    ReduceMean {
        axes: Vec<usize>,
        keepdims: bool,
    },
    ReduceSum {
        axes: Vec<usize>,
        keepdims: bool,
    },
    ReduceL2 {
        axes: Vec<usize>,
        keepdims: bool,
    },
    /// The `k` largest values of each sample, `[N, D]`, in any order; their indices are not kept.
    TopK {
        k: usize,
    },
    /// exp(x) divided by its sum along the second axis.
    Softmax,
    /// Concatenation along the second axis.
    Concat,
    /// Division by the L1 (`p` 1) or L2 (`p` 2) norm along an axis.
    LpNormalization {
        axis: usize,
        p: i64,
    },
}

impl Operator {
    /// The ONNX name; `Reshape` for the four operators that only change the shape.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Conv { .. } => "Conv",
            Self::ConvTranspose { .. } => "ConvTranspose",
            Self::Gemm { .. } => "Gemm",
            Self::MatMul => "MatMul",
            Self::BatchNormalization { .. } => "BatchNormalization",
            Self::InstanceNormalization { .. } => "InstanceNormalization",
            Self::GroupNormalization { .. } => "GroupNormalization",
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Pow => "Pow",
            Self::Activation(activation) => match activation::operator(*activation) {
                Some(name) => name,
                None => "Identity",
            },
            Self::Abs => "Abs",
            Self::Sqrt => "Sqrt",
            Self::Clip { .. } => "Clip",
            Self::MaxPool(_) => "MaxPool",
            Self::AveragePool { .. } => "AveragePool",
            Self::GlobalAveragePool => "GlobalAveragePool",
            Self::Resize(_) => "Resize",
            Self::Reshape => "Reshape",
            Self::Expand => "Expand",
            Self::ReduceMean { .. } => "ReduceMean",
            Self::ReduceSum { .. } => "ReduceSum",
            Self::ReduceL2 { .. } => "ReduceL2",
            Self::TopK { .. } => "TopK",
            Self::Softmax => "Softmax",
            Self::Concat => "Concat",
            Self::LpNormalization { .. } => "LpNormalization",
        }
    }
}

impl OnnxGraph {
    /// The number of weights and biases: the float elements of constants that nodes compute with, also those that a
    /// quantized model has as 8-bit values. Single numbers that
    /// values are multiplied or shifted by, such as the 1/D of a mean, are not counted.
    pub fn parameters(&self) -> usize {
        let weights: BTreeSet<ValueId> = self
            .nodes
            .iter()
            .flat_map(|node| {
                let of_numbers = matches!(
                    node.operator,
                    Operator::Add | Operator::Sub | Operator::Mul | Operator::Div | Operator::Pow
                );
                let least = if of_numbers { 2 } else { 1 };
                let is_weight = move |value: &&ValueId| self.floats(**value).is_some_and(|data| data.len() >= least);
                node.inputs.iter().filter(is_weight)
            })
            .copied()
            .collect();
        weights.into_iter().filter_map(|value| self.floats(value)).map(<[f32]>::len).sum()
    }

    /// The number of float elements of all constants.
    pub(crate) fn constants(&self) -> usize {
        self.values
            .iter()
            .filter_map(|v| match &v.constant {
                Some(Constant::Floats(data)) => Some(data.len()),
                _ => None,
            })
            .sum()
    }

    /// The floats of a constant; `None` for a value computed at run time.
    pub fn floats(&self, value: ValueId) -> Option<&[f32]> {
        match self.values.get(value)?.constant.as_ref()? {
            Constant::Floats(data) => Some(data),
            Constant::Integers(_) | Constant::Quantized { .. } => None,
        }
    }

    /// For each value, whether one of `values` is computed from it, or it is one of them itself.
    pub fn ancestors(&self, values: impl IntoIterator<Item = ValueId>) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        values.into_iter().for_each(|value| needed[value] = true);
        for node in self.nodes.iter().rev().filter(|node| node.output < self.values.len()) {
            if needed[node.output] {
                node.inputs.iter().for_each(|&input| needed[input] = true);
            }
        }
        needed
    }

    /// Channels, height and width of `[N, C, H, W]`, or length, 1, 1 of `[N, D]`.
    pub fn sample_shape(&self, value: ValueId) -> Option<nae_core::Shape> {
        match *self.values.get(value)?.shape.as_slice() {
            [Dim::Batch, Dim::Fixed(c), Dim::Fixed(h), Dim::Fixed(w)] => Some(nae_core::Shape::new(c, h, w)),
            [Dim::Batch, Dim::Fixed(d)] => Some(nae_core::Shape::vector(d)),
            _ => None,
        }
    }

    /// The maximum number of elements, for one image, of values that are in memory at the same time: those still to be
    /// read, and the one being computed. Excludes constants and a runtime's own memory.
    pub fn live_elements(&self) -> u64 {
        let mut last_read = vec![0; self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|&value| last_read[value] = index);
        }
        self.outputs.iter().for_each(|&(_, value)| last_read[value] = self.nodes.len());
        let elements = |value: ValueId| match &self.values[value] {
            info if info.constant.is_some() => 0,
            info => super::shape::elements(&info.shape),
        };
        let mut ends = vec![Vec::new(); self.nodes.len() + 1];
        let mut live = elements(self.input);
        let mut most = live;
        ends[last_read[self.input]].push(self.input);
        for (index, node) in self.nodes.iter().enumerate() {
            live = live.saturating_add(elements(node.output));
            most = most.max(live);
            // A value that no node reads is released after its own node.
            ends[last_read[node.output].max(index)].push(node.output);
            for value in std::mem::take(&mut ends[index]) {
                live -= elements(value);
            }
        }
        most
    }

    /// The value of the output with this name.
    pub fn output(&self, name: &str) -> Option<ValueId> {
        self.outputs.iter().find(|(n, _)| n == name).map(|&(_, v)| v)
    }
}
