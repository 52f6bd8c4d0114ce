//! Builds the 8-bit layers of a graph whose tensors' ranges are known.

use crate::{Graph, Int8Layer, Int8Operation, Op, Readers, TensorId};
use nae_core::energy::Energy;
use nae_core::layer::{Activation, Element};
use nae_core::quantization::Quantization;

use super::QuantizeOptions;
use super::activations::Activations;
use super::range;

/// Scale and zero point that TFLite fixes for values in [0, 1), the output of sigmoid; and for tanh and unit vectors.
const FIXED: [(f32, i8); 2] = [(1.0 / 256.0, -128), (1.0 / 128.0, 0)];
/// Biases stay below this, so that no sum exceeds 32 bits; the paired layout requires 2^29.
const BIAS_LIMIT: f64 = (1 << 28) as f64;
/// Factors stay above this, as the paired layout requires: an output with weights so small differs from its bias by a
/// step or two.
const LEAST_FACTOR: f64 = 1.0 / (1 << 22) as f64;
/// The largest number of products in a sum, for the same reason.
const MOST_TAPS: usize = 1 << 14;
/// Greatest stride of an 8-bit transposed convolution.
const MOST_STRIDE: usize = 16;

/// A quantized graph.
#[derive(Clone, Debug)]
pub(super) struct Built {
    /// The graph of the new layers.
    pub graph: Graph,
    /// Layers that remain f32, with the reasons.
    pub float_layers: Vec<FloatLayer>,
}

/// A layer that is not quantized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatLayer {
    /// Number of the node, and its kind.
    pub node: (usize, &'static str),
    /// The reason why it is not.
    pub reason: &'static str,
}

/// The tensors of the new graph that represent a tensor of the f32 graph: as f32, as i8, or both.
#[derive(Clone, Copy, Default)]
struct Place {
    float: Option<TensorId>,
    integer: Option<TensorId>,
}

struct Builder<'a> {
    source: &'a Graph,
    seen: &'a Activations,
    options: &'a QuantizeOptions,
    graph: Graph,
    /// The readers of each tensor of the source.
    readers: Readers,
    /// The places of the tensors of the source that were processed so far.
    places: Vec<Place>,
    float_layers: Vec<FloatLayer>,
}

/// Quantizes every node of `source`, whose activations are separate nodes, except the nodes for which `keep` returns
/// true and those that have no 8-bit form. A ReLU is merged into the layer before it.
pub(super) fn build(
    source: &Graph,
    seen: &Activations,
    options: &QuantizeOptions,
    keep: &dyn Fn(usize) -> bool,
) -> Built {
    // Structural similarity is defined for f32 images only.
    let element = match source.contract.energy {
        Energy::Ssim => Element::F32,
        _ => Element::I8(image_scale(source, options)),
    };
    let graph = Graph { element, nodes: Vec::new(), latent: None, layout: options.layout, ..source.clone() };
    let image = match element {
        Element::F32 => Place { float: Some(0), integer: None },
        _ => Place { float: None, integer: Some(0) },
    };
    let mut builder = Builder {
        source,
        seen,
        options,
        graph,
        readers: source.readers(),
        places: vec![image],
        float_layers: Vec::new(),
    };
    for node in 0..source.nodes.len() {
        builder.node(node, keep(node));
    }
    builder.finish()
}

/// The nodes of `source` that have weights or normalize: those whose quantization can lose accuracy.
pub(super) fn weighted(source: &Graph) -> Vec<(usize, &'static str)> {
    let counts = |layer: &Op| {
        matches!(layer, Op::Conv2d(_) | Op::ConvTranspose2d(_) | Op::Dense(_) | Op::L2Normalize { .. } | Op::Add { .. })
    };
    source.nodes.iter().enumerate().filter(|(_, n)| counts(&n.op)).map(|(i, n)| (i, name(&n.op))).collect()
}

