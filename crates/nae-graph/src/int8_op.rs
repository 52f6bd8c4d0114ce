//! 8-bit layers of a graph: integers in the plain layout, scales as real numbers. The scales are chosen elsewhere (by a
//! quantizer, or TFLite).

use crate::int8_weights::{self, PackError, Packed, Unpacked};
use crate::layers::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, MaxPool2d};
use crate::{GraphError, TensorId};
use nae_core::Shape;
use nae_core::kernels::int8::{Layout, Multiplier};
use nae_core::layer::{Activation, ResizeMode};
use nae_core::quantization::Quantization;

/// Number of entries of a [`Int8Operation::Table`].
pub(crate) const TABLE_LEN: usize = 256;

/// A layer that reads and writes 8-bit values.
#[derive(Clone, Debug, PartialEq)]
pub struct Int8Layer {
    /// The layer's operation.
    pub operation: Int8Operation,
    /// Scale and zero point of the output. Pooling, resizing and reshaping keep those of their input; for
    /// [`Int8Operation::L2Normalize`] they are 1/128 and 0.
    pub output: Quantization,
    /// Least and greatest output value of convolutions, dense layers, sums and products: −128 and 127, or, with a ReLU,
    /// the zero point and 127.
    pub clamp: [i8; 2],
}

/// The operation of an [`Int8Layer`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Int8Operation {
    /// Convolution; padding counts as real zeros.
    Conv2d(Conv2d<i8, i32>, Vec<f64>),
    /// Transposed convolution.
    ConvTranspose2d(ConvTranspose2d<i8, i32>, Vec<f64>),
    /// Fully connected layer.
    ///
    /// As for the convolutions, the second field contains the scale of the weights times that of the input, divided by
    /// that of the output: one for each output, or one for all. The biases are in units of the input's scale times the
    /// weights'.
    Dense(Dense<i8, i32>, Vec<f64>),
    /// Maximum over windows.
    MaxPool2d(MaxPool2d),
    /// Mean over windows; padding that counts has the real value 0.
    AveragePool2d(AveragePool2d),
    /// Resizing to another height and width.
    Resize {
        /// New height.
        height: usize,
        /// New width.
        width: usize,
        /// The interpolation.
        mode: ResizeMode,
    },
    /// Any function of one value: entry q + 128 is the result for q.
    Table(Vec<i8>),
    /// Division by the norm of the sample.
    L2Normalize,
    /// The same values, in HWC order, under another shape.
    Reshape(Shape),
    /// The sum of the input and another 8-bit tensor of the same shape.
    Add {
        /// The other tensor.
        other: TensorId,
    },
    /// The product of the input and another 8-bit tensor of the same shape, value by value.
    Multiply {
        /// The other tensor.
        other: TensorId,
    },
    /// Conversion of the same real values to the output's scale.
    Requantize,
}

impl Int8Layer {
    /// Returns a layer whose output may have all values from −128 to 127.
    pub fn new(operation: Int8Operation, output: Quantization) -> Self {
        Self { operation, output, clamp: [i8::MIN, i8::MAX] }
    }

    /// Adds a ReLU: no value is below the zero point.
    pub fn with_relu(mut self) -> Self {
        self.clamp = [self.output.zero_point(), i8::MAX];
        self
    }
}

impl Int8Operation {
    pub(crate) const fn other(&self) -> Option<TensorId> {
        match self {
            Self::Add { other } | Self::Multiply { other } => Some(*other),
            _ => None,
        }
    }
}

impl<W, B> Conv2d<W, B> {
    /// Returns the same geometry with other weights and biases, in the same order, and no activation.
    pub fn with_parameters<V, C>(&self, weights: Vec<V>, bias: Vec<C>) -> Conv2d<V, C> {
        Conv2d {
            in_channels: self.in_channels,
            out_channels: self.out_channels,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            weights,
            bias,
            activation: Activation::Identity,
        }
    }
}

