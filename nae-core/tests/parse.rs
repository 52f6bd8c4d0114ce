//! What the parser says of files made by hand: sizes, parts and the calibration they hold. Altered and truncated files are
//! in `hostile.rs`.
#![allow(clippy::unwrap_used)]

mod models;

use models::floats;
use nae_core::Shape;
use nae_core::calibration::{Calibration, CalibrationView, Spacing};
use nae_core::contract::{LengthError, Preprocessing, ResizeFilter};
use nae_core::density::Temperature;
use nae_core::energy::Energy;
use nae_core::engine::Engine;
use nae_core::format::{Geometry, Int8Linear, Linear, Operation, Pair, Record, Span, seal};
use nae_core::kernels::int8::Layout;
use nae_core::layer::{Activation, Element, Padding};
use nae_core::model::{Model, ModelError, Operators};
use nae_core::quantization::Quantization;
use nae_graph::{
    AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, GroupNormalize, Int8Layer, Int8Operation, MaxPool2d, Op, emit,
};

/// Where the table of energies starts in a file of so many layers.
const fn table_at(layers: usize) -> usize {
    128 + 80 * layers
}

/// A dense layer from 4 values to 3 and one back, the code between marked as latent.
fn dense() -> Graph {
    let mut graph = Graph::new(Shape::vector(4));
    graph.latent = Some(graph.push(Dense::from_out_in(&[0.5; 12], [3, 4], None).unwrap()));
    graph.push(Dense::from_out_in(&[0.25; 12], [4, 3], None).unwrap());
    graph
}

#[test]
fn a_model_has_what_its_graph_has() {
    let mut graph = dense();
    graph.contract.energy = Energy::L1;
    graph.contract.preprocessing = Preprocessing::new(-1.0, 2.0, ResizeFilter::Box).unwrap();
    graph.contract.temperature = Temperature::new(0.5).unwrap();
    let calibration = Calibration::from_sorted(&[1.0, 2.0, 4.0]).unwrap();
    graph.contract =
        graph.contract.with_calibration(calibration.clone(), 0.25).unwrap().with_log_normalizer(7.5).unwrap();
    let bytes = emit(&graph).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!((model.input_shape(), model.latent_shape()), (Shape::vector(4), Some(Shape::vector(3))));
    assert_eq!((model.latent_tensor(), model.layer_count()), (1, 2));
    assert_eq!(
        (model.image_quantization(), model.reconstruction_quantization(), model.latent_quantization()),
        Default::default()
    );
    // Both layers' outputs beside the code, which is read at the end.
    assert_eq!(model.arena_len(), 4 + 3);
    assert_eq!((model.energy(), model.preprocessing()), (Energy::L1, graph.contract.preprocessing));
    assert_eq!((model.temperature().get(), model.log_normalizer()), (0.5, Some(7.5)));
    assert_eq!((model.target_false_positive_rate(), model.threshold()), (Some(0.25), Some(4.0)));
    assert_eq!(model.calibration().map(|c| c.to_owned()), Some(calibration));
    assert_eq!((model.weight_count(), model.multiply_accumulates()), (12 + 3 + 12 + 4, 24));
    assert_eq!(model.parameter_bytes(), 4 * 31);
    assert_eq!(model.layers().map(|layer| layer.output.channels).collect::<Vec<_>>(), [3, 4]);
    assert_ne!(model.operators(), Operators::NONE);
    assert_eq!(model.contract().input, Shape::vector(4));
}

/// A 1×1 convolution multiplies at every place; a dense layer once, also where it makes maps.
#[test]
fn multiplications_are_counted_at_every_place() {
    let mut graph = Graph::new(Shape::new(1, 3, 5));
    graph.push(Conv2d::from_oihw(&[0.5, 0.25], [2, 1, 1, 1], None).unwrap());
    let maps = Shape::new(1, 3, 5);
    graph.push(Dense::from_out_in(&[0.5; 450], [15, 30], None).unwrap().before_reshape_chw(maps).unwrap());
    let bytes = emit(&graph).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!((model.weight_count(), model.multiply_accumulates()), (2 + 2 + 450 + 15, 2 * 15 + 450));
}

