//! Converts a [`Graph`] to ONNX: each of its nodes to an ONNX operator, channels first. The inverse of
//! [`lower`](crate::lower).

use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::{Graph, Op, TensorId};

use crate::builder::{BuildError, Conv2d, ConvTranspose2d, Dim, Gemm, GraphBuilder, GroupNorm, Pool2d, Value};

/// The properties of a graph's node in ONNX.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Its name, with which the names of its weights begin.
    pub name: String,
    /// Whether it has biases. A node without biases has zeros in a graph, which are omitted in ONNX.
    pub has_bias: bool,
}

/// Appends the nodes of `graph` to `builder`; the first node reads `input`. Returns the values of all tensors, `input`
/// first. `labels` contains one label for each node.
///
/// In ONNX, vectors are `[N, D]` if a dense layer reads or writes them, so that a chain of dense layers is a chain of
/// `Gemm`; a layer of maps gets `[N, D, 1, 1]`.
///
/// # Errors
/// [`BuildError`], with the node, if a weight is not finite, a name is taken, a layer has 8 bits, the shapes of the
/// graph do not fit, or the number of labels is not that of the nodes.
pub fn append(
    builder: &mut GraphBuilder,
    input: Value,
    graph: &Graph,
    labels: &[Label],
) -> Result<Vec<Value>, BuildError> {
    let shapes = graph.shapes().map_err(|error| refused("graph", "the graph", error.to_string()))?;
    if labels.len() != graph.nodes.len() {
        let reason = format!("expected a label for each of {} nodes, found {}", graph.nodes.len(), labels.len());
        return Err(refused("graph", "the graph", reason));
    }
    let mut raising = Raising { builder, values: vec![input] };
    for ((node, label), from) in graph.nodes.iter().zip(labels).zip(graph.nodes.iter().map(|node| shapes[node.input])) {
        let to = shapes[raising.values.len()];
        let value = raising.node(&node.op, label, node.input, [from, to])?;
        raising.values.push(value);
    }
    Ok(raising.values)
}

/// Reshapes `[N, D]` to `[N, D, 1, 1]`; `[N, C, H, W]` is returned unchanged. The node is called `name`.
///
/// # Errors
/// Those of [`GraphBuilder::reshape`].
pub fn as_maps(builder: &mut GraphBuilder, name: &str, x: Value) -> Result<Value, BuildError> {
    match builder.shape(x) {
        Some(&[_, Dim::Fixed(features)]) => builder.reshape(name, x, &[features, 1, 1]),
        _ => Ok(x),
    }
}

/// Whether a value is `[N, D]`.
pub fn is_vector(builder: &GraphBuilder, x: Value) -> bool {
    builder.shape(x).is_some_and(|shape| shape.len() == 2)
}

fn refused(node: &str, operator: &'static str, reason: String) -> BuildError {
    BuildError::Geometry { node: node.into(), operator, reason }
}

/// The state of a conversion.
struct Raising<'b> {
    builder: &'b mut GraphBuilder,
    /// The value of each tensor.
    values: Vec<Value>,
}

