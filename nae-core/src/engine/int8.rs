//! Runs one layer whose output is `i8`.

use super::tensor::{Image, Operands, Tensor, apart, in_place, operands, with_scratch};
use super::{Engine, EngineError};
use crate::kernels::int8::{self, Add, L2Normalize, Layout, Multiplier, Multiply, Range, Requantize, Weights};
use crate::kernels::{self, Rows};
use crate::model::{Int8Linear, Kind, Linear, Operation, Operators, Pair, Record};

/// 128, the reciprocal of the scale of a normalized output.
const UNIT: Multiplier = Multiplier { value: 1 << 30, shift: 8 };

/// Number of outputs whose channels are assembled at a time.
const OUTPUTS: usize = 32;

/// A layer with 8-bit weights, and the memory it reads and writes.
struct Layer<'l, 'a> {
    linear: &'l Int8Linear,
    zero_point: i8,
    range: Range,
    scratch: &'a mut [u32],
    input: &'a [i8],
    output: &'a mut [i8],
}

impl<'m, const OPERATORS: u64> Engine<'m, OPERATORS> {
    /// Runs one layer. The arms of kinds that are not among `OPERATORS` are constant and are removed.
    ///
    /// # Errors
    /// [`EngineError::NonFiniteResult`] if a value to be converted to an integer is NaN or infinite.
    pub(super) fn step_i8(
        &self,
        layer: &Record,
        source: Tensor,
        image: Image<'_>,
        arena: &mut [f32],
    ) -> Result<(), EngineError> {
        let target = Tensor::of(layer);
        let zero_point = source.zero_point();
        let range = |[min, max]: [i8; 2]| Range { zero_point: target.zero_point(), min, max };
        let scratch = layer.scratch(source.shape);
        match &layer.operation {
            Operation::Conv2d(geometry, Linear::I8(linear)) if Self::has(Operators::kind_i8(Kind::Conv2d)) => {
                let windows = geometry.windows(source.shape, target.shape);
                let (weights, range) = (self.weights(linear), range(linear.clamp));
                for band in Rows::of(windows).bands(source.distance(target)) {
                    let rows = (target, band.output, band.windows.output.len());
                    let (input, output, scratch) = with_scratch((source, band.input), rows, scratch, image, arena);
                    int8::conv2d(&band.windows, zero_point, weights, range, scratch, input, output);
                }
            }
            Operation::ConvTranspose2d { geometry, linear: Linear::I8(linear), .. }
                if Self::has(Operators::kind_i8(Kind::ConvTranspose2d)) =>
            {
                let windows = geometry.windows(source.shape, target.shape);
                let (weights, range) = (self.weights(linear), range(linear.clamp));
                for band in Rows::of_transposed(windows).bands(source.distance(target)) {
                    let rows = (target, band.output, band.windows.output.len());
                    let (input, output, scratch) = with_scratch((source, band.input), rows, scratch, image, arena);
                    int8::conv_transpose2d(&band.windows, zero_point, weights, range, scratch, input, output);
                }
            }
            Operation::Dense(Linear::I8(linear)) if Self::has(Operators::kind_i8(Kind::Dense)) => {
                let whole = (target, 0, target.len());
                let (input, output, scratch) = with_scratch((source, 0), whole, scratch, image, arena);
                self.dense(Layer { linear, zero_point, range: range(linear.clamp), scratch, input, output });
            }
            Operation::MaxPool2d(geometry) if Self::has(Operators::kind_i8(Kind::MaxPool2d)) => {
                let windows = geometry.windows(source.shape, target.shape);
                let (input, output) = apart(source, target, image, arena);
                int8::max_pool2d(&windows, input, output);
            }
            Operation::AveragePool2d { geometry, count_include_padding }
                if Self::has(Operators::kind_i8(Kind::AveragePool2d)) =>
            {
                let windows = geometry.windows(source.shape, target.shape);
                let (input, output) = apart(source, target, image, arena);
                int8::average_pool2d(&windows, count_include_padding.then_some(zero_point), input, output);
            }
            Operation::ResizeNearest if Self::has(Operators::kind_i8(Kind::ResizeNearest)) => {
                let (input, output) = apart(source, target, image, arena);
                int8::nearest(source.shape, target.shape, input, output);
            }
            Operation::ResizeBilinear { half_pixel } if Self::has(Operators::kind_i8(Kind::ResizeBilinear)) => {
                let (input, output) = apart(source, target, image, arena);
                int8::bilinear(*half_pixel, source.shape, target.shape, input, output);
            }
            Operation::Table(table) if Self::has(Operators::kind_i8(Kind::Activation)) => {
                let values = in_place(source, target, image, arena);
                if let Some(table) = self.table(table.start) {
                    int8::look_up(table, values);
                }
            }
            Operation::L2Normalize { .. } if Self::has(Operators::kind_i8(Kind::L2Normalize)) => {
                let range = Range::full(target.zero_point());
                let layer = L2Normalize { input_zero_point: zero_point, least: 0, gain: UNIT, range };
                int8::l2_normalize(&layer, in_place(source, target, image, arena));
            }
            Operation::Reshape if Self::has(Operators::kind_i8(Kind::Reshape)) => {
                in_place::<i8>(source, target, image, arena);
            }
            Operation::Add(Pair { other, int8: Some(int8) }) if Self::has(Operators::kind_i8(Kind::Add)) => {
                let other = Tensor::new(self.model, *other);
                let [first, second, sum] = [0, 2, 4].map(|word| self.multiplier(int8.multipliers + word));
                let layer = Add {
                    input_zero_points: [zero_point, other.zero_point()],
                    inputs: [first, second],
                    sum,
                    range: range(int8.clamp),
                };
                match operands(source, other, target, image, arena) {
                    Operands::InPlace(output, other) => int8::add_in_place(&layer, output, other),
                    Operands::Apart(input, other, output) => int8::add(&layer, input, other, output),
                }
            }
            Operation::Multiply(Pair { other, int8: Some(int8) }) if Self::has(Operators::kind_i8(Kind::Multiply)) => {
                let other = Tensor::new(self.model, *other);
                let layer = Multiply {
                    input_zero_points: [zero_point, other.zero_point()],
                    multiplier: self.multiplier(int8.multipliers),
                    range: range(int8.clamp),
                };
                match operands(source, other, target, image, arena) {
                    Operands::InPlace(output, other) => int8::multiply_in_place(&layer, output, other),
                    Operands::Apart(input, other, output) => int8::multiply(&layer, input, other, output),
                }
            }
            Operation::Quantize if Self::has(Operators::kind_i8(Kind::Quantize)) => {
                if let Some(quantization) = target.element.quantization() {
                    let (input, output) = apart(source, target, image, arena);
                    if !kernels::quantize(quantization, input, output) {
                        return Err(EngineError::NonFiniteResult);
                    }
                }
            }
            Operation::Requantize { multiplier } if Self::has(Operators::kind_i8(Kind::Requantize)) => {
                let (range, multiplier) = (Range::full(target.zero_point()), self.multiplier(*multiplier));
                let layer = Requantize { input_zero_point: zero_point, multiplier, range };
                int8::requantize(&layer, in_place(source, target, image, arena));
            }
            // An operator outside the engine's set cannot occur in the model.
            _ => {}
        }
        Ok(())
    }

