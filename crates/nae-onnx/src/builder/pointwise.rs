//! Operations on single elements, and reductions over axes: activations, differences, norms.

use super::{BuildError, Dim, GraphBuilder, Value, finite, geometry};
use crate::activation;
use crate::proto::AttributeProto;
use nae_core::layer::Activation;

impl GraphBuilder {
    /// `Relu`, `LeakyRelu`, `Elu`, `Sigmoid` or `Tanh`; nothing for the identity.
    ///
    /// # Errors
    /// [`BuildError::DuplicateName`], [`BuildError::EmptyName`], [`BuildError::ForeignValue`], and
    /// [`BuildError::NotFinite`] where its parameter is not.
    pub fn activation(&mut self, name: &str, x: Value, activation: Activation) -> Result<Value, BuildError> {
        let Some(operator) = activation::operator(activation) else { return Ok(x) };
        let alpha = activation::alpha(activation);
        finite(name, "alpha", alpha.as_slice())?;
        self.unary(name, operator, x, alpha.map(|alpha| AttributeProto::float("alpha", alpha)).into_iter().collect())
    }

    /// `Relu`: `max(0, x)`.
    ///
    /// # Errors
    /// As for [`activation`](Self::activation).
    pub fn relu(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.activation(name, x, Activation::Relu)
    }

    /// `Sigmoid`: `1 / (1 + exp(-x))`.
    ///
    /// # Errors
    /// As for [`activation`](Self::activation).
    pub fn sigmoid(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.activation(name, x, Activation::Sigmoid)
    }

    /// `Clip`: every value brought into `[min, max]`; ReLU6 with 0 and 6.
    ///
    /// # Errors
    /// As for [`activation`](Self::activation), and [`BuildError::Geometry`] where `min` is above `max`.
    pub fn clip(&mut self, name: &str, x: Value, [min, max]: [f32; 2]) -> Result<Value, BuildError> {
        if min > max {
            return Err(geometry(name, "Clip", format!("a least value of {min} above the greatest, {max}")));
        }
        let shape = self.shape_of(name, x)?.to_vec();
        let min = self.weights(name, "Clip", "min", &[], &[min])?;
        let max = self.weights(name, "Clip", "max", &[], &[max])?;
        self.node(name, "Clip", &[x, min, max], shape, Vec::new())
    }

    /// `Abs`.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu).
    pub fn abs(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.unary(name, "Abs", x, Vec::new())
    }

    /// `Sub`: `a - b`, of equal shapes.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`].
    pub fn sub(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        self.binary(name, "Sub", a, b)
    }

    /// `Add`: `a + b`, of equal shapes.
    ///
    /// # Errors
    /// As for [`sub`](Self::sub).
    pub fn add(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        self.binary(name, "Add", a, b)
    }

    /// `Mul`: `a · b` element by element, of equal shapes.
    ///
    /// # Errors
    /// As for [`sub`](Self::sub).
    pub fn mul(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        self.binary(name, "Mul", a, b)
    }

    /// `ReduceMean` over every axis but the first: `[N, …]` to `[N]`.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`] where there is nothing to reduce.
    pub fn mean_per_sample(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let axes = self.sample_axes(name, "ReduceMean", x)?;
        let attributes = vec![AttributeProto::ints("axes", axes), AttributeProto::int("keepdims", 0)];
        self.node(name, "ReduceMean", &[x], vec![Dim::Batch], attributes)
    }

    /// `ReduceMean` over the channels of each place: `[N, C, H, W]` to `[N, 1, H, W]`.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`] where it is not four axes.
    pub fn mean_per_place(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let [batch, height, width] = self.places(name, "ReduceMean", x)?;
        let attributes = vec![AttributeProto::ints("axes", vec![1]), AttributeProto::int("keepdims", 1)];
        self.node(name, "ReduceMean", &[x], vec![batch, Dim::Fixed(1), height, width], attributes)
    }

    /// `TopK`: the `count` largest of each sample, `[N, D]` to `[N, count]`; all of them where there are no more.
    ///
    /// # Errors
    /// As for [`relu`](Self::relu), and [`BuildError::Shape`] where it is not two axes.
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

    /// The mean over each sample of `(a - b)²`: `[N, …]` and the same to `[N]`. Three nodes.
    ///
    /// # Errors
    /// As for [`mean_per_sample`](Self::mean_per_sample) and [`sub`](Self::sub).
    pub fn mean_squared_difference(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        let difference = self.sub(&format!("{name}.difference"), a, b)?;
        let square = self.mul(&format!("{name}.square"), difference, difference)?;
        self.mean_per_sample(name, square)
    }

    /// The mean over each sample of `|a - b|`: `[N, …]` and the same to `[N]`. Three nodes.
    ///
    /// # Errors
    /// As for [`mean_per_sample`](Self::mean_per_sample) and [`sub`](Self::sub).
    pub fn mean_absolute_difference(&mut self, name: &str, a: Value, b: Value) -> Result<Value, BuildError> {
        let difference = self.sub(&format!("{name}.difference"), a, b)?;
        let absolute = self.abs(&format!("{name}.absolute"), difference)?;
        self.mean_per_sample(name, absolute)
    }

    /// Divides each sample of `[N, …]` by its Euclidean norm. Two nodes, `ReduceL2` and `Div`, as
    /// every runtime we know reads these; `LpNormalization` knows a single axis only.
    ///
    /// A sample of zeros has no direction and becomes NaN; nothing is added to the norm.
    ///
    /// # Errors
    /// As for [`mean_per_sample`](Self::mean_per_sample).
    pub fn l2_normalize(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let all = self.sample_axes(name, "ReduceL2", x)?;
        let shape = self.shape_of(name, x)?.to_vec();
        // Axes of extent 1 contribute nothing, and a single axis is read by more runtimes.
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
        self.node(name, "Div", &[x, norm], shape, Vec::new())
    }

    /// Divides the vector in each place of `[N, C, H, W]` by its Euclidean norm: `ReduceL2` over the channels, and `Div`.
    ///
    /// A vector of zeros becomes NaN, as in [`l2_normalize`](Self::l2_normalize).
    ///
    /// # Errors
    /// As for [`l2_normalize`](Self::l2_normalize), and [`BuildError::Shape`] where it is not four axes.
    pub fn l2_normalize_places(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        let [batch, height, width] = self.places(name, "ReduceL2", x)?;
        let shape = self.shape_of(name, x)?.to_vec();
        let attributes = vec![AttributeProto::ints("axes", vec![1]), AttributeProto::int("keepdims", 1)];
        let norms = vec![batch, Dim::Fixed(1), height, width];
        let norm = self.node(&format!("{name}.norm"), "ReduceL2", &[x], norms, attributes)?;
        self.node(name, "Div", &[x, norm], shape, Vec::new())
    }

    /// `Softmax` over the second axis: of the features of `[N, D]`, of the channels in each place of `[N, C, H, W]`.
    ///
    /// # Errors
    /// [`BuildError::Shape`] where there is no second axis.
    pub fn softmax(&mut self, name: &str, x: Value) -> Result<Value, BuildError> {
        self.sample_axes(name, "Softmax", x)?;
        let shape = self.shape_of(name, x)?.to_vec();
        self.node(name, "Softmax", &[x], shape, vec![AttributeProto::int("axis", 1)])
    }

    /// `Concat` along the second axis: features of `[N, D]`, channels of `[N, C, H, W]`.
    ///
    /// # Errors
    /// [`BuildError::Shape`] where there is no second axis, or the other axes differ.
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

    /// Batch, height and width of `[N, C, H, W]`.
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
