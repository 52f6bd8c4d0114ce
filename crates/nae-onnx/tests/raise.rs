//! Graphs raised to ONNX: a float64 interpreter of the file against `nae-simd` on the graph it came from.
#![allow(clippy::unwrap_used)]

mod support;

use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::*;
use nae_onnx::builder::{Dim, GraphBuilder};
use nae_onnx::check::{Limits, check};
use nae_onnx::lower::lower_features;
use nae_onnx::raise::{self, Label};
use nae_simd::{Options, Planes, Program, Size, Workspace};
use support::Numbers;

const OUTPUT: &str = "features";

fn labels(graph: &Graph) -> Vec<Label> {
    (0..graph.nodes.len()).map(|node| Label { name: format!("node{node}"), has_bias: true }).collect()
}

/// `graph` as an ONNX file whose only output is what its last node gives.
fn raised(graph: &Graph) -> Vec<u8> {
    let mut builder = GraphBuilder::new("raised");
    let Shape { channels, height, width } = graph.input();
    let input = match [height, width] {
        [1, 1] => builder.input("image", &[Dim::Batch, Dim::Fixed(channels)]).unwrap(),
        _ => builder.image_input("image", [channels, height, width]).unwrap(),
    };
    let output = raise::append(&mut builder, input, graph, &labels(graph)).unwrap();
    builder.output(OUTPUT, output[graph.nodes.len()]).unwrap();
    builder.finish_bytes().unwrap()
}

fn values(graph: &Graph, image: &[f32]) -> Vec<f32> {
    let program = Program::compile(graph, &Options::observing()).unwrap();
    let Shape { channels, height, width } = graph.input();
    let size = Size { h: height, w: width, c: channels };
    let mut last = Vec::new();
    program.observe(Planes::from_channels_first(&Workspace::default(), 1, size, image), |tensor, planes| {
        if tensor == graph.nodes.len() {
            last = planes.to_channels_first();
        }
    });
    last
}

/// Compares what the file means with what the graph means.
fn compare(graph: &Graph) {
    let mut numbers = Numbers(17);
    for _ in 0..3 {
        let image: Vec<f32> = (0..graph.input().len()).map(|_| 2.0 * numbers.unit() - 1.0).collect();
        compare_of(graph, &image);
    }
}

fn compare_of(graph: &Graph, image: &[f32]) {
    let checked = check(&raised(graph), &Limits::default()).unwrap();
    let outputs = support::reference::run(&checked.graph, image);
    let found = values(graph, image);
    let expected = &outputs.iter().find(|(name, _)| name == OUTPUT).unwrap().1;
    assert_eq!(found.len(), expected.len());
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*found) - expected).abs() < 1e-5, "{place}: {found} {expected}");
    }
}

/// Compares the graph with what its file is lowered to.
fn compare_lowered(graph: &Graph) {
    let checked = check(&raised(graph), &Limits::default()).unwrap();
    let (again, tensors) = lower_features(&checked, &[OUTPUT]).unwrap();
    assert_eq!(tensors, [again.nodes.len()]);
    let mut numbers = Numbers(18);
    let image: Vec<f32> = (0..graph.input().len()).map(|_| 2.0 * numbers.unit() - 1.0).collect();
    for (found, expected) in values(&again, &image).iter().zip(values(graph, &image)) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}

/// Draws the weights of layers.
struct Layers(Numbers);

impl Layers {
    fn weights(&mut self, n: usize, fan_in: usize) -> Vec<f32> {
        self.0.weights(n, fan_in)
    }

    fn conv(&mut self, [out, input]: [usize; 2], [rows, columns]: [usize; 2]) -> Conv2d {
        let fan_in = input * rows * columns;
        let (weights, bias) = (self.weights(out * fan_in, fan_in), self.weights(out, 8));
        Conv2d::from_oihw(&weights, [out, input, rows, columns], Some(&bias)).unwrap()
    }

    fn dense(&mut self, [out, inputs]: [usize; 2]) -> Dense {
        let (weights, bias) = (self.weights(out * inputs, inputs), self.weights(out, 8));
        Dense::from_out_in(&weights, [out, inputs], Some(&bias)).unwrap()
    }
}

