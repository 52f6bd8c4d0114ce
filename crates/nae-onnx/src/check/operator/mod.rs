//! The meaning of each node: its operator with typed attributes, the shape of its result, and its
//! number of operations.

pub(super) mod integers;
mod layers;
mod quantization;
mod shapes;

pub(super) use quantization::Scale;

use super::attributes::Attributes;
use super::graph::{Constant, Dim, Operator, ValueId};
use super::{CheckError, Checker, shape, tensor};
use crate::activation;
use crate::excerpt::excerpt;
use crate::proto::NodeProto;
use nae_core::layer::Activation;

/// The meaning of a node.
pub(super) enum Meaning {
    /// Another name for a value.
    Same(ValueId),
    /// A constant.
    Constant(Vec<usize>, Constant),
    /// An operation.
    Node { operator: Operator, inputs: Vec<ValueId>, shape: Vec<Dim>, operations: u64 },
}

pub(super) struct Interpreter<'c, 'a> {
    pub(super) checker: &'c Checker<'a>,
    pub(super) node: &'c NodeProto,
    pub(super) name: &'c str,
    pub(super) inputs: &'c [Option<ValueId>],
}

impl<'c> Interpreter<'c, '_> {
    pub(super) fn interpret(&self) -> Result<Meaning, CheckError> {
        self.no_quantized_inputs()?;
        let folded = match self.node.op_type() {
            "Add" => self.integer_binary(i64::checked_add),
            "Sub" => self.integer_binary(i64::checked_sub),
            "Mul" => self.integer_binary(i64::checked_mul),
            "Div" => self.integer_binary(i64::checked_div),
            "Mod" => self.integer_binary(i64::checked_rem),
            "Reshape" | "Squeeze" | "Unsqueeze" => self.reshape_integers(),
            _ => None,
        };
        if let Some(folded) = folded {
            return folded;
        }
        match self.node.op_type() {
            "Shape" => self.shape_of(),
            "Gather" => self.gather(),
            "Concat" if self.known(0).is_some() => self.concat_lists(),
            "Concat" => self.concat(),
            "Slice" => self.slice(),
            "Cast" => self.cast(),
            "Expand" => self.expand(),
            "Conv" => self.conv(),
            "ConvTranspose" => self.conv_transpose(),
            "Gemm" => self.gemm(),
            "MatMul" => self.mat_mul(),
            "BatchNormalization" => self.batch_normalization(),
            "InstanceNormalization" => self.instance_normalization(),
            "GroupNormalization" => self.group_normalization(),
            "Add" => self.binary(Operator::Add),
            "Sub" => self.binary(Operator::Sub),
            "Mul" => self.binary(Operator::Mul),
            "Div" => self.binary(Operator::Div),
            "Pow" => self.binary(Operator::Pow),
            "Abs" => self.unary(Operator::Abs),
            "Sqrt" => self.unary(Operator::Sqrt),
            "Clip" => self.clip(),
            "MaxPool" => self.pool(true),
            "AveragePool" => self.pool(false),
            "GlobalAveragePool" => self.global_average_pool(),
            "Resize" => self.resize(),
            "Flatten" => self.flatten(),
            "Reshape" => self.reshape(),
            "Squeeze" => self.squeeze(false),
            "Unsqueeze" => self.squeeze(true),
            "ReduceMean" => self.reduce(|axes, keepdims| Operator::ReduceMean { axes, keepdims }, 18),
            "ReduceSum" => self.reduce(|axes, keepdims| Operator::ReduceSum { axes, keepdims }, 13),
            "ReduceL2" => self.reduce(|axes, keepdims| Operator::ReduceL2 { axes, keepdims }, 18),
            "TopK" => self.top_k(),
            "Softmax" => self.softmax(),
            "LpNormalization" => self.lp_normalization(),
            "Constant" => self.constant(),
            "Identity" => self.attributes(&[]).and_then(|_| Ok(Meaning::Same(self.input(0, "the value")?))),
            "Dropout" => self.dropout(),
            "QuantizeLinear" => self.quantize(),
            "DequantizeLinear" => self.dequantize(),
            other => match activation::of(other) {
                Some(activation) => self.activation(activation),
                None => Err(CheckError::Operator { node: excerpt(self.name), operator: excerpt(other) }),
            },
        }
    }

    fn attributes(&self, known: &[&str]) -> Result<Attributes<'c>, CheckError> {
        Attributes::new(self.name, self.node, known)
    }

    fn wrong(&self, what: &str, expected: impl Into<String>, found: impl Into<String>) -> CheckError {
        CheckError::Node {
            node: excerpt(self.name),
            operator: excerpt(self.node.op_type()),
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Refuses more than `most` inputs, which must not be ignored.
    fn at_most(&self, most: usize) -> Result<(), CheckError> {
        if self.inputs.len() <= most {
            return Ok(());
        }
        Err(self.wrong("inputs", format!("at most {most}"), self.inputs.len().to_string()))
    }

    fn optional(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    fn input(&self, index: usize, what: &str) -> Result<ValueId, CheckError> {
        self.optional(index).ok_or_else(|| self.wrong(what, "an input", "none"))
    }

    fn shape(&self, value: ValueId) -> &'c [Dim] {
        &self.checker.values[value].shape
    }

    fn show(&self, value: ValueId) -> String {
        crate::builder::display_shape(self.shape(value))
    }

    /// A float input; integers are only used for shapes and axes.
    fn data(&self, index: usize, what: &str) -> Result<ValueId, CheckError> {
        let value = self.input(index, what)?;
        match self.checker.values[value].constant {
            Some(Constant::Integers(_) | Constant::Quantized { .. }) => Err(self.wrong(what, "floats", "integers")),
            _ => Ok(value),
        }
    }

    fn maps(&self, value: ValueId) -> Result<[usize; 3], CheckError> {
        match *self.shape(value) {
            [Dim::Batch, Dim::Fixed(c), Dim::Fixed(h), Dim::Fixed(w)] => Ok([c, h, w]),
            _ => Err(self.wrong("input", "[N, C, H, W]", self.show(value))),
        }
    }

    /// Weights: a float constant with this number of axes.
    fn weights<const N: usize>(&self, index: usize, what: &str) -> Result<(ValueId, [usize; N]), CheckError> {
        let value = self.input(index, what)?;
        let constant = matches!(self.checker.values[value].constant, Some(Constant::Floats(_)));
        let mut dims = [0; N];
        let shape = self.shape(value);
        let fits = shape.len() == N
            && shape.iter().zip(&mut dims).all(|(d, out)| match d {
                Dim::Fixed(n) if *n > 0 => {
                    *out = *n;
                    true
                }
                _ => false,
            });
        if constant && fits {
            return Ok((value, dims));
        }
        let kind = if constant { "" } else { "a value computed at run time, " };
        Err(self.wrong(what, format!("constant floats with {N} axes"), format!("{kind}{}", self.show(value))))
    }

    fn integers(&self, index: usize, what: &str) -> Result<Option<&'c [i64]>, CheckError> {
        let Some(value) = self.optional(index) else { return Ok(None) };
        match &self.checker.values[value].constant {
            Some(Constant::Integers(data)) => Ok(Some(data)),
            Some(Constant::Floats(_)) => Err(self.wrong(what, "integers", "floats")),
            Some(Constant::Quantized { .. }) => Err(self.wrong(what, "integers of 64 bits", "quantized ones")),
            None => Err(self.wrong(what, "a constant", "a value computed at run time")),
        }
    }

    fn floats(&self, index: usize, what: &str) -> Result<Option<&'c [f32]>, CheckError> {
        let Some(value) = self.optional(index) else { return Ok(None) };
        match &self.checker.values[value].constant {
            Some(Constant::Floats(data)) => Ok(Some(data)),
            Some(Constant::Integers(_) | Constant::Quantized { .. }) => Err(self.wrong(what, "floats", "integers")),
            None => Err(self.wrong(what, "a constant", "a value computed at run time")),
        }
    }

    fn unary(&self, operator: Operator) -> Result<Meaning, CheckError> {
        self.attributes(&[])?;
        self.same_shape(operator)
    }

    fn activation(&self, default: Activation) -> Result<Meaning, CheckError> {
        let activation = match activation::alpha(default) {
            Some(alpha) => activation::with_alpha(default, self.attributes(&["alpha"])?.float("alpha", alpha)?),
            None => self.attributes(&[]).map(|_| default)?,
        };
        self.same_shape(Operator::Activation(activation))
    }

    fn same_shape(&self, operator: Operator) -> Result<Meaning, CheckError> {
        self.at_most(1)?;
        let x = self.data(0, "input")?;
        Ok(Meaning::Node { operator, inputs: vec![x], shape: self.shape(x).to_vec(), operations: 0 })
    }

    fn binary(&self, operator: Operator) -> Result<Meaning, CheckError> {
        self.attributes(&[])?;
        self.at_most(2)?;
        let (a, b) = (self.data(0, "first operand")?, self.data(1, "second operand")?);
        let shape = shape::broadcast(self.shape(a), self.shape(b)).ok_or_else(|| {
            self.wrong("operands", "shapes that broadcast", format!("{} and {}", self.show(a), self.show(b)))
        })?;
        Ok(Meaning::Node { operator, inputs: vec![a, b], shape, operations: 0 })
    }

    fn clip(&self) -> Result<Meaning, CheckError> {
        self.attributes(&[])?;
        self.at_most(3)?;
        let x = self.data(0, "input")?;
        let bound = |index, what, default| match self.floats(index, what)? {
            None => Ok(default),
            Some(&[value]) => Ok(value),
            Some(other) => Err(self.wrong(what, "one element", other.len().to_string())),
        };
        let (min, max) = (bound(1, "min", f32::MIN)?, bound(2, "max", f32::MAX)?);
        let shape = self.shape(x).to_vec();
        Ok(Meaning::Node { operator: Operator::Clip { min, max }, inputs: vec![x], shape, operations: 0 })
    }

    fn constant(&self) -> Result<Meaning, CheckError> {
        self.at_most(0)?;
        let a = self.attributes(&["value", "value_float", "value_floats", "value_int", "value_ints"])?;
        if let Some(value) = a.tensor("value")? {
            let (dims, constant) = tensor::decode(self.name, value, self.checker.limits)?;
            return Ok(Meaning::Constant(dims, constant));
        }
        if a.has("value_float") {
            return Ok(Meaning::Constant(Vec::new(), Constant::Floats(vec![a.float("value_float", 0.0)?])));
        }
        if a.has("value_int") {
            let value = vec![a.int("value_int", 0)?];
            return Ok(Meaning::Constant(Vec::new(), Constant::Integers(tensor::extents(self.name, value)?)));
        }
        if let Some(values) = a.ints("value_ints")? {
            let values = tensor::extents(self.name, values.to_vec())?;
            return Ok(Meaning::Constant(vec![values.len()], Constant::Integers(values)));
        }
        match a.floats("value_floats")? {
            Some(values) if values.iter().all(|v| v.is_finite()) => {
                Ok(Meaning::Constant(vec![values.len()], Constant::Floats(values.to_vec())))
            }
            Some(_) => Err(self.wrong("value_floats", "finite numbers", "another")),
            None => Err(self.wrong("attributes", "a value", "none")),
        }
    }

    fn dropout(&self) -> Result<Meaning, CheckError> {
        self.at_most(3)?;
        self.attributes(&["ratio", "seed"])?;
        if self.optional(2).is_some() {
            return Err(self.wrong("training_mode", "none: a model for inference", "an input"));
        }
        Ok(Meaning::Same(self.data(0, "input")?))
    }
}

fn maps_shape(c: usize, h: usize, w: usize) -> Vec<Dim> {
    vec![Dim::Batch, Dim::Fixed(c), Dim::Fixed(h), Dim::Fixed(w)]
}

fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |n, &f| n.saturating_mul(f as u64))
}
