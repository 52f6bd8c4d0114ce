//! The record of a step: its kind, its geometry, and where its parameters lie. Where it lies in the arena is the plan's.

use nae_core::format::{Kind, Record, UNIFORM};
use nae_core::kernels::int8::Layout;
use nae_core::layer::{Element, Padding, ResizeMode};

use crate::GraphError;
use crate::float_weights;
use crate::int8_op::{Int8Layer, Int8Operation, sum_factors};
use crate::layers::{AveragePool2d, Conv2d, ConvTranspose2d, MaxPool2d};
use crate::op::Op;
use crate::parameters::Parameters;
use crate::shape::check_padding;
use crate::steps::Step;

/// The record of a step that reads tensors of the types `inputs`; its parameters go to the end of `parameters`.
pub(crate) fn record(
    step: &Step<'_>,
    inputs: [Element; 2],
    layout: Layout,
    parameters: &mut Parameters,
) -> Result<Record, GraphError> {
    match step.op {
        Op::Conv2d(conv) => check_padding(step.node, conv.kernel, conv.padding)?,
        Op::ConvTranspose2d(conv) => check_padding(step.node, conv.kernel, conv.padding)?,
        _ => {}
    }
    let new = |kind| Record {
        activation: step.activation,
        other: step.other.unwrap_or(0),
        ..Record::new(kind, step.input, step.output, step.element)
    };
    Ok(match step.op {
        Op::Conv2d(conv) => convolution(new(Kind::Conv2d), conv, parameters),
        // With stride 1 it is a convolution, which is quicker.
        Op::ConvTranspose2d(conv) => match float_weights::as_conv(conv) {
            Some(conv) => convolution(new(Kind::Conv2d), &conv, parameters),
            None => Record {
                weights: parameters.floats(&float_weights::conv_transpose(conv)),
                bias: parameters.floats(&conv.bias),
                ..transposed(new(Kind::ConvTranspose2d), conv)
            },
        },
        Op::Dense(dense) => Record {
            weights: parameters.floats(&float_weights::dense(dense)),
            bias: parameters.floats(&dense.bias),
            ..new(Kind::Dense)
        },
        Op::MaxPool2d(pool) => max_pool(new(Kind::MaxPool2d), pool),
        Op::AveragePool2d(pool) => {
            Record { mode: u8::from(pool.count_include_padding), ..average_pool(new(Kind::AveragePool2d), pool) }
        }
        Op::Resize { mode, .. } => resize(new(Kind::ResizeNearest), *mode),
        Op::Activation(_) => new(Kind::Activation),
        Op::L2Normalize { epsilon } => Record { epsilon: *epsilon, ..new(Kind::L2Normalize) },
        Op::GroupNormalize(norm) => Record {
            mode: u8::try_from(norm.groups).map_err(|_| GraphError::Geometry { layer: step.node })?,
            epsilon: norm.epsilon,
            weights: parameters.floats(&norm.scale),
            bias: parameters.floats(&norm.shift),
            ..new(Kind::GroupNormalize)
        },
        Op::Reshape(_) => new(Kind::Reshape),
        Op::ReshapeChannelsFirst(_)
            if [step.from, step.output].iter().all(|s| s.channels == 1 || s.height * s.width == 1) =>
        {
            new(Kind::Reshape)
        }
        Op::ReshapeChannelsFirst(_) => return Err(GraphError::ChannelsFirst { layer: step.node }),
        Op::Add { .. } => new(Kind::Add),
        Op::Multiply { .. } => new(Kind::Multiply),
        Op::Quantize(_) => new(Kind::Quantize),
        Op::Dequantize => new(Kind::Dequantize),
        Op::Int8(layer) => int8(step.node, layer, inputs, layout, new, parameters)?,
    })
}

