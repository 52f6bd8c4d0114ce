//! The parameters of a `.nae` file, as they are appended: weights, biases, multipliers, tables, each from a whole word
//! on. Which layer has which is in [`record`](crate::record).

use nae_core::format::Span;
use nae_core::kernels::int8::Multiplier;

use crate::GraphError;
use crate::int8_op::fixed;

/// The last part of the file: whole words.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    bytes: Vec<u8>,
}

impl Parameters {
    /// All of it so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends `len` values that are `bytes` together.
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

    /// Appends real factors in fixed point; returns the word where they start. `layer` names the layer in errors.
    pub(crate) fn multipliers(&mut self, layer: usize, factors: &[f64]) -> Result<usize, GraphError> {
        let mut words = Vec::with_capacity(2 * factors.len());
        for factor in factors {
            let Multiplier { value, shift } = fixed(layer, *factor)?;
            words.extend([value, shift].map(i32::to_le_bytes));
        }
        Ok(self.append(factors.len(), words.into_flattened()).start)
    }
}
