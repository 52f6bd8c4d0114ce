//! Evens out the channels of a tensor between two layers with weights. Dividing a channel by a factor and multiplying
//! the weights that read it by the same factor changes nothing in f32, since only ReLU and similar functions lie
//! between. In 8 bits, however, one scale must serve all channels of a tensor, and one all weights of an output.
//!
//! Nagel, van Baalen, Blankevoort and Welling, "Data-Free Quantization Through Weight Equalization and Bias
//! Correction", ICCV 2019. Ranges of activations take the place of the first layer's weights, which have a scale per
//! output here, as in Xiao et al., "SmoothQuant", ICML 2023.

use crate::{Graph, Op, Readers};
use nae_core::Shape;
use nae_core::layer::Activation;

use super::activations::Activations;

/// The largest ratio of a factor to the mean of all, in either direction: without a limit, a channel that is nearly
/// dead would dominate.
const MOST: f32 = 16.0;

/// Returns the evened-out graph; `None` if there is no such pair of layers.
pub fn equalize(graph: &Graph, seen: &Activations) -> Option<Graph> {
    let (mut equal, readers) = (graph.clone(), graph.readers());
    let shapes = graph.shapes().ok()?;
    let mut found = false;
    for first in 0..graph.nodes.len() {
        let Some((between, second)) = pair(graph, &readers, &shapes, first) else { continue };
        let channels = shapes[first + 1].channels;
        let activations = &seen.tensors[between].channels;
        let Some(readers) = greatest_by_input(&equal.nodes[second].op, channels) else { continue };
        if activations.len() != channels {
            continue;
        }
        let factors = factors(activations, &readers);
        divide_outputs(&mut equal.nodes[first].op, &factors);
        multiply_inputs(&mut equal.nodes[second].op, &factors);
        found = true;
    }
    found.then_some(equal)
}

/// √(range of the activation / range of the weights that read it), scaled to a geometric mean of 1.
fn factors(activations: &[f32], weights: &[f32]) -> Vec<f32> {
    let raw: Vec<f32> = activations
        .iter()
        .zip(weights)
        .map(|(&a, &w)| if a > 0.0 && w > 0.0 { (a / w).sqrt() } else { f32::NAN })
        .collect();
    let logs: Vec<f32> = raw.iter().filter(|f| f.is_finite()).map(|f| f.ln()).collect();
    let mean = if logs.is_empty() { 1.0 } else { (logs.iter().sum::<f32>() / logs.len() as f32).exp() };
    // A channel that is always 0, or never read, does not change.
    raw.iter().map(|f| if f.is_finite() { (f / mean).clamp(1.0 / MOST, MOST) } else { 1.0 }).collect()
}

/// Returns the tensor that the layer with weights after node `first` reads, and that layer, if only functions with
/// f(ax) = a·f(x) lie between and no other layer reads any tensor between.
fn pair(graph: &Graph, readers: &Readers, shapes: &[Shape], first: usize) -> Option<(usize, usize)> {
    if !graph.nodes[first].op.has_weights() {
        return None;
    }
    let mut tensor = first + 1;
    loop {
        let channels = shapes[tensor].channels;
        let index = readers.only(tensor)?;
        match &graph.nodes[index].op {
            op if op.has_weights() => return Some((tensor, index)),
            Op::Activation(Activation::Relu | Activation::LeakyRelu { .. } | Activation::Identity)
            | Op::MaxPool2d(_)
            | Op::AveragePool2d(_)
            | Op::Resize { .. } => {}
            // These are the same channels in the same order.
            Op::Reshape(shape) if shape.channels == channels => {}
            _ => return None,
        }
        tensor = index + 1;
    }
}

/// The greatest absolute weight that reads each of `channels`. In weights, the input channel is the last axis.
fn greatest_by_input(layer: &Op, channels: usize) -> Option<Vec<f32>> {
    let weights = match layer {
        Op::Conv2d(layer) => &layer.weights,
        Op::ConvTranspose2d(layer) => &layer.weights,
        Op::Dense(layer) => &layer.weights,
        _ => return None,
    };
    let mut greatest = vec![0.0f32; channels];
    for (index, weight) in weights.iter().enumerate() {
        greatest[index % channels] = greatest[index % channels].max(weight.abs());
    }
    Some(greatest)
}

fn multiply_inputs(layer: &mut Op, factors: &[f32]) {
    let weights = match layer {
        Op::Conv2d(layer) => &mut layer.weights,
        Op::ConvTranspose2d(layer) => &mut layer.weights,
        Op::Dense(layer) => &mut layer.weights,
        _ => return,
    };
    for (index, weight) in weights.iter_mut().enumerate() {
        *weight *= factors[index % factors.len()];
    }
}

/// Divides weights and biases by the factor of their output. Rows of weights are outputs; those of a dense layer are in
/// HWC order, channels last.
fn divide_outputs(layer: &mut Op, factors: &[f32]) {
    let (weights, bias) = match layer {
        Op::Conv2d(layer) => (&mut layer.weights, &mut layer.bias),
        Op::ConvTranspose2d(layer) => (&mut layer.weights, &mut layer.bias),
        Op::Dense(layer) => (&mut layer.weights, &mut layer.bias),
        _ => return,
    };
    let row = weights.len() / bias.len().max(1);
    for (output, (bias, weights)) in bias.iter_mut().zip(weights.chunks_exact_mut(row.max(1))).enumerate() {
        let factor = factors[output % factors.len()];
        *bias /= factor;
        weights.iter_mut().for_each(|weight| *weight /= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::activations::Seen;
    use crate::quantize::evaluate::reconstruction_error;
    use crate::{Conv2d, Dense};

    /// Evening out changes nothing in f32, which requires that biases are divided as well as weights: of convolutions and
    /// of dense layers, whose outputs are several pixels.
    #[test]
    fn the_function_of_the_graph_remains_the_same() {
        let wave = |count: usize| -> Vec<f32> { (0..count).map(|k| ((k * k) as f32 * 0.37).sin()).collect() };
        let input = Shape::new(3, 2, 2);
        let first = Conv2d::from_oihw(&wave(12), [4, 3, 1, 1], Some(&[0.5, -0.25, 2.0, 0.125])).expect("a layer");
        let back = Conv2d::from_oihw(&wave(12), [3, 4, 1, 1], Some(&[1.0, 0.5, -0.5])).expect("a layer");
        let dense = Dense::from_out_in(&wave(16 * 12), [16, 12], Some(&wave(16))).expect("a layer");
        let dense = dense.before_reshape_chw(Shape::new(4, 2, 2)).expect("as many values");
        for first in [Op::from(first), dense.into()] {
            let mut graph = Graph::new(input);
            graph.push(first.clone());
            graph.push(Activation::LeakyRelu { slope: 0.25 });
            graph.push(back.clone());
            // Ranges of the four channels that differ by much.
            let mut tensors = vec![Seen::default(); 4];
            tensors[2].channels = vec![8.0, 0.5, 2.0, 0.125];
            let equal = equalize(&graph, &Activations { tensors }).expect("a pair of layers");
            assert_ne!(equal.nodes[0].op, graph.nodes[0].op);
            let error = reconstruction_error(&graph, &equal, &[wave(12), vec![0.0; 12]]).expect("runs");
            assert!(error < 1e-9, "{first:?}: {error:e}");
        }
    }
}