impl<W, B> ConvTranspose2d<W, B> {
    /// Returns the same geometry with other weights and biases, in the same order, and no activation.
    pub fn with_parameters<V, C>(&self, weights: Vec<V>, bias: Vec<C>) -> ConvTranspose2d<V, C> {
        ConvTranspose2d {
            in_channels: self.in_channels,
            out_channels: self.out_channels,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            output_padding: self.output_padding,
            weights,
            bias,
            activation: Activation::Identity,
        }
    }
}

impl<W, B> Dense<W, B> {
    /// Returns the same geometry with other weights and biases, in the same order, and no activation.
    pub fn with_parameters<V, C>(&self, weights: Vec<V>, bias: Vec<C>) -> Dense<V, C> {
        Dense { inputs: self.inputs, output: self.output, weights, bias, activation: Activation::Identity }
    }
}

/// Converts a real factor to fixed point; errors contain the number `layer`.
pub(crate) fn fixed(layer: usize, factor: f64) -> Result<Multiplier, GraphError> {
    Multiplier::from_real(factor).ok_or(GraphError::Multiplier { layer })
}

/// Returns the factors of a sum with these scales as in TFLite: for the addends, which are shifted by 20 bits, in units
/// of twice the greater scale; and for the result.
pub(crate) fn sum_factors(a: f64, b: f64, output: f64) -> [f64; 3] {
    let unit = 2.0 * a.max(b);
    [a / unit, b / unit, unit / ((1 << 20) as f64 * output)]
}

/// Packs weights and channels of a convolution in the order of the kernels: in `layout` if it accepts them, else plain.
/// Errors contain the number `node`.
pub(crate) fn pack_conv2d(
    node: usize,
    layout: Layout,
    conv: &Conv2d<i8, i32>,
    factors: &[f64],
) -> Result<Packed, GraphError> {
    let multipliers = &multipliers(node, conv.out_channels, factors)?;
    let (outputs, kernel, input_channels) = (conv.out_channels, conv.kernel, conv.in_channels);
    let layer = Unpacked { outputs, kernel, input_channels, weights: &conv.weights, bias: &conv.bias, multipliers };
    pack(node, layout, |layout| int8_weights::conv2d(layout, &layer))
}

/// As [`pack_conv2d`], for a transposed convolution.
pub(crate) fn pack_conv_transpose2d(
    node: usize,
    layout: Layout,
    conv: &ConvTranspose2d<i8, i32>,
    factors: &[f64],
) -> Result<Packed, GraphError> {
    let multipliers = &multipliers(node, conv.out_channels, factors)?;
    let (outputs, kernel, input_channels) = (conv.out_channels, conv.kernel, conv.in_channels);
    let layer = Unpacked { outputs, kernel, input_channels, weights: &conv.weights, bias: &conv.bias, multipliers };
    pack(node, layout, |layout| int8_weights::conv_transpose2d(layout, &layer, conv.stride))
}

/// As [`pack_conv2d`], for a dense layer: a convolution of a single pixel.
pub(crate) fn pack_dense(
    node: usize,
    layout: Layout,
    dense: &Dense<i8, i32>,
    factors: &[f64],
) -> Result<Packed, GraphError> {
    let multipliers = &multipliers(node, dense.output.len(), factors)?;
    let (outputs, input_channels, weights, bias) = (dense.output.len(), dense.inputs, &dense.weights, &dense.bias);
    let layer = Unpacked { outputs, kernel: [1, 1], input_channels, weights, bias, multipliers };
    pack(node, layout, |layout| int8_weights::conv2d(layout, &layer))
}

/// Returns one multiplier per output, from one factor for all or one for each: `Graph::shapes` has checked their
/// number.
fn multipliers(node: usize, outputs: usize, factors: &[f64]) -> Result<Vec<Multiplier>, GraphError> {
    let factor = |output| factors.get(output).or(factors.first()).copied().unwrap_or(-1.0);
    (0..outputs).map(|output| fixed(node, factor(output))).collect()
}

fn pack(node: usize, layout: Layout, pack: impl Fn(Layout) -> Result<Packed, PackError>) -> Result<Packed, GraphError> {
    pack(layout).or_else(|_| pack(Layout::Plain)).map_err(|_| GraphError::Multiplier { layer: node })
}
