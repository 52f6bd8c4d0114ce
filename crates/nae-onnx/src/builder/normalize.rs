//! Group normalization, from operators that every runtime supports.

use super::{BuildError, Dim, GraphBuilder, Value, finite, geometry};
use crate::proto::AttributeProto;

/// Group normalization over `[N, C, H, W]` (Wu and He, 2018).
#[derive(Debug, Clone)]
pub struct GroupNorm<'a> {
    /// The number of groups of channels that are normalized together.
    pub groups: usize,
    /// γ, one value for each channel.
    pub scale: &'a [f32],
    /// β, one value for each channel.
    pub shift: &'a [f32],
    /// The constant added to the variance.
    pub epsilon: f32,
}

impl GraphBuilder {
    /// Adds `(x - mean) / √(variance + epsilon) · scale + shift`, with mean and variance over each group of channels
    /// of each sample. It consists of eleven nodes: ONNX has an operator for it only from operator set 18 on, which
    /// some runtimes do not support.
    ///
    /// # Errors
    /// [`BuildError::Shape`], [`BuildError::Elements`], [`BuildError::NotFinite`], and [`BuildError::Geometry`] if
    /// the groups do not divide the channels or `epsilon` is not above zero.
    pub fn group_norm(&mut self, name: &str, x: Value, norm: &GroupNorm<'_>) -> Result<Value, BuildError> {
        const OP: &str = "group normalization";
        let [c, h, w] = self.maps_of(name, OP, x)?;
        let GroupNorm { groups, scale, shift, epsilon } = *norm;
        if groups == 0 || c % groups != 0 {
            return Err(geometry(name, OP, format!("{groups} groups do not divide {c} channels")));
        }
        finite(name, "epsilon", &[epsilon])?;
        if epsilon <= 0.0 {
            return Err(geometry(name, OP, format!("an epsilon of {epsilon}")));
        }
        let grouped = self.reshape(&format!("{name}.grouped"), x, &[groups, c / groups * h * w])?;
        let mean = self.mean_of_last(&format!("{name}.mean"), grouped)?;
        let centered = self.broadcast(&format!("{name}.centered"), "Sub", grouped, mean)?;
        let squared = self.mul(&format!("{name}.squared"), centered, centered)?;
        let variance = self.mean_of_last(&format!("{name}.variance"), squared)?;
        let epsilon = self.weights(name, OP, "epsilon", &[1], &[epsilon])?;
        let stable = self.broadcast(&format!("{name}.stable"), "Add", variance, epsilon)?;
        let shape = self.shape_of(name, stable)?.to_vec();
        let deviation = self.node(&format!("{name}.deviation"), "Sqrt", &[stable], shape, Vec::new())?;
        let normalized = self.broadcast(&format!("{name}.normalized"), "Div", centered, deviation)?;
        let maps = self.reshape(&format!("{name}.maps"), normalized, &[c, h, w])?;
        let scale = self.weights(name, OP, "scale", &[c, 1, 1], scale)?;
        let scaled = self.broadcast(&format!("{name}.scaled"), "Mul", maps, scale)?;
        let shift = self.weights(name, OP, "shift", &[c, 1, 1], shift)?;
        self.broadcast(name, "Add", scaled, shift)
    }

    /// Adds a `ReduceMean` over the last axis, which keeps an extent of 1.
    fn mean_of_last(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let mut shape = self.shape_of(name, x)?.to_vec();
        let last = shape.len() - 1;
        shape[last] = Dim::Fixed(1);
        let attributes = vec![AttributeProto::ints("axes", [last as i64]), AttributeProto::int("keepdims", 1)];
        self.node(name, "ReduceMean", &[x], shape, attributes)
    }

    /// Adds a binary operation whose second operand is broadcast to the first.
    fn broadcast(&mut self, name: &str, operator: &'static str, a: Value, b: Value) -> Result<Value, BuildError> {
        let shape = self.shape_of(name, a)?.to_vec();
        self.node(name, operator, &[a, b], shape, Vec::new())
    }
}
