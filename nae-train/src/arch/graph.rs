//! Converts burn's layers to a graph, channels last, and records which of burn's parameters the weights of its nodes
//! are. [`engine`](crate::engine) runs the graph.

use burn::module::{Param, ParamId};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d as BurnConv2d;
use burn::tensor::Tensor;
use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, GroupNormalize, MaxPool2d, Op, TensorId};
use nae_onnx::raise::Label;
use nae_simd::{Learned, WeightOrder};

use super::layer::{Gated, Layer, Residual, Sequential};
use super::spectral::SpectralConv;

/// Layers with their weights as a graph, with a list of its learned parts.
#[derive(Clone, Debug)]
pub(crate) struct LearnedGraph {
    /// The graph. Its output may have another shape than its input.
    pub graph: Graph,
    /// The learned nodes, in order.
    pub learned: Vec<Learned>,
    /// The corresponding parameters of burn, in order: the weights of each node, then its biases.
    pub parameters: Vec<Parameter>,
    /// The name of each node in ONNX, from its place among the layers.
    pub labels: Vec<Label>,
}

/// A parameter of burn.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// The identifier of the parameter.
    pub id: ParamId,
    /// The shape of the parameter.
    pub shape: Vec<usize>,
    /// The spectral normalization of weights that are divided by their largest singular value.
    pub spectral: Option<Spectral>,
}

/// Weights W with the values of their normalization: σ, the largest singular value, and its left singular vector u.
#[derive(Clone, Debug)]
pub(crate) struct Spectral {
    weight: Vec<f32>,
    left: Vec<f32>,
    sigma: f64,
}

impl LearnedGraph {
    /// Converts the layers called `name` for an input of this shape; if `on_sphere`, a normalization to unit length is
    /// added.
    pub(crate) fn new(name: &str, layers: &Sequential, input: Shape, on_sphere: bool) -> Self {
        let graph = Graph::new(input);
        let mut described = Self { graph, learned: Vec::new(), parameters: Vec::new(), labels: Vec::new() };
        let (last, _) = described.path(name, layers, 0, input);
        if on_sphere {
            // The least divisor, which only affects a vector of zeros.
            described.push(&format!("{name}.sphere"), last, Op::L2Normalize { epsilon: f32::MIN_POSITIVE });
        }
        described
    }

    /// Appends a node without weights.
    fn push(&mut self, name: &str, tensor: TensorId, op: impl Into<Op>) -> TensorId {
        self.labels.push(Label { name: name.to_owned(), has_bias: false });
        self.graph.push_from(tensor, op)
    }

    /// Appends layers with the input `tensor`, of shape `from`; returns their output.
    fn path(&mut self, name: &str, layers: &Sequential, mut tensor: TensorId, mut from: Shape) -> (TensorId, Shape) {
        for (index, layer) in layers.layers().iter().enumerate() {
            (tensor, from) = self.layer(&format!("{name}.{index}"), layer, tensor, from);
        }
        (tensor, from)
    }

    /// Appends a path if `tensor` has several readers. If the path branches again immediately, an identity is inserted,
    /// since gradients are summed path by path.
    fn branch(&mut self, name: &str, layers: &Sequential, tensor: TensorId, from: Shape) -> (TensorId, Shape) {
        let branches = matches!(layers.layers().first(), Some(Layer::Residual(_) | Layer::Gated(_)));
        let start = if branches { self.push(name, tensor, Activation::Identity) } else { tensor };
        self.path(name, layers, start, from)
    }

