//! The shape of a layer's output for its input, and checks of the layer itself. The types are in `layers`.

use crate::GraphError;
use crate::int8_op::{Int8Operation, TABLE_LEN};
use crate::layers::{Conv2d, ConvTranspose2d, Dense, DepthwiseConv2d, GroupNormalize, check_weights, expect_bias};
use crate::op::Op;
use nae_core::Shape;
use nae_core::layer::Padding;

impl Op {
    /// Returns the shape of the output for an input of shape `input`, and a second one of shape `other` if two are
    /// read; errors contain the layer's number `index`.
    pub(crate) fn output_shape(&self, index: usize, input: Shape, other: Option<Shape>) -> Result<Shape, GraphError> {
        let other = other.unwrap_or(input);
        let expected = match self {
            Self::Concatenate { .. } => Shape { channels: other.channels, ..input },
            _ => input,
        };
        if other != expected {
            return Err(GraphError::InputShape { layer: index, expected, found: other });
        }
        let shape = match self {
            Self::Concatenate { .. } => match input.channels.checked_add(other.channels) {
                Some(channels) => Shape { channels, ..input },
                None => return Err(GraphError::Geometry { layer: index }),
            },
            Self::Conv2d(conv) => conv.output_shape(index, input)?,
            Self::ConvTranspose2d(conv) => conv.output_shape(index, input)?,
            Self::DepthwiseConv2d(conv) => conv.output_shape(index, input)?,
            Self::Dense(dense) => dense.output_shape(index, input)?,
            Self::MaxPool2d(pool) => pool_windows(index, input, pool.kernel, pool.stride, pool.padding)?,
            Self::AveragePool2d(pool) => pool_windows(index, input, pool.kernel, pool.stride, pool.padding)?,
            Self::Resize { height, width, .. } => Shape::new(input.channels, *height, *width),
            Self::Reshape(shape) | Self::ReshapeChannelsFirst(shape) => reshaped(index, input, *shape)?,
            Self::GroupNormalize(norm) => norm.output_shape(index, input)?,
            Self::Int8(layer) => layer.operation.output_shape(index, input)?,
            Self::Activation(_)
            | Self::Clamp { .. }
            | Self::L2Normalize { .. }
            | Self::L2NormalizePlaces { .. }
            | Self::Softmax
            | Self::Add { .. }
            | Self::Multiply { .. }
            | Self::Quantize(_)
            | Self::Dequantize => input,
        };
        if shape.is_empty() {
            return Err(GraphError::EmptyOutput { layer: index, input });
        }
        Ok(shape)
    }

    /// Whether all weights and parameters are finite, and those that must be positive are.
    pub(crate) fn is_finite(&self) -> bool {
        let all = |values: &[f32]| values.iter().all(|v| v.is_finite());
        match self {
            Self::Conv2d(layer) => all(&layer.weights) && all(&layer.bias) && layer.activation.is_finite(),
            Self::ConvTranspose2d(layer) => all(&layer.weights) && all(&layer.bias) && layer.activation.is_finite(),
            Self::Dense(layer) => all(&layer.weights) && all(&layer.bias) && layer.activation.is_finite(),
            Self::DepthwiseConv2d(layer) => all(&layer.weights) && all(&layer.bias),
            Self::Activation(activation) => activation.is_finite(),
            Self::Clamp { min, max } => min.is_finite() && max.is_finite() && min <= max,
            Self::L2Normalize { epsilon } | Self::L2NormalizePlaces { epsilon } => {
                epsilon.is_finite() && *epsilon > 0.0
            }
            Self::GroupNormalize(norm) => {
                all(&norm.scale) && all(&norm.shift) && norm.epsilon.is_finite() && norm.epsilon > 0.0
            }
            _ => true,
        }
    }
}

impl Int8Operation {
    fn output_shape(&self, layer: usize, input: Shape) -> Result<Shape, GraphError> {
        Ok(match self {
            Self::Conv2d(conv, factors) => {
                check_factors(layer, factors, conv.out_channels)?;
                conv.output_shape(layer, input)?
            }
            Self::ConvTranspose2d(conv, factors) => {
                check_factors(layer, factors, conv.out_channels)?;
                conv.output_shape(layer, input)?
            }
            Self::Dense(dense, factors) => {
                check_factors(layer, factors, dense.output.len())?;
                dense.output_shape(layer, input)?
            }
            Self::MaxPool2d(pool) => pool_windows(layer, input, pool.kernel, pool.stride, pool.padding)?,
            Self::AveragePool2d(pool) => pool_windows(layer, input, pool.kernel, pool.stride, pool.padding)?,
            Self::Resize { height, width, .. } => Shape::new(input.channels, *height, *width),
            Self::Reshape(shape) => reshaped(layer, input, *shape)?,
            Self::Table(table) => {
                check_weights(&[TABLE_LEN], table)?;
                input
            }
            Self::L2Normalize | Self::Add { .. } | Self::Multiply { .. } | Self::Requantize => input,
        })
    }
}

fn check_factors(layer: usize, factors: &[f64], outputs: usize) -> Result<(), GraphError> {
    if factors.len() == 1 || factors.len() == outputs { Ok(()) } else { Err(GraphError::Multiplier { layer }) }
}

impl<W, B> Conv2d<W, B> {
    fn output_shape(&self, layer: usize, input: Shape) -> Result<Shape, GraphError> {
        check_kernel(layer, self.kernel, self.stride)?;
        if self.in_channels != input.channels {
            return Err(GraphError::InputShape { layer, expected: Shape::new(self.in_channels, 0, 0), found: input });
        }
        check_weights(&[self.out_channels, self.kernel[0], self.kernel[1], self.in_channels], &self.weights)?;
        expect_bias(&self.bias, self.out_channels)?;
        let Shape { height, width, .. } = windows(layer, input, self.kernel, self.stride, self.padding)?;
        Ok(Shape::new(self.out_channels, height, width))
    }
}