#[test]
fn maps_mean_the_same_in_onnx() {
    let mut layers = Layers(Numbers(3));
    let mut graph = Graph::new(Shape::new(3, 9, 8));
    let uneven = Padding { top: 1, left: 1, bottom: 2, right: 0 };
    let conv = layers.conv([4, 3], [3, 2]).with_stride([2, 2]).with_padding(uneven);
    graph.push(conv.with_activation(Activation::LeakyRelu { slope: 0.2 }));
    let (weights, bias) = (layers.weights(4 * 15, 15), layers.weights(4, 8));
    let depthwise = DepthwiseConv2d::from_oihw(&weights, [4, 1, 3, 5], Some(&bias)).unwrap();
    graph.push(depthwise.with_padding(Padding { top: 1, left: 2, bottom: 1, right: 2 }));
    // Kernels that are longer one way, of one input, and both results one after the other.
    let from = graph.push(Op::Clamp { min: -0.5, max: 0.75 });
    let across = layers.conv([5, 4], [1, 7]).with_padding(Padding { left: 3, right: 3, ..Padding::NONE });
    let across = graph.push(across);
    let down = layers.conv([2, 4], [5, 1]).with_padding(Padding { top: 2, bottom: 2, ..Padding::NONE });
    let down = graph.push_from(from, down);
    graph.push_from(across, Op::Concatenate { other: down });
    let clamped = graph.push(layers.conv([4, 7], [1, 1]));
    let scale = vec![1.5, -0.5, 0.8, 1.0];
    let shift = vec![0.1, 0.2, -0.3, 0.4];
    graph.push(GroupNormalize { groups: 2, scale, shift, epsilon: 1e-5 });
    graph.push(Op::L2NormalizePlaces { epsilon: f32::MIN_POSITIVE });
    graph.push(Op::Softmax);
    let gate = graph.push(Activation::Sigmoid);
    let product = graph.push_from(clamped, Op::Multiply { other: gate });
    let body = graph.push(layers.conv([4, 4], [1, 1]));
    graph.push_from(body, Op::Add { other: product });
    graph.push(Op::Resize { height: 7, width: 11, mode: ResizeMode::BilinearAlignCorners });
    graph.push(MaxPool2d { kernel: [2, 3], stride: [2, 2], padding: Padding::NONE });
    graph.push(Op::Resize { height: 6, width: 10, mode: ResizeMode::Nearest });
    graph.push(Op::Resize { height: 12, width: 20, mode: ResizeMode::BilinearHalfPixel });
    let pool = AveragePool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE, count_include_padding: false };
    graph.push(Op::AveragePool2d(pool));
    compare(&graph);
    compare_lowered(&graph);
}

#[test]
fn vectors_and_maps_mean_the_same_in_onnx() {
    let mut layers = Layers(Numbers(5));
    let maps = Shape::new(3, 2, 4);
    let mut graph = Graph::new(Shape::new(2, 3, 5));
    let inputs = graph.input().len();
    let dense = layers.dense([6, inputs]).after_flatten_chw(graph.input()).unwrap();
    let first = graph.push(dense.with_activation(Activation::LeakyRelu { slope: 0.1 }));
    let second = graph.push(layers.dense([6, 6]).with_activation(Activation::Relu));
    graph.push_from(second, Op::Add { other: first });
    let shares = graph.push(Op::Softmax);
    let twelve = graph.push_from(shares, Op::Concatenate { other: first });
    graph.push_from(twelve, layers.dense([6, 12]));
    let sum = graph.push(Activation::Sigmoid);
    // A sum of a vector and of maps with one pixel.
    let pixel = graph.push(layers.conv([6, 6], [1, 1]));
    graph.push_from(pixel, Op::Add { other: sum });
    graph.push(layers.dense([maps.len(), 6]).before_reshape_chw(maps).unwrap().with_activation(Activation::Relu));
    let weights = layers.weights(3 * 5 * 6, 18);
    let transposed = ConvTranspose2d::from_iohw(&weights, [3, 5, 3, 2], None).unwrap().with_stride([2, 2]);
    let transposed = transposed.with_padding(Padding::all(1)).with_output_padding([1, 0]);
    graph.push(transposed.with_activation(Activation::LeakyRelu { slope: 0.3 }));
    compare_lowered(&graph);
    // A reshape that moves values, which only the trainer has.
    let shape = graph.shapes().unwrap()[graph.nodes.len()];
    graph.push(Op::ReshapeChannelsFirst(Shape::new(shape.height, shape.width, shape.channels)));
    graph.push(Op::ReshapeChannelsFirst(Shape::vector(shape.len())));
    graph.push(Op::L2Normalize { epsilon: f32::MIN_POSITIVE });
    compare(&graph);
}

/// Also of zeros, which have no direction.
#[test]
fn the_least_norm_is_written() {
    for epsilon in [f32::MIN_POSITIVE, 1e-12, 0.5, 20.0] {
        let [mut sample, mut places] = [Shape::vector(6), Shape::new(3, 2, 2)].map(Graph::new);
        sample.push(Op::L2Normalize { epsilon });
        places.push(Op::L2NormalizePlaces { epsilon });
        for graph in [sample, places] {
            let count = graph.input().len();
            compare_of(&graph, &vec![0.0; count]);
            compare_of(&graph, &vec![0.01; count]);
            compare(&graph);
            compare_lowered(&graph);
            let checked = check(&raised(&graph), &Limits::default()).unwrap();
            assert_eq!(lower_features(&checked, &[OUTPUT]).unwrap().0.nodes[0].op, graph.nodes[0].op);
        }
    }
}

#[test]
fn what_onnx_cannot_have_is_named() {
    let refused = |graph: &Graph, labels: &[Label]| {
        let mut builder = GraphBuilder::new("refused");
        let input = builder.image_input("image", [2, 4, 4]).unwrap();
        raise::append(&mut builder, input, graph, labels).unwrap_err().to_string()
    };
    let mut graph = Graph::new(Shape::new(2, 4, 4));
    graph.push(Op::Reshape(Shape::new(4, 4, 2)));
    assert!(refused(&graph, &labels(&graph)).contains("node0"), "{}", refused(&graph, &labels(&graph)));
    assert!(refused(&graph, &[]).contains("a label for each of 1 nodes, found 0"));
    let mut graph = Graph::new(Shape::new(2, 4, 4));
    let pool = AveragePool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::all(1), count_include_padding: true };
    graph.push(Op::AveragePool2d(pool));
    assert!(refused(&graph, &labels(&graph)).contains("counts in the mean"));
}
