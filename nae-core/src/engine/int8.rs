//! Runs one layer whose output is `i8`.

use super::Engine;
use super::tensor::{Image, Operands, Tensor, apart, in_place, operands, with_scratch};
use crate::format::UNIFORM;
use crate::kernels;
use crate::kernels::int8::{self, Add, L2Normalize, Layout, Multiplier, Multiply, Range, Requantize, Weights};
use crate::model::{Kind, Operators, Record};

/// 128, the reciprocal of the scale that normalisation gives.
const UNIT: Multiplier = Multiplier { value: 1 << 30, shift: 8 };

/// Outputs whose channels are put together at a time.
const OUTPUTS: usize = 32;

/// A dense layer's parts.
struct Dense<'a, 'm> {
    layer: &'a Record,
    weights: Weights<'m>,
    zero_point: i8,
    range: Range,
}

impl<'m, const OPERATORS: u64> Engine<'m, OPERATORS> {
    /// Runs one layer. The arms whose kind is not among `OPERATORS` are constants and vanish.
    pub(super) fn step_i8(&self, layer: &Record, source: Tensor, image: Image<'_>, arena: &mut [f32]) {
        let target = Tensor::of(layer);
        let windows = layer.windows(source.shape);
        let zero_point = source.zero_point();
        let [min, max] = layer.clamp;
        let range = Range { zero_point: target.zero_point(), min, max };
        let scratch = (layer.scratch, layer.scratch_len(source.shape));
        match layer.kind {
            Kind::Conv2d if Self::has(Operators::kind_i8(Kind::Conv2d)) => {
                let (input, output, scratch) = with_scratch(source, target, scratch, image, arena);
                int8::conv2d(&windows, zero_point, self.weights(layer), range, scratch, input, output);
            }
            Kind::ConvTranspose2d if Self::has(Operators::kind_i8(Kind::ConvTranspose2d)) => {
                let (input, output, scratch) = with_scratch(source, target, scratch, image, arena);
                int8::conv_transpose2d(&windows, zero_point, self.weights(layer), range, scratch, input, output);
            }
            Kind::Dense if Self::has(Operators::kind_i8(Kind::Dense)) => {
                let (input, output, scratch) = with_scratch(source, target, scratch, image, arena);
                let layer = Dense { layer, weights: self.weights(layer), zero_point, range };
                self.dense(&layer, scratch, input, output);
            }
            Kind::MaxPool2d if Self::has(Operators::kind_i8(Kind::MaxPool2d)) => {
                let (input, output) = apart(source, target, image, arena);
                int8::max_pool2d(&windows, input, output);
            }
            Kind::AveragePool2d if Self::has(Operators::kind_i8(Kind::AveragePool2d)) => {
                let (input, output) = apart(source, target, image, arena);
                int8::average_pool2d(&windows, (layer.mode == 1).then_some(zero_point), input, output);
            }
            Kind::ResizeNearest if Self::has(Operators::kind_i8(Kind::ResizeNearest)) => {
                let (input, output) = apart(source, target, image, arena);
                int8::nearest(source.shape, target.shape, input, output);
            }
            Kind::ResizeBilinear if Self::has(Operators::kind_i8(Kind::ResizeBilinear)) => {
                let (input, output) = apart(source, target, image, arena);
                int8::bilinear(layer.mode == 1, source.shape, target.shape, input, output);
            }
            Kind::Activation if Self::has(Operators::kind_i8(Kind::Activation)) => {
                let values = in_place(source, target, image, arena);
                if let Some(table) = self.table(layer) {
                    int8::look_up(table, values);
                }
            }
            Kind::L2Normalize if Self::has(Operators::kind_i8(Kind::L2Normalize)) => {
                let range = Range::full(range.zero_point);
                let layer = L2Normalize { input_zero_point: zero_point, least: 0, gain: UNIT, range };
                int8::l2_normalize(&layer, in_place(source, target, image, arena));
            }
            Kind::Reshape if Self::has(Operators::kind_i8(Kind::Reshape)) => {
                in_place::<i8>(source, target, image, arena);
            }
            Kind::Add if Self::has(Operators::kind_i8(Kind::Add)) => {
                let other = Tensor::new(self.model, layer.other);
                let layer = Add {
                    input_zero_points: [zero_point, other.zero_point()],
                    inputs: [self.multiplier(layer, 0), self.multiplier(layer, 1)],
                    sum: self.multiplier(layer, 2),
                    range,
                };
                match operands(source, other, target, image, arena) {
                    Operands::InPlace(output, other) => int8::add_in_place(&layer, output, other),
                    Operands::Apart(input, other, output) => int8::add(&layer, input, other, output),
                }
            }
            Kind::Multiply if Self::has(Operators::kind_i8(Kind::Multiply)) => {
                let other = Tensor::new(self.model, layer.other);
                let input_zero_points = [zero_point, other.zero_point()];
                let layer = Multiply { input_zero_points, multiplier: self.multiplier(layer, 0), range };
                match operands(source, other, target, image, arena) {
                    Operands::InPlace(output, other) => int8::multiply_in_place(&layer, output, other),
                    Operands::Apart(input, other, output) => int8::multiply(&layer, input, other, output),
                }
            }
            Kind::Quantize if Self::has(Operators::kind_i8(Kind::Quantize)) => {
                if let Some(quantization) = target.element.quantization() {
                    let (input, output) = apart(source, target, image, arena);
                    kernels::quantize(quantization, input, output);
                }
            }
            Kind::Requantize if Self::has(Operators::kind_i8(Kind::Requantize)) => {
                let range = Range::full(range.zero_point);
                let layer = Requantize { input_zero_point: zero_point, multiplier: self.multiplier(layer, 0), range };
                int8::requantize(&layer, in_place(source, target, image, arena));
            }
            // Not among the model's operators, so not in it.
            _ => {}
        }
    }

