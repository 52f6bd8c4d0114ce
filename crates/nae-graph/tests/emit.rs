//! What the writer refuses, and how tightly it plans the arena.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::calibration::{Calibration, CalibrationError};
use nae_core::contract::{Contract, Preprocessing, ResizeFilter};
use nae_core::energy::Energy;
use nae_core::format::MAX_LAYERS;
use nae_core::kernels::int8::Layout;
use nae_core::layer::{Activation, Element, Padding, ResizeMode};
use nae_core::model::{Model, ModelError};
use nae_core::quantization::Quantization;
use nae_graph::{
    Conv2d, ConvTranspose2d, Dense, Graph, GraphError, GroupNormalize, Int8Layer, Int8Operation, MaxPool2d, Op, emit,
};

fn conv(input: usize, output: usize, kernel: usize) -> Conv2d {
    let shape = [output, input, kernel, kernel];
    Conv2d::from_oihw(&vec![0.1; shape.iter().product()], shape, None).unwrap()
}

fn transposed(input: usize, output: usize, kernel: usize) -> ConvTranspose2d {
    let shape = [input, output, kernel, kernel];
    ConvTranspose2d::from_iohw(&vec![0.1; shape.iter().product()], shape, None).unwrap()
}

/// Group normalization of one channel.
fn norm(groups: usize, epsilon: f32) -> Op {
    GroupNormalize { groups, scale: vec![1.0], shift: vec![0.0], epsilon }.into()
}

/// What `write` says of layers put on an image of 1×4×4.
fn error(layers: impl IntoIterator<Item = Op>) -> GraphError {
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    for layer in layers {
        graph.push(layer);
    }
    emit(&graph).unwrap_err()
}

#[test]
fn wrong_layers_are_named() {
    let image = Shape::new(1, 4, 4);
    assert_eq!(error([]), GraphError::NoLayers);
    let found = Shape::new(1, 2, 2);
    assert_eq!(error([conv(1, 1, 3).into()]), GraphError::Reconstruction { expected: image, found });
    assert_eq!(error([conv(1, 1, 5).into()]), GraphError::EmptyOutput { layer: 0, input: image });
    let expected = Shape::new(2, 0, 0);
    let activation = || Op::Activation(Activation::Relu);
    assert_eq!(
        error([activation(), conv(2, 1, 1).into()]),
        GraphError::InputShape { layer: 1, expected, found: image }
    );
    for wrong in [
        conv(1, 1, 3).with_stride([0, 1]).into(),
        conv(1, 1, 3).with_stride([2, 2]).with_padding(Padding::all(3)).into(),
        transposed(1, 1, 3).with_output_padding([1, 0]).into(),
        Op::from(MaxPool2d { kernel: [0, 2], stride: [1, 1], padding: Padding::NONE }),
        norm(0, 1e-5),
        norm(2, 1e-5),
    ] {
        assert_eq!(error([wrong]), GraphError::Geometry { layer: 0 });
    }
    // As a convolution, its padding would be below zero.
    let mut wide = Graph::new(Shape::new(1, 8, 8));
    wide.push(transposed(1, 1, 3).with_padding(Padding::all(3)));
    wide.push(Op::Resize { height: 8, width: 8, mode: ResizeMode::Nearest });
    assert_eq!(emit(&wide).unwrap_err(), GraphError::Geometry { layer: 0 });
    for wrong in [
        Op::L2Normalize { epsilon: 0.0 },
        norm(1, 0.0),
        Activation::LeakyRelu { slope: f32::NAN }.into(),
        Activation::Elu { alpha: f32::INFINITY }.into(),
        Dense::from_out_in(&[f32::INFINITY; 256], [16, 16], None).unwrap().into(),
    ] {
        assert_eq!(error([wrong]), GraphError::NonFinite { layer: 0 });
    }
    assert_eq!(error([Op::Add { other: 1 }]), GraphError::UnknownTensor { layer: 0, tensor: 1 });
    let flat = Shape::vector(15);
    let other = GraphError::InputShape { layer: 0, expected: flat, found: image };
    assert_eq!(error([Op::Reshape(flat)]), other);
    let mut short = conv(1, 1, 1);
    short.bias.clear();
    assert_eq!(error([short.into()]), GraphError::BiasLength { expected: 1, found: 0 });
    let lengths = GraphError::WeightsLength { expected: 6, found: 5 };
    assert_eq!(Dense::from_out_in(&[0.0; 5], [2, 3], None).unwrap_err(), lengths);
    // Beyond the engine's limits, so that the parser refuses it.
    let huge = Op::Resize { height: 40_000, width: 1, mode: ResizeMode::Nearest };
    let back = Op::Resize { height: 4, width: 4, mode: ResizeMode::Nearest };
    assert!(matches!(error([huge, back]), GraphError::Refused(ModelError::Layer { index: 0, .. })));
    let many = std::iter::repeat_n(activation(), MAX_LAYERS + 1);
    assert_eq!(error(many), GraphError::Refused(ModelError::LayerCount));
}