/// A layer that reads and writes 8-bit values; `node` names it in errors.
fn int8(
    node: usize,
    layer: &Int8Layer,
    inputs: [Element; 2],
    layout: Layout,
    new: impl Fn(Kind) -> Record,
    parameters: &mut Parameters,
) -> Result<Record, GraphError> {
    // `Graph::elements` has seen to it that the inputs are 8-bit.
    let [input, other] = inputs.map(|element| f64::from(element.quantization().unwrap_or(layer.output).scale()));
    let output = f64::from(layer.output.scale());
    let record = match &layer.operation {
        Int8Operation::Conv2d(conv, _) => windows(new(Kind::Conv2d), conv.kernel, conv.stride, conv.padding),
        Int8Operation::ConvTranspose2d(conv, _) => transposed(new(Kind::ConvTranspose2d), conv),
        Int8Operation::Dense(..) => new(Kind::Dense),
        Int8Operation::MaxPool2d(pool) => max_pool(new(Kind::MaxPool2d), pool),
        Int8Operation::AveragePool2d(pool) => average_pool(new(Kind::AveragePool2d), pool),
        Int8Operation::Resize { mode, .. } => resize(new(Kind::ResizeNearest), *mode),
        Int8Operation::Table(table) => Record { weights: parameters.integers(table), ..new(Kind::Activation) },
        Int8Operation::L2Normalize => new(Kind::L2Normalize),
        Int8Operation::Reshape(_) => new(Kind::Reshape),
        Int8Operation::Add { .. } => {
            let multipliers = parameters.multipliers(node, &sum_factors(input, other, output))?;
            Record { multipliers, ..new(Kind::Add) }
        }
        Int8Operation::Multiply { .. } => {
            let multipliers = parameters.multipliers(node, &[input * other / output])?;
            Record { multipliers, ..new(Kind::Multiply) }
        }
        Int8Operation::Requantize => {
            Record { multipliers: parameters.multipliers(node, &[input / output])?, ..new(Kind::Requantize) }
        }
    };
    let record = with_weights(node, record, &layer.operation, layout, parameters)?;
    Ok(Record { clamp: if record.clamps() { layer.clamp } else { [0; 2] }, ..record })
}

/// With the weights and channels of an 8-bit operation that has some.
fn with_weights(
    node: usize,
    record: Record,
    operation: &Int8Operation,
    layout: Layout,
    parameters: &mut Parameters,
) -> Result<Record, GraphError> {
    let Some(packed) = operation.pack(node, layout)? else { return Ok(record) };
    let words = packed.words.iter().flat_map(|word| word.to_le_bytes());
    let weights = parameters.append(4 * packed.words.len(), words);
    let record = Record { layout: packed.layout, weights, ..record };
    let (outputs, channels) = (packed.channels.len(), packed.channels.iter());
    Ok(match operation {
        // One multiplier for all outputs saves two words an output.
        Int8Operation::Dense(_, factors) if factors.len() == 1 => Record {
            mode: UNIFORM,
            multipliers: parameters.multipliers(node, factors)?,
            bias: parameters.append(outputs, channels.flat_map(|[bias, ..]| bias.to_le_bytes())),
            ..record
        },
        _ => Record {
            bias: parameters.append(outputs, channels.flatten().flat_map(|word| word.to_le_bytes())),
            ..record
        },
    })
}

fn convolution(record: Record, conv: &Conv2d, parameters: &mut Parameters) -> Record {
    Record {
        weights: parameters.floats(&float_weights::conv(conv)),
        bias: parameters.floats(&conv.bias),
        ..windows(record, conv.kernel, conv.stride, conv.padding)
    }
}

fn transposed<W, B>(record: Record, conv: &ConvTranspose2d<W, B>) -> Record {
    let output_padding = conv.output_padding;
    Record { output_padding, ..windows(record, conv.kernel, conv.stride, conv.padding) }
}

fn max_pool(record: Record, pool: &MaxPool2d) -> Record {
    windows(record, pool.kernel, pool.stride, pool.padding)
}

fn average_pool(record: Record, pool: &AveragePool2d) -> Record {
    windows(record, pool.kernel, pool.stride, pool.padding)
}

fn windows(record: Record, kernel: [usize; 2], stride: [usize; 2], padding: Padding) -> Record {
    Record { kernel, stride, padding, ..record }
}

fn resize(record: Record, mode: ResizeMode) -> Record {
    let (kind, mode) = match mode {
        ResizeMode::Nearest => (Kind::ResizeNearest, 0),
        ResizeMode::BilinearHalfPixel => (Kind::ResizeBilinear, 1),
        _ => (Kind::ResizeBilinear, 0),
    };
    Record { kind, mode, ..record }
}