impl<W, B> ConvTranspose2d<W, B> {
    fn output_shape(&self, layer: usize, input: Shape) -> Result<Shape, GraphError> {
        check_kernel(layer, self.kernel, self.stride)?;
        if self.in_channels != input.channels {
            return Err(GraphError::InputShape { layer, expected: Shape::new(self.in_channels, 0, 0), found: input });
        }
        if self.output_padding[0] >= self.stride[0] || self.output_padding[1] >= self.stride[1] {
            return Err(GraphError::Geometry { layer });
        }
        check_weights(&[self.out_channels, self.kernel[0], self.kernel[1], self.in_channels], &self.weights)?;
        expect_bias(&self.bias, self.out_channels)?;
        let side = |size: usize, axis: usize, cut: usize| {
            size.checked_sub(1)?
                .checked_mul(self.stride[axis])?
                .checked_add(self.kernel[axis] + self.output_padding[axis])?
                .checked_sub(cut)
        };
        let padding = self.padding;
        let height = side(input.height, 0, padding.top + padding.bottom);
        let width = side(input.width, 1, padding.left + padding.right);
        match (height, width) {
            (Some(height), Some(width)) => Ok(Shape::new(self.out_channels, height, width)),
            _ => Err(GraphError::EmptyOutput { layer, input }),
        }
    }
}

impl DepthwiseConv2d {
    fn output_shape(&self, layer: usize, input: Shape) -> Result<Shape, GraphError> {
        check_kernel(layer, self.kernel, self.stride)?;
        if self.channels != input.channels {
            return Err(GraphError::InputShape { layer, expected: Shape::new(self.channels, 0, 0), found: input });
        }
        check_weights(&[self.channels, self.kernel[0], self.kernel[1]], &self.weights)?;
        expect_bias(&self.bias, self.channels)?;
        windows(layer, input, self.kernel, self.stride, self.padding)
    }
}

impl<W, B> Dense<W, B> {
    fn output_shape(&self, layer: usize, input: Shape) -> Result<Shape, GraphError> {
        if self.inputs != input.len() {
            return Err(GraphError::InputShape { layer, expected: Shape::vector(self.inputs), found: input });
        }
        check_weights(&[self.output.len(), self.inputs], &self.weights)?;
        expect_bias(&self.bias, self.output.len())?;
        Ok(self.output)
    }
}

impl GroupNormalize {
    fn output_shape(&self, layer: usize, input: Shape) -> Result<Shape, GraphError> {
        check_weights(&[input.channels], &self.scale)?;
        expect_bias(&self.shift, input.channels)?;
        match input.channels.checked_rem(self.groups) {
            Some(0) => Ok(input),
            _ => Err(GraphError::Geometry { layer }),
        }
    }
}

fn reshaped(layer: usize, input: Shape, shape: Shape) -> Result<Shape, GraphError> {
    if shape.len() == input.len() {
        Ok(shape)
    } else {
        Err(GraphError::InputShape { layer, expected: shape, found: input })
    }
}

/// The output's shape of a pool. All of its windows overlap the input.
fn pool_windows(
    layer: usize,
    input: Shape,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: Padding,
) -> Result<Shape, GraphError> {
    check_kernel(layer, kernel, stride)?;
    check_padding(layer, kernel, padding)?;
    windows(layer, input, kernel, stride, padding)
}

/// The output's shape of windows on the input, with the input's channels.
fn windows(
    layer: usize,
    input: Shape,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: Padding,
) -> Result<Shape, GraphError> {
    let height = window_count(input.height, kernel[0], stride[0], padding.top, padding.bottom);
    let width = window_count(input.width, kernel[1], stride[1], padding.left, padding.right);
    match (height, width) {
        (Some(height), Some(width)) => Ok(Shape::new(input.channels, height, width)),
        _ => Err(GraphError::EmptyOutput { layer, input }),
    }
}

fn check_kernel(layer: usize, kernel: [usize; 2], stride: [usize; 2]) -> Result<(), GraphError> {
    if stride.contains(&0) || kernel.contains(&0) { Err(GraphError::Geometry { layer }) } else { Ok(()) }
}

/// Checks that every window overlaps the input, which pools and every layer of a `.nae` file require.
pub(crate) fn check_padding(layer: usize, kernel: [usize; 2], padding: Padding) -> Result<(), GraphError> {
    let [height, width] = kernel;
    let rows = padding.top.max(padding.bottom);
    let columns = padding.left.max(padding.right);
    if rows >= height || columns >= width { Err(GraphError::Geometry { layer }) } else { Ok(()) }
}

fn window_count(size: usize, kernel: usize, stride: usize, before: usize, after: usize) -> Option<usize> {
    let room = size.checked_add(before)?.checked_add(after)?.checked_sub(kernel)?;
    Some(room / stride + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, emit};

    /// Only a file limits the number of groups: a program on a host takes the normalization of each of many channels.
    #[test]
    fn a_file_limits_the_groups_and_a_graph_does_not() {
        for (groups, fits) in [(255, true), (256, false)] {
            let mut graph = Graph::new(Shape::new(groups, 1, 2));
            graph.push(GroupNormalize { groups, scale: vec![1.0; groups], shift: vec![0.0; groups], epsilon: 1e-5 });
            assert!(graph.shapes().is_ok(), "{groups}");
            let expected = if fits { Ok(()) } else { Err(GraphError::Geometry { layer: 0 }) };
            assert_eq!(emit(&graph).map(|_| ()), expected, "{groups}");
        }
    }
}
