//! Operations on single elements, and reductions over axes: activations, differences and norms.

use super::{BuildError, Dim, GraphBuilder, Value, finite, geometry};
use crate::activation;
use crate::proto::AttributeProto;
use nae_core::layer::Activation;

impl GraphBuilder {
    /// Adds `Relu`, `LeakyRelu`, `Elu`, `Sigmoid` or `Tanh`; adds nothing for the identity.
    ///
    /// # Errors
    /// [`BuildError::DuplicateName`], [`BuildError::EmptyName`], [`BuildError::ForeignValue`], and
    /// [`BuildError::NotFinite`] if its parameter is not finite.
    pub fn activation(&mut self, name: &str, x: Value, activation: Activation) -> Result<Value, BuildError> {
        let Some(operator) = activation::operator(activation) else { return Ok(x) };
        let alpha = activation::alpha(activation);
        finite(name, "alpha", alpha.as_slice())?;
        self.unary(name, operator, x, alpha.map(|alpha| AttributeProto::float("alpha", alpha)).into_iter().collect())
    }

    /// Adds a `Relu`: `max(0, x)`.
    ///
    /// # Errors
    /// As for [`activation`](Self::activation).
    pub fn relu(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.activation(name, x, Activation::Relu)
    }

    /// Adds a `Sigmoid`: `1 / (1 + exp(-x))`.
    ///
    /// # Errors
    /// As for [`activation`](Self::activation).
    pub fn sigmoid(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.activation(name, x, Activation::Sigmoid)
    }

    /// Adds a `Clip`, which limits every value to `[min, max]`; this is ReLU6 with 0 and 6.
    ///
    /// # Errors
    /// As for [`activation`](Self::activation), and [`BuildError::Geometry`] if `min` is above `max`.
    pub fn clip(&mut self, name: &str, x: Value, [min, max]: [f32; 2]) -> Result<Value, BuildError> {
        if min > max {
            return Err(geometry(name, "Clip", format!("a least value of {min} above the greatest, {max}")));
        }
        let shape = self.shape_of(name, x)?.to_vec();
        let min = self.weights(name, "Clip", "min", &[], &[min])?;
        let max = self.weights(name, "Clip", "max", &[], &[max])?;
        self.node(name, "Clip", &[x, min, max], shape, Vec::new())
    }

    /// Adds an `Abs`.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu).
    pub fn abs(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.unary(name, "Abs", x, Vec::new())
    }

    /// Adds a `Sub`: `a - b`, of equal shapes.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`].
    pub fn sub(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        self.binary(name, "Sub", a, b)
    }

    /// Adds an `Add`: `a + b`, of equal shapes.
    ///
    /// # Errors
    /// As for [`sub`](Self::sub).
    pub fn add(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        self.binary(name, "Add", a, b)
    }

    /// Adds a `Mul`: `a · b` element by element, of equal shapes.
    ///
    /// # Errors
    /// As for [`sub`](Self::sub).
    pub fn mul(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        self.binary(name, "Mul", a, b)
    }

    /// Adds a `ReduceMean` over every axis but the first: `[N, …]` to `[N]`.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`] if there is no other axis.
    pub fn mean_per_sample(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let axes = self.sample_axes(name, "ReduceMean", x)?;
        let attributes = vec![AttributeProto::ints("axes", axes), AttributeProto::int("keepdims", 0)];
        self.node(name, "ReduceMean", &[x], vec![Dim::Batch], attributes)
    }

    /// Adds a `ReduceMean` over the channels of each position: `[N, C, H, W]` to `[N, 1, H, W]`.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`] if it does not have four axes.
    pub fn mean_per_place(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let [batch, height, width] = self.places(name, "ReduceMean", x)?;
        let attributes = vec![AttributeProto::ints("axes", vec![1]), AttributeProto::int("keepdims", 1)];
        self.node(name, "ReduceMean", &[x], vec![batch, Dim::Fixed(1), height, width], attributes)
    }

    /// Adds a `TopK`: the `count` largest values of each sample, `[N, D]` to `[N, count]`; all values if there are
    /// fewer.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`] if it does not have two axes.
    pub fn largest(&mut self, name: &str, x: Value, count: usize) -> Result<Value, BuildError> {
        let shape = self.shape_of(name, x)?.to_vec();
        let &[batch, Dim::Fixed(values)] = shape.as_slice() else {
            let expected = "[N, D]".to_owned();
            return Err(BuildError::Shape { node: name.to_owned(), operator: "TopK", expected, found: shape });
        };
        let count = count.clamp(1, values);
        let k = self.integers(&format!("{name}.k"), &[count as i64])?;
        let indices = self.value(&format!("{name}.indices"), vec![batch, Dim::Fixed(count)], false)?;
        let largest = self.node(name, "TopK", &[x, k], vec![batch, Dim::Fixed(count)], Vec::new())?;
        if let Some(node) = self.nodes.last_mut() {
            node.unused = Some(indices);
        }
        Ok(largest)
    }

