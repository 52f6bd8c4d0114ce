//! Scaling and shifting by constants: folded into the previous layer, or converted to a separate layer.

use nae_graph::{Conv2d, Dense, DepthwiseConv2d, Op};

use super::{LowerError, Lowering, Place, Target};
use crate::check::graph::{Dim, OnnxNode, Operator, ValueId};

/// The maximum number of channels with individual factors in a separate layer of a `.nae` file: that is a full 1×1
/// convolution, whose number of weights is the square of the number of channels.
const MOST_CHANNELS: usize = 4096;

/// y = scale·x + shift, for each channel.
struct Affine {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl Affine {
    /// Factors and shifts of `channels`, which are equal if the node has another number of them.
    fn spread(&self, channels: usize) -> [Vec<f32>; 2] {
        [&self.scale, &self.shift]
            .map(|values| if values.len() == channels { values.clone() } else { vec![values[0]; channels] })
    }
}

impl Lowering<'_> {
    /// Lowers a `BatchNormalization`: scale·(x − mean)/√(variance + ε) + bias.
    pub(super) fn batch_normalization(&mut self, node: &OnnxNode, epsilon: f32) -> Result<Place, LowerError> {
        let from = self.operand(node, 0)?;
        let parameter = |index: usize| node.inputs.get(index).and_then(|&v| self.graph.floats(v)).unwrap_or_default();
        let (scale, bias, mean, variance) = (parameter(1), parameter(2), parameter(3), parameter(4));
        let mut affine = Affine { scale: Vec::new(), shift: Vec::new() };
        for (((&scale, &bias), &mean), &variance) in scale.iter().zip(bias).zip(mean).zip(variance) {
            let factor = f64::from(scale) / (f64::from(variance) + f64::from(epsilon)).sqrt();
            affine.scale.push(factor as f32);
            affine.shift.push((f64::from(bias) - f64::from(mean) * factor) as f32);
        }
        self.affine(node, 0, from, affine)
    }

    /// Lowers an `Add`, `Sub`, `Mul` or `Div` with a constant. `None` if neither operand is one.
    pub(super) fn with_constant(&mut self, node: &OnnxNode) -> Result<Option<Place>, LowerError> {
        let [a, b] = [node.inputs[0], node.inputs[1]];
        let (data, constant) = match (self.graph.floats(a), self.graph.floats(b)) {
            (_, Some(values)) => (0, values),
            (Some(values), None) => (1, values),
            (None, None) => return Ok(None),
        };
        let from = self.operand(node, data)?;
        let channels = self.output_shape(node)?.channels;
        let shape = &self.graph.values[node.inputs[1 - data]].shape;
        let rank = self.graph.values[node.output].shape.len();
        if self.graph.values[node.inputs[data]].shape != self.graph.values[node.output].shape
            || !per_channel(shape, rank)
        {
            return Err(self.unsupported(node, "its constant is neither one number nor one for each channel"));
        }
        let spread = |f: &dyn Fn(f32) -> f32| -> Vec<f32> {
            (0..channels).map(|c| f(constant[if constant.len() == 1 { 0 } else { c }])).collect()
        };
        let (one, zero) = (|| vec![1.0; channels], || vec![0.0; channels]);
        let affine = match (&node.operator, data) {
            (Operator::Add, _) => Affine { scale: one(), shift: spread(&|v| v) },
            (Operator::Sub, 0) => Affine { scale: one(), shift: spread(&|v| -v) },
            (Operator::Sub, _) => Affine { scale: vec![-1.0; channels], shift: spread(&|v| v) },
            (Operator::Mul, _) => Affine { scale: spread(&|v| v), shift: zero() },
            (Operator::Div, 0) => Affine { scale: spread(&|v| 1.0 / v), shift: zero() },
            _ => return Err(self.unsupported(node, "a constant divided by a value")),
        };
        self.affine(node, data, from, affine).map(Some)
    }

