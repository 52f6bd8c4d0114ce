//! What a layer asks for: how many parameters it has, and how many operations one run of it takes. Where its tensors lie is
//! in [`record`](super::record).

use super::operation::{Geometry, Operation};
use super::record::Record;
use crate::Shape;

impl Record {
    /// Number of weights and biases, or of scales and shifts; `input` is the shape of the tensor it reads.
    pub const fn parameter_count(&self, input: Shape) -> u64 {
        let outputs = self.output.channels;
        match &self.operation {
            Operation::Conv2d(geometry, _) | Operation::ConvTranspose2d { geometry, .. } => {
                product(&[geometry.kernel[0], geometry.kernel[1], input.channels, outputs])
                    .saturating_add(outputs as u64)
            }
            Operation::Dense(_) => product(&[input.len() + 1, self.output.len()]),
            Operation::GroupNormalize { .. } => product(&[2, input.channels]),
            _ => 0,
        }
    }

    /// Multiply-accumulates, those with padding included, or values that a pooling layer reads; `input` is the shape of
    /// the tensor it reads. 0 for layers that do little for each value.
    pub const fn multiply_accumulates(&self, input: Shape) -> u64 {
        match &self.operation {
            Operation::Conv2d(Geometry { kernel: [height, width], .. }, _) => {
                product(&[*height, *width, input.channels, self.output.len()])
            }
            // Each value of the input is multiplied with every weight of its channel.
            Operation::ConvTranspose2d { geometry: Geometry { kernel: [height, width], .. }, .. } => {
                product(&[*height, *width, input.len(), self.output.channels])
            }
            Operation::Dense(_) => product(&[input.len(), self.output.len()]),
            Operation::MaxPool2d(Geometry { kernel: [height, width], .. })
            | Operation::AveragePool2d { geometry: Geometry { kernel: [height, width], .. }, .. } => {
                product(&[*height, *width, self.output.len()])
            }
            _ => 0,
        }
    }
}

const fn product(factors: &[usize]) -> u64 {
    let mut product = 1u64;
    let mut rest = factors;
    while let [factor, others @ ..] = rest {
        product = product.saturating_mul(*factor as u64);
        rest = others;
    }
    product
}
