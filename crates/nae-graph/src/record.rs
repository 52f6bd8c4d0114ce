//! The record of a step: its kind, its geometry, and the places of its parameters. Its place in the arena is determined
//! by `plan`.

use nae_core::format::{Geometry, Int8Linear, Int8Pair, Linear, Operation, Pair, Record};
use nae_core::kernels::int8::{Layout, Multiplier};
use nae_core::layer::{Activation, Element, Padding, ResizeMode};

use crate::GraphError;
use crate::float_weights;
use crate::int8_op::{Int8Layer, Int8Operation, fixed, pack_conv_transpose2d, pack_conv2d, pack_dense, sum_factors};
use crate::int8_weights::Packed;
use crate::layers::Conv2d;
use crate::op::Op;
use crate::parameters::Parameters;
use crate::shape::check_padding;
use crate::steps::Step;

/// Returns the record of a step that reads tensors of the types `inputs`; appends its parameters to `parameters`.
pub(crate) fn record(
    step: &Step<'_>,
    inputs: [Element; 2],
    layout: Layout,
    parameters: &mut Parameters,
) -> Result<Record, GraphError> {
    let pair = Pair { other: step.other.unwrap_or(0), int8: None };
    let operation = match step.op {
        Op::Conv2d(conv) => convolution(step, conv, parameters)?,
        Op::ConvTranspose2d(conv) => {
            let geometry = geometry(step.node, conv.kernel, conv.stride, conv.padding)?;
            match float_weights::as_conv(conv) {
                // With stride 1 it is a convolution, which is faster.
                Some(conv) => convolution(step, &conv, parameters)?,
                None => Operation::ConvTranspose2d {
                    geometry,
                    output_padding: conv.output_padding,
                    linear: linear(&float_weights::conv_transpose(conv), &conv.bias, step.activation, parameters),
                },
            }
        }
        Op::Dense(dense) => {
            Operation::Dense(linear(&float_weights::dense(dense), &dense.bias, step.activation, parameters))
        }
        Op::MaxPool2d(pool) => Operation::MaxPool2d(geometry(step.node, pool.kernel, pool.stride, pool.padding)?),
        Op::AveragePool2d(pool) => Operation::AveragePool2d {
            geometry: geometry(step.node, pool.kernel, pool.stride, pool.padding)?,
            count_include_padding: pool.count_include_padding,
        },
        Op::Resize { mode, .. } => resize(*mode),
        Op::Activation(_) => Operation::Activation(step.activation),
        Op::L2Normalize { epsilon } => Operation::L2Normalize { epsilon: *epsilon },
        Op::GroupNormalize(norm) => Operation::GroupNormalize {
            groups: u8::try_from(norm.groups).map_err(|_| GraphError::Geometry { layer: step.node })?,
            epsilon: norm.epsilon,
            scale: parameters.floats(&norm.scale),
            shift: parameters.floats(&norm.shift),
        },
        Op::Reshape(_) => Operation::Reshape,
        Op::ReshapeChannelsFirst(_)
            if [step.from, step.output].iter().all(|s| s.channels == 1 || s.height * s.width == 1) =>
        {
            Operation::Reshape
        }
        Op::ReshapeChannelsFirst(_) => return Err(GraphError::ChannelsFirst { layer: step.node }),
        Op::Add { .. } => Operation::Add(pair),
        Op::Multiply { .. } => Operation::Multiply(pair),
        Op::Quantize(_) => Operation::Quantize,
        Op::Dequantize => Operation::Dequantize,
        Op::DepthwiseConv2d(_) => {
            return Err(GraphError::NotInFile { layer: step.node, what: "depthwise convolution" });
        }
        Op::L2NormalizePlaces { .. } => {
            return Err(GraphError::NotInFile { layer: step.node, what: "normalization of each place" });
        }
        Op::Softmax => return Err(GraphError::NotInFile { layer: step.node, what: "softmax" }),
        Op::Concatenate { .. } => {
            return Err(GraphError::NotInFile { layer: step.node, what: "concatenation of channels" });
        }
        Op::Clamp { .. } => return Err(GraphError::NotInFile { layer: step.node, what: "clamp" }),
        Op::Int8(layer) => int8(step.node, layer, pair, inputs, layout, parameters)?,
    };
    Ok(Record { input: step.input, output: step.output, element: step.element, offset: 0, operation })
}

