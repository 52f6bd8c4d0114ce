//! The cost of a layer: its number of parameters, and the number of operations of one run. The places of its tensors
//! are in [`record`](super::record).

use super::operation::{Geometry, Operation};
use super::record::Record;
use crate::Shape;
use crate::layer::Activation;

/// Number of operations that an exponential counts as.
const EXPONENTIAL: u64 = 16;

impl Record {
    /// Number of weights and biases, or of scales and shifts; `input` is the shape of the tensor that the layer reads.
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

    /// Number of multiply-accumulates, including those with padding, or of values that a pooling layer reads; `input`
    /// is the shape of the tensor that the layer reads. It is 0 for all other layers, so it does not bound the time of
    /// a model; [`operations`](Self::operations) does.
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

    /// The cost of one run of the layer, in units of about one multiply-accumulate; `input` is the shape of the tensor
    /// that the layer reads. It is the number of [multiply-accumulates](Self::multiply_accumulates), plus for each
    /// value written: 1; 4 if the value is interpolated between four, or normalized, for which the tensor is read
    /// several times; 16 if the activation has an exponential (sigmoid, tanh, ELU). So every layer has a cost.
    pub const fn operations(&self, input: Shape) -> u64 {
        let of_value = match (&self.operation, self.operation.activation()) {
            (_, Activation::Sigmoid | Activation::Tanh | Activation::Elu { .. }) => EXPONENTIAL,
            (
                Operation::ResizeBilinear { .. } | Operation::L2Normalize { .. } | Operation::GroupNormalize { .. },
                _,
            ) => 4,
            _ => 1,
        };
        let written = product(&[self.output.len()]).saturating_mul(of_value);
        self.multiply_accumulates(input).saturating_add(written)
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
