//! The layers of an architecture as data, with checks of their shapes.
//!
//! The functions at the end write layers in the paper's notation ([`conv2d`], [`conv_transpose2d`], …);
//! [`blocks`](super::blocks) has blocks of several layers.

use std::fmt;

use nae_core::Shape;
use serde::{Deserialize, Serialize};

/// One layer, or two paths of layers that are joined again. All activations are `[N, C, H, W]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LayerSpec {
    /// A convolution with a kernel of `kernel` × `kernel`.
    Conv {
        /// The number of output channels.
        channels: usize,
        /// The side of the kernel, in pixels.
        kernel: usize,
        /// The step of the kernel, in pixels.
        stride: usize,
        /// The zeros added on every side, in pixels.
        padding: usize,
        /// Whether each output channel has a bias.
        bias: bool,
        /// Whether the weight is divided by its largest singular value (`spectral`).
        spectral_norm: bool,
    },
    /// A transposed convolution with a kernel of `kernel` × `kernel`.
    ConvTranspose {
        /// The number of output channels.
        channels: usize,
        /// The side of the kernel, in pixels.
        kernel: usize,
        /// The distance of neighbouring inputs in the output, in pixels.
        stride: usize,
        /// The number of pixels removed from the output on every side.
        padding: usize,
    },
    /// A linear map of the flattened activation, with a bias; the output is D×1×1.
    Dense {
        /// The length D of the output.
        features: usize,
    },
    /// The same values, in the order channels, rows, columns, in another shape.
    Reshape {
        /// The new shape: channels, rows, columns.
        shape: [usize; 3],
    },
    /// max(0, x).
    Relu,
    /// x if positive, otherwise `slope`·x.
    LeakyRelu {
        /// The slope for negative values.
        slope: f32,
    },
    /// x if positive, otherwise `alpha`·(exp(x) − 1).
    Elu {
        /// The negative limit of the output: it tends to −`alpha`.
        alpha: f32,
    },
    /// 1 / (1 + exp(−x)).
    Sigmoid,
    /// exp(x) divided by the sum of exp(x) over the channels of each place.
    Softmax,
    /// The largest value of each `window` × `window` block; a remainder at the border is dropped.
    MaxPool {
        /// The side of the block, and the stride, in pixels.
        window: usize,
    },
    /// The mean of each `window` × `window` block; a remainder at the border is dropped.
    AvgPool {
        /// The side of the block, and the stride, in pixels.
        window: usize,
    },
    /// Bilinear enlargement to `size` × `size`, with aligned corners.
    Upsample {
        /// The side of the result, in pixels.
        size: usize,
    },
    /// Enlargement by an integer factor: each pixel is repeated `factor` × `factor` times.
    Nearest {
        /// The factor.
        factor: usize,
    },
    /// Group normalization (Wu and He, 2018) with a scale and a shift for each channel.
    GroupNorm {
        /// The number of groups, which must divide the number of channels.
        groups: usize,
    },
    /// skip(x) + body(x); an empty skip is x itself.
    Residual {
        /// The path with most of the layers.
        body: Vec<LayerSpec>,
        /// The short path.
        skip: Vec<LayerSpec>,
    },
    /// body(x) ⊙ sigmoid(gate(x)), element by element.
    Gated {
        /// The path whose output is multiplied by the gate.
        body: Vec<LayerSpec>,
        /// The path of the gate, before the logistic function.
        gate: Vec<LayerSpec>,
    },
}

/// An error for layers that do not fit their input or each other.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A kernel, window or size does not fit the input.
    #[error("layer {index} ({layer}) cannot take an input of {input}")]
    DoesNotFit {
        /// The position in the list, from 0.
        index: usize,
        /// The layer.
        layer: LayerSpec,
        /// The shape of the layer's input.
        input: Shape,
    },
    /// The decoder's output does not have the image's shape.
    #[error("the decoder gives {found}, the image is {expected}")]
    NotAnAutoencoder {
        /// The image's shape.
        expected: Shape,
        /// The shape of the decoder's output.
        found: Shape,
    },
    /// The encoder's output is not a vector.
    #[error("the encoder gives {found}; a latent vector is D×1×1")]
    NotALatent {
        /// The shape of the encoder's output.
        found: Shape,
    },
}