    /// Runs a dense layer. If all outputs share a multiplier, the channels are assembled here for some outputs at a
    /// time, which saves two words per output in the file.
    fn dense(&self, layer: Layer<'_, '_>) {
        let Layer { linear, zero_point, range, scratch, input, output } = layer;
        let weights = self.weights(linear);
        let (each, shared) = (Self::has(Operators::dense_i8(false)), Self::has(Operators::dense_i8(true)));
        match linear.shared_multiplier {
            Some(multiplier) if shared => {
                let Multiplier { value, shift } = self.multiplier(multiplier);
                let biases = self.words(linear.bias.start, linear.bias.len);
                // Words of a whole number of outputs, in either layout.
                let words = weights.words.chunks(weights.layout.words(OUTPUTS, input.len()).max(1));
                for ((output, biases), words) in output.chunks_mut(OUTPUTS).zip(biases.chunks(OUTPUTS)).zip(words) {
                    let mut channels = [[0, value, shift]; OUTPUTS];
                    for (channel, bias) in channels.iter_mut().zip(biases) {
                        channel[0] = *bias as i32;
                    }
                    let channels = channels.get(..output.len()).unwrap_or_default();
                    int8::dense(zero_point, Weights { words, channels, ..weights }, range, scratch, input, output);
                }
            }
            _ if each => int8::dense(zero_point, weights, range, scratch, input, output),
            // An operator outside the engine's set cannot occur in the model.
            _ => {}
        }
    }

    fn weights(&self, linear: &Int8Linear) -> Weights<'m> {
        let words = |start, len| self.words(start, len);
        let plain = Self::has(Operators::layout(Layout::Plain));
        let paired = Self::has(Operators::layout(Layout::Paired));
        Weights {
            // This is a constant if the engine has one layout only, so that the kernels of the other are removed.
            layout: match (plain, paired) {
                (true, false) => Layout::Plain,
                (false, true) => Layout::Paired,
                _ => linear.layout,
            },
            words: words(linear.weights.start, linear.weights.len / 4),
            channels: bytemuck::try_cast_slice(words(linear.bias.start, 3 * linear.bias.len)).unwrap_or_default(),
        }
    }

    /// The table of an activation that starts at this word.
    fn table(&self, start: usize) -> Option<&'m [i8; 256]> {
        let bytes: &[i8] = bytemuck::try_cast_slice(self.words(start, 64)).unwrap_or_default();
        bytes.first_chunk()
    }

    /// The multiplier that starts at this word.
    fn multiplier(&self, start: usize) -> Multiplier {
        match self.words(start, 2) {
            [value, shift] => Multiplier { value: *value as i32, shift: *shift as i32 },
            _ => Multiplier { value: 0, shift: 0 },
        }
    }
}
