//! Layers with their geometry and weights, each in one plain layout, with constructors from the layouts of ONNX and
//! PyTorch, so that weights are transposed only here.

use nae_core::Shape;
use nae_core::layer::{Activation, Padding};

use crate::GraphError;

/// Convolution (in fact cross-correlation, as usual) with zero padding, dilation 1, one group. `W` and `B` are the
/// types of weights and biases: `f32`, or `i8` and `i32` in an [`Int8Layer`](crate::Int8Layer).
#[derive(Clone, Debug, PartialEq)]
pub struct Conv2d<W = f32, B = W> {
    /// Number of input channels.
    pub in_channels: usize,
    /// Number of output channels.
    pub out_channels: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Step down and across.
    pub stride: [usize; 2],
    /// Zeros around the input.
    pub padding: Padding,
    /// Weights, OHWI: output channel, kernel row, kernel column, input channel.
    pub weights: Vec<W>,
    /// Biases, one for each output channel.
    pub bias: Vec<B>,
    /// The activation that is applied to the result; none in 8-bit layers.
    pub activation: Activation,
}

/// Transposed convolution, dilation 1, one group. `W` and `B` as for [`Conv2d`].
#[derive(Clone, Debug, PartialEq)]
pub struct ConvTranspose2d<W = f32, B = W> {
    /// Number of input channels.
    pub in_channels: usize,
    /// Number of output channels.
    pub out_channels: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Step down and across in the output for each pixel of the input.
    pub stride: [usize; 2],
    /// Rows and columns cut off the output.
    pub padding: Padding,
    /// Rows and columns added at the bottom and right of the output; less than the stride.
    pub output_padding: [usize; 2],
    /// Weights, OHWI: output channel, kernel row, kernel column, input channel.
    pub weights: Vec<W>,
    /// Biases, one for each output channel.
    pub bias: Vec<B>,
    /// The activation that is applied to the result; none in 8-bit layers.
    pub activation: Activation,
}

/// Convolution of each channel with its own kernel, dilation 1. It has no form in a `.nae` file; it serves small
/// networks that are used for their features (MobileNet, EfficientNet-Lite), on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthwiseConv2d {
    /// Number of input channels, and of output channels.
    pub channels: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Step down and across.
    pub stride: [usize; 2],
    /// Zeros around the input.
    pub padding: Padding,
    /// Weights: channel, kernel row, kernel column.
    pub weights: Vec<f32>,
    /// Biases, one for each channel.
    pub bias: Vec<f32>,
}

/// Fully connected layer: y = Wx + b. `W` and `B` as for [`Conv2d`].
#[derive(Clone, Debug, PartialEq)]
pub struct Dense<W = f32, B = W> {
    /// Number of input values.
    pub inputs: usize,
    /// Shape of the output.
    pub output: Shape,
    /// Weights, `[output, input]`, both in HWC order.
    pub weights: Vec<W>,
    /// Biases, one for each output value.
    pub bias: Vec<B>,
    /// The activation that is applied to the result; none in 8-bit layers.
    pub activation: Activation,
}

/// Maximum over windows; padding is never the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool2d {
    /// Window height and width.
    pub kernel: [usize; 2],
    /// Step down and across.
    pub stride: [usize; 2],
    /// Padding around the input; less than the kernel.
    pub padding: Padding,
}

/// Mean over windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AveragePool2d {
    /// Window height and width.
    pub kernel: [usize; 2],
    /// Step down and across.
    pub stride: [usize; 2],
    /// Padding around the input; less than the kernel.
    pub padding: Padding,
    /// Whether the padding counts in the divisor (PyTorch's default; not ONNX's).
    pub count_include_padding: bool,
}