/// The name of a layer in reports.
pub(super) fn name(layer: &Op) -> &'static str {
    match layer {
        Op::Conv2d(_) => "convolution",
        Op::ConvTranspose2d(_) => "transposed convolution",
        Op::DepthwiseConv2d(_) => "depthwise convolution",
        Op::Dense(_) => "dense",
        Op::MaxPool2d(_) => "max-pool",
        Op::AveragePool2d(_) => "average pool",
        Op::Resize { .. } => "resize",
        Op::Activation(_) => "activation",
        Op::Clamp { .. } => "clamp",
        Op::L2Normalize { .. } => "L2 normalization",
        Op::L2NormalizePlaces { .. } => "L2 normalization of places",
        Op::Softmax => "softmax",
        Op::GroupNormalize(_) => "group normalization",
        Op::Reshape(_) => "reshape",
        Op::Add { .. } => "sum",
        Op::Multiply { .. } => "product",
        Op::Concatenate { .. } => "concatenation",
        _ => "layer",
    }
}

impl Builder<'_> {
    fn node(&mut self, index: usize, keep: bool) {
        let node = &self.source.nodes[index];
        // This ReLU was merged into the previous layer.
        if let Op::Activation(Activation::Relu) = node.op
            && self.places.len() == index + 2
        {
            return;
        }
        // An 8-bit function of one value between two conversions has no advantage.
        let is_float = self.places[node.input].integer.is_none();
        let reason = match &node.op {
            _ if keep => Some("as asked"),
            Op::Activation(_) if is_float => Some("the layer before it is f32"),
            layer => no_int8_form(layer),
        };
        let place = match reason {
            Some(reason) => {
                if !keep && !matches!(node.op, Op::Activation(_)) {
                    self.float_layers.push(FloatLayer { node: (index, name(&node.op)), reason });
                }
                self.float(index)
            }
            None => self.integer(index),
        };
        self.places.push(place);
        if self.relu_follows(index) && reason.is_none() {
            // Both tensors are the clamped one: no other layer reads the first.
            self.places.push(place);
        }
        let tensor = self.places.len() - 1;
        if let Some(latent) = self.source.latent
            && (index + 1..=tensor).contains(&latent)
        {
            self.graph.latent = Some(match self.graph.element {
                Element::F32 => self.as_float(tensor),
                _ => self.as_integer(tensor),
            });
        }
    }

    /// Adds the layer in f32.
    fn float(&mut self, index: usize) -> Place {
        let node = &self.source.nodes[index];
        let input = self.as_float(node.input);
        let mut layer = node.op.clone();
        if let Op::Add { other } | Op::Multiply { other } = &mut layer {
            *other = self.as_float(*other);
        }
        Place { float: Some(self.graph.push_from(input, layer)), integer: None }
    }

    /// Adds the layer in 8 bits.
    fn integer(&mut self, index: usize) -> Place {
        let node = &self.source.nodes[index];
        let input = self.as_integer(node.input);
        let from = self.quantization(input);
        let relu = self.relu_follows(index) && has_clamp(&node.op);
        let written = if relu { index + 2 } else { index + 1 };
        let own = self.scale(written);
        let stored = self.options.scales.weights.get(&(index + 1)).map_or(&[][..], Vec::as_slice);
        let mut layer = match &node.op {
            Op::Conv2d(layer) => {
                let w = Weights::new(&layer.weights, &layer.bias, stored, from, own);
                Int8Layer::new(Int8Operation::Conv2d(layer.with_parameters(w.values, w.bias), w.factors), own)
            }
            Op::ConvTranspose2d(layer) => {
                let w = Weights::new(&layer.weights, &layer.bias, stored, from, own);
                Int8Layer::new(Int8Operation::ConvTranspose2d(layer.with_parameters(w.values, w.bias), w.factors), own)
            }
            Op::Dense(layer) => {
                let w = Weights::new(&layer.weights, &layer.bias, stored, from, own);
                Int8Layer::new(Int8Operation::Dense(layer.with_parameters(w.values, w.bias), w.factors), own)
            }
            Op::MaxPool2d(pool) => Int8Layer::new(Int8Operation::MaxPool2d(*pool), from),
            Op::AveragePool2d(pool) => Int8Layer::new(Int8Operation::AveragePool2d(*pool), from),
            &Op::Resize { height, width, mode } => Int8Layer::new(Int8Operation::Resize { height, width, mode }, from),
            Op::Reshape(shape) => Int8Layer::new(Int8Operation::Reshape(*shape), from),
            Op::Activation(activation) => {
                let to = match activation {
                    Activation::Identity => from,
                    Activation::Sigmoid if !self.has_scale(written) => fixed(0),
                    Activation::Tanh if !self.has_scale(written) => fixed(1),
                    _ => own,
                };
                Int8Layer::new(Int8Operation::Table(table(*activation, from, to)), to)
            }
            Op::L2Normalize { .. } => Int8Layer::new(Int8Operation::L2Normalize, fixed(1)),
            Op::Add { other } => Int8Layer::new(Int8Operation::Add { other: self.as_integer(*other) }, own),
            Op::Multiply { other } => Int8Layer::new(Int8Operation::Multiply { other: self.as_integer(*other) }, own),
            // A layer without an 8-bit form does not reach this function.
            _ => return self.float(index),
        };
        if relu {
            layer = layer.with_relu();
        }
        // A sum's second operand may have been converted after the input.
        Place { float: None, integer: Some(self.graph.push_from(input, layer)) }
    }

    /// Whether the node's only reader is a ReLU right after it that its 8-bit form can include.
    fn relu_follows(&self, index: usize) -> bool {
        let tensor = index + 1;
        let next = self.source.nodes.get(index + 1);
        has_clamp(&self.source.nodes[index].op)
            && next.is_some_and(|next| matches!(next.op, Op::Activation(Activation::Relu)))
            && self.readers.only(tensor) == Some(index + 1)
    }

    /// Returns the tensor as f32, converted if necessary.
    fn as_float(&mut self, tensor: TensorId) -> TensorId {
        let place = self.places[tensor];
        if let Some(float) = place.float {
            return float;
        }
        let float = self.graph.push_from(place.integer.unwrap_or(0), Op::Dequantize);
        self.places[tensor].float = Some(float);
        float
    }

    /// Returns the tensor as i8, converted if necessary.
    fn as_integer(&mut self, tensor: TensorId) -> TensorId {
        let place = self.places[tensor];
        if let Some(integer) = place.integer {
            return integer;
        }
        let layer = Op::Quantize(self.scale(tensor));
        let integer = self.graph.push_from(place.float.unwrap_or(0), layer);
        self.places[tensor].integer = Some(integer);
        integer
    }

    /// Whether the model provides a scale for a tensor of the source.
    fn has_scale(&self, tensor: TensorId) -> bool {
        self.options.scales.tensors.contains_key(&tensor)
    }

    /// Scale and zero point for a tensor of the source: those that the model provides, or those chosen from its
    /// statistics.
    fn scale(&self, tensor: TensorId) -> Quantization {
        match (tensor, self.options.scales.tensors.get(&tensor)) {
            (0, _) => image_scale(self.source, self.options),
            (_, Some(scale)) => *scale,
            (_, None) => range::choose(&self.seen.tensors[tensor], self.options.ranges),
        }
    }

    /// Scale and zero point of a tensor of the new graph.
    fn quantization(&self, tensor: TensorId) -> Quantization {
        let element = match tensor.checked_sub(1).and_then(|node| self.graph.nodes.get(node)) {
            None => self.graph.element.quantization(),
            Some(node) => match &node.op {
                Op::Int8(layer) => Some(layer.output),
                Op::Quantize(quantization) => Some(*quantization),
                _ => None,
            },
        };
        element.unwrap_or_else(|| range::affine(0.0, 1.0))
    }

    fn finish(mut self) -> Built {
        let last = self.source.nodes.len();
        let tensor = match self.graph.element {
            Element::F32 => self.as_float(last),
            _ => self.as_integer(last),
        };
        // The reconstruction is the output of the last layer; a conversion for the latent may come after it.
        if tensor != self.graph.nodes.len() {
            let quantization = self.quantization(tensor);
            let shape = self.graph.input();
            match self.graph.element {
                Element::F32 => self.graph.push_from(tensor, Activation::Identity),
                _ => self.graph.push_from(tensor, Int8Layer::new(Int8Operation::Reshape(shape), quantization)),
            };
        }
        self.graph.contract = self.graph.contract.without_calibration();
        Built { graph: self.graph, float_layers: self.float_layers }
    }
}

