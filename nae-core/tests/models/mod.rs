//! Small models with every kind of layer, for the tests of files from strangers.

use nae_core::Shape;
use nae_core::calibration::Calibration;
use nae_core::contract::Contract;
use nae_core::energy::Energy;
use nae_core::kernels::int8::Layout;
use nae_core::layer::{Activation, Element, Padding, ResizeMode};
use nae_core::quantization::Quantization;
use nae_graph::{
    AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, GroupNormalize, Int8Layer, Int8Operation, MaxPool2d, Op, emit,
};

fn weights(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 7) as f32 / 10.0 - 0.3).collect()
}

fn calibrated(contract: Contract) -> Contract {
    contract.with_calibration(Calibration::from_sorted(&weights(7)).unwrap(), 0.25).unwrap()
}

/// A file of some two kilobytes with every kind of layer of `f32`.
pub(crate) fn floats() -> Vec<u8> {
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.push(Conv2d::from_oihw(&weights(36), [9, 1, 2, 2], None).unwrap().with_padding(Padding::all(1)));
    graph.push(Activation::LeakyRelu { slope: 0.1 });
    graph.push(MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE });
    graph.push(Dense::from_out_in(&weights(3 * 36), [3, 36], None).unwrap());
    let latent = graph.push(Op::L2Normalize { epsilon: 1e-12 });
    graph.latent = Some(latent);
    let up = ConvTranspose2d::from_iohw(&weights(24), [3, 2, 2, 2], None).unwrap();
    graph.push(up.with_stride([2, 2]).with_activation(Activation::Sigmoid));
    graph.push(Op::Resize { height: 4, width: 4, mode: ResizeMode::BilinearAlignCorners });
    graph.push(Op::Resize { height: 5, width: 5, mode: ResizeMode::Nearest });
    graph.push(AveragePool2d { kernel: [2, 2], stride: [1, 1], padding: Padding::NONE, count_include_padding: true });
    let branch = graph.push(Activation::Tanh);
    graph.push(Activation::Elu { alpha: 0.5 });
    graph.push(Op::Add { other: branch });
    graph.push(Op::Multiply { other: branch });
    graph.push(GroupNormalize { groups: 2, scale: weights(2), shift: weights(2), epsilon: 1e-5 });
    let dense = Dense::from_out_in(&weights(32 * 16), [16, 32], None).unwrap();
    graph.push(dense.with_activation(Activation::Relu));
    graph.push(Op::Reshape(Shape::new(1, 4, 4)));
    graph.contract = calibrated(graph.contract).with_log_normalizer(1.5).unwrap();
    graph.contract.energy = Energy::Ssim;
    emit(&graph).unwrap()
}

fn integers(n: usize) -> Vec<i8> {
    (0..n).map(|i| ((i % 11) * 20) as u8 as i8 / 2).collect()
}

fn scale(scale: f32, zero_point: i8) -> Quantization {
    Quantization::new(scale, zero_point).unwrap()
}

/// A file with every kind of 8-bit layer, and an f32 layer between.
pub(crate) fn integers_in(layout: Layout) -> Vec<u8> {
    let image = scale(1.0 / 255.0, -128);
    let (q, unit) = (scale(0.02, 3), scale(1.0 / 128.0, 0));
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.layout = layout;
    graph.element = Element::I8(image);
    let conv = Conv2d::from_oihw(&weights(36), [9, 1, 2, 2], None).unwrap().with_padding(Padding::all(1));
    let conv = conv.with_parameters(integers(36), (0..9).map(|i| 40 * i - 100).collect());
    let factors = (1..10).map(|i| f64::from(i) * 0.002).collect();
    graph.push(Int8Layer::new(Int8Operation::Conv2d(conv, factors), q).with_relu());
    graph.push(Int8Layer::new(Int8Operation::Table((0..=255u8).map(|i| (i ^ 0x55) as i8).collect()), q));
    let pool = MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE };
    graph.push(Int8Layer::new(Int8Operation::MaxPool2d(pool), q));
    let dense = Dense::from_out_in(&weights(3 * 36), [3, 36], None).unwrap();
    let dense = dense.with_parameters(integers(3 * 36), vec![7, -8, 9]);
    graph.push(Int8Layer::new(Int8Operation::Dense(dense, vec![0.01]), scale(0.5, 0)));
    let latent = graph.push(Int8Layer::new(Int8Operation::L2Normalize, unit));
    graph.latent = Some(latent);
    let up = ConvTranspose2d::from_iohw(&weights(24), [3, 2, 2, 2], None).unwrap().with_stride([2, 2]);
    let up = up.with_parameters(integers(24), vec![0, 50]);
    graph.push(Int8Layer::new(Int8Operation::ConvTranspose2d(up, vec![0.02]), q));
    let resize = |side, mode| Int8Operation::Resize { height: side, width: side, mode };
    graph.push(Int8Layer::new(resize(4, ResizeMode::BilinearAlignCorners), q));
    graph.push(Int8Layer::new(resize(5, ResizeMode::Nearest), q));
    let pool = AveragePool2d { kernel: [2, 2], stride: [1, 1], padding: Padding::all(1), count_include_padding: true };
    graph.push(Int8Layer::new(Int8Operation::AveragePool2d(pool), q));
    graph.push(Op::Dequantize);
    graph.push(Activation::Tanh);
    let branch = graph.push(Op::Quantize(scale(0.01, -5)));
    graph.push(Int8Layer::new(Int8Operation::Requantize, scale(0.015, 9)));
    graph.push(Int8Layer::new(Int8Operation::Add { other: branch }, q));
    graph.push(Int8Layer::new(Int8Operation::Multiply { other: branch }, q));
    let dense = Dense::from_out_in(&weights(72 * 16), [16, 72], None).unwrap();
    let dense = dense.with_parameters(integers(72 * 16), vec![0; 16]);
    graph.push(Int8Layer::new(Int8Operation::Dense(dense, vec![0.003; 16]), scale(0.004, -128)));
    graph.push(Int8Layer::new(Int8Operation::Reshape(Shape::new(1, 4, 4)), scale(0.004, -128)));
    graph.contract = calibrated(graph.contract);
    emit(&graph).unwrap()
}

/// An 8-bit file whose second layer writes over rows of its input that it has read.
pub(crate) fn in_bands() -> Vec<u8> {
    let q = scale(0.02, 3);
    let mut graph = Graph::new(Shape::new(1, 6, 6));
    graph.layout = Layout::Paired;
    graph.element = Element::I8(scale(1.0 / 255.0, -128));
    let conv = |input: usize, output: usize| {
        let count = 9 * input * output;
        let conv = Conv2d::from_oihw(&weights(count), [output, input, 3, 3], None).unwrap();
        let conv = conv.with_padding(Padding::all(1)).with_parameters(integers(count), vec![5; output]);
        Int8Layer::new(Int8Operation::Conv2d(conv, vec![0.01]), q)
    };
    graph.push(conv(1, 4));
    graph.push(conv(4, 4));
    graph.push(conv(4, 1));
    emit(&graph).unwrap()
}

/// All of them.
pub(crate) fn all() -> [Vec<u8>; 4] {
    [floats(), integers_in(Layout::Plain), integers_in(Layout::Paired), in_bands()]
}
