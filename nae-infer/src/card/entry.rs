//! A model's card: entries of a name, a text for people and a value for programs.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The description of a model file. In JSON, an object of the entries' values.
#[derive(Debug, Clone, PartialEq)]
pub struct Card(Vec<Entry>);

/// An entry of a model's card.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The name, such as `false_positive_rate`.
    pub name: &'static str,
    /// The value as text. Texts from the file can contain any characters.
    pub text: String,
    /// The value as numbers, where it consists of numbers.
    pub value: Value,
}

/// The value of an entry; in JSON it is the number, text, list or object itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value {
    /// A text.
    Text(String),
    /// Texts, such as the names of columns.
    Texts(Vec<String>),
    /// Yes or no.
    Flag(bool),
    /// A whole number: a count, a size in bytes or pixels, a seed.
    Count(u64),
    /// Sizes, such as those of an image.
    Counts(Vec<u64>),
    /// A number.
    Number(f32),
    /// Numbers, such as the ends of an interval.
    Numbers(Vec<f32>),
    /// Values of any kind, such as one object for each column.
    List(Vec<Value>),
    /// Values with names of their own.
    Fields(BTreeMap<&'static str, Value>),
}

impl Card {
    pub(super) const fn new(entries: Vec<Entry>) -> Self {
        Self(entries)
    }

    /// The entries in a fixed order.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }
}

impl Serialize for Card {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|entry| (entry.name, &entry.value)))
    }
}

impl Entry {
    pub(super) fn new(name: &'static str, value: impl Into<Value>, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), value: value.into() }
    }

    pub(super) fn text(name: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { name, value: Value::Text(text.clone()), text }
    }

    pub(super) fn count(name: &'static str, count: u64) -> Self {
        Self::new(name, count, count.to_string())
    }

    pub(super) fn number(name: &'static str, number: f32) -> Self {
        Self::new(name, number, format!("{number:?}"))
    }
}

impl Value {
    /// A value whose parts have names.
    pub(super) fn fields<const N: usize>(fields: [(&'static str, Self); N]) -> Self {
        Self::Fields(fields.into_iter().collect())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f32> for Value {
    fn from(number: f32) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<const N: usize> From<[usize; N]> for Value {
    fn from(counts: [usize; N]) -> Self {
        Self::Counts(counts.iter().map(|&count| count as u64).collect())
    }
}

impl From<[f32; 2]> for Value {
    fn from(numbers: [f32; 2]) -> Self {
        Self::Numbers(numbers.to_vec())
    }
}
