//! Bytes of the file from steps and plan. The format is described in [`crate::model`].

use super::fuse::Step;
use super::layers::Layer;
use super::plan::Plan;
use super::{Network, WriteError, pack};
use crate::model::layer::{Activation, Padding, ResizeMode};
use crate::model::record::{Kind, Record, Span};
use crate::model::{CHECKED_FROM, HEADER_LEN, MAGIC, RECORD_LEN, VERSION, crc::crc32};
use std::vec::Vec;

pub(super) fn encode(network: &Network, steps: &[Step<'_>], plan: &Plan) -> Result<Vec<u8>, WriteError> {
    let mut weights = Vec::new();
    let mut layers = Vec::new();
    for (step, offset) in steps.iter().zip(&plan.offsets) {
        let record = record(step, *offset, &mut weights);
        encode_record(&record, &mut layers)?;
    }
    let table = network.calibration.as_ref().map_or(&[][..], |c| c.table());
    let mut bytes = header(network, steps, plan, weights.len())?;
    bytes.extend_from_slice(&layers);
    for value in table.iter().chain(&weights) {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    let len = word(bytes.len())?;
    bytes[12..16].copy_from_slice(&len);
    let crc = crc32(&bytes[CHECKED_FROM..]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

fn header(network: &Network, steps: &[Step<'_>], plan: &Plan, weights: usize) -> Result<Vec<u8>, WriteError> {
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
        weights,
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
    bytes.push(0);
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
    bytes.resize(HEADER_LEN, 0);
    Ok(bytes)
}

/// The record of a step; its weights go to the end of `weights`.
fn record(step: &Step<'_>, offset: usize, weights: &mut Vec<f32>) -> Record {
    let mut append = |values: &[f32]| {
        let start = weights.len();
        weights.extend_from_slice(values);
        Span { start, len: values.len() }
    };
    let none = Span { start: 0, len: 0 };
    let mut record = Record {
        kind: Kind::Reshape,
        activation: step.activation,
        mode: 0,
        input: step.input,
        other: step.other.unwrap_or(0),
        output: step.output,
        offset,
        kernel: [0; 2],
        stride: [0; 2],
        padding: Padding::NONE,
        output_padding: [0; 2],
        epsilon: 0.0,
        weights: none,
        bias: none,
    };
    match step.layer {
        Layer::Conv2d(layer) => {
            record.kind = Kind::Conv2d;
            (record.kernel, record.stride, record.padding) = (layer.kernel, layer.stride, layer.padding);
            record.weights = append(&pack::conv(layer));
            record.bias = append(&layer.bias);
        }
        Layer::ConvTranspose2d(layer) => match pack::as_conv(layer) {
            Some(conv) => {
                record.kind = Kind::Conv2d;
                (record.kernel, record.stride, record.padding) = (conv.kernel, conv.stride, conv.padding);
                record.weights = append(&pack::conv(&conv));
                record.bias = append(&conv.bias);
            }
            None => {
                record.kind = Kind::ConvTranspose2d;
                (record.kernel, record.stride, record.padding) = (layer.kernel, layer.stride, layer.padding);
                record.output_padding = layer.output_padding;
                record.weights = append(&pack::conv_transpose(layer));
                record.bias = append(&layer.bias);
            }
        },
        Layer::Dense(layer) => {
            record.kind = Kind::Dense;
            record.weights = append(&pack::dense(layer));
            record.bias = append(&layer.bias);
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
        Layer::Resize { mode, .. } => {
            record.kind = match mode {
                ResizeMode::Nearest => Kind::ResizeNearest,
                _ => Kind::ResizeBilinear,
            };
            record.mode = u8::from(*mode == ResizeMode::BilinearHalfPixel);
        }
        Layer::Activation(_) => record.kind = Kind::Activation,
        Layer::L2Normalize { epsilon } => {
            record.kind = Kind::L2Normalize;
            record.epsilon = *epsilon;
        }
        Layer::Reshape(_) => record.kind = Kind::Reshape,
        Layer::Add { .. } => record.kind = Kind::Add,
    }
    record
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
        Kind::L2Normalize => record.epsilon,
        _ => slope,
    };
    bytes.extend_from_slice(&[record.kind as u8, activation, record.mode, 0]);
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
    debug_assert_eq!(bytes.len() - start, RECORD_LEN);
    Ok(())
}

fn half(value: usize) -> Result<[u8; 2], WriteError> {
    u16::try_from(value).map(u16::to_le_bytes).map_err(|_| WriteError::TooLarge)
}

fn word(value: usize) -> Result<[u8; 4], WriteError> {
    u32::try_from(value).map(u32::to_le_bytes).map_err(|_| WriteError::TooLarge)
}