/// (x − mean)/√(variance + `epsilon`)·scale + shift, with the mean and variance over each group of channels of a sample
/// (Wu and He, "Group Normalization", ECCV 2018).
#[derive(Clone, Debug, PartialEq)]
pub struct GroupNormalize {
    /// Number of groups, all with the same number of channels; at least 1. A `.nae` file holds up to 255.
    pub groups: usize,
    /// γ, one per channel.
    pub scale: Vec<f32>,
    /// β, one per channel.
    pub shift: Vec<f32>,
    /// Added to the variance; finite, above zero.
    pub epsilon: f32,
}

impl Conv2d {
    /// Converts weights from the layout of ONNX and PyTorch: `shape` = [out, in, height, width]. Stride 1, no padding,
    /// no activation; without `bias`, biases are zeros.
    ///
    /// # Errors
    /// [`GraphError`] if a length does not fit `shape`.
    pub fn from_oihw(weights: &[f32], shape: [usize; 4], bias: Option<&[f32]>) -> Result<Self, GraphError> {
        let [out_channels, in_channels, height, width] = shape;
        Ok(Self {
            in_channels,
            out_channels,
            kernel: [height, width],
            stride: [1, 1],
            padding: Padding::NONE,
            weights: permute(weights, shape, [0, 2, 3, 1])?,
            bias: bias_or_zeros(bias, out_channels)?,
            activation: Activation::Identity,
        })
    }

    /// Sets the stride, down and across.
    pub fn with_stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// Sets the padding.
    pub fn with_padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Sets the activation.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }
}

impl DepthwiseConv2d {
    /// Converts weights from the layout of ONNX and PyTorch, whose groups are the channels: `shape` = [channels, 1,
    /// height, width]. Stride 1, no padding; without `bias`, biases are zeros.
    ///
    /// # Errors
    /// [`GraphError`] if a length does not fit `shape`.
    pub fn from_oihw(weights: &[f32], shape: [usize; 4], bias: Option<&[f32]>) -> Result<Self, GraphError> {
        let [channels, _, height, width] = shape;
        check_weights(&[channels, height, width], weights)?;
        Ok(Self {
            channels,
            kernel: [height, width],
            stride: [1, 1],
            padding: Padding::NONE,
            weights: weights.to_vec(),
            bias: bias_or_zeros(bias, channels)?,
        })
    }

    /// Sets the stride, down and across.
    pub fn with_stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// Sets the padding.
    pub fn with_padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }
}

impl ConvTranspose2d {
    /// Converts weights from the layout of ONNX and PyTorch: `shape` = [in, out, height, width]. Stride 1, no padding,
    /// no activation; without `bias`, biases are zeros.
    ///
    /// # Errors
    /// [`GraphError`] if a length does not fit `shape`.
    pub fn from_iohw(weights: &[f32], shape: [usize; 4], bias: Option<&[f32]>) -> Result<Self, GraphError> {
        let [in_channels, out_channels, height, width] = shape;
        Ok(Self {
            in_channels,
            out_channels,
            kernel: [height, width],
            stride: [1, 1],
            padding: Padding::NONE,
            output_padding: [0, 0],
            weights: permute(weights, shape, [1, 2, 3, 0])?,
            bias: bias_or_zeros(bias, out_channels)?,
            activation: Activation::Identity,
        })
    }

    /// Sets the stride, down and across.
    pub fn with_stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// Sets the padding.
    pub fn with_padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Sets the output padding, down and across.
    pub fn with_output_padding(mut self, output_padding: [usize; 2]) -> Self {
        self.output_padding = output_padding;
        self
    }

    /// Sets the activation.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }
}

impl Dense {
    /// Converts weights from PyTorch's layout (ONNX's `Gemm` with `transB` = 1): `shape` = [outputs, inputs].
    ///
    /// # Errors
    /// [`GraphError`] if a length does not fit `shape`.
    pub fn from_out_in(weights: &[f32], shape: [usize; 2], bias: Option<&[f32]>) -> Result<Self, GraphError> {
        let [outputs, inputs] = shape;
        Ok(Self {
            inputs,
            output: Shape::vector(outputs),
            weights: permute(weights, [outputs, inputs, 1, 1], [0, 1, 2, 3])?,
            bias: bias_or_zeros(bias, outputs)?,
            activation: Activation::Identity,
        })
    }

