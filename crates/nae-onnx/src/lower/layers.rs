//! Lowers single nodes to layers.

use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, DepthwiseConv2d, MaxPool2d, Op, TensorId};

use super::{LowerError, Lowering, Norm, Place};
use crate::check::graph::{Dim, OnnxNode, Operator, ResizeKind, WindowAttributes};

/// The minimum of the divisor in a division by a norm, if the graph gives none.
const SMALLEST_NORM: f32 = f32::MIN_POSITIVE;

impl Lowering<'_> {
    pub(super) fn node(&mut self, node: &OnnxNode) -> Result<(), LowerError> {
        if self.group_step(node)? {
            return Ok(());
        }
        let place = match &node.operator {
            Operator::Conv { window, groups } => self.conv(node, window, *groups)?,
            Operator::ConvTranspose { window, output_padding, groups } => {
                self.conv_transpose(node, window, *output_padding, *groups)?
            }
            Operator::Gemm { alpha, beta, transposed } => self.dense(node, *alpha, *beta, *transposed)?,
            Operator::MatMul => self.dense(node, 1.0, 1.0, false)?,
            Operator::BatchNormalization { epsilon } => self.batch_normalization(node, *epsilon)?,
            Operator::InstanceNormalization { epsilon } => self.group_normalization(node, None, *epsilon)?,
            Operator::GroupNormalization { groups, epsilon } => {
                self.group_normalization(node, Some(*groups), *epsilon)?
            }
            Operator::Activation(activation) => self.activation(node, *activation)?,
            Operator::Clip { min, max } => match self.norms.get(&node.inputs[0]) {
                Some(&norm) if *max == f32::MAX && *min > 0.0 => {
                    self.norms.insert(node.output, Norm { least: norm.least.max(*min), ..norm });
                    return Ok(());
                }
                None if *min == 0.0 && *max == f32::MAX => self.activation(node, Activation::Relu)?,
                None if *min <= *max => self.pointwise(node, Op::Clamp { min: *min, max: *max })?,
                _ => return Err(self.unsupported(node, "of a norm only from below, of values only from low to high")),
            },
            Operator::MaxPool(window) => {
                let (kernel, stride, padding) = self.pool(node, window)?;
                self.windowed(node, MaxPool2d { kernel, stride, padding }.into())?
            }
            Operator::AveragePool { window, count_include_padding } => {
                let (kernel, stride, padding) = self.pool(node, window)?;
                let count_include_padding = *count_include_padding;
                self.windowed(node, AveragePool2d { kernel, stride, padding, count_include_padding }.into())?
            }
            Operator::GlobalAveragePool => {
                let from = self.plain_operand(node)?;
                let shape = self.tensor_shape(node, from.tensor)?;
                let kernel = [shape.height, shape.width];
                let padding = Padding::NONE;
                let pool = AveragePool2d { kernel, stride: [1; 2], padding, count_include_padding: false };
                self.push(node, from, pool)
            }
            Operator::Resize(kind) => {
                let Shape { height, width, .. } = self.output_shape(node)?;
                let mode = match kind {
                    ResizeKind::LinearAlignCorners => ResizeMode::BilinearAlignCorners,
                    ResizeKind::LinearHalfPixel => ResizeMode::BilinearHalfPixel,
                    ResizeKind::Nearest => ResizeMode::Nearest,
                    ResizeKind::Fractional => {
                        return Err(self.unsupported(node, "its scale is not the ratio of the sizes"));
                    }
                };
                self.windowed(node, Op::Resize { height, width, mode })?
            }
            Operator::Reshape => self.reshape(node)?,
            // Division by a norm broadcasts it over the sample.
            Operator::Expand => match self.norms.get(&node.inputs[0]) {
                Some(&norm) => {
                    self.norms.insert(node.output, norm);
                    return Ok(());
                }
                None => return Err(self.unsupported(node, "the engine has no such layer")),
            },
            Operator::Add => match self.with_constant(node)? {
                Some(place) => place,
                None => self.combine(node, |other| Op::Add { other })?,
            },
            Operator::Div => match self.norms.get(&node.inputs[1]) {
                Some(&norm) if norm.of == node.inputs[0] => self.normalize(node, norm)?,
                Some(_) => return Err(self.unsupported(node, "it divides by the norm of another value")),
                None => match self.with_constant(node)? {
                    Some(place) => place,
                    None => return Err(self.unsupported(node, "both operands are computed at run time")),
                },
            },
            Operator::Mul => match self.with_constant(node)? {
                Some(place) => place,
                None => self.combine(node, |other| Op::Multiply { other })?,
            },
            Operator::Sub => match self.with_constant(node)? {
                Some(place) => place,
                None => return Err(self.unsupported(node, "both operands are computed at run time")),
            },
            Operator::ReduceL2 { axes, keepdims } => {
                let norm = self.norm(node, axes)?;
                if !keepdims {
                    return Err(self.unsupported(node, "keepdims must be 1"));
                }
                self.operand(node, 0)?;
                self.norms.insert(node.output, norm);
                return Ok(());
            }
            Operator::Softmax => self.softmax(node)?,
            Operator::Concat => self.concatenate(node)?,
            Operator::LpNormalization { axis, p: 2 } => {
                let norm = self.norm(node, &[*axis])?;
                self.normalize(node, norm)?
            }
            Operator::LpNormalization { .. } => return Err(self.unsupported(node, "p must be 2")),
            Operator::Pow
            | Operator::TopK { .. }
            | Operator::Abs
            | Operator::Sqrt
            | Operator::ReduceMean { .. }
            | Operator::ReduceSum { .. } => {
                return Err(self.unsupported(node, "the engine has no such layer"));
            }
        };
        self.done.insert(node.output, place);
        Ok(())
    }

    fn weights(&self, node: &OnnxNode, index: usize) -> Option<&[f32]> {
        node.inputs.get(index).and_then(|&v| self.graph.floats(v))
    }

    fn dims<const N: usize>(&self, node: &OnnxNode, index: usize) -> [usize; N] {
        let shape = &self.graph.values[node.inputs[index]].shape;
        std::array::from_fn(|i| match shape.get(i) {
            Some(Dim::Fixed(n)) => *n,
            _ => 0,
        })
    }

    fn plain(&self, node: &OnnxNode, window: &WindowAttributes, groups: usize) -> Result<(), LowerError> {
        if groups != 1 {
            return Err(self.unsupported(node, format!("{groups} groups; the engine has one, or one for each channel")));
        }
        if window.dilation != [1; 2] {
            return Err(self.unsupported(node, format!("a dilation of {:?}; the engine has none", window.dilation)));
        }
        Ok(())
    }

    fn conv(&mut self, node: &OnnxNode, window: &WindowAttributes, groups: usize) -> Result<Place, LowerError> {
        let dims @ [outputs, inputs, _, _] = self.dims(node, 1);
        self.charge_weights(node)?;
        if groups > 1 && groups == outputs && inputs == 1 {
            self.plain(node, window, 1)?;
            let weights = self.weights(node, 1).unwrap_or_default();
            let layer = DepthwiseConv2d::from_oihw(weights, dims, self.weights(node, 2))
                .map_err(|e| Self::refused(node, e))?
                .with_stride(window.stride)
                .with_padding(Padding::from_onnx(window.padding));
            return self.windowed(node, layer.into());
        }
        self.plain(node, window, groups)?;
        let weights = self.weights(node, 1).unwrap_or_default();
        let layer = Conv2d::from_oihw(weights, self.dims(node, 1), self.weights(node, 2))
            .map_err(|e| Self::refused(node, e))?
            .with_stride(window.stride)
            .with_padding(Padding::from_onnx(window.padding));
        let place = self.windowed(node, layer.into())?;
        self.keep_scales(node, 0, 1.0, place);
        Ok(place)
    }

    fn conv_transpose(
        &mut self,
        node: &OnnxNode,
        window: &WindowAttributes,
        output_padding: [usize; 2],
        groups: usize,
    ) -> Result<Place, LowerError> {
        self.plain(node, window, groups)?;
        self.charge_weights(node)?;
        let weights = self.weights(node, 1).unwrap_or_default();
        let layer = ConvTranspose2d::from_iohw(weights, self.dims(node, 1), self.weights(node, 2))
            .map_err(|e| Self::refused(node, e))?
            .with_stride(window.stride)
            .with_padding(Padding::from_onnx(window.padding))
            .with_output_padding(output_padding);
        let place = self.windowed(node, layer.into())?;
        self.keep_scales(node, 1, 1.0, place);
        Ok(place)
    }

    fn pool(
        &self,
        node: &OnnxNode,
        window: &WindowAttributes,
    ) -> Result<([usize; 2], [usize; 2], Padding), LowerError> {
        self.plain(node, window, 1)?;
        Ok((window.kernel, window.stride, Padding::from_onnx(window.padding)))
    }

    /// Charges the weights and biases of a layer, before they are copied.
    fn charge_weights(&mut self, node: &OnnxNode) -> Result<(), LowerError> {
        let length = |index: usize| self.weights(node, index).map_or(0, <[f32]>::len);
        let (weights, bias) = (length(1), length(2));
        self.charge(node, weights.saturating_add(bias))
    }

    /// Adds a layer that reads one batch of maps.
    fn windowed(&mut self, node: &OnnxNode, layer: Op) -> Result<Place, LowerError> {
        let from = self.plain_operand(node)?;
        Ok(self.push(node, from, layer))
    }

    fn dense(&mut self, node: &OnnxNode, alpha: f32, beta: f32, transposed: bool) -> Result<Place, LowerError> {
        let from = self.operand(node, 0)?;
        self.charge_weights(node)?;
        let weights: Vec<f32> = self.weights(node, 1).unwrap_or_default().iter().map(|w| w * alpha).collect();
        let bias: Option<Vec<f32>> = self.weights(node, 2).map(|b| b.iter().map(|v| v * beta).collect());
        let make = if transposed { Dense::from_out_in } else { Dense::from_in_out };
        let mut layer = make(&weights, self.dims(node, 1), bias.as_deref()).map_err(|e| Self::refused(node, e))?;
        if let Some(shape) = from.flattened {
            layer = layer.after_flatten_chw(shape).map_err(|e| Self::refused(node, e))?;
        }
        let place = self.push(node, from, layer);
        self.keep_scales(node, if transposed { 0 } else { 1 }, alpha, place);
        Ok(place)
    }

    fn activation(&mut self, node: &OnnxNode, activation: Activation) -> Result<Place, LowerError> {
        self.pointwise(node, activation.into())
    }

    /// Adds a function of each value.
    fn pointwise(&mut self, node: &OnnxNode, layer: Op) -> Result<Place, LowerError> {
        let from = self.operand(node, 0)?;
        let place = self.push(node, from, layer);
        Ok(Place { flattened: from.flattened, ..place })
    }

    fn normalize(&mut self, node: &OnnxNode, norm: Norm) -> Result<Place, LowerError> {
        let from = self.operand(node, 0)?;
        let epsilon = norm.least;
        let op = if norm.places { Op::L2NormalizePlaces { epsilon } } else { Op::L2Normalize { epsilon } };
        let place = self.push(node, from, op);
        Ok(Place { flattened: from.flattened, ..place })
    }

    /// Lowers a softmax over the channels at each position; a flattened map has no such axis.
    fn softmax(&mut self, node: &OnnxNode) -> Result<Place, LowerError> {
        match self.operand(node, 0)? {
            Place { flattened: Some(_), .. } => {
                Err(self.unsupported(node, "it goes over the whole of a flattened map"))
            }
            from => Ok(self.push(node, from, Op::Softmax)),
        }
    }

    /// Lowers a concatenation, two values at a time.
    fn concatenate(&mut self, node: &OnnxNode) -> Result<Place, LowerError> {
        let mut joined = self.operand(node, 0)?;
        for index in 0..node.inputs.len() {
            let place = self.operand(node, index)?;
            if place.flattened.is_some() {
                return Err(self.unsupported(node, "it joins a flattened map"));
            }
            if index > 0 {
                joined = self.push(node, joined, Op::Concatenate { other: place.tensor });
            }
        }
        Ok(joined)
    }

    /// Adds a layer with two operands.
    fn combine(&mut self, node: &OnnxNode, layer: fn(TensorId) -> Op) -> Result<Place, LowerError> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let shape = |v: usize| &self.graph.values[node.inputs[v]].shape;
        if shape(0) != shape(1) || a.flattened != b.flattened {
            return Err(self.unsupported(node, "its operands have different shapes or element orders"));
        }
        let place = self.push(node, a, layer(b.tensor));
        Ok(Place { flattened: a.flattened, ..place })
    }

    /// The norm of a node's operand over `axes`: of all elements of a sample, or of the channels at each
    /// position.
    fn norm(&self, node: &OnnxNode, axes: &[usize]) -> Result<Norm, LowerError> {
        let shape = &self.graph.values[node.inputs[0]].shape;
        let left = shape.iter().enumerate().skip(1).find(|&(i, &d)| d != Dim::Fixed(1) && !axes.contains(&i));
        let norm = Norm { of: node.inputs[0], least: SMALLEST_NORM, places: left.is_some() };
        match left {
            None => Ok(norm),
            Some(_) if axes == [1] && shape.len() == 4 => Ok(norm),
            Some((i, _)) => Err(self.unsupported(node, format!("its norm leaves out axis {i}"))),
        }
    }

    /// Lowers a change of shape with the same elements. Between channels-first maps and vectors, the order of
    /// elements in memory differs from ONNX's; the adjacent dense layer compensates for that.
    fn reshape(&mut self, node: &OnnxNode) -> Result<Place, LowerError> {
        let from = self.operand(node, 0)?;
        let old = self.graph.sample_shape(node.inputs[0]);
        let Some(new) = self.graph.sample_shape(node.output) else {
            let reason = "its result is neither [N, C, H, W] nor [N, D], nor groups of channels";
            return Err(self.unsupported(node, reason));
        };
        let was_vector = self.graph.values[node.inputs[0]].shape.len() == 2;
        let is_vector = self.graph.values[node.output].shape.len() == 2;
        let same_order = |s: Shape| s.channels == 1 || s.height * s.width == 1;
        match (old, from.flattened) {
            // A vector to a vector, or maps to maps of the same extents.
            (Some(old), _) if old == new => Ok(from),
            // Maps to a vector: no element moves.
            (Some(old), None) if !was_vector && is_vector => {
                let flattened = (!same_order(old)).then_some(old);
                match flattened {
                    Some(_) => Ok(Place { flattened, ..from }),
                    None => Ok(self.push(node, from, Op::Reshape(new))),
                }
            }
            // A vector that was flattened from these maps.
            (_, Some(maps)) if maps == new => Ok(Place { flattened: None, ..from }),
            (Some(old), None) if same_order(old) && same_order(new) => Ok(self.push(node, from, Op::Reshape(new))),
            (Some(_), None) if was_vector => self.reshape_dense(node, from, new),
            _ => Err(self.unsupported(node, "it reorders the elements of feature maps")),
        }
    }

    /// Converts a vector to maps: the dense layer that made the vector makes the maps instead.
    fn reshape_dense(&mut self, node: &OnnxNode, from: Place, new: Shape) -> Result<Place, LowerError> {
        let reason = "a vector becomes feature maps only right after a dense layer (and activations) whose \
                      result nothing else uses";
        // Goes back over activations, each of which must be the last layer and have no other use.
        let mut value = node.inputs[0];
        let mut tensor = from.tensor;
        loop {
            if tensor == 0 || self.uses[value] != 1 || self.done.values().filter(|p| p.tensor == tensor).count() != 1 {
                return Err(self.unsupported(node, reason));
            }
            let step = &mut self.lowered.nodes[tensor - 1];
            match &mut step.op {
                Op::Activation(_) => {
                    tensor = step.input;
                    let before = self.done.iter().find(|(_, p)| p.tensor == tensor);
                    value = before.map(|(&v, _)| v).unwrap_or(value);
                }
                Op::Dense(dense) => {
                    let reordered = dense.clone().before_reshape_chw(new).map_err(|e| Self::refused(node, e))?;
                    *dense = reordered;
                    self.reorder_scales(tensor, new).map_err(|e| Self::refused(node, e))?;
                    return Ok(from);
                }
                _ => return Err(self.unsupported(node, reason)),
            }
        }
    }
}