impl LayerSpec {
    /// The shape of the activation after this layer; `None` if the layer does not fit.
    pub fn output(&self, input: Shape) -> Option<Shape> {
        let Shape { channels, height, width } = input;
        let maps =
            |channels, size: &dyn Fn(usize) -> Option<usize>| Some(Shape::new(channels, size(height)?, size(width)?));
        let shape = match *self {
            Self::Conv { channels, kernel, stride, padding, .. } => maps(channels, &|side| {
                let room = side.checked_add(padding.checked_mul(2)?)?.checked_sub(kernel)?;
                (kernel > 0).then_some(room.checked_div(stride)? + 1)
            })?,
            Self::ConvTranspose { channels, kernel, stride, padding } => maps(channels, &|side| {
                let whole = side.checked_sub(1)?.checked_mul(stride)?.checked_add(kernel)?;
                (kernel > 0 && stride > 0).then_some(whole.checked_sub(padding.checked_mul(2)?)?)
            })?,
            Self::Dense { features } => Shape::vector(features),
            Self::Reshape { shape: [channels, height, width] } => {
                let shape = Shape::new(channels, height, width);
                (shape.len() == input.len()).then_some(shape)?
            }
            Self::Relu | Self::LeakyRelu { .. } | Self::Elu { .. } | Self::Sigmoid | Self::Softmax => input,
            Self::MaxPool { window } | Self::AvgPool { window } => maps(channels, &|side| side.checked_div(window))?,
            Self::Upsample { size } => Shape::new(channels, size, size),
            Self::Nearest { factor } => maps(channels, &|side| side.checked_mul(factor))?,
            Self::GroupNorm { groups } => (groups > 0 && channels.is_multiple_of(groups)).then_some(input)?,
            Self::Residual { body: ref a, skip: ref b } | Self::Gated { body: ref a, gate: ref b } => {
                let (a, b) = (walk(a, input).ok()?, walk(b, input).ok()?);
                (a == b).then_some(a)?
            }
        };
        (!shape.is_empty()).then_some(shape)
    }

    /// The number of weights and biases of this layer for `input`.
    pub fn parameters(&self, input: Shape) -> usize {
        match *self {
            Self::Conv { channels, kernel, bias, .. } => {
                input.channels * channels * kernel * kernel + if bias { channels } else { 0 }
            }
            Self::ConvTranspose { channels, kernel, .. } => input.channels * channels * kernel * kernel + channels,
            Self::Dense { features } => (input.len() + 1) * features,
            Self::GroupNorm { .. } => 2 * input.channels,
            Self::Residual { body: ref a, skip: ref b } | Self::Gated { body: ref a, gate: ref b } => {
                parameters(a, input) + parameters(b, input)
            }
            Self::Relu
            | Self::LeakyRelu { .. }
            | Self::Elu { .. }
            | Self::Sigmoid
            | Self::Softmax
            | Self::Reshape { .. }
            | Self::MaxPool { .. }
            | Self::AvgPool { .. }
            | Self::Upsample { .. }
            | Self::Nearest { .. } => 0,
        }
    }
}

/// The paper's notation without the input channels: `Conv2d(channels, kernel, stride, padding)`.
impl fmt::Display for LayerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conv { channels, kernel, stride, padding, bias, spectral_norm } => {
                write!(f, "Conv2d({channels}, {kernel}, {stride}, {padding})")?;
                f.write_str(if *spectral_norm { " with spectral norm" } else { "" })?;
                f.write_str(if *bias { "" } else { " without bias" })
            }
            Self::ConvTranspose { channels, kernel, stride, padding } => {
                write!(f, "ConvT2d({channels}, {kernel}, {stride}, {padding})")
            }
            Self::Dense { features } => write!(f, "FC({features})"),
            Self::Reshape { shape: [c, h, w] } => write!(f, "Reshape({c}×{h}×{w})"),
            Self::Relu => f.write_str("ReLU"),
            Self::LeakyRelu { slope } => write!(f, "LReLU({slope})"),
            Self::Elu { alpha } => write!(f, "ELU({alpha})"),
            Self::Sigmoid => f.write_str("Sigmoid"),
            Self::Softmax => f.write_str("Softmax"),
            Self::MaxPool { window } => write!(f, "MaxPool({window})"),
            Self::AvgPool { window } => write!(f, "AvgPool({window})"),
            Self::Upsample { size } => write!(f, "Bilinear to {size}×{size}"),
            Self::Nearest { factor } => write!(f, "Nearest({factor})"),
            Self::GroupNorm { groups } => write!(f, "GroupNorm({groups})"),
            Self::Residual { .. } => f.write_str("a residual block"),
            Self::Gated { .. } => f.write_str("a gated block"),
        }
    }
}