    /// Converts weights from ONNX's `MatMul`, or `Gemm` with `transB` = 0: `shape` = [inputs, outputs].
    ///
    /// # Errors
    /// [`GraphError`] if a length does not fit `shape`.
    pub fn from_in_out(weights: &[f32], shape: [usize; 2], bias: Option<&[f32]>) -> Result<Self, GraphError> {
        let [inputs, outputs] = shape;
        let transposed = permute(weights, [inputs, outputs, 1, 1], [1, 0, 2, 3])?;
        Self::from_out_in(&transposed, [outputs, inputs], bias)
    }

    /// Reorders the columns for HWC data, for a layer that follows a flattening of CHW data of shape `input`.
    ///
    /// # Errors
    /// [`GraphError::WeightsLength`] if `input` has another number of values.
    pub fn after_flatten_chw(mut self, input: Shape) -> Result<Self, GraphError> {
        let (c, h, w) = (input.channels, input.height, input.width);
        expect_len(self.inputs, input.len())?;
        self.weights = permute(&self.weights, [self.output.len(), c, h, w], [0, 2, 3, 1])?;
        Ok(self)
    }

    /// Reorders the rows for HWC data and gives the output the shape `output`, for a layer whose output is then
    /// reshaped to CHW data of this shape.
    ///
    /// # Errors
    /// [`GraphError::WeightsLength`] if `output` has another number of values.
    pub fn before_reshape_chw(mut self, output: Shape) -> Result<Self, GraphError> {
        let (c, h, w) = (output.channels, output.height, output.width);
        expect_len(self.output.len(), output.len())?;
        self.weights = permute(&self.weights, [c, h, w, self.inputs], [1, 2, 0, 3])?;
        self.bias = permute(&self.bias, [c, h, w, 1], [1, 2, 0, 3])?;
        self.output = output;
        Ok(self)
    }

    /// Sets the activation.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }
}

pub(crate) fn check_weights<W>(shape: &[usize], weights: &[W]) -> Result<(), GraphError> {
    let expected = shape.iter().fold(1usize, |n, d| n.saturating_mul(*d));
    expect_len(expected, weights.len())
}

fn expect_len(expected: usize, found: usize) -> Result<(), GraphError> {
    if expected == found { Ok(()) } else { Err(GraphError::WeightsLength { expected, found }) }
}

pub(crate) fn expect_bias<B>(bias: &[B], expected: usize) -> Result<(), GraphError> {
    if bias.len() == expected {
        Ok(())
    } else {
        let found = bias.len();
        Err(GraphError::BiasLength { expected, found })
    }
}

fn bias_or_zeros(bias: Option<&[f32]>, outputs: usize) -> Result<Vec<f32>, GraphError> {
    match bias {
        None => Ok(vec![0.0; outputs]),
        Some(bias) => {
            expect_bias(bias, outputs)?;
            Ok(bias.to_vec())
        }
    }
}

/// Permutes the axes: axis i of the result is axis `order[i]` of `values`.
fn permute(values: &[f32], shape: [usize; 4], order: [usize; 4]) -> Result<Vec<f32>, GraphError> {
    check_weights(&shape, values)?;
    let mut steps = [1; 4];
    for axis in (0..3).rev() {
        steps[axis] = steps[axis + 1] * shape[axis + 1];
    }
    let [a, b, c, d] = order;
    let mut permuted = Vec::with_capacity(values.len());
    for i in 0..shape[a] {
        for j in 0..shape[b] {
            for k in 0..shape[c] {
                for l in 0..shape[d] {
                    let at = i * steps[a] + j * steps[b] + k * steps[c] + l * steps[d];
                    permuted.push(values[at]);
                }
            }
        }
    }
    Ok(permuted)
}
