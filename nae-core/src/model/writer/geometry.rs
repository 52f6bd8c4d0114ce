//! What shape a layer gives for its input, and whether the layer is one at all. The types are in
//! `layers`.

use super::WriteError;
use super::layers::{Layer, check_weights, expect_bias};
use crate::Shape;
use crate::model::layer::{Activation, Padding};

impl Layer {
    /// Shape of the output for an input of shape `input`; `index` names the layer in errors.
    pub(super) fn output_shape(&self, index: usize, input: Shape) -> Result<Shape, WriteError> {
        let layer = index;
        let takes = |expected: Shape| {
            let error = WriteError::InputShape { layer, expected, found: input };
            Err(error)
        };
        let windows = |kernel, stride, padding: Padding| {
            let [kh, kw]: [usize; 2] = kernel;
            let [sh, sw]: [usize; 2] = stride;
            let height = window_count(input.height, kh, sh, padding.top, padding.bottom);
            let width = window_count(input.width, kw, sw, padding.left, padding.right);
            match (height, width) {
                (Some(height), Some(width)) => Ok([height, width]),
                _ => Err(WriteError::EmptyOutput { layer, input }),
            }
        };
        let shape = match self {
            Self::Conv2d(conv) => {
                check_windows(layer, conv.kernel, conv.stride, conv.padding)?;
                if conv.in_channels != input.channels {
                    return takes(Shape::new(conv.in_channels, 0, 0));
                }
                check_weights(&[conv.out_channels, conv.kernel[0], conv.kernel[1], conv.in_channels], &conv.weights)?;
                expect_bias(&conv.bias, conv.out_channels)?;
                let [height, width] = windows(conv.kernel, conv.stride, conv.padding)?;
                Shape::new(conv.out_channels, height, width)
            }
            Self::ConvTranspose2d(conv) => {
                check_windows(layer, conv.kernel, conv.stride, conv.padding)?;
                if conv.in_channels != input.channels {
                    return takes(Shape::new(conv.in_channels, 0, 0));
                }
                if conv.output_padding[0] >= conv.stride[0] || conv.output_padding[1] >= conv.stride[1] {
                    return Err(WriteError::Geometry { layer });
                }
                check_weights(&[conv.out_channels, conv.kernel[0], conv.kernel[1], conv.in_channels], &conv.weights)?;
                expect_bias(&conv.bias, conv.out_channels)?;
                let side = |size: usize, axis: usize, cut: usize| {
                    size.checked_sub(1)?
                        .checked_mul(conv.stride[axis])?
                        .checked_add(conv.kernel[axis] + conv.output_padding[axis])?
                        .checked_sub(cut)
                };
                let padding = conv.padding;
                let height = side(input.height, 0, padding.top + padding.bottom);
                let width = side(input.width, 1, padding.left + padding.right);
                match (height, width) {
                    (Some(height), Some(width)) => Shape::new(conv.out_channels, height, width),
                    _ => return Err(WriteError::EmptyOutput { layer, input }),
                }
            }
            Self::Dense(dense) => {
                if dense.inputs != input.len() {
                    return takes(Shape::vector(dense.inputs));
                }
                check_weights(&[dense.output.len(), dense.inputs], &dense.weights)?;
                expect_bias(&dense.bias, dense.output.len())?;
                dense.output
            }
            Self::MaxPool2d(pool) => {
                check_windows(layer, pool.kernel, pool.stride, pool.padding)?;
                let [height, width] = windows(pool.kernel, pool.stride, pool.padding)?;
                Shape::new(input.channels, height, width)
            }
            Self::AveragePool2d(pool) => {
                check_windows(layer, pool.kernel, pool.stride, pool.padding)?;
                let [height, width] = windows(pool.kernel, pool.stride, pool.padding)?;
                Shape::new(input.channels, height, width)
            }
            Self::Resize { height, width, .. } => Shape::new(input.channels, *height, *width),
            Self::Reshape(shape) if shape.len() != input.len() => return takes(*shape),
            Self::Reshape(shape) => *shape,
            Self::Activation(_) | Self::L2Normalize { .. } | Self::Add { .. } => input,
        };
        if shape.is_empty() {
            return Err(WriteError::EmptyOutput { layer, input });
        }
        if !self.is_finite() {
            return Err(WriteError::NonFinite { layer });
        }
        Ok(shape)
    }

    fn is_finite(&self) -> bool {
        let all = |values: &[f32]| values.iter().all(|v| v.is_finite());
        match self {
            Self::Conv2d(layer) => all(&layer.weights) && all(&layer.bias) && activation_is_finite(layer.activation),
            Self::ConvTranspose2d(layer) => {
                all(&layer.weights) && all(&layer.bias) && activation_is_finite(layer.activation)
            }
            Self::Dense(layer) => all(&layer.weights) && all(&layer.bias) && activation_is_finite(layer.activation),
            Self::Activation(activation) => activation_is_finite(*activation),
            Self::L2Normalize { epsilon } => epsilon.is_finite() && *epsilon > 0.0,
            _ => true,
        }
    }
}

fn activation_is_finite(activation: Activation) -> bool {
    match activation {
        Activation::LeakyRelu { slope } => slope.is_finite(),
        _ => true,
    }
}

fn check_windows(layer: usize, kernel: [usize; 2], stride: [usize; 2], padding: Padding) -> Result<(), WriteError> {
    let [height, width] = kernel;
    let rows = padding.top.max(padding.bottom);
    let columns = padding.left.max(padding.right);
    if stride.contains(&0) || rows >= height || columns >= width {
        return Err(WriteError::Geometry { layer });
    }
    Ok(())
}

fn window_count(size: usize, kernel: usize, stride: usize, before: usize, after: usize) -> Option<usize> {
    let room = size.checked_add(before)?.checked_add(after)?.checked_sub(kernel)?;
    Some(room / stride + 1)
}