/// Scale and zero point of the image: those that the model provides, or those of the whole range of the preprocessing.
fn image_scale(source: &Graph, options: &QuantizeOptions) -> Quantization {
    let whole = || range::affine(source.contract.preprocessing.low(), source.contract.preprocessing.high());
    options.scales.tensors.get(&0).copied().unwrap_or_else(whole)
}

/// The reason why a layer has no 8-bit form, if it has none.
fn no_int8_form(layer: &Op) -> Option<&'static str> {
    let many = "its sums have more products than 32 bits are sure to hold";
    match layer {
        Op::Conv2d(layer) if layer.kernel[0] * layer.kernel[1] * layer.in_channels > MOST_TAPS => Some(many),
        Op::ConvTranspose2d(layer) if layer.kernel[0] * layer.kernel[1] * layer.in_channels > MOST_TAPS => Some(many),
        Op::ConvTranspose2d(layer) if layer.stride.iter().any(|&stride| stride > MOST_STRIDE) => {
            Some("its stride is above 16")
        }
        Op::Dense(layer) if layer.inputs > MOST_TAPS => Some(many),
        Op::Conv2d(_)
        | Op::ConvTranspose2d(_)
        | Op::Dense(_)
        | Op::MaxPool2d(_)
        | Op::AveragePool2d(_)
        | Op::Resize { .. }
        | Op::Activation(_)
        | Op::L2Normalize { .. }
        | Op::Reshape(_)
        | Op::Add { .. }
        | Op::Multiply { .. } => None,
        _ => Some("there is no 8-bit layer of this kind"),
    }
}

