//! The cost of a layer: its number of parameters, and the number of operations of one run. The places of its tensors
//! are in [`record`](super::record).

use super::operation::{Geometry, Int8Linear, Linear, Operation, Pair};
use super::record::Record;
use crate::Shape;
use crate::kernels::int8;
use crate::layer::{Activation, Element};

/// Number of operations that an exponential counts as.
const EXPONENTIAL: u64 = 16;
/// Number of operations that the end of a sum counts as (its place, its conversion to 8 bits), beside its products.
const SUM: u64 = 8;
/// Number of operations that a byte of a copy counts as: it is filled with the zero point, then copied by itself.
const COPY: u64 = 4;
/// Number of operations that the start of a part of a layer counts as ([`Record::parts`]), however little the part
/// computes.
const PART: u64 = 64;
/// Number of operations that a pixel of the output counts as, where the kernel looks up what it reads for each, however few
/// channels it has.
const PLACE: u64 = 64;
/// Words of a multiplier: value and shift.
const MULTIPLIER_WORDS: usize = 2;

impl Record {
    /// Number of weights and biases, or of scales and shifts; `input` is the shape of the tensor that the layer reads.
    pub const fn parameter_count(&self, input: Shape) -> u64 {
        let outputs = self.output.channels;
        match &self.operation {
            Operation::Conv2d(geometry, _) | Operation::ConvTranspose2d { geometry, .. } => {
                product(&[geometry.kernel[0], geometry.kernel[1], input.channels, outputs])
                    .saturating_add(outputs as u64)
            }
            Operation::Dense(_) => product(&[input.len().saturating_add(1), self.output.len()]),
            Operation::GroupNormalize { .. } => product(&[2, input.channels]),
            _ => 0,
        }
    }