/// A transposed convolution multiplies each value of its input once with each weight, whatever its stride; a pooling reads a
/// window for each value of its output; group normalization has two parameters a channel.
#[test]
fn work_and_parameters_are_counted_by_kind() {
    let mut graph = Graph::new(Shape::new(1, 4, 4));
    graph.push(MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE });
    let up = ConvTranspose2d::from_iohw(&[0.5; 12], [1, 3, 2, 2], None).unwrap();
    graph.push(up.with_stride([2, 2]));
    graph.push(GroupNormalize { groups: 3, scale: vec![1.0; 3], shift: vec![0.0; 3], epsilon: 1e-5 });
    graph.push(AveragePool2d { kernel: [1, 3], stride: [1, 1], padding: across(1), count_include_padding: false });
    graph.push(Conv2d::from_oihw(&[0.5; 3], [1, 3, 1, 1], None).unwrap());
    let bytes = emit(&graph).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!(model.weight_count(), 12 + 3 + 2 * 3 + 3 + 1);
    assert_eq!(model.multiply_accumulates(), 4 * 4 + 12 * 4 + 3 * 48 + 3 * 16);
}

/// Operations that the start of a layer counts as, or of a part of it.
const START: u64 = 64;
/// Operations that a pixel of the output counts as.
const PLACE: u64 = 64;

/// Operations that are counted for the layers and the energy of a graph.
fn operations(graph: &Graph) -> u64 {
    Model::parse(&emit(graph).unwrap()).unwrap().operations()
}

#[test]
fn layers_that_do_not_multiply_count_by_the_values_they_write() {
    use nae_core::layer::ResizeMode::{BilinearAlignCorners, Nearest};
    // A pooling of 2×2 windows, and the energy.
    let others = |side| if side != 4 { (4 + 1 + 8) * 32 + 16 * PLACE + START + 32 } else { 32 };
    let count = |op: Op, side: usize| {
        let mut graph = Graph::new(Shape::new(2, 4, 4));
        graph.push(op);
        if side != 4 {
            graph.push(MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE });
        }
        operations(&graph) - START - others(side)
    };
    let resize = |mode| Op::Resize { height: 8, width: 8, mode };
    let resized = (count(resize(Nearest), 8), count(resize(BilinearAlignCorners), 8));
    assert_eq!(resized, (128 + 64 * PLACE, 4 * 128 + 64 * PLACE));
    for (activation, expected) in [
        (Activation::Relu, 32),
        (Activation::LeakyRelu { slope: 0.5 }, 32),
        (Activation::Sigmoid, 16 * 32),
        (Activation::Tanh, 16 * 32),
        (Activation::Elu { alpha: 0.5 }, 16 * 32),
    ] {
        assert_eq!(count(activation.into(), 4), expected, "{activation:?}");
    }
    assert_eq!(count(Op::Reshape(Shape::new(2, 4, 4)), 4), 32);
    assert_eq!(count(Op::Add { other: 0 }, 4), 32);
    assert_eq!(count(Op::L2Normalize { epsilon: 1e-12 }, 4), 4 * 32 + 16 * PLACE);
    let normalize = GroupNormalize { groups: 2, scale: vec![1.0; 2], shift: vec![0.0; 2], epsilon: 1e-5 };
    // A start for each of two groups at 16 places.
    assert_eq!(count(normalize.into(), 4), 4 * 32 + 2 * 16 * START - START);
}

/// Dense layers from 4 values to 3 and back, with a tanh: 24 products, the values with the exponentials or without, 8 more for
/// each sum, a start for each layer, the energy.
#[test]
fn what_multiplies_counts_its_values_too() {
    let mut graph = Graph::new(Shape::vector(4));
    graph.push(Dense::from_out_in(&[0.5; 12], [3, 4], None).unwrap().with_activation(Activation::Tanh));
    graph.push(Dense::from_out_in(&[0.25; 12], [4, 3], None).unwrap());
    assert_eq!(operations(&graph), 24 + (16 + 8) * 3 + (1 + 8) * 4 + 2 * START + 4);
}

#[test]
fn every_window_of_structural_similarity_counts() {
    let count = |channels, height, width| {
        let mut graph = Graph::new(Shape::new(channels, height, width));
        graph.push(Activation::Relu);
        graph.contract.energy = Energy::Ssim;
        operations(&graph) - (channels * height * width) as u64 - START
    };
    assert_eq!(count(1, 11, 11), 5 * 121);
    assert_eq!(count(3, 12, 20), 5 * 121 * 3 * 2 * 10);
    // As the energy has it: windows are no larger than the image.
    assert_eq!(count(1, 4, 12), 5 * 4 * 11 * 2);
}