    /// Adds the mean of `(a - b)²` over each sample: two values `[N, …]` to `[N]`. Three nodes.
    ///
    /// # Errors
    /// As for [`mean_per_sample`](Self::mean_per_sample) and [`sub`](Self::sub).
    pub fn mean_squared_difference(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        let difference = self.sub(&format!("{name}.difference"), a, b)?;
        let square = self.mul(&format!("{name}.square"), difference, difference)?;
        self.mean_per_sample(name, square)
    }

    /// Adds the mean of `|a - b|` over each sample: two values `[N, …]` to `[N]`. Three nodes.
    ///
    /// # Errors
    /// As for [`mean_per_sample`](Self::mean_per_sample) and [`sub`](Self::sub).
    pub fn mean_absolute_difference(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        let difference = self.sub(&format!("{name}.difference"), a, b)?;
        let absolute = self.abs(&format!("{name}.absolute"), difference)?;
        self.mean_per_sample(name, absolute)
    }

    /// Divides each sample of `[N, …]` by its Euclidean norm. It consists of two nodes, `ReduceL2` and `Div`, which all
    /// known runtimes support; `LpNormalization` supports only a single axis.
    ///
    /// A sample of zeros has no direction and results in NaN; nothing is added to the norm.
    ///
    /// # Errors
    /// As for [`mean_per_sample`](Self::mean_per_sample).
    pub fn l2_normalize(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.l2_normalize_from(name, x, 0.0)
    }

    /// Divides each sample of `[N, …]` by its Euclidean norm, or by `least` if the norm is smaller: as
    /// [`l2_normalize`](Self::l2_normalize), with a `Clip` of the norm if `least` is above zero. A sample of zeros then
    /// results in zeros.
    ///
    /// # Errors
    /// As for [`l2_normalize`](Self::l2_normalize), and [`BuildError::NotFinite`] if `least` is not finite.
    pub fn l2_normalize_from(&mut self, name: &str, x: Value, least: f32) -> Result<Value, BuildError> {
        let all = self.sample_axes(name, "ReduceL2", x)?;
        let shape = self.shape_of(name, x)?.to_vec();
        // Axes of extent 1 have no effect, and more runtimes support a single axis.
        let mut axes: Vec<i64> = all.into_iter().filter(|&a| shape[a as usize] != Dim::Fixed(1)).collect();
        if axes.is_empty() {
            axes.push(1);
        }
        let norm_shape = shape
            .iter()
            .enumerate()
            .map(|(axis, &d)| if axes.contains(&(axis as i64)) { Dim::Fixed(1) } else { d })
            .collect();
        let attributes = vec![AttributeProto::ints("axes", axes), AttributeProto::int("keepdims", 1)];
        let norm = self.node(&format!("{name}.norm"), "ReduceL2", &[x], norm_shape, attributes)?;
        self.divided_by_norm(name, x, norm, least)
    }

    /// Divides the vector at each position of `[N, C, H, W]` by its Euclidean norm: `ReduceL2` over the channels, and
    /// `Div`.
    ///
    /// A vector of zeros results in NaN, as in [`l2_normalize`](Self::l2_normalize).
    ///
    /// # Errors
    /// As for [`l2_normalize`](Self::l2_normalize), and [`BuildError::Shape`] if it does not have four axes.
    pub fn l2_normalize_places(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.l2_normalize_places_from(name, x, 0.0)
    }

    /// Divides the vector at each position of `[N, C, H, W]` by its Euclidean norm, or by `least` if the norm is
    /// smaller, as [`l2_normalize_from`](Self::l2_normalize_from) does each sample.
    ///
    /// # Errors
    /// As for [`l2_normalize_from`](Self::l2_normalize_from), and [`BuildError::Shape`] if it does not have four axes.
    pub fn l2_normalize_places_from(&mut self, name: &str, x: Value, least: f32) -> Result<Value, BuildError> {
        let [batch, height, width] = self.places(name, "ReduceL2", x)?;
        let attributes = vec![AttributeProto::ints("axes", vec![1]), AttributeProto::int("keepdims", 1)];
        let norms = vec![batch, Dim::Fixed(1), height, width];
        let norm = self.node(&format!("{name}.norm"), "ReduceL2", &[x], norms, attributes)?;
        self.divided_by_norm(name, x, norm, least)
    }

