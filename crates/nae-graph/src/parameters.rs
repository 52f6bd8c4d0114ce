//! The parameters of a `.nae` file, in the order in which they are appended: weights, biases, multipliers, tables, each
//! starting at a whole word. Their assignment to layers is in [`record`](crate::record).

use nae_core::format::Span;
use nae_core::kernels::int8::Multiplier;

/// The last part of the file, in whole words.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    bytes: Vec<u8>,
}

impl Parameters {
    /// The bytes appended so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends `len` values, which consist of `bytes`.
    pub(crate) fn append(&mut self, len: usize, bytes: impl IntoIterator<Item = u8>) -> Span {
        let start = self.bytes.len() / 4;
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        Span { start, len }
    }

    /// Appends floats.
    pub(crate) fn floats(&mut self, values: &[f32]) -> Span {
        self.append(values.len(), values.iter().flat_map(|v| v.to_le_bytes()))
    }

    /// Appends 8-bit values.
    pub(crate) fn integers(&mut self, values: &[i8]) -> Span {
        self.append(values.len(), values.iter().map(|v| *v as u8))
    }

    /// Appends multipliers; returns the word where they start.
    pub(crate) fn multipliers(&mut self, multipliers: &[Multiplier]) -> usize {
        let words = multipliers.iter().flat_map(|m| [m.value, m.shift]);
        self.append(multipliers.len(), words.flat_map(i32::to_le_bytes)).start
    }
}