/// A layout that copies rows of the image for each row of results counts what it copies, also of columns that no window
/// reads: a file of a few kilobytes could otherwise take hundreds of times as long as it says.
#[test]
fn what_a_layout_copies_counts() {
    let scale = Element::I8(Quantization::new(1.0 / 255.0, -128).unwrap());
    let linear = |layout| {
        Linear::I8(Int8Linear {
            layout,
            weights: Span::default(),
            bias: Span::default(),
            shared_multiplier: None,
            clamp: [-128, 127],
            scratch: 0,
        })
    };
    let count = |input: Shape, output: Shape, operation| {
        Record { input: 0, output, element: scale, offset: 0, operation }.operations(input)
    };
    // Windows at both ends of the rows only: 25 rows of 200 columns are copied for each of 16 rows.
    let wide = Geometry { kernel: [25, 1], stride: [1, 199], padding: Padding::NONE };
    let wide = |channels, layout| {
        count(Shape::new(channels, 40, 200), Shape::new(1, 16, 2), Operation::Conv2d(wide, linear(layout)))
    };
    for channels in [1, 3] {
        let (plain, paired) = (wide(channels, Layout::Plain), wide(channels, Layout::Paired));
        assert_eq!(paired - plain, 4 * 16 * 25 * 200 * channels as u64, "{channels} channels");
    }
    // Whole groups of channels are read in place.
    assert_eq!(wide(4, Layout::Paired), wide(4, Layout::Plain));
    // Phases of 2×1 taps, over 7 rows of 9 columns in all, with a column more where a phase ends.
    let geometry = Geometry { kernel: [4, 2], stride: [2, 2], padding: Padding::NONE };
    let up = |layout| {
        let operation = Operation::ConvTranspose2d { geometry, output_padding: [0, 0], linear: linear(layout) };
        count(Shape::new(3, 3, 5), Shape::new(8, 8, 10), operation)
    };
    let copied = up(Layout::Paired) - up(Layout::Plain);
    let exact = 4 * (8 * 2) * (2 * 5) * 3;
    assert!((exact..=2 * exact).contains(&copied), "{copied}, {exact} are copied");
}

/// A change of scale takes about as long as the end of a sum.
#[test]
fn values_of_8_bits_that_change_their_scale_count_as_sums() {
    let scale = Quantization::new(0.02, 3).unwrap();
    let count = |operation, element| {
        let record = Record { input: 0, output: Shape::vector(10), element, offset: 0, operation };
        record.operations(Shape::vector(10))
    };
    let integers = Element::I8(scale);
    for operation in [
        Operation::Add(Pair { other: 0, int8: None }),
        Operation::Multiply(Pair { other: 0, int8: None }),
        Operation::Quantize,
        Operation::Requantize { multiplier: 0 },
    ] {
        assert_eq!(count(operation, integers), (1 + 8) * 10 + START, "{operation:?}");
    }
    assert_eq!(count(Operation::Reshape, integers), 10 + START);
    assert_eq!(count(Operation::Dequantize, Element::F32), (1 + 8) * 10 + START);
}

#[test]
fn no_layer_is_free() {
    for file in models::all() {
        let model = Model::parse(&file).unwrap();
        let mut shapes = vec![model.input_shape()];
        for layer in model.layers() {
            assert!(layer.operations(shapes[layer.input]) >= layer.output.len() as u64, "{:?}", layer.operation);
            shapes.push(layer.output);
        }
        assert!(model.operations() > model.multiply_accumulates());
    }
}

/// Words of packed weights, with their padding, are not weights.
#[test]
fn what_is_counted_of_8_bits_is_what_it_is_in_f32() {
    for layout in [Layout::Plain, Layout::Paired] {
        let scale = Quantization::new(0.01, 0).unwrap();
        let mut graph = Graph::new(Shape::new(1, 5, 5));
        (graph.layout, graph.element) = (layout, Element::I8(scale));
        let conv = |input: usize, output: usize| {
            let count = 9 * input * output;
            let conv = Conv2d::from_oihw(&vec![0.5; count], [output, input, 3, 3], None).unwrap();
            let conv = conv.with_padding(Padding::all(1)).with_parameters(vec![1; count], vec![0; output]);
            Int8Layer::new(Int8Operation::Conv2d(conv, vec![0.01]), scale)
        };
        graph.push(conv(1, 8));
        graph.push(conv(8, 1));
        let bytes = emit(&graph).unwrap();
        let model = Model::parse(&bytes).unwrap();
        assert_eq!((model.weight_count(), model.multiply_accumulates()), (72 + 8 + 72 + 1, 2 * 72 * 25), "{layout:?}");
    }
}

fn across(columns: usize) -> Padding {
    Padding { top: 0, left: columns, bottom: 0, right: columns }
}