/// Whether the 8-bit form can include a ReLU.
fn has_clamp(layer: &Op) -> bool {
    matches!(layer, Op::Conv2d(_) | Op::ConvTranspose2d(_) | Op::Dense(_) | Op::Add { .. } | Op::Multiply { .. })
}

fn fixed(which: usize) -> Quantization {
    let (scale, zero_point) = FIXED[which];
    Quantization::new(scale, zero_point).unwrap_or_else(|_| range::affine(0.0, 1.0))
}

/// Returns a function of one value as a table of the results for all values.
fn table(activation: Activation, from: Quantization, to: Quantization) -> Vec<i8> {
    (i8::MIN..=i8::MAX).map(|q| to.quantize(activation.apply(from.dequantize(q)))).collect()
}

/// Weights and biases in integers, and the factor of each output.
struct Weights {
    values: Vec<i8>,
    bias: Vec<i32>,
    factors: Vec<f64>,
}

impl Weights {
    /// Quantizes weights and biases. Each row of `weights` belongs to one output; `stored` are the scales that the
    /// model provides, if any.
    fn new(weights: &[f32], bias: &[f32], stored: &[f32], from: Quantization, to: Quantization) -> Self {
        let row = (weights.len() / bias.len().max(1)).max(1);
        let mut made = Self { values: Vec::with_capacity(weights.len()), bias: Vec::new(), factors: Vec::new() };
        let input = f64::from(from.scale());
        for (output, (weights, &bias)) in weights.chunks_exact(row).zip(bias).enumerate() {
            let bias = f64::from(bias);
            let stored = stored.get(output).map_or(0.0, |&scale| f64::from(scale));
            let greatest = f64::from(weights.iter().fold(0.0f32, |m, w| m.max(w.abs()))) / 127.0;
            // A row of very small weights must not make its bias too large an integer, or its factor too small.
            let least = (bias.abs() / BIAS_LIMIT).max(LEAST_FACTOR * f64::from(to.scale())) / input;
            // A scale that the model provides gives the same integers again, except −128, which becomes −127: with two
            // weights in a word of [`Layout::Paired`](nae_core::kernels::int8::Layout) there is no room for it.
            let scale = if stored > 0.0 { stored } else { greatest }.max(least);
            made.values.extend(weights.iter().map(|&w| (f64::from(w) / scale).round().clamp(-127.0, 127.0) as i8));
            made.bias.push((bias / (input * scale)).round() as i32);
            made.factors.push(input * scale / f64::from(to.scale()));
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_the_activations_of_what_the_integers_stand_for() {
        let q = |scale, zero_point| Quantization::new(scale, zero_point).expect("a scale");
        let (from, to) = (q(0.05, 10), q(0.02, -20));
        type Function = fn(f64) -> f64;
        let cases: [(Activation, Function); 6] = [
            (Activation::Identity, |x| x),
            (Activation::Relu, |x| x.max(0.0)),
            (Activation::LeakyRelu { slope: 0.3 }, |x| if x < 0.0 { 0.3 * x } else { x }),
            (Activation::Elu { alpha: 0.7 }, |x| if x < 0.0 { 0.7 * x.exp_m1() } else { x }),
            (Activation::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
            (Activation::Tanh, f64::tanh),
        ];
        for (activation, function) in cases {
            for (integer, found) in (i8::MIN..=i8::MAX).zip(table(activation, from, to)) {
                let x = 0.05 * (f64::from(integer) - 10.0);
                let expected = (function(x) / 0.02 - 20.0).clamp(-128.0, 127.0);
                // The error of f32, plus a half for rounding.
                assert!(
                    (f64::from(found) - expected).abs() <= 0.5 + 1e-4,
                    "{activation:?} {integer}: {found} {expected}"
                );
            }
        }
    }

    /// Sigmoid is in [0, 1), tanh in [−1, 1): their scales do not depend on the images.
    #[test]
    fn scales_of_sigmoid_and_tanh_are_fixed() {
        let expected = |scale, zero_point| Quantization::new(scale, zero_point).expect("a scale");
        for (activation, output) in
            [(Activation::Sigmoid, expected(1.0 / 256.0, -128)), (Activation::Tanh, expected(1.0 / 128.0, 0))]
        {
            let mut graph = Graph::new(nae_core::Shape::new(1, 2, 2));
            graph.push(activation);
            let seen = Activations { tensors: vec![Default::default(); 2] };
            let built = build(&graph, &seen, &QuantizeOptions::default(), &|_| false).graph;
            let Op::Int8(layer) = &built.nodes[0].op else { panic!("{:?}", built.nodes[0].op) };
            assert_eq!(layer.output, output, "{activation:?}");
            // The value for the greatest input, nearly 1: the table is that of this scale.
            let Int8Operation::Table(values) = &layer.operation else { panic!("{:?}", layer.operation) };
            let greatest = built.element.quantization().expect("an 8-bit image").dequantize(i8::MAX);
            assert_eq!(values.last(), Some(&output.quantize(activation.apply(greatest))), "{activation:?}");
        }
    }

    #[test]
    fn weights_that_came_with_a_scale_keep_it_and_their_integers() {
        let q = Quantization::new(0.5, 0).expect("a scale");
        let weights = Weights::new(&[-1.28, 1.0, -1.27, 0.01], &[0.1], &[0.01], q, q);
        // The least integer does not fit beside another weight.
        assert_eq!(weights.values, [-127, 100, -127, 1]);
        assert!((weights.factors[0] - 0.01).abs() < 1e-9, "{:?}", weights.factors);
        assert_eq!(weights.bias, [20]);
    }
}
