//! Folds `QuantizeLinear` and `DequantizeLinear`: they are applied to constants, and for activations, where their
//! effect is rounding, they are removed. The scales stay with the values, for quantizing the model again.

use nae_core::layer::Activation;
use nae_core::quantization::Quantization;

use super::{Interpreter, Meaning};
use crate::check::CheckError;
use crate::check::graph::{Constant, Dim, Operator, Stored, ValueId};
use crate::excerpt::excerpt;

/// The maximum number of operators that [`Interpreter::may_be_negative`] goes back; after more, an additional `Relu`
/// does no harm.
const MOST_STEPS: usize = 16;

/// The minimum and the maximum of `int8` and of `uint8`.
const EIGHT_BITS: [(i32, i32); 2] = [(-128, 127), (0, 255)];

/// Integers, and the minimum and the maximum of their type.
type Integers<'c> = (&'c [i32], (i32, i32));

/// The scale and zero point of a quantized activation, and the minimum of its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::check) struct Scale {
    scale: f32,
    zero_point: i32,
    least: i32,
}

impl Scale {
    /// The same for `int8`; `None` if [`Quantization`] refuses the scale.
    fn int8(self) -> Option<Quantization> {
        let zero_point = i8::try_from(self.zero_point - self.least - 128).ok()?;
        Quantization::new(self.scale, zero_point).ok()
    }
}

impl Interpreter<'_, '_> {
    /// Refuses quantized inputs of all operators but `DequantizeLinear`: here, those values are floats.
    pub(super) fn no_quantized_inputs(&self) -> Result<(), CheckError> {
        let mut names = self.node.input.iter().filter(|name| self.checker.quantized.contains_key(*name));
        match names.next() {
            Some(name) if self.node.op_type() != "DequantizeLinear" => {
                Err(self.wrong("input", "floats", format!("`{}`, which is quantized", excerpt(name))))
            }
            _ => Ok(()),
        }
    }

    /// The scale and zero point of a `QuantizeLinear`; `None` for other operators.
    pub(in crate::check) fn scale_of_result(&self) -> Result<Option<Scale>, CheckError> {
        if self.node.op_type() == "QuantizeLinear" { self.scale().map(Some) } else { Ok(None) }
    }

    /// The integers that represent the result of either operator; `None` if they are not 8-bit, or if the zero point
    /// of weights is not 0, and for other operators.
    pub(in crate::check) fn stored_result(&self) -> Result<Option<Stored>, CheckError> {
        match self.node.op_type() {
            "QuantizeLinear" => Ok(self.scale()?.int8().map(Stored::Activation)),
            "DequantizeLinear" => self.stored_weights(),
            _ => Ok(None),
        }
    }

    fn stored_weights(&self) -> Result<Option<Stored>, CheckError> {
        let x = self.input(0, "input")?;
        let range = match &self.checker.values[x].constant {
            Some(Constant::Quantized { range, .. }) if EIGHT_BITS.contains(range) => *range,
            _ => return Ok(None),
        };
        let scales = self.floats(1, "scale")?.unwrap_or_default();
        let zero_points = self.zero_points()?.map_or(&[0][..], |(zero_points, _)| zero_points);
        let around_zero = zero_points.iter().all(|&zero_point| zero_point == range.0 + 128);
        if !around_zero || !scales.iter().all(|&scale| scale > 0.0 && scale.is_finite()) {
            return Ok(None);
        }
        let axis = self.axis_of_scales(&self.fixed_extents(x), scales.len())?;
        Ok(Some(Stored::Weights { scales: scales.to_vec(), axis }))
    }

    /// The scale and zero point of an activation.
    fn scale(&self) -> Result<Scale, CheckError> {
        let scale = match self.floats(1, "scale")? {
            Some(&[scale]) if scale > 0.0 => scale,
            Some([scale]) => return Err(self.wrong("scale", "a positive number", scale.to_string())),
            Some(scales) => return Err(self.wrong("scale", "one for the whole activation", scales.len().to_string())),
            None => return Err(self.wrong("scale", "an input", "none")),
        };
        // Without a zero point, results are `uint8`.
        let (zero_points, range) = self.zero_points()?.unwrap_or((&[0], (0, 255)));
        match *zero_points {
            [zero_point] if EIGHT_BITS.contains(&range) => Ok(Scale { scale, zero_point, least: range.0 }),
            [_] => Err(self.wrong("zero point", "int8 or uint8", "int32")),
            _ => Err(self.wrong("zero point", "one for the whole activation", zero_points.len().to_string())),
        }
    }