#[test]
fn the_latent_code_is_where_the_file_says() {
    let mut graph = Graph::new(Shape::vector(4));
    graph.push(Op::Activation(Activation::Relu));
    graph.latent = Some(graph.push(Dense::from_out_in(&[0.5; 12], [3, 4], None).unwrap()));
    graph.push(Dense::from_out_in(&[0.25; 12], [4, 3], None).unwrap());
    let bytes = emit(&graph).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!((model.latent_tensor(), model.latent_shape()), (2, Some(Shape::vector(3))));
    let engine = Engine::new(&model).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let output = engine.run(&[1.0, 2.0, -3.0, 4.0], &mut arena).unwrap();
    assert_eq!((output.latent, output.reconstruction), (Some(&[3.5; 3][..]), &[2.625; 4][..]));
}

#[test]
fn a_file_may_end_with_its_layers() {
    let mut graph = Graph::new(Shape::vector(4));
    // Its own latent code, the last tensor.
    graph.latent = Some(graph.push(Activation::Tanh));
    let mut bytes = emit(&graph).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!((bytes.len(), model.parameter_bytes(), model.weight_count()), (128 + 80, 0, 0));
    assert_eq!((model.latent_tensor(), model.latent_shape()), (1, Some(Shape::vector(4))));
    assert!(model.calibration().is_none());
    bytes[52] = 2;
    seal(&mut bytes).unwrap();
    assert_eq!(Model::parse(&bytes).map(|_| ()), Err(ModelError::Latent), "beyond the last");
}