    /// A dense layer; where one multiplier is for all outputs, some outputs at a time, whose channels are
    /// put together here: that saves two words an output in the file.
    fn dense(&self, dense: &Dense<'_, 'm>, scratch: &mut [u32], input: &[i8], output: &mut [i8]) {
        let Dense { layer, weights, zero_point, range } = *dense;
        let (each, one) = (Self::has(Operators::dense_i8(false)), Self::has(Operators::dense_i8(true)));
        if each && (layer.mode != UNIFORM || !one) {
            int8::dense(zero_point, weights, range, scratch, input, output);
        } else if one {
            let Multiplier { value, shift } = self.multiplier(layer, 0);
            let biases = self.words(layer.bias.start, layer.bias.len);
            // Words of a whole number of outputs, in every layout.
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
    }

    fn weights(&self, layer: &Record) -> Weights<'m> {
        let words = |start, len| self.words(start, len);
        let plain = Self::has(Operators::layout(Layout::Plain));
        let paired = Self::has(Operators::layout(Layout::Paired));
        Weights {
            // A constant where there is one layout only, so that the kernels for others vanish.
            layout: match (plain, paired) {
                (true, false) => Layout::Plain,
                (false, true) => Layout::Paired,
                _ => layer.layout,
            },
            words: words(layer.weights.start, layer.weights.len / 4),
            channels: bytemuck::try_cast_slice(words(layer.bias.start, 3 * layer.bias.len)).unwrap_or_default(),
        }
    }

    /// The table of an activation.
    fn table(&self, layer: &Record) -> Option<&'m [i8; 256]> {
        let bytes: &[i8] = bytemuck::try_cast_slice(self.words(layer.weights.start, 64)).unwrap_or_default();
        bytes.first_chunk()
    }

    fn multiplier(&self, layer: &Record, index: usize) -> Multiplier {
        match self.words(layer.multipliers + 2 * index, 2) {
            [value, shift] => Multiplier { value: *value as i32, shift: *shift as i32 },
            _ => Multiplier { value: 0, shift: 0 },
        }
    }
}