    fn affine(&mut self, node: &OnnxNode, data: usize, from: Place, affine: Affine) -> Result<Place, LowerError> {
        if affine.scale.iter().chain(&affine.shift).any(|v| !v.is_finite()) {
            return Err(self.unsupported(node, "its constants give a factor beyond 32-bit floats"));
        }
        let constant = |v: &[f32]| v.iter().all(|&x| x == v[0]);
        let uniform = constant(&affine.scale) && constant(&affine.shift);
        if from.flattened.is_some() && !uniform {
            return Err(self.unsupported(node, "it differs between elements of flattened feature maps"));
        }
        if self.is_last_and_used_once(from, node.inputs[data]) && self.fold(from, &affine) {
            // The layer now makes this node's result; no other node read the old one.
            self.done.remove(&node.inputs[data]);
            return Ok(from);
        }
        let channels = self.tensor_shape(node, from.tensor)?.channels;
        let layer = match self.target {
            Target::Host => self.scaled_by_channel(node, channels, &affine)?,
            Target::File => self.scaled_in_full(node, channels, &affine)?,
        };
        let place = self.push(node, from, layer);
        Ok(Place { flattened: from.flattened, ..place })
    }

    /// A layer that scales and shifts, with a weight for each channel.
    fn scaled_by_channel(&mut self, node: &OnnxNode, channels: usize, affine: &Affine) -> Result<Op, LowerError> {
        self.charge(node, channels.saturating_mul(2))?;
        let [scale, shift] = affine.spread(channels);
        let layer = DepthwiseConv2d::from_oihw(&scale, [channels, 1, 1, 1], Some(&shift));
        layer.map(Op::from).map_err(|e| Self::refused(node, e))
    }

    /// The same for a `.nae` file, which has no layer with a weight for each channel: a full convolution.
    fn scaled_in_full(&mut self, node: &OnnxNode, channels: usize, affine: &Affine) -> Result<Op, LowerError> {
        if channels > MOST_CHANNELS {
            let reason = format!("it has {channels} channels; with a factor each there may be up to {MOST_CHANNELS}");
            return Err(self.unsupported(node, reason));
        }
        self.charge(node, channels * channels)?;
        let [scale, shift] = affine.spread(channels);
        let mut weights = vec![0.0; channels * channels];
        scale.iter().enumerate().for_each(|(c, &factor)| weights[c * channels + c] = factor);
        let layer = Conv2d::from_oihw(&weights, [channels, channels, 1, 1], Some(&shift));
        layer.map(Op::from).map_err(|e| Self::refused(node, e))
    }

    /// Whether changing the layer that made a value changes only that value.
    pub(super) fn is_last_and_used_once(&self, place: Place, value: ValueId) -> bool {
        place.tensor > 0
            && place.tensor == self.lowered.nodes.len()
            && self.uses[value] == 1
            && self.done.values().filter(|p| p.tensor == place.tensor).count() == 1
    }

    /// Multiplies the weights of the layer that made `place`, if it has any.
    fn fold(&mut self, place: Place, affine: &Affine) -> bool {
        let Some(node) = self.lowered.nodes.get_mut(place.tensor - 1) else { return false };
        let (weights, bias) = match &mut node.op {
            Op::Conv2d(l) => (&mut l.weights, &mut l.bias),
            Op::ConvTranspose2d(l) => (&mut l.weights, &mut l.bias),
            Op::DepthwiseConv2d(l) => (&mut l.weights, &mut l.bias),
            Op::Dense(Dense { weights, bias, .. }) => (weights, bias),
            Op::GroupNormalize(l) => (&mut l.scale, &mut l.shift),
            _ => return false,
        };
        // In every layout, rows belong to outputs; a row's constants apply to all pixels of an output.
        let channels = affine.scale.len();
        if bias.is_empty() || !(bias.len() == channels || affine.scale.iter().all(|&s| s == affine.scale[0])) {
            return false;
        }
        if bias.len() != channels && affine.shift.iter().any(|&s| s != affine.shift[0]) {
            return false;
        }
        let mut stored = self.weight_scales.get_mut(&place.tensor);
        let row = weights.len() / bias.len();
        for (output, bias) in bias.iter_mut().enumerate() {
            let at = if output < channels { output } else { 0 };
            let (scale, shift) = (affine.scale[at], affine.shift[at]);
            weights[output * row..(output + 1) * row].iter_mut().for_each(|w| *w *= scale);
            *bias = *bias * scale + shift;
            if let Some(stored) = stored.as_mut().and_then(|scales| scales.get_mut(output)) {
                *stored *= scale.abs();
            }
        }
        true
    }
}

/// Whether a constant has one element, or one for each channel (axis 1 of `rank`).
fn per_channel(shape: &[Dim], rank: usize) -> bool {
    let Some(offset) = rank.checked_sub(shape.len()) else { return false };
    shape.iter().enumerate().all(|(i, &d)| i + offset == 1 || d == Dim::Fixed(1))
}
