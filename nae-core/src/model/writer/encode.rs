//! Bytes of the file from steps. The format is described in [`crate::model`].

use super::fuse::Step;
use super::int8::{Int8Operation, fixed, sum_factors};
use super::layers::Layer;
use super::plan::{self, Plan};
use super::{Network, WriteError, pack};
use crate::kernels::int8::{Layout, Multiplier};
use crate::model::layer::{Activation, Element, Padding, ResizeMode};
use crate::model::record::{Kind, NO_SPAN, Record, Span, UNIFORM};
use crate::model::{CHECKED_FROM, HEADER_LEN, MAGIC, RECORD_LEN, VERSION, crc::crc32};
use crate::quantization::Quantization;
use std::vec::Vec;

pub(super) fn encode(network: &Network, steps: &[Step<'_>]) -> Result<Vec<u8>, WriteError> {
    let mut parameters = Parameters::default();
    let tensor = |tensor: usize| match tensor.checked_sub(1).and_then(|i| steps.get(i)) {
        Some(step) => (step.output, step.element),
        None => (network.input, network.element),
    };
    let mut records = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let inputs = [step.input, step.other.unwrap_or(step.input)].map(|id| tensor(id).1);
        records.push(record(index, step, inputs, network.layout, &mut parameters)?);
    }
    let scratch: Vec<usize> = records.iter().map(|r| r.scratch_len(tensor(r.input).0)).collect();
    let plan = plan::plan(steps, &scratch);
    let mut layers = Vec::new();
    for ((record, offset), scratch) in records.iter_mut().zip(&plan.offsets).zip(&plan.scratch) {
        (record.offset, record.scratch) = (*offset, *scratch);
        encode_record(record, &mut layers)?;
    }
    let table = network.calibration.as_ref().map_or(&[][..], |c| c.table());
    let mut bytes = header(network, steps, &plan, parameters.bytes.len() / 4)?;
    bytes.extend_from_slice(&layers);
    for value in table {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.extend_from_slice(&parameters.bytes);
    let len = word(bytes.len())?;
    bytes[12..16].copy_from_slice(&len);
    let crc = crc32(&bytes[CHECKED_FROM..]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// The last part of the file: whole words.
#[derive(Default)]
struct Parameters {
    bytes: Vec<u8>,
}

impl Parameters {
    /// Appends `len` values that are `bytes` together.
    fn append(&mut self, len: usize, bytes: impl IntoIterator<Item = u8>) -> Span {
        let start = self.bytes.len() / 4;
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        Span { start, len }
    }

    fn floats(&mut self, values: &[f32]) -> Span {
        self.append(values.len(), values.iter().flat_map(|v| v.to_le_bytes()))
    }

    fn bytes(&mut self, values: &[i8]) -> Span {
        self.append(values.len(), values.iter().map(|v| *v as u8))
    }

    /// Returns the word where the multipliers start.
    fn multipliers(&mut self, layer: usize, factors: &[f64]) -> Result<usize, WriteError> {
        let mut words = Vec::with_capacity(2 * factors.len());
        for factor in factors {
            let Multiplier { value, shift } = fixed(layer, *factor)?;
            words.extend([value, shift].map(i32::to_le_bytes));
        }
        Ok(self.append(factors.len(), words.into_flattened()).start)
    }
}

fn header(network: &Network, steps: &[Step<'_>], plan: &Plan, parameters: usize) -> Result<Vec<u8>, WriteError> {
    let (count, table) = match &network.calibration {
        None => (0, 0),
        Some(calibration) => (calibration.count(), calibration.table().len()),
    };
    let threshold = match (network.target_false_positive_rate, &network.calibration) {
        (None, _) => None,
        (Some(_), None) => return Err(WriteError::NoCalibration),
        (Some(rate), Some(calibration)) => {
            let threshold = calibration.threshold(rate).map_err(WriteError::Threshold)?;
            Some((rate, threshold))
        }
    };
    if network.log_normalizer.is_some_and(|v| !v.is_finite()) {
        return Err(WriteError::LogNormalizer);
    }
    let latent = steps.iter().position(|step| step.is_latent);
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&half(HEADER_LEN)?);
    // The file's length and checksum come at the end.
    bytes.extend_from_slice(&[0; 8]);
    for value in [
        steps.len(),
        count,
        table,
        parameters,
        plan.len,
        network.input.channels,
        network.input.height,
        network.input.width,
        latent.map_or(0, |index| index + 1),
    ] {
        bytes.extend_from_slice(&word(value)?);
    }
    bytes.push(network.energy.id());
    bytes.push(network.preprocessing.filter().id());
    bytes.push(u8::from(network.log_normalizer.is_some()) + 2 * u8::from(threshold.is_some()));
    bytes.push(u8::from(network.element != Element::F32));
    let (rate, threshold) = threshold.unwrap_or((0.0, 0.0));
    for value in [
        network.preprocessing.low(),
        network.preprocessing.high(),
        network.temperature.get(),
        network.log_normalizer.unwrap_or(0.0),
        rate,
        threshold,
    ] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    if let Element::I8(quantization) = network.element {
        bytes.extend_from_slice(&quantization.scale().to_le_bytes());
        bytes.push(quantization.zero_point() as u8);
    }
    bytes.resize(HEADER_LEN, 0);
    Ok(bytes)
}

/// The record of a step; its parameters go to the end of `parameters`.
fn record(
    index: usize,
    step: &Step<'_>,
    inputs: [Element; 2],
    layout: Layout,
    parameters: &mut Parameters,
) -> Result<Record, WriteError> {
    let mut record = Record {
        kind: Kind::Reshape,
        activation: step.activation,
        mode: 0,
        input: step.input,
        other: step.other.unwrap_or(0),
        output: step.output,
        element: step.element,
        offset: 0,
        kernel: [0; 2],
        stride: [0; 2],
        padding: Padding::NONE,
        output_padding: [0; 2],
        epsilon: 0.0,
        weights: NO_SPAN,
        layout: Layout::Plain,
        bias: NO_SPAN,
        multipliers: 0,
        scratch: 0,
        clamp: [0; 2],
    };
    match step.layer {
        Layer::Conv2d(layer) => {
            record.kind = Kind::Conv2d;
            (record.kernel, record.stride, record.padding) = (layer.kernel, layer.stride, layer.padding);
            record.weights = parameters.floats(&pack::conv(layer));
            record.bias = parameters.floats(&layer.bias);
        }
        Layer::ConvTranspose2d(layer) => match pack::as_conv(layer) {
            Some(conv) => {
                record.kind = Kind::Conv2d;
                (record.kernel, record.stride, record.padding) = (conv.kernel, conv.stride, conv.padding);
                record.weights = parameters.floats(&pack::conv(&conv));
                record.bias = parameters.floats(&conv.bias);
            }
            None => {
                record.kind = Kind::ConvTranspose2d;
                (record.kernel, record.stride, record.padding) = (layer.kernel, layer.stride, layer.padding);
                record.output_padding = layer.output_padding;
                record.weights = parameters.floats(&pack::conv_transpose(layer));
                record.bias = parameters.floats(&layer.bias);
            }
        },
        Layer::Dense(layer) => {
            record.kind = Kind::Dense;
            record.weights = parameters.floats(&pack::dense(layer));
            record.bias = parameters.floats(&layer.bias);
        }
        Layer::MaxPool2d(layer) => {
            record.kind = Kind::MaxPool2d;
            (record.kernel, record.stride, record.padding) = (layer.kernel, layer.stride, layer.padding);
        }
        Layer::AveragePool2d(layer) => {
            record.kind = Kind::AveragePool2d;
            record.mode = u8::from(layer.count_include_padding);
            (record.kernel, record.stride, record.padding) = (layer.kernel, layer.stride, layer.padding);
        }
        Layer::Resize { mode, .. } => (record.kind, record.mode) = resize(*mode),
        Layer::Activation(_) => record.kind = Kind::Activation,
        Layer::L2Normalize { epsilon } => {
            record.kind = Kind::L2Normalize;
            record.epsilon = *epsilon;
        }
        Layer::GroupNormalize(norm) => {
            record.kind = Kind::GroupNormalize;
            record.mode = u8::try_from(norm.groups).map_err(|_| WriteError::Geometry { layer: index })?;
            record.epsilon = norm.epsilon;
            record.weights = parameters.floats(&norm.scale);
            record.bias = parameters.floats(&norm.shift);
        }
        Layer::Reshape(_) => record.kind = Kind::Reshape,
        Layer::Add { .. } => record.kind = Kind::Add,
        Layer::Multiply { .. } => record.kind = Kind::Multiply,
        Layer::Quantize(_) => record.kind = Kind::Quantize,
        Layer::Dequantize => record.kind = Kind::Dequantize,
        Layer::Int8(layer) => {
            // `Network::elements` has seen to it that the inputs are 8-bit.
            let scales = inputs.map(|element| element.quantization().unwrap_or(layer.output));
            record.int8(index, &layer.operation, scales, layer.output, parameters)?;
            if let Some(packed) = layer.operation.pack(index, layout)? {
                record.layout = packed.layout;
                let words = packed.words.iter().flat_map(|word| word.to_le_bytes());
                record.weights = parameters.append(4 * packed.words.len(), words);
                let (outputs, channels) = (packed.channels.len(), packed.channels.iter());
                record.bias = match &layer.operation {
                    Int8Operation::Dense(_, factors) if factors.len() == 1 => {
                        record.mode = UNIFORM;
                        record.multipliers = parameters.multipliers(index, factors)?;
                        parameters.append(outputs, channels.flat_map(|[bias, ..]| bias.to_le_bytes()))
                    }
                    _ => parameters.append(outputs, channels.flatten().flat_map(|word| word.to_le_bytes())),
                };
            }
            let clamps = record.kind.has_weights() || record.kind.has_other();
            record.clamp = if clamps { layer.clamp } else { [0; 2] };
        }
    }
    Ok(record)
}

const fn resize(mode: ResizeMode) -> (Kind, u8) {
    match mode {
        ResizeMode::Nearest => (Kind::ResizeNearest, 0),
        ResizeMode::BilinearAlignCorners => (Kind::ResizeBilinear, 0),
        ResizeMode::BilinearHalfPixel => (Kind::ResizeBilinear, 1),
    }
}

impl Record {
    /// Fills in what an 8-bit operation needs.
    fn int8(
        &mut self,
        index: usize,
        operation: &Int8Operation,
        [input, other]: [Quantization; 2],
        output: Quantization,
        parameters: &mut Parameters,
    ) -> Result<(), WriteError> {
        match operation {
            Int8Operation::Conv2d(layer, _) => {
                self.kind = Kind::Conv2d;
                (self.kernel, self.stride, self.padding) = (layer.kernel, layer.stride, layer.padding);
            }
            Int8Operation::ConvTranspose2d(layer, _) => {
                self.kind = Kind::ConvTranspose2d;
                (self.kernel, self.stride, self.padding) = (layer.kernel, layer.stride, layer.padding);
                self.output_padding = layer.output_padding;
            }
            Int8Operation::Dense(..) => self.kind = Kind::Dense,
            Int8Operation::MaxPool2d(layer) => {
                self.kind = Kind::MaxPool2d;
                (self.kernel, self.stride, self.padding) = (layer.kernel, layer.stride, layer.padding);
            }
            Int8Operation::AveragePool2d(layer) => {
                self.kind = Kind::AveragePool2d;
                (self.kernel, self.stride, self.padding) = (layer.kernel, layer.stride, layer.padding);
            }
            Int8Operation::Resize { mode, .. } => (self.kind, self.mode) = resize(*mode),
            Int8Operation::Table(table) => {
                self.kind = Kind::Activation;
                self.weights = parameters.bytes(table);
            }
            Int8Operation::L2Normalize => self.kind = Kind::L2Normalize,
            Int8Operation::Reshape(_) => self.kind = Kind::Reshape,
            Int8Operation::Add { .. } => {
                self.kind = Kind::Add;
                self.multipliers = parameters.multipliers(index, &sum_factors(input, other, output))?;
            }
            Int8Operation::Multiply { .. } => {
                self.kind = Kind::Multiply;
                let factor = f64::from(input.scale()) * f64::from(other.scale()) / f64::from(output.scale());
                self.multipliers = parameters.multipliers(index, &[factor])?;
            }
            Int8Operation::Requantize => {
                self.kind = Kind::Requantize;
                let factor = f64::from(input.scale()) / f64::from(output.scale());
                self.multipliers = parameters.multipliers(index, &[factor])?;
            }
        }
        Ok(())
    }
}

fn encode_record(record: &Record, bytes: &mut Vec<u8>) -> Result<(), WriteError> {
    let start = bytes.len();
    let (activation, slope) = match record.activation {
        Activation::Identity => (0, 0.0),
        Activation::Relu => (1, 0.0),
        Activation::LeakyRelu { slope } => (2, slope),
        Activation::Sigmoid => (3, 0.0),
        Activation::Tanh => (4, 0.0),
    };
    let parameter = match record.kind {
        kind if kind.has_epsilon() => record.epsilon,
        _ => slope,
    };
    bytes.extend_from_slice(&[record.kind as u8, activation, record.mode, u8::from(record.element != Element::F32)]);
    bytes.extend_from_slice(&half(record.input)?);
    bytes.extend_from_slice(&half(record.other)?);
    let output = record.output;
    for value in [output.channels, output.height, output.width, record.offset] {
        bytes.extend_from_slice(&word(value)?);
    }
    let padding = record.padding;
    for value in [
        record.kernel[0],
        record.kernel[1],
        record.stride[0],
        record.stride[1],
        padding.top,
        padding.left,
        padding.bottom,
        padding.right,
        record.output_padding[0],
        record.output_padding[1],
    ] {
        bytes.extend_from_slice(&half(value)?);
    }
    bytes.extend_from_slice(&parameter.to_le_bytes());
    for span in [record.weights, record.bias] {
        bytes.extend_from_slice(&word(span.start)?);
        bytes.extend_from_slice(&word(span.len)?);
    }
    let (scale, zero_point) = record.element.quantization().map_or((0.0, 0), |q| (q.scale(), q.zero_point()));
    bytes.extend_from_slice(&scale.to_le_bytes());
    bytes.extend([zero_point, record.clamp[0], record.clamp[1]].map(|v| v as u8));
    bytes.push(record.layout as u8);
    bytes.extend_from_slice(&word(record.multipliers)?);
    bytes.extend_from_slice(&word(record.scratch)?);
    debug_assert_eq!(bytes.len() - start, RECORD_LEN);
    Ok(())
}

fn half(value: usize) -> Result<[u8; 2], WriteError> {
    u16::try_from(value).map(u16::to_le_bytes).map_err(|_| WriteError::TooLarge)
}

fn word(value: usize) -> Result<[u8; 4], WriteError> {
    u32::try_from(value).map(u32::to_le_bytes).map_err(|_| WriteError::TooLarge)
}