    /// Divides `x` by `norm`, or by `least` if that is greater.
    fn divided_by_norm(&mut self, name: &str, x: Value, norm: Value, least: f32) -> Result<Value, BuildError> {
        let shape = self.shape_of(name, x)?.to_vec();
        let divisor = if least <= 0.0 {
            norm
        } else {
            let operator = "Clip";
            let norms = self.shape_of(name, norm)?.to_vec();
            let least = self.weights(name, operator, "least", &[], &[least])?;
            self.node(&format!("{name}.divisor"), operator, &[norm, least], norms, Vec::new())?
        };
        self.node(name, "Div", &[x, divisor], shape, Vec::new())
    }

    /// Adds a `Softmax` over the second axis: over the features of `[N, D]`, or over the channels at each position of
    /// `[N, C, H, W]`.
    ///
    /// # Errors
    /// [`BuildError::Shape`] if there is no second axis.
    pub fn softmax(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.sample_axes(name, "Softmax", x)?;
        let shape = self.shape_of(name, x)?.to_vec();
        self.node(name, "Softmax", &[x], shape, vec![AttributeProto::int("axis", 1)])
    }

    /// Adds a `Concat` along the second axis: features of `[N, D]`, channels of `[N, C, H, W]`.
    ///
    /// # Errors
    /// [`BuildError::Shape`] if there is no second axis, or the other axes differ.
    pub fn concat(&mut self, name: &str, parts: &[Value]) -> Result<Value, BuildError> {
        let mut shape: Vec<Dim> = Vec::new();
        for &part in parts {
            self.sample_axes(name, "Concat", part)?;
            let found = self.shape_of(name, part)?.to_vec();
            let joined = match (shape.get(1), found[1]) {
                (None, _) => found.clone(),
                (Some(Dim::Fixed(sum)), Dim::Fixed(more)) => {
                    [&[shape[0], Dim::Fixed(sum + more)], &shape[2..]].concat()
                }
                _ => Vec::new(),
            };
            if joined.len() != found.len() || joined[0] != found[0] || joined[2..] != found[2..] {
                let expected = crate::builder::display_shape(&shape);
                return Err(BuildError::Shape { node: name.to_owned(), operator: "Concat", expected, found });
            }
            shape = joined;
        }
        self.node(name, "Concat", parts, shape, vec![AttributeProto::int("axis", 1)])
    }

    /// The batch, height and width of `[N, C, H, W]`.
    fn places(&self, name: &str, operator: &'static str, x: Value) -> Result<[Dim; 3], BuildError> {
        match self.shape_of(name, x)? {
            &[batch, _, height, width] => Ok([batch, height, width]),
            shape => {
                let expected = "[N, C, H, W]".to_owned();
                Err(BuildError::Shape { node: name.to_owned(), operator, expected, found: shape.to_vec() })
            }
        }
    }

    /// The axes after the batch.
    fn sample_axes(&self, name: &str, operator: &'static str, x: Value) -> Result<Vec<i64>, BuildError> {
        match self.shape_of(name, x)? {
            [Dim::Batch, rest @ ..] if !rest.is_empty() => Ok((1..=rest.len() as i64).collect()),
            other => Err(BuildError::Shape {
                node: name.into(),
                operator,
                expected: "[N, …] with at least two axes".into(),
                found: other.to_vec(),
            }),
        }
    }

    fn unary(
        &mut self,
        name: &str,
        operator: &'static str,
        x: Value,
        attributes: Vec<AttributeProto>,
    ) -> Result<Value, BuildError> {
        let shape = self.shape_of(name, x)?.to_vec();
        self.node(name, operator, &[x], shape, attributes)
    }

    fn binary(&mut self, name: &str, operator: &'static str, a: Value, b: Value) -> Result<Value, BuildError> {
        let shape = self.shape_of(name, a)?.to_vec();
        let other = self.shape_of(name, b)?;
        if shape != other {
            let reason = format!("operands {} and {}", super::display_shape(&shape), super::display_shape(other));
            return Err(geometry(name, operator, reason));
        }
        self.node(name, operator, &[a, b], shape, Vec::new())
    }
}