    fn zero_points(&self) -> Result<Option<Integers<'_>>, CheckError> {
        let Some(value) = self.optional(2) else { return Ok(None) };
        match &self.checker.values[value].constant {
            Some(Constant::Quantized { values, range }) => Ok(Some((values, *range))),
            _ => Err(self.wrong("zero point", "a constant of int8 or uint8", "another")),
        }
    }

    pub(super) fn quantize(&self) -> Result<Meaning, CheckError> {
        self.attributes(&["axis", "saturate"])?;
        self.at_most(3)?;
        let x = self.data(0, "input")?;
        if self.checker.values[x].constant.is_some() {
            return Err(self.wrong("input", "an activation", "a constant"));
        }
        let scale = self.scale()?;
        if scale.zero_point == scale.least && self.may_be_negative(x) {
            return Ok(Meaning::Node {
                operator: Operator::Activation(Activation::Relu),
                inputs: vec![x],
                shape: self.shape(x).to_vec(),
                operations: 0,
            });
        }
        Ok(Meaning::Same(x))
    }

    /// Whether a value could be negative, judging by its operators. Images are not, nor are results of operators that
    /// only move or compare values that are not.
    fn may_be_negative(&self, mut value: ValueId) -> bool {
        let nodes = &self.checker.nodes;
        for _ in 0..MOST_STEPS {
            let Ok(index) = nodes.binary_search_by_key(&value, |node| node.output) else {
                return false;
            };
            match nodes[index].operator {
                Operator::Activation(Activation::Relu | Activation::Sigmoid)
                | Operator::Abs
                | Operator::Sqrt
                | Operator::Softmax
                | Operator::ReduceL2 { .. } => {
                    return false;
                }
                Operator::MaxPool(_)
                | Operator::AveragePool { .. }
                | Operator::GlobalAveragePool
                | Operator::Resize(_)
                | Operator::Reshape
                | Operator::Expand => match nodes[index].inputs.first() {
                    Some(&from) => value = from,
                    None => return true,
                },
                _ => return true,
            }
        }
        true
    }

    /// The extents of a constant.
    fn fixed_extents(&self, constant: ValueId) -> Vec<usize> {
        self.shape(constant).iter().map(|dim| if let Dim::Fixed(n) = dim { *n } else { 0 }).collect()
    }

    /// The axis of a constant along which scales differ; `None` if there is one for all.
    fn axis_of_scales(&self, dims: &[usize], scales: usize) -> Result<Option<usize>, CheckError> {
        if scales == 1 {
            return Ok(None);
        }
        let axis = self.attributes(&["axis"])?.int("axis", 1)?;
        let axis = if axis < 0 { axis + dims.len() as i64 } else { axis };
        let axis = usize::try_from(axis).ok().filter(|axis| dims.get(*axis) == Some(&scales));
        axis.map(Some).ok_or_else(|| {
            self.wrong("scale", format!("one, or as many as an axis of {dims:?} has"), scales.to_string())
        })
    }

    pub(super) fn dequantize(&self) -> Result<Meaning, CheckError> {
        self.attributes(&["axis"])?;
        self.at_most(3)?;
        let x = self.input(0, "input")?;
        if let Some(quantized) = self.node.input.first().and_then(|name| self.checker.quantized.get(name)) {
            let scale = self.scale()?;
            if scale != *quantized {
                return Err(self.wrong("scale", format!("{quantized:?}, as quantized"), format!("{scale:?}")));
            }
            return Ok(Meaning::Same(x));
        }
        let Some(Constant::Quantized { values, range }) = &self.checker.values[x].constant else {
            return Err(self.wrong("input", "what QuantizeLinear makes, or a quantized constant", "another"));
        };
        let dims = self.fixed_extents(x);
        let scales = self.floats(1, "scale")?.unwrap_or_default();
        let zero_points = match self.zero_points()? {
            None => &[0][..],
            Some((zero_points, of)) if of == *range => zero_points,
            Some(_) => return Err(self.wrong("zero point", "the input's type", "another")),
        };
        // The number of elements between two with different scales.
        let inner = match self.axis_of_scales(&dims, scales.len())? {
            None => values.len().max(1),
            Some(axis) => dims[axis + 1..].iter().fold(1usize, |n, &dim| n.saturating_mul(dim)).max(1),
        };
        if zero_points.len() != 1 && zero_points.len() != scales.len() {
            return Err(self.wrong("zero point", scales.len().to_string(), zero_points.len().to_string()));
        }
        // Checked before there is a copy: every node can make one of the same constant.
        let place = || format!("node `{}`", excerpt(self.name));
        self.checker.room_for_constants(place, values.len().saturating_add(scales.len()))?;
        let real = |(index, value): (usize, &i32)| {
            let channel = index / inner % scales.len().max(1);
            let zero_point = zero_points[if zero_points.len() == 1 { 0 } else { channel }];
            (f64::from(*value) - f64::from(zero_point)) as f32 * scales[channel]
        };
        let reals: Vec<f32> = values.iter().enumerate().map(real).collect();
        match reals.iter().find(|real| !real.is_finite()) {
            Some(real) => Err(self.wrong("input", "finite numbers", real.to_string())),
            None => Ok(Meaning::Constant(dims, Constant::Floats(reals))),
        }
    }
}