impl Raising<'_> {
    fn node(&mut self, op: &Op, label: &Label, input: TensorId, [from, to]: [Shape; 2]) -> Result<Value, BuildError> {
        let (x, name) = (self.values[input], label.name.as_str());
        let bias = |bias: &[f32]| label.has_bias.then(|| bias.to_vec());
        // Pointwise operations keep the rank.
        match op {
            Op::Activation(activation) => return self.builder.activation(name, x, *activation),
            Op::Clamp { min, max } => return self.builder.clip(name, x, [*min, *max]),
            Op::L2Normalize { epsilon } => return self.builder.l2_normalize_from(name, x, *epsilon),
            Op::Reshape(shape) if same_order(from) && same_order(*shape) => return self.reshape(name, x, *shape),
            Op::Reshape(_) => return Err(refused(name, "Reshape", "it moves values of channels-last maps".into())),
            Op::ReshapeChannelsFirst(shape) => return self.reshape(name, x, *shape),
            Op::Dense(dense) => {
                let x =
                    if is_vector(self.builder, x) { x } else { self.builder.flatten(&format!("{name}.flat"), x)? };
                let weight = transposed(&channels_first(&dense.weights, dense.output, from), dense.output.len());
                let bias = bias(&pixels_last(&dense.bias, dense.output));
                let gemm =
                    Gemm { features: dense.output.len(), weight: &weight, bias: bias.as_deref(), transposed: false };
                let y = self.builder.gemm(name, x, &gemm)?;
                let y = self.fused(name, y, dense.activation)?;
                if dense.output == Shape::vector(dense.output.len()) {
                    return Ok(y);
                }
                return self.reshape(&format!("{name}.maps"), y, dense.output);
            }
            Op::Add { other } => {
                let [a, b] = self.of_one_rank(name, ["body", "skip"], x, *other)?;
                return self.builder.add(name, a, b);
            }
            Op::Multiply { other } => {
                let [a, b] = self.of_one_rank(name, ["body", "gate"], x, *other)?;
                return self.builder.mul(name, a, b);
            }
            Op::Concatenate { other } => {
                let parts = self.of_one_rank(name, ["first", "second"], x, *other)?;
                return self.builder.concat(name, &parts);
            }
            _ => {}
        }
        let x = as_maps(self.builder, &format!("{name}.maps"), x)?;
        match op {
            Op::Conv2d(layer) => {
                let Shape { channels, .. } = from;
                let weight = first_of_last(&layer.weights, [layer.out_channels, channels], layer.kernel);
                let bias = bias(&layer.bias);
                let conv = Conv2d {
                    stride: layer.stride,
                    padding: pads(layer.padding),
                    ..Conv2d::new(layer.out_channels, layer.kernel, &weight, bias.as_deref())
                };
                let y = self.builder.conv2d(name, x, &conv)?;
                self.fused(name, y, layer.activation)
            }
            Op::DepthwiseConv2d(layer) => {
                let bias = bias(&layer.bias);
                let conv = Conv2d {
                    stride: layer.stride,
                    padding: pads(layer.padding),
                    groups: layer.channels,
                    ..Conv2d::new(layer.channels, layer.kernel, &layer.weights, bias.as_deref())
                };
                self.builder.conv2d(name, x, &conv)
            }
            Op::ConvTranspose2d(layer) => {
                let weight = first_of_last(&layer.weights, [layer.out_channels, from.channels], layer.kernel);
                let weight = inputs_first(&weight, [layer.out_channels, from.channels]);
                let bias = bias(&layer.bias);
                let conv = ConvTranspose2d {
                    stride: layer.stride,
                    padding: pads(layer.padding),
                    output_padding: layer.output_padding,
                    ..ConvTranspose2d::new(layer.out_channels, layer.kernel, &weight, bias.as_deref())
                };
                let y = self.builder.conv_transpose2d(name, x, &conv)?;
                self.fused(name, y, layer.activation)
            }
            Op::MaxPool2d(pool) => {
                let pool = Pool2d { kernel: pool.kernel, stride: pool.stride, padding: pads(pool.padding) };
                self.builder.max_pool2d(name, x, &pool)
            }
            Op::AveragePool2d(pool) if !pool.count_include_padding || pool.padding == Padding::NONE => {
                let pool = Pool2d { kernel: pool.kernel, stride: pool.stride, padding: pads(pool.padding) };
                self.builder.average_pool2d(name, x, &pool)
            }
            Op::AveragePool2d(_) => Err(refused(name, "AveragePool", "its padding counts in the mean".into())),
            Op::Resize { mode, .. } => {
                let size = [to.height, to.width];
                match mode {
                    ResizeMode::Nearest => self.builder.resize_nearest(name, x, size),
                    ResizeMode::BilinearHalfPixel => self.builder.resize_bilinear_half_pixel(name, x, size),
                    _ => self.builder.resize_bilinear_align_corners(name, x, size),
                }
            }
            Op::L2NormalizePlaces { epsilon } => self.builder.l2_normalize_places_from(name, x, *epsilon),
            Op::Softmax => self.builder.softmax(name, x),
            Op::GroupNormalize(norm) => {
                let norm =
                    GroupNorm { groups: norm.groups, scale: &norm.scale, shift: &norm.shift, epsilon: norm.epsilon };
                self.builder.group_norm(name, x, &norm)
            }
            _ => Err(refused(name, "QuantizeLinear", "layers of 8 bits are written as .nae files".into())),
        }
    }

    /// Adds the activation of a layer as a separate node; adds nothing for the identity.
    fn fused(&mut self, name: &str, x: Value, activation: Activation) -> Result<Value, BuildError> {
        self.builder.activation(&format!("{name}.activation"), x, activation)
    }

    fn reshape(&mut self, name: &str, x: Value, shape: Shape) -> Result<Value, BuildError> {
        self.builder.reshape(name, x, &[shape.channels, shape.height, shape.width])
    }

    /// Makes two operands both vectors, or both maps.
    fn of_one_rank(
        &mut self,
        name: &str,
        paths: [&str; 2],
        first: Value,
        other: TensorId,
    ) -> Result<[Value; 2], BuildError> {
        let both = [first, self.values[other]];
        if is_vector(self.builder, both[0]) == is_vector(self.builder, both[1]) {
            return Ok(both);
        }
        let mut maps = |index: usize| as_maps(self.builder, &format!("{name}.{}.maps", paths[index]), both[index]);
        Ok([maps(0)?, maps(1)?])
    }
}

