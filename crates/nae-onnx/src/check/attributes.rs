//! Typed access to a node's attributes. An unknown attribute is an error, since it would change
//! what the operator does.

use super::CheckError;
use crate::excerpt::excerpt;
use crate::proto::{AttributeProto, AttributeType, NodeProto, TensorProto};

pub(super) struct Attributes<'a> {
    node: String,
    operator: &'a str,
    list: &'a [AttributeProto],
}

impl<'a> Attributes<'a> {
    /// The attributes of a node; an error if there is one outside `known`.
    pub(super) fn new(name: &str, node: &'a NodeProto, known: &[&str]) -> Result<Self, CheckError> {
        let this = Self { node: excerpt(name), operator: node.op_type(), list: &node.attribute };
        for (i, attribute) in this.list.iter().enumerate() {
            let name = attribute.name();
            if !known.contains(&name) {
                let expected = if known.is_empty() { "no attributes".to_owned() } else { known.join(", ") };
                return Err(this.error("attributes", expected, format!("`{}`", excerpt(name))));
            }
            if this.list[..i].iter().any(|other| other.name() == name) {
                return Err(this.error("attributes", "each once", format!("`{name}` twice")));
            }
        }
        Ok(this)
    }

    pub(super) fn error(&self, what: &str, expected: impl Into<String>, found: impl Into<String>) -> CheckError {
        CheckError::Node {
            node: self.node.clone(),
            operator: excerpt(self.operator),
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// The attribute if it is present; an error if it has another type.
    fn get(&self, name: &str, kind: AttributeType) -> Result<Option<&'a AttributeProto>, CheckError> {
        let Some(attribute) = self.list.iter().find(|a| a.name() == name) else { return Ok(None) };
        match attribute.kind() {
            Some(found) if found == kind => Ok(Some(attribute)),
            found => Err(self.error(name, format!("{kind:?}"), format!("{found:?}"))),
        }
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64, CheckError> {
        Ok(self.get(name, AttributeType::Int)?.map_or(default, AttributeProto::i))
    }

    /// Checks an integer attribute of which only this value is supported.
    pub(super) fn only(&self, name: &str, value: i64) -> Result<(), CheckError> {
        match self.int(name, value)? {
            found if found == value => Ok(()),
            found => Err(self.error(name, value.to_string(), found.to_string())),
        }
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, CheckError> {
        match self.int(name, default.into())? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(self.error(name, "0 or 1", found.to_string())),
        }
    }

    /// A finite float.
    pub(super) fn float(&self, name: &str, default: f32) -> Result<f32, CheckError> {
        match self.get(name, AttributeType::Float)?.map_or(default, AttributeProto::f) {
            value if value.is_finite() => Ok(value),
            value => Err(self.error(name, "a finite number", value.to_string())),
        }
    }

    pub(super) fn string(&self, name: &str, default: &'a str) -> Result<&'a str, CheckError> {
        match self.get(name, AttributeType::String)? {
            None => Ok(default),
            Some(a) => std::str::from_utf8(a.s()).map_err(|_| self.error(name, "UTF-8", "other bytes")),
        }
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, CheckError> {
        Ok(self.get(name, AttributeType::Ints)?.map(|a| a.ints.as_slice()))
    }

    pub(super) fn floats(&self, name: &str) -> Result<Option<&'a [f32]>, CheckError> {
        Ok(self.get(name, AttributeType::Floats)?.map(|a| a.floats.as_slice()))
    }

    pub(super) fn tensor(&self, name: &str) -> Result<Option<&'a TensorProto>, CheckError> {
        match self.get(name, AttributeType::Tensor)? {
            None => Ok(None),
            Some(a) => a.t.as_ref().map(Some).ok_or_else(|| self.error(name, "a tensor", "none")),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.list.iter().any(|a| a.name() == name)
    }

    /// `N` integers from `least` to `most`.
    pub(super) fn sizes<const N: usize>(
        &self,
        name: &str,
        default: [usize; N],
        least: usize,
        most: usize,
    ) -> Result<[usize; N], CheckError> {
        let Some(values) = self.ints(name)? else { return Ok(default) };
        let mut sizes = [0; N];
        let fits = values.len() == N
            && values.iter().zip(&mut sizes).all(|(&value, size)| {
                usize::try_from(value).is_ok_and(|v| {
                    *size = v;
                    (least..=most).contains(&v)
                })
            });
        if fits {
            return Ok(sizes);
        }
        let shown: Vec<_> = values.iter().take(6).map(ToString::to_string).collect();
        Err(self.error(name, format!("{N} integers from {least} to {most}"), format!("[{}]", shown.join(", "))))
    }
}