/// The shape after `layers`.
pub(super) fn walk(layers: &[LayerSpec], input: Shape) -> Result<Shape, SpecError> {
    layers.iter().enumerate().try_fold(input, |shape, (index, layer)| {
        layer.output(shape).ok_or_else(|| SpecError::DoesNotFit { index, layer: layer.clone(), input: shape })
    })
}

/// The number of weights and biases of `layers`, which must fit `input`.
pub(super) fn parameters(layers: &[LayerSpec], mut input: Shape) -> usize {
    let mut total = 0;
    for layer in layers {
        total += layer.parameters(input);
        input = layer.output(input).unwrap_or(input);
    }
    total
}

/// A convolution with a bias.
pub fn conv2d(channels: usize, kernel: usize, stride: usize, padding: usize) -> LayerSpec {
    LayerSpec::Conv { channels, kernel, stride, padding, bias: true, spectral_norm: false }
}

/// A transposed convolution with a bias.
pub fn conv_transpose2d(channels: usize, kernel: usize, stride: usize, padding: usize) -> LayerSpec {
    LayerSpec::ConvTranspose { channels, kernel, stride, padding }
}

/// A dense layer with a bias.
pub fn fc(features: usize) -> LayerSpec {
    LayerSpec::Dense { features }
}

/// The layer that reshapes a vector to an image with as many values; `None` if the image is that vector.
pub(super) fn as_image(image: Shape) -> Option<LayerSpec> {
    let Shape { channels, height, width } = image;
    (image != Shape::vector(image.len())).then_some(LayerSpec::Reshape { shape: [channels, height, width] })
}

/// Returns the same layers with spectral normalization of every convolution, also within blocks. Transposed
/// convolutions and dense layers are not changed: a dense layer with spectral normalization must be written as a 1×1
/// convolution.
pub fn with_spectral_norm(mut layers: Vec<LayerSpec>) -> Vec<LayerSpec> {
    for layer in &mut layers {
        match layer {
            LayerSpec::Conv { spectral_norm, .. } => *spectral_norm = true,
            LayerSpec::Residual { body: a, skip: b } | LayerSpec::Gated { body: a, gate: b } => {
                *a = with_spectral_norm(std::mem::take(a));
                *b = with_spectral_norm(std::mem::take(b));
            }
            _ => {}
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(layer: &LayerSpec, input: [usize; 3]) -> Option<[usize; 3]> {
        let [c, h, w] = input;
        layer.output(Shape::new(c, h, w)).map(|s| [s.channels, s.height, s.width])
    }

    #[test]
    fn shapes_are_pytorchs() {
        assert_eq!(shape(&conv2d(5, 4, 2, 0), [3, 32, 31]), Some([5, 15, 14]));
        assert_eq!(shape(&conv2d(5, 3, 1, 1), [3, 1, 1]), Some([5, 1, 1]));
        assert_eq!(shape(&conv_transpose2d(5, 4, 2, 1), [3, 8, 7]), Some([5, 16, 14]));
        assert_eq!(shape(&LayerSpec::AvgPool { window: 2 }, [3, 5, 4]), Some([3, 2, 2]));
        assert_eq!(shape(&LayerSpec::Nearest { factor: 3 }, [3, 2, 1]), Some([3, 6, 3]));
        assert_eq!(shape(&fc(7), [3, 2, 2]), Some([7, 1, 1]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for layer in [
            conv2d(1, 6, 1, 0),
            conv2d(1, 3, 0, 0),
            conv2d(1, 0, 1, 0),
            conv2d(1, usize::MAX, 1, usize::MAX),
            conv_transpose2d(1, 3, 0, 0),
            conv_transpose2d(1, 1, 1, 3),
            fc(0),
            LayerSpec::Reshape { shape: [3, 5, 4] },
            LayerSpec::MaxPool { window: 0 },
            LayerSpec::AvgPool { window: 6 },
            LayerSpec::Nearest { factor: 0 },
            LayerSpec::GroupNorm { groups: 2 },
            LayerSpec::GroupNorm { groups: 0 },
            LayerSpec::Residual { body: vec![conv2d(3, 3, 1, 0)], skip: vec![] },
            LayerSpec::Gated { body: vec![], gate: vec![fc(75)] },
        ] {
            assert_eq!(shape(&layer, [3, 5, 5]), None, "{layer}");
        }
    }

    #[test]
    fn an_error_names_the_layer() {
        let error = walk(&[LayerSpec::Relu, conv2d(1, 6, 1, 0)], Shape::new(3, 5, 5)).expect_err("too large");
        assert_eq!(error.to_string(), "layer 1 (Conv2d(1, 6, 1, 0)) cannot take an input of 3x5x5");
    }
}
