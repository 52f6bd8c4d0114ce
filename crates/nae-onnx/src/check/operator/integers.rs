//! The arithmetic of shapes that exporters leave in the graph: `Shape` and the values computed from it, all small
//! integers that are known here, except for the batch size.

use super::super::graph::{Constant, Dim, Operator, ValueId};
use super::super::{CheckError, shape};
use super::{Interpreter, Meaning};
use crate::excerpt::excerpt;

/// Represents a free batch size; no file can contain it.
pub(in crate::check) const BATCH: i64 = i64::MIN + 1;
/// The maximum number of elements of a computed shape.
const MOST: usize = 64;

impl<'c> Interpreter<'c, '_> {
    /// The integers of a constant input; `None` for floats and values computed at run time.
    pub(super) fn known(&self, index: usize) -> Option<(ValueId, &'c [i64])> {
        let value = self.optional(index)?;
        match &self.checker.values[value].constant {
            Some(Constant::Integers(data)) => Some((value, data)),
            _ => None,
        }
    }

    /// As [`Interpreter::known`], but an error if there is none.
    fn integer_list(&self, index: usize, what: &str) -> Result<(ValueId, &'c [i64]), CheckError> {
        self.known(index)
            .filter(|(value, data)| self.shape(*value).len() <= 1 && data.len() <= MOST)
            .ok_or_else(|| self.wrong(what, "a list of integers that can be computed beforehand", "another value"))
    }

    fn list(values: Vec<i64>) -> Meaning {
        Meaning::Constant(vec![values.len()], Constant::Integers(values))
    }

    /// A constant with `values` and the shape of input `like`.
    fn like(&self, like: ValueId, values: Vec<i64>) -> Meaning {
        if self.shape(like).is_empty() {
            Meaning::Constant(vec![], Constant::Integers(values))
        } else {
            Self::list(values)
        }
    }

    pub(super) fn shape_of(&self) -> Result<Meaning, CheckError> {
        self.at_most(1)?;
        let a = self.attributes(&["start", "end"])?;
        let x = self.input(0, "input")?;
        let batch = self.checker.fixed_batch.map_or(BATCH, |n| n as i64);
        let extents: Vec<i64> = self
            .shape(x)
            .iter()
            .map(|dim| match dim {
                Dim::Batch => batch,
                Dim::Fixed(extent) => *extent as i64,
            })
            .collect();
        let rank = extents.len() as i64;
        let bound = |value: i64| (if value < 0 { value.saturating_add(rank) } else { value }).clamp(0, rank) as usize;
        let (start, end) = (bound(a.int("start", 0)?), bound(a.int("end", rank)?));
        Ok(Self::list(extents.get(start..end).unwrap_or_default().to_vec()))
    }

    pub(super) fn gather(&self) -> Result<Meaning, CheckError> {
        self.at_most(2)?;
        self.attributes(&["axis"])?.only("axis", 0)?;
        let (_, data) = self.integer_list(0, "data")?;
        let (like, indices) = self.integer_list(1, "indices")?;
        let picked: Option<Vec<i64>> =
            indices.iter().map(|&index| shape::axis(index, data.len()).map(|index| data[index])).collect();
        let picked = picked.ok_or_else(|| self.wrong("indices", format!("within {}", data.len()), "one beyond"))?;
        Ok(self.like(like, picked))
    }

    pub(super) fn concat_lists(&self) -> Result<Meaning, CheckError> {
        self.at_most(MOST)?;
        let axis = self.attributes(&["axis"])?.int("axis", 0)?;
        let mut joined = Vec::new();
        for index in 0..self.inputs.len() {
            joined.extend_from_slice(self.integer_list(index, "input")?.1);
        }
        if !(axis == 0 || axis == -1) || joined.len() > MOST {
            return Err(self.wrong("inputs", "short lists joined along axis 0", format!("axis {axis}")));
        }
        Ok(Self::list(joined))
    }

    pub(super) fn slice(&self) -> Result<Meaning, CheckError> {
        self.at_most(5)?;
        self.attributes(&[])?;
        let (_, data) = self.integer_list(0, "data")?;
        let one = |index: usize, what: &str, default: Option<i64>| match (self.optional(index), default) {
            (None, Some(default)) => Ok(default),
            _ => match self.integer_list(index, what)?.1 {
                &[value] => Ok(value),
                other => Err(self.wrong(what, "one element", other.len().to_string())),
            },
        };
        let (start, end) = (one(1, "starts", None)?, one(2, "ends", None)?);
        let (axis, step) = (one(3, "axes", Some(0))?, one(4, "steps", Some(1))?);
        if !(axis == 0 || axis == -1) || step != 1 {
            return Err(self.wrong("axes and steps", "0 and 1", format!("{axis} and {step}")));
        }
        let len = data.len() as i64;
        let bound = |value: i64| (if value < 0 { value.saturating_add(len) } else { value }).clamp(0, len) as usize;
        Ok(Self::list(data.get(bound(start)..bound(end)).unwrap_or_default().to_vec()))
    }

    /// Computes `Add` and similar operators for two lists of the same length, or a list and one number. `None` if the
    /// operands are not integers.
    pub(super) fn integer_binary(&self, operate: fn(i64, i64) -> Option<i64>) -> Option<Result<Meaning, CheckError>> {
        let ((a, left), (b, right)) = (self.known(0)?, self.known(1)?);
        let len = left.len().max(right.len());
        let fits = |list: &[i64]| (list.len() == len || list.len() == 1) && len <= MOST;
        let at = |list: &[i64], i: usize| if list.len() == 1 { list[0] } else { list[i] };
        let computed = (fits(left) && fits(right)).then(|| {
            (0..len)
                .map(|i| match (at(left, i), at(right, i)) {
                    (BATCH, _) | (_, BATCH) => None,
                    (x, y) => operate(x, y).filter(|&result| result != BATCH),
                })
                .collect::<Option<Vec<i64>>>()
        });
        let like = if self.shape(a).is_empty() { b } else { a };
        Some(match computed.flatten() {
            Some(values) => Ok(self.like(like, values)),
            None => Err(self.wrong("operands", "integers that can be computed beforehand", "other ones")),
        })
    }

    /// Accepts a `Cast` to the type that a value already has.
    pub(super) fn cast(&self) -> Result<Meaning, CheckError> {
        self.at_most(1)?;
        let to = self.attributes(&["to", "saturate"])?.int("to", 0)?;
        let value = self.input(0, "input")?;
        let is = if self.known(0).is_some() { 7 } else { 1 };
        if to == is { Ok(Meaning::Same(value)) } else { Err(self.wrong("to", is.to_string(), to.to_string())) }
    }

    pub(super) fn expand(&self) -> Result<Meaning, CheckError> {
        self.at_most(2)?;
        self.attributes(&[])?;
        let x = self.data(0, "input")?;
        let (_, target) = self.integer_list(1, "shape")?;
        let dims: Option<Vec<Dim>> = target
            .iter()
            .enumerate()
            .map(|(axis, &extent)| match usize::try_from(extent) {
                _ if extent == BATCH && axis == 0 => Some(Dim::Batch),
                Ok(n) if axis == 0 && self.checker.fixed_batch == Some(n) => Some(Dim::Batch),
                Ok(n) if n > 0 => Some(Dim::Fixed(n)),
                _ => None,
            })
            .collect();
        let shape = dims.and_then(|dims| shape::broadcast(self.shape(x), &dims)).ok_or_else(|| {
            self.wrong("shape", format!("one that {} broadcasts to", self.show(x)), format!("{target:?}"))
        })?;
        if shape == self.shape(x) {
            return Ok(Meaning::Same(x));
        }
        Ok(Meaning::Node { operator: Operator::Expand, inputs: vec![x], shape, operations: 0 })
    }

    /// Computes `Reshape`, `Squeeze` and `Unsqueeze` of integers: lists and single numbers. `None` if the input is
    /// not a constant of integers.
    pub(super) fn reshape_integers(&self) -> Option<Result<Meaning, CheckError>> {
        let (value, data) = self.known(0)?;
        let wrong = || self.wrong("integers", "a list or one number", self.show(value));
        if data.len() > MOST {
            let place = format!("node `{}`", excerpt(self.name));
            let (what, limit, found) = ("elements of a list of integers", MOST as u64, data.len() as u64);
            return Some(Err(CheckError::Limit { place, what, limit, found }));
        }
        let kept = |dims| Ok(Meaning::Constant(dims, Constant::Integers(data.to_vec())));
        Some(match (self.node.op_type(), data.len()) {
            ("Squeeze", 1) => kept(vec![]),
            ("Unsqueeze", 1) if self.shape(value).is_empty() => kept(vec![1]),
            ("Reshape", len) => match self.known(1) {
                Some((_, &[to])) if to == -1 || to == len as i64 => kept(vec![len]),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        })
    }
}