    fn layer(&mut self, name: &str, layer: &Layer, tensor: TensorId, from: Shape) -> (TensorId, Shape) {
        match layer {
            Layer::Pointwise(layer) => (self.push(name, tensor, layer.activation()), from),
            Layer::Softmax(_) => (self.push(name, tensor, Op::Softmax), from),
            Layer::Conv(conv) => self.convolution(name, conv, &floats(&conv.weight), None, tensor, from),
            Layer::SpectralConv(layer) => {
                // The weight includes the division by σ.
                let weight = values(layer.weight());
                self.convolution(name, &layer.conv, &weight, Some(Spectral::new(layer)), tensor, from)
            }
            Layer::ConvTranspose(conv) => {
                let [_, channels, rows, columns] = conv.weight.dims();
                let bias = conv.bias.as_ref().map(floats);
                let op = ConvTranspose2d::from_iohw(&floats(&conv.weight), conv.weight.dims(), bias.as_deref())
                    .expect("weights are as many as their shape says")
                    .with_stride(conv.stride)
                    .with_padding(Padding::all(conv.padding[0]));
                let side = |side: usize, axis: usize, kernel: usize| {
                    (side - 1) * conv.stride[axis] + kernel - 2 * conv.padding[axis]
                };
                let to = Shape::new(channels, side(from.height, 0, rows), side(from.width, 1, columns));
                self.learned(name, &conv.weight, conv.bias.as_ref(), WeightOrder::NarrowFirst, None);
                (self.graph.push_from(tensor, op), to)
            }
            Layer::Dense(linear) => {
                let bias = linear.bias.as_ref().map(floats);
                let op = Dense::from_in_out(&floats(&linear.weight), linear.weight.dims(), bias.as_deref())
                    .and_then(|dense| dense.after_flatten_chw(from))
                    .expect("weights are as many as their shape says");
                let to = op.output;
                self.learned(name, &linear.weight, linear.bias.as_ref(), WeightOrder::NarrowLast, None);
                (self.graph.push_from(tensor, op), to)
            }
            Layer::Reshape(reshape) => {
                let [channels, height, width] = reshape.shape();
                let to = Shape::new(channels, height, width);
                (self.push(name, tensor, Op::ReshapeChannelsFirst(to)), to)
            }
            Layer::MaxPool(pool) => {
                let (kernel, stride) = (pool.kernel_size, pool.kernel_size);
                let op = MaxPool2d { kernel, stride, padding: Padding::NONE };
                (self.push(name, tensor, op), blocks(from, kernel[0]))
            }
            Layer::AvgPool(pool) => {
                let (kernel, stride) = (pool.kernel_size, pool.kernel_size);
                let op = AveragePool2d { kernel, stride, padding: Padding::NONE, count_include_padding: false };
                (self.push(name, tensor, op), blocks(from, kernel[0]))
            }
            Layer::Upsample(upsample) => {
                let to = Shape::new(from.channels, upsample.size(), upsample.size());
                (self.resize(name, tensor, to, ResizeMode::BilinearAlignCorners), to)
            }
            Layer::Nearest(nearest) => {
                let factor = nearest.factor();
                let to = Shape::new(from.channels, from.height * factor, from.width * factor);
                (self.resize(name, tensor, to, ResizeMode::Nearest), to)
            }
            Layer::GroupNorm(norm) => {
                let of = |param: &Option<Param<Tensor<1>>>, neutral: f32| {
                    param.as_ref().map_or_else(|| vec![neutral; norm.num_channels], floats)
                };
                let (scale, shift) = (of(&norm.gamma, 1.0), of(&norm.beta, 0.0));
                let op = GroupNormalize { groups: norm.num_groups, scale, shift, epsilon: norm.epsilon as f32 };
                if let (Some(gamma), Some(beta)) = (&norm.gamma, &norm.beta) {
                    self.learned(name, gamma, Some(beta), WeightOrder::NarrowFirst, None);
                    return (self.graph.push_from(tensor, op), from);
                }
                (self.push(name, tensor, op), from)
            }
            Layer::Residual(Residual { body, skip }) => {
                let (body, to) = self.branch(&format!("{name}.body"), body, tensor, from);
                let (skip, _) = self.branch(&format!("{name}.skip"), skip, tensor, from);
                (self.push(name, body, Op::Add { other: skip }), to)
            }
            Layer::Gated(Gated { body, gate }) => {
                let (body, to) = self.branch(&format!("{name}.body"), body, tensor, from);
                let (gate, _) = self.branch(&format!("{name}.gate"), gate, tensor, from);
                let open = self.push(&format!("{name}.gate"), gate, Activation::Sigmoid);
                (self.push(name, body, Op::Multiply { other: open }), to)
            }
        }
    }