#[test]
fn the_table_of_energies_ascends_and_is_finite() {
    let mut graph = dense();
    graph.contract = graph.contract.with_p_values(Calibration::from_sorted(&[1.0, 2.0, 4.0]).unwrap());
    let bytes = emit(&graph).unwrap();
    let with = |energies: [f32; 3]| {
        let mut bytes = bytes.clone();
        for (at, energy) in (table_at(2)..).step_by(4).zip(energies) {
            bytes[at..at + 4].copy_from_slice(&energy.to_le_bytes());
        }
        seal(&mut bytes).unwrap();
        Model::parse(&bytes).map(|model| model.calibration().map(|c: CalibrationView<'_>| c.to_owned()))
    };
    for energies in [[1.0, 2.0, 4.0], [2.0, 2.0, 2.0], [f32::MIN, 0.0, f32::MAX]] {
        assert_eq!(with(energies), Ok(Some(Calibration::from_sorted(&energies).unwrap())), "{energies:?}");
    }
    for energies in
        [[2.0, 1.0, 4.0], [1.0, 4.0, 2.0], [f32::NAN, 1.0, 2.0], [1.0, 2.0, f32::NAN], [1.0, 2.0, f32::INFINITY]]
    {
        assert_eq!(with(energies), Err(ModelError::Calibration), "{energies:?}");
    }
}

#[test]
fn the_threshold_is_the_one_that_the_table_gives_for_the_rate() {
    let mut graph = dense();
    let calibration = Calibration::from_sorted(&[1.0, 2.0, 4.0]).unwrap();
    graph.contract = graph.contract.with_calibration(calibration, 0.3).unwrap();
    let bytes = emit(&graph).unwrap();
    let with = |rate: f32, threshold: f32| {
        let mut bytes = bytes.clone();
        bytes[76..80].copy_from_slice(&rate.to_le_bytes());
        bytes[80..84].copy_from_slice(&threshold.to_le_bytes());
        seal(&mut bytes).unwrap();
        Model::parse(&bytes).map(|model| model.threshold())
    };
    for (rate, threshold) in [(0.25, 4.0), (0.3, 4.0), (0.5, 2.0), (0.75, 1.0), (0.99, 1.0)] {
        assert_eq!(with(rate, threshold), Ok(Some(threshold)), "{rate}");
    }
    // Another entry, none, and a rate that so few energies cannot promise.
    for (rate, threshold) in [(0.25, 2.0), (0.5, 4.0), (0.3, 3.5), (0.3, 0.0), (0.2, 4.0), (1e-30, 4.0)] {
        assert_eq!(with(rate, threshold), Err(ModelError::Calibration), "{rate} {threshold}");
    }
}

/// Of more energies than a table keeps, evenly spaced or denser at the end.
#[test]
fn thresholds_of_long_tables_are_checked_with_their_spacing() {
    let energies: Vec<f32> = (0..5000).map(|n| n as f32).collect();
    let tail = Calibration::from_sorted(&energies).unwrap();
    let even: Vec<f32> = (0..256).map(|j| (j * 4999 / 255) as f32).collect();
    let even = Calibration::from_table(5000, Spacing::Even, &even).unwrap();
    for (calibration, expected) in [(tail, 4994.0), (even, 4999.0)] {
        let mut graph = dense();
        graph.contract = graph.contract.with_calibration(calibration, 0.0012).unwrap();
        let mut bytes = emit(&graph).unwrap();
        assert_eq!(Model::parse(&bytes).map(|model| model.threshold()), Ok(Some(expected)));
        // The flag of the spacing.
        bytes[58] ^= 4;
        seal(&mut bytes).unwrap();
        assert_eq!(Model::parse(&bytes).map(|_| ()), Err(ModelError::Calibration));
    }
}

/// The 8-bit values of the bytes of an image, as a model with this range and scale takes them.
fn quantized(low: f32, high: f32, quantization: Quantization, bytes: &[u8; 4]) -> [i8; 4] {
    let mut graph = Graph::new(Shape::vector(4));
    graph.element = Element::I8(quantization);
    graph.push(Int8Layer::new(Int8Operation::Reshape(Shape::vector(4)), quantization));
    graph.contract.preprocessing = Preprocessing::new(low, high, ResizeFilter::Box).unwrap();
    let file = emit(&graph).unwrap();
    let model = Model::parse(&file).unwrap();
    assert_eq!(model.image_quantization(), Some(quantization));
    assert_eq!(model.reconstruction_quantization(), Some(quantization));
    let mut image = [1; 4];
    assert_eq!(model.quantize_bytes(&bytes[..3], &mut image), Err(LengthError));
    assert_eq!(image, [1; 4], "nothing is written");
    assert_eq!(model.quantize_bytes(bytes, &mut image), Ok(()));
    image
}

#[test]
fn the_ends_of_a_range_are_those_of_the_bytes() {
    for (low, high) in [(0.0, 1.0), (-1.0, 1.0), (0.0, 255.0), (-2.117_904, 2.64), (1e-3, 1e30), (-0.3, 0.1)] {
        let range = Preprocessing::new(low, high, ResizeFilter::Box).unwrap();
        assert_eq!(range.value(0), low);
        let largest = high.abs().max(low.abs());
        assert!((range.value(255) - high).abs() <= largest * f32::EPSILON, "{low} {high}");
    }
    for high in [1.0, 0.5, 255.0, 1e-3] {
        let range = Preprocessing::new(0.0, high, ResizeFilter::Box).unwrap();
        assert_eq!(range.value(255), high, "no rounding from 0 on");
    }
}

#[test]
fn bytes_become_the_models_8_bit_values() {
    let q = |scale, zero_point| Quantization::new(scale, zero_point).unwrap();
    let bytes = [0, 1, 128, 255];
    // A shift by 128, and what looks like one at an end or two.
    assert_eq!(quantized(0.0, 1.0, q(1.0 / 255.0, -128), &bytes), [-128, -127, 0, 127]);
    assert_eq!(quantized(0.0, 1.0, q(3.0 / 255.0, -128), &bytes), [-128, -128, -85, -43]);
    assert_eq!(quantized(0.0, 1.0, q(0.5 / 255.0, -128), &bytes), [-128, -126, 127, 127]);
    // −1 and everything below 0 is below the least of i8, 1/255 is the step.
    assert_eq!(quantized(-1.0, 1.0, q(1.0 / 255.0, -128), &bytes), [-128, -128, -127, 127]);
    assert_eq!(quantized(-1.0, 1.0, q(0.01, 0), &bytes), [-100, -99, 0, 100]);
    let float = emit(&dense()).unwrap();
    assert_eq!(Model::parse(&float).unwrap().quantize_bytes(&bytes, &mut [0; 4]), Err(LengthError));
}

#[test]
fn the_latent_code_of_an_8_bit_model_has_its_scale() {
    let file = models::integers_in(nae_core::kernels::int8::Layout::Plain);
    let model = Model::parse(&file).unwrap();
    assert_eq!(model.latent_quantization(), Some(Quantization::new(1.0 / 128.0, 0).unwrap()));
    assert_eq!(model.reconstruction_quantization(), Some(Quantization::new(0.004, -128).unwrap()));
    assert_eq!(Model::parse(&floats()).unwrap().latent_quantization(), None);
}

#[test]
fn small_models_with_every_kind_of_layer_are_read() {
    for file in models::all() {
        assert_eq!(Model::parse(&file).map(|_| ()), Ok(()));
    }
}