#[test]
fn wrong_settings_are_named() {
    let mut graph = Graph::new(Shape::new(1, 2, 2));
    graph.push(Activation::Relu);
    let with = |change: &dyn Fn(&mut Graph)| {
        let mut graph = graph.clone();
        change(&mut graph);
        emit(&graph).map(|_| ())
    };
    assert_eq!(with(&|n| n.latent = Some(2)), Err(GraphError::Latent { tensor: 2 }));
    assert_eq!(with(&|n| n.latent = Some(0)), Err(GraphError::Latent { tensor: 0 }));
    let ssim = with(&|n| {
        n.contract.energy = Energy::Ssim;
        n.contract.preprocessing = Preprocessing::new(-1.0, 1.0, ResizeFilter::Box).unwrap();
    });
    assert_eq!(ssim, Err(GraphError::Refused(ModelError::Energy)));

    let contract = Contract::new(Shape::new(1, 2, 2));
    assert!(contract.clone().with_log_normalizer(f32::NAN).is_err());
    let calibrated = |rate: f32| {
        contract.clone().with_calibration(Calibration::from_sorted(&[1.0; 9]).unwrap(), rate).map(|_: Contract| ())
    };
    assert_eq!(calibrated(0.1), Ok(()));
    assert_eq!(calibrated(0.09), Err(CalibrationError::RateTooLow));
}

#[test]
fn values_move_in_no_reshape_of_a_file() {
    let reshaped = |from: Shape, to: Shape| {
        let mut graph = Graph::new(from);
        graph.push(Op::ReshapeChannelsFirst(to));
        graph.push(Op::ReshapeChannelsFirst(from));
        emit(&graph).map(|_| ())
    };
    assert_eq!(reshaped(Shape::vector(12), Shape::new(1, 4, 3)), Ok(()));
    assert_eq!(reshaped(Shape::vector(12), Shape::new(3, 2, 2)), Err(GraphError::ChannelsFirst { layer: 0 }));
}

#[test]
fn what_was_written_is_read_back() {
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.latent = Some(graph.push(conv(1, 3, 4)));
    graph.push(transposed(3, 1, 4));
    let mut energies: Vec<f32> = (0..1000).map(|i| (i * 37 % 1000) as f32).collect();
    let calibration = Calibration::from_energies(&mut energies).unwrap();
    let contract = graph.contract.with_log_normalizer(-3.5).unwrap();
    graph.contract = contract.with_calibration(calibration.clone(), 0.01).unwrap();
    graph.contract.energy = Energy::L1;
    graph.contract.temperature = nae_core::density::Temperature::new(0.25).unwrap();
    graph.contract.preprocessing = Preprocessing::new(-1.0, 1.0, ResizeFilter::Lanczos3).unwrap();
    let bytes = emit(&graph).unwrap();
    assert_eq!(bytes, emit(&graph).unwrap());
    let model = Model::parse(&bytes).unwrap();
    assert_eq!(model.input_shape(), graph.input());
    assert_eq!(model.latent_shape(), Some(Shape::new(3, 1, 1)));
    assert_eq!(model.energy(), Energy::L1);
    assert_eq!(model.temperature().get(), 0.25);
    assert_eq!(model.log_normalizer(), Some(-3.5));
    assert_eq!(model.preprocessing(), graph.contract.preprocessing);
    assert_eq!(model.target_false_positive_rate(), Some(0.01));
    assert_eq!(model.threshold(), Some(calibration.threshold(0.01).unwrap()));
    assert_eq!(model.calibration().map(|c| c.to_owned()), Some(calibration));
    assert_eq!((model.layer_count(), model.weight_count()), (2, 48 + 3 + 48 + 1));
    // The transposed convolution as a convolution with padding: 4×4 places of 4×4×3 taps.
    assert_eq!(model.multiply_accumulates(), 48 + 16 * 48);
}