/// Returns the operation of a layer that reads and writes 8-bit values; errors contain its number `node`.
fn int8(
    node: usize,
    layer: &Int8Layer,
    pair: Pair,
    inputs: [Element; 2],
    layout: Layout,
    parameters: &mut Parameters,
) -> Result<Operation, GraphError> {
    // `Graph::elements` has checked that the inputs are 8-bit.
    let [input, other] = inputs.map(|element| f64::from(element.quantization().unwrap_or(layer.output).scale()));
    let output = f64::from(layer.output.scale());
    let clamp = layer.clamp;
    let combined = |multipliers| Pair { int8: Some(Int8Pair { multipliers, clamp }), ..pair };
    Ok(match &layer.operation {
        Int8Operation::Conv2d(conv, factors) => {
            let geometry = geometry(node, conv.kernel, conv.stride, conv.padding)?;
            let packed = pack_conv2d(node, layout, conv, factors)?;
            Operation::Conv2d(geometry, linear_i8(&packed, None, clamp, parameters))
        }
        Int8Operation::ConvTranspose2d(conv, factors) => Operation::ConvTranspose2d {
            geometry: geometry(node, conv.kernel, conv.stride, conv.padding)?,
            output_padding: conv.output_padding,
            linear: {
                let packed = pack_conv_transpose2d(node, layout, conv, factors)?;
                linear_i8(&packed, None, clamp, parameters)
            },
        },
        Int8Operation::Dense(dense, factors) => {
            let packed = pack_dense(node, layout, dense, factors)?;
            // One multiplier for all outputs saves two words per output.
            let shared = if factors.len() == 1 { Some(fixed(node, factors[0])?) } else { None };
            Operation::Dense(linear_i8(&packed, shared, clamp, parameters))
        }
        Int8Operation::MaxPool2d(pool) => Operation::MaxPool2d(geometry(node, pool.kernel, pool.stride, pool.padding)?),
        Int8Operation::AveragePool2d(pool) => Operation::AveragePool2d {
            geometry: geometry(node, pool.kernel, pool.stride, pool.padding)?,
            count_include_padding: pool.count_include_padding,
        },
        Int8Operation::Resize { mode, .. } => resize(*mode),
        Int8Operation::Table(table) => Operation::Table(parameters.integers(table)),
        Int8Operation::L2Normalize => Operation::L2Normalize { epsilon: 0.0 },
        Int8Operation::Reshape(_) => Operation::Reshape,
        Int8Operation::Add { .. } => {
            let [first, second, sum] = sum_factors(input, other, output);
            let factors = [fixed(node, first)?, fixed(node, second)?, fixed(node, sum)?];
            Operation::Add(combined(parameters.multipliers(&factors)))
        }
        Int8Operation::Multiply { .. } => {
            Operation::Multiply(combined(parameters.multipliers(&[fixed(node, input * other / output)?])))
        }
        Int8Operation::Requantize => {
            Operation::Requantize { multiplier: parameters.multipliers(&[fixed(node, input / output)?]) }
        }
    })
}

fn convolution(step: &Step<'_>, conv: &Conv2d, parameters: &mut Parameters) -> Result<Operation, GraphError> {
    let geometry = geometry(step.node, conv.kernel, conv.stride, conv.padding)?;
    Ok(Operation::Conv2d(geometry, linear(&float_weights::conv(conv), &conv.bias, step.activation, parameters)))
}

fn linear(weights: &[f32], bias: &[f32], activation: Activation, parameters: &mut Parameters) -> Linear {
    Linear::F32 { weights: parameters.floats(weights), bias: parameters.floats(bias), activation }
}

/// Appends the weights, then the multiplier that all outputs share, then the biases or the channels.
fn linear_i8(packed: &Packed, shared: Option<Multiplier>, clamp: [i8; 2], parameters: &mut Parameters) -> Linear {
    let weights = parameters.append(4 * packed.words.len(), packed.words.iter().flat_map(|word| word.to_le_bytes()));
    let shared_multiplier = shared.map(|multiplier| parameters.multipliers(&[multiplier]));
    let (outputs, channels) = (packed.channels.len(), packed.channels.iter());
    let bias = match shared_multiplier {
        Some(_) => parameters.append(outputs, channels.flat_map(|[bias, ..]| bias.to_le_bytes())),
        None => parameters.append(outputs, channels.flatten().flat_map(|word| word.to_le_bytes())),
    };
    Linear::I8(Int8Linear { layout: packed.layout, weights, bias, shared_multiplier, clamp, scratch: 0 })
}

fn geometry(node: usize, kernel: [usize; 2], stride: [usize; 2], padding: Padding) -> Result<Geometry, GraphError> {
    check_padding(node, kernel, padding)?;
    Ok(Geometry { kernel, stride, padding })
}

fn resize(mode: ResizeMode) -> Operation {
    match mode {
        ResizeMode::Nearest => Operation::ResizeNearest,
        mode => Operation::ResizeBilinear { half_pixel: mode == ResizeMode::BilinearHalfPixel },
    }
}