    fn convolution(
        &mut self,
        name: &str,
        conv: &BurnConv2d,
        weights: &[f32],
        spectral: Option<Spectral>,
        tensor: TensorId,
        from: Shape,
    ) -> (TensorId, Shape) {
        let [channels, _, rows, columns] = conv.weight.dims();
        let padding = match conv.padding {
            PaddingConfig2d::Explicit(padding, ..) => padding,
            // The convolutions of `arch` have explicit padding or none.
            _ => 0,
        };
        let bias = conv.bias.as_ref().map(floats);
        let op = Conv2d::from_oihw(weights, conv.weight.dims(), bias.as_deref())
            .expect("weights are as many as their shape says")
            .with_stride(conv.stride)
            .with_padding(Padding::all(padding));
        let side = |side: usize, axis: usize, kernel: usize| (side + 2 * padding - kernel) / conv.stride[axis] + 1;
        let to = Shape::new(channels, side(from.height, 0, rows), side(from.width, 1, columns));
        self.learned(name, &conv.weight, conv.bias.as_ref(), WeightOrder::NarrowFirst, spectral);
        (self.graph.push_from(tensor, op), to)
    }

    fn resize(&mut self, name: &str, tensor: TensorId, to: Shape, mode: ResizeMode) -> TensorId {
        self.push(name, tensor, Op::Resize { height: to.height, width: to.width, mode })
    }

    /// Records that the next node is learned.
    fn learned<const D: usize>(
        &mut self,
        name: &str,
        weight: &Param<Tensor<D>>,
        bias: Option<&Param<Tensor<1>>>,
        order: WeightOrder,
        spectral: Option<Spectral>,
    ) {
        self.labels.push(Label { name: name.to_owned(), has_bias: bias.is_some() });
        self.learned.push(Learned { node: self.graph.nodes.len(), order, bias: bias.is_some() });
        self.parameters.push(Parameter { id: weight.id, shape: weight.dims().to_vec(), spectral });
        let bias = bias.map(|bias| Parameter { id: bias.id, shape: bias.dims().to_vec(), spectral: None });
        self.parameters.extend(bias);
    }
}

/// The shape after pooling of adjacent blocks; a remainder at the border is dropped.
fn blocks(shape: Shape, window: usize) -> Shape {
    Shape::new(shape.channels, shape.height / window, shape.width / window)
}

impl Spectral {
    fn new(layer: &SpectralConv) -> Self {
        let sigma = values(layer.sigma()).first().copied().unwrap_or(1.0);
        Self { weight: floats(&layer.conv.weight), left: values(layer.estimate()), sigma: f64::from(sigma) }
    }

    /// Converts the gradient G of W/σ to that of W: G/σ − ⟨G, W⟩/σ²·u vᵀ, with v = Wᵀu/σ. See
    /// [`crate::arch::spectral`].
    pub(crate) fn chain(&self, gradient: &mut [f32]) {
        let columns = self.weight.len() / self.left.len();
        let mut right = vec![0.0f64; columns];
        for (row, u) in self.weight.chunks_exact(columns).zip(&self.left) {
            for (sum, w) in right.iter_mut().zip(row) {
                *sum += f64::from(*w) * f64::from(*u) / self.sigma;
            }
        }
        let along: f64 = gradient.iter().zip(&self.weight).map(|(g, w)| f64::from(*g) * f64::from(*w)).sum();
        let factor = along / (self.sigma * self.sigma);
        for (row, u) in gradient.chunks_exact_mut(columns).zip(&self.left) {
            for (g, v) in row.iter_mut().zip(&right) {
                *g = (f64::from(*g) / self.sigma - factor * f64::from(*u) * v) as f32;
            }
        }
    }
}

/// The values of a parameter, in burn's order.
pub(crate) fn floats<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    values(param.val())
}

/// The values of weights, in burn's order.
pub(crate) fn values<const D: usize>(weights: Tensor<D>) -> Vec<f32> {
    weights.into_data().try_into_vec::<f32>().expect("weights are float")
}