    /// Number of words that the layer has in the parameters: weights, biases or channels, multipliers, a table, scales
    /// and shifts.
    pub(crate) const fn parameter_words(&self) -> usize {
        match &self.operation {
            Operation::Conv2d(_, linear) | Operation::ConvTranspose2d { linear, .. } | Operation::Dense(linear) => {
                match linear {
                    Linear::F32 { weights, bias, .. } => weights.len.saturating_add(bias.len),
                    Linear::I8(Int8Linear { weights, bias, shared_multiplier, .. }) => {
                        let words = weights.len.div_ceil(4);
                        match shared_multiplier {
                            None => words.saturating_add(bias.len.saturating_mul(3)),
                            Some(_) => words.saturating_add(bias.len).saturating_add(MULTIPLIER_WORDS),
                        }
                    }
                }
            }
            Operation::Table(table) => table.len.div_ceil(4),
            Operation::GroupNormalize { scale, shift, .. } => scale.len.saturating_add(shift.len),
            Operation::Add(Pair { int8: Some(_), .. }) => 3 * MULTIPLIER_WORDS,
            Operation::Multiply(Pair { int8: Some(_), .. }) | Operation::Requantize { .. } => MULTIPLIER_WORDS,
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
    /// value written:
    /// - 1;
    /// - 4 if the value is interpolated between four, or normalized, for which the tensor is read several times;
    /// - 16 if the activation has an exponential (sigmoid, tanh, ELU);
    /// - 8 more if the value is a sum of products, a maximum or a mean, or is computed from one or two values with
    ///   another scale (8-bit sums, products and changes of scale, and conversions from and to 8 bits);
    ///
    /// plus 64 for each pixel that is written by a convolution, pooling, resizing or the normalization of a pixel, plus 4 for each
    /// byte that the kernel copies ([`int8::conv2d_copied_bytes`]), plus 64 for each part that the kernel
    /// starts, whatever it computes: one for the layer; for an 8-bit convolution one for each row of the output, for an
    /// 8-bit transposed convolution of stride s down and t across s·t, and with s = 1 as many for each row; for group
    /// normalization one for each group at each place. So every layer has a cost, and no layer takes many times as long
    /// for an operation as others of its type do.
    pub const fn operations(&self, input: Shape) -> u64 {
        let of_value = match (&self.operation, self.operation.activation()) {
            (_, Activation::Sigmoid | Activation::Tanh | Activation::Elu { .. }) => EXPONENTIAL,
            (
                Operation::ResizeBilinear { .. } | Operation::L2Normalize { .. } | Operation::GroupNormalize { .. },
                _,
            ) => 4,
            _ => 1,
        };
        let of_sum = match &self.operation {
            Operation::Conv2d(..)
            | Operation::ConvTranspose2d { .. }
            | Operation::Dense(_)
            | Operation::MaxPool2d(_)
            | Operation::AveragePool2d { .. } => SUM,
            Operation::Dequantize => SUM,
            Operation::Add(_) | Operation::Multiply(_) | Operation::Quantize | Operation::Requantize { .. } => {
                match self.element {
                    Element::F32 => 0,
                    Element::I8(_) => SUM,
                }
            }
            _ => 0,
        };
        let places = match &self.operation {
            Operation::Conv2d(..)
            | Operation::ConvTranspose2d { .. }
            | Operation::MaxPool2d(_)
            | Operation::AveragePool2d { .. }
            | Operation::ResizeNearest
            | Operation::ResizeBilinear { .. }
            | Operation::L2Normalize { .. } => product(&[self.output.height, self.output.width, PLACE as usize]),
            _ => 0,
        };
        let written = product(&[self.output.len()]).saturating_mul(of_value + of_sum);
        let copied = self.copied_bytes(input).saturating_mul(COPY);
        let started = self.parts().saturating_mul(PART);
        let sums = self.multiply_accumulates(input).saturating_add(written).saturating_add(places);
        sums.saturating_add(copied).saturating_add(started)
    }

    /// The greatest number of parts that the kernel starts one after the other: bands of rows and phases of 8-bit
    /// convolutions, where a band may be one row ([`Rows`](crate::kernels::Rows)), and pieces of a pixel in a group.
    const fn parts(&self) -> u64 {
        let Shape { height, width, .. } = self.output;
        match &self.operation {
            Operation::Conv2d(_, Linear::I8(_)) => height as u64,
            Operation::ConvTranspose2d {
                geometry: Geometry { stride: [1, across], .. },
                linear: Linear::I8(_),
                ..
            } => product(&[height, *across]),
            Operation::ConvTranspose2d { geometry: Geometry { stride, .. }, linear: Linear::I8(_), .. } => {
                product(stride)
            }
            Operation::GroupNormalize { groups, .. } => product(&[*groups as usize, height, width]),
            _ => 1,
        }
    }

    /// Number of bytes that the kernel copies beside its products and results.
    const fn copied_bytes(&self, input: Shape) -> u64 {
        match &self.operation {
            Operation::Conv2d(geometry, Linear::I8(Int8Linear { layout, .. })) => {
                int8::conv2d_copied_bytes(*layout, &geometry.windows(input, self.output))
            }
            Operation::ConvTranspose2d { geometry, linear: Linear::I8(Int8Linear { layout, .. }), .. } => {
                int8::conv_transpose2d_copied_bytes(*layout, &geometry.windows(input, self.output))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::format::Span;
    use crate::kernels::Rows;
    use crate::kernels::int8::Layout;
    use crate::layer::Padding;
    use crate::quantization::Quantization;

    /// A layer of one product for each value, of which the output lies as closely before the input as it may.
    fn record(operation: Operation, output: Shape) -> Record {
        let element = Element::I8(Quantization::new(1.0, 0).unwrap());
        Record { input: 0, output, element, offset: 0, operation }
    }

    fn linear(layout: Layout) -> Linear {
        let (weights, bias) = (Span::default(), Span::default());
        Linear::I8(Int8Linear { layout, weights, bias, shared_multiplier: None, clamp: [-128, 127], scratch: 0 })
    }

    /// What the engine goes through, counted with its own iterators. If it were not counted, a file of a few kilobytes
    /// could take a thousand times as long as it says.
    #[test]
    fn every_band_and_phase_counts() {
        for layout in [Layout::Plain, Layout::Paired] {
            for [down, across] in [[1, 1], [1, 16], [16, 1], [16, 16], [2, 3]] {
                let geometry = Geometry { kernel: [1, 1], stride: [down, across], padding: Padding::NONE };
                let input = Shape::new(4, 5, 1);
                let output = Shape::new(4, (input.height - 1) * down + 1, 1);
                let operation = Operation::ConvTranspose2d { geometry, output_padding: [0, 0], linear: linear(layout) };
                let rows = Rows::of_transposed(geometry.windows(input, output));
                let bands = rows.bands(rows.lead(1).unwrap_or(usize::MAX));
                let phases: usize = bands.map(|band| int8::phase_count(&band.windows)).sum();
                let record = record(operation, output);
                assert_eq!(record.parts(), phases as u64, "{layout:?}, stride {down}×{across}");
                assert!(record.operations(input) >= PART * phases as u64);
            }
            let geometry = Geometry { kernel: [1, 1], stride: [1, 1], padding: Padding::NONE };
            let shape = Shape::new(4, 1000, 1);
            let rows = Rows::of(geometry.windows(shape, shape));
            let bands = rows.bands(rows.lead(1).unwrap()).count();
            let record = record(Operation::Conv2d(geometry, linear(layout)), shape);
            assert_eq!((record.parts(), bands), (1000, 1000), "{layout:?}");
            assert!(record.operations(shape) >= PART * 1000);
        }
    }

    /// With few channels, a pixel takes much longer than its values. Without this, layers of one channel would take a hundred
    /// times as long for an operation as others.
    #[test]
    fn every_pixel_counts() {
        let geometry = Geometry { kernel: [1, 1], stride: [1, 1], padding: Padding::NONE };
        let shape = Shape::new(1, 128, 128);
        for operation in [
            Operation::ResizeNearest,
            Operation::ResizeBilinear { half_pixel: false },
            Operation::MaxPool2d(geometry),
            Operation::AveragePool2d { geometry, count_include_padding: false },
            Operation::Conv2d(geometry, linear(Layout::Plain)),
            Operation::ConvTranspose2d { geometry, output_padding: [0, 0], linear: linear(Layout::Paired) },
        ] {
            let operations = record(operation, shape).operations(shape);
            assert!(operations >= PLACE * 128 * 128, "{operation:?}: {operations}");
        }
    }

    /// A group reads each pixel in three passes, with a sum in double precision.
    #[test]
    fn every_group_of_a_pixel_counts() {
        let normalize = |groups| {
            let (scale, shift) = (Span::default(), Span::default());
            let operation = Operation::GroupNormalize { groups, epsilon: 1.0, scale, shift };
            let shape = Shape::new(240, 4, 3);
            Record { element: Element::F32, ..record(operation, shape) }.operations(shape)
        };
        assert_eq!(normalize(240) - normalize(1), PART * 239 * 12);
    }
}