/// The `digits` architecture: no plan can take less than two neighbours that are alive at once, and the
/// latent code beside them.
#[test]
fn the_arena_of_digits_is_as_small_as_can_be() {
    let up = |side| Op::Resize { height: side, width: side, mode: ResizeMode::BilinearAlignCorners };
    let mut graph = Graph::new(Shape::new(1, 16, 16));
    graph.push(conv(1, 8, 3));
    graph.push(Activation::Relu);
    graph.push(conv(8, 16, 3));
    graph.push(Activation::Relu);
    graph.push(MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE });
    graph.push(conv(16, 32, 3));
    graph.push(conv(32, 128, 4));
    graph.push(conv(128, 32, 1));
    graph.latent = Some(graph.push(Op::L2Normalize { epsilon: 1e-12 }));
    graph.push(transposed(32, 32, 3));
    graph.push(up(5));
    graph.push(transposed(32, 16, 3));
    graph.push(up(12));
    graph.push(transposed(16, 8, 3));
    graph.push(transposed(8, 1, 3));
    let bytes = emit(&graph).unwrap();
    // 12×12×16 beside 14×14×8, in the decoder with the latent code kept.
    assert_eq!(Model::parse(&bytes).unwrap().arena_len(), 2304 + 1568 + 32);
}

/// The same in 8 bits: image, layer by layer, and back.
fn digits_in_8_bits(layout: Layout) -> Graph {
    let scale = Quantization::new(0.02, 3).unwrap();
    let mut graph = Graph::new(Shape::new(1, 16, 16));
    (graph.layout, graph.element) = (layout, Element::I8(scale));
    let ones = |conv: &[usize]| vec![1; conv.iter().product()];
    let down = |from: usize, to: usize, kernel: usize| {
        let conv = conv(from, to, kernel).with_parameters(ones(&[from, to, kernel, kernel]), vec![0; to]);
        Int8Layer::new(Int8Operation::Conv2d(conv, vec![0.01]), scale)
    };
    let up = |from: usize, to: usize, kernel: usize| {
        let conv = transposed(from, to, kernel).with_parameters(ones(&[from, to, kernel, kernel]), vec![0; to]);
        Int8Layer::new(Int8Operation::ConvTranspose2d(conv, vec![0.01]), scale)
    };
    let side = |side| {
        let resize = Int8Operation::Resize { height: side, width: side, mode: ResizeMode::BilinearAlignCorners };
        Int8Layer::new(resize, scale)
    };
    let pool = MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE };
    graph.push(down(1, 8, 3));
    graph.push(down(8, 16, 3));
    graph.push(Int8Layer::new(Int8Operation::MaxPool2d(pool), scale));
    graph.push(down(16, 32, 3));
    graph.push(down(32, 128, 4));
    graph.latent = Some(graph.push(down(128, 32, 1)));
    graph.push(up(32, 32, 3));
    graph.push(side(5));
    graph.push(up(32, 16, 3));
    graph.push(side(12));
    graph.push(up(16, 8, 3));
    graph.push(up(8, 1, 3));
    graph
}

/// The layers of an 8-bit file whose output begins before its input ends.
fn over_their_input(bytes: &[u8]) -> Vec<usize> {
    let layers: Vec<_> = Model::parse(bytes).unwrap().layers().collect();
    let span = |layer: usize| layers[layer].offset..layers[layer].offset + layers[layer].output.len().div_ceil(4);
    let meets = |&layer: &usize| {
        let Some(input) = layers[layer].input.checked_sub(1) else { return false };
        let (input, output) = (span(input), span(layer));
        layers[layer].operation.kind().has_weights() && output.start < input.end && input.start < output.end
    };
    (0..layers.len()).filter(meets).collect()
}

#[test]
fn where_memory_is_short_convolutions_of_8_bits_lie_over_their_input() {
    // Without: 12×12×16 beside 14×14×8, scratch memory for two windows of 3×3×16, and the latent code.
    let apart = 2304 + 1568 + 576 + 32;
    let paired = emit(&digits_in_8_bits(Layout::Paired)).unwrap();
    assert_eq!(4 * Model::parse(&paired).unwrap().arena_len(), 3568);
    assert!(3568 < apart);
    // The two that needed most, in the encoder and in the decoder, and no other.
    assert_eq!(over_their_input(&paired), [1, 10]);
    let plain = emit(&digits_in_8_bits(Layout::Plain)).unwrap();
    assert_eq!(over_their_input(&plain), [1, 10]);
    assert!(4 * Model::parse(&plain).unwrap().arena_len() < apart - 576);
    // None where another layer needs more.
    let mut graph = digits_in_8_bits(Layout::Paired);
    graph.nodes.truncate(10);
    let pool = MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE };
    for op in [
        Int8Operation::Resize { height: 32, width: 32, mode: ResizeMode::Nearest },
        Int8Operation::MaxPool2d(pool),
        Int8Operation::Requantize,
    ] {
        graph.push(Int8Layer::new(op, Quantization::new(0.02, 3).unwrap()));
    }
    let last = conv(16, 1, 1).with_parameters(vec![1; 16], vec![0]);
    graph.push(Int8Layer::new(Int8Operation::Conv2d(last, vec![0.01]), Quantization::new(0.02, 3).unwrap()));
    assert_eq!(over_their_input(&emit(&graph).unwrap()), [0; 0]);
}