/// Whether the values of a shape have the same order channels first and channels last.
fn same_order(shape: Shape) -> bool {
    shape.channels == 1 || shape.height * shape.width == 1
}

fn pads(padding: Padding) -> [usize; 4] {
    [padding.top, padding.left, padding.bottom, padding.right]
}

/// Transposes `[output, row, column, input]` to `[output, input, row, column]`.
fn first_of_last(weights: &[f32], [outputs, inputs]: [usize; 2], [rows, columns]: [usize; 2]) -> Vec<f32> {
    let taps = rows * columns;
    let mut moved = Vec::with_capacity(weights.len());
    for output in 0..outputs {
        for input in 0..inputs {
            moved.extend((0..taps).map(|tap| weights[(output * taps + tap) * inputs + input]));
        }
    }
    moved
}

/// Transposes `[output, input, …]` to `[input, output, …]`.
fn inputs_first(weights: &[f32], [outputs, inputs]: [usize; 2]) -> Vec<f32> {
    let taps = weights.len() / (outputs * inputs);
    let mut moved = Vec::with_capacity(weights.len());
    for input in 0..inputs {
        for output in 0..outputs {
            moved.extend_from_slice(&weights[(output * inputs + input) * taps..][..taps]);
        }
    }
    moved
}

/// Reorders the values of a shape from channels last to channels first.
fn pixels_last(values: &[f32], shape: Shape) -> Vec<f32> {
    (0..values.len()).map(|place| values[last_of_first(place, shape)]).collect()
}

/// The index, channels last, of the value at an index channels first.
const fn last_of_first(place: usize, shape: Shape) -> usize {
    let pixels = shape.height * shape.width;
    (place % pixels) * shape.channels + place / pixels
}

/// Reorders both sides of a dense layer's `[output, input]` from channels last to channels first.
fn channels_first(weights: &[f32], output: Shape, input: Shape) -> Vec<f32> {
    let row = |place: usize| &weights[last_of_first(place, output) * input.len()..][..input.len()];
    (0..output.len()).flat_map(|place| pixels_last(row(place), input)).collect()
}

/// Transposes `[rows, columns]` to `[columns, rows]`.
fn transposed(values: &[f32], rows: usize) -> Vec<f32> {
    let columns = values.len() / rows;
    (0..values.len()).map(|i| values[(i % rows) * columns + i / rows]).collect()
}
