//! 8-bit models in the engine: the arena plan and the layout of weights change nothing, conversions and
//! energies are those of the real values, and the wrong type of image is refused. The kernels
//! themselves are held against TFLite in `int8_tflite`.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::energy::Energy;
use nae_core::engine::{Engine, EngineError};
use nae_core::kernels::int8::Layout;
use nae_core::layer::{Activation, Element, Padding, ResizeMode};
use nae_core::model::{LayerFault, Model, ModelError, Preprocessing, ResizeFilter};
use nae_core::quantization::Quantization;
use nae_graph::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, Int8Layer, Int8Operation, MaxPool2d, Op, emit};
use proptest::prelude::*;

/// Bytes at an address divisible by 4, as a file in flash has.
fn aligned(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect()
}

fn q(scale: f32, zero_point: i8) -> Quantization {
    Quantization::new(scale, zero_point).unwrap()
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn integers(count: usize, seed: &mut u64) -> Vec<i8> {
    (0..count).map(|_| (next(seed) % 255) as u8 as i8).map(|v| v.max(-127)).collect()
}

/// Numbers from which a layer is made that fits its input.
type Dice = (u8, [usize; 8], u64);

/// A layer for a tensor of this shape and scale; `earlier` is one of the same shape.
fn layer(dice: &Dice, input: Shape, from: Quantization, earlier: Option<usize>) -> Int8Layer {
    let (kind, n, mut seed) = *dice;
    let kernel = [n[0] % 3 + 1, n[1] % 3 + 1];
    let stride = [n[2] % 3 + 1, n[3] % 3 + 1];
    let (i, o) = (input.channels, n[4] % 9 + 1);
    let padding = Padding { top: n[5] % kernel[0], left: n[6] % kernel[1], bottom: 0, right: n[7] % kernel[1] };
    let fits = input.height + padding.top >= kernel[0] && input.width + padding.left + padding.right >= kernel[1];
    let to = q(0.01 + 0.001 * (n[5] % 7) as f32, (n[6] % 256) as u8 as i8);
    let taps = kernel[0] * kernel[1] * i;
    // A model's 8-bit sums have less than 2^16 products.
    let sums = taps < 1 << 16;
    // Results then fill the range.
    let factor = |taps: usize| 0.6 / (73.0 * (taps as f64).sqrt());
    let bias = |count: usize, seed: &mut u64| (0..count).map(|_| next(seed) as i32 % 4001 - 2000).collect();
    let operation = match kind {
        0 | 1 if fits && sums => {
            let plain = Conv2d::from_oihw(&vec![0.0; o * taps], [o, i, kernel[0], kernel[1]], None).unwrap();
            let plain = plain.with_stride(stride).with_padding(padding);
            let conv = plain.with_parameters(integers(o * taps, &mut seed), bias(o, &mut seed));
            Int8Operation::Conv2d(conv, (0..o).map(|c| factor(taps) * (1.0 + 0.1 * c as f64)).collect())
        }
        2 | 3 if sums => {
            let plain = ConvTranspose2d::from_iohw(&vec![0.0; o * taps], [i, o, kernel[0], kernel[1]], None).unwrap();
            let conv = plain.with_stride(stride).with_parameters(integers(o * taps, &mut seed), bias(o, &mut seed));
            Int8Operation::ConvTranspose2d(conv, vec![factor(taps)])
        }
        4 => {
            let output = Shape::new(n[0] % 3 + 1, n[1] % 4 + 1, n[2] % 4 + 1);
            return dense(input, output, to, &mut seed);
        }
        5 if fits => return Int8Layer::new(Int8Operation::MaxPool2d(MaxPool2d { kernel, stride, padding }), from),
        6 if fits => {
            let pool = AveragePool2d { kernel, stride, padding, count_include_padding: n[4] % 2 == 1 };
            return Int8Layer::new(Int8Operation::AveragePool2d(pool), from);
        }
        7 | 8 => {
            let mode = [ResizeMode::Nearest, ResizeMode::BilinearAlignCorners, ResizeMode::BilinearHalfPixel][n[2] % 3];
            let resize = Int8Operation::Resize { height: n[0] % 7 + 1, width: n[1] % 7 + 1, mode };
            return Int8Layer::new(resize, from);
        }
        9 => Int8Operation::Table(integers(256, &mut seed)),
        10 => return Int8Layer::new(Int8Operation::L2Normalize, q(1.0 / 128.0, 0)),
        11 => Int8Operation::Requantize,
        12 | 13 if earlier.is_some() => Int8Operation::Add { other: earlier.unwrap() },
        14 if earlier.is_some() => Int8Operation::Multiply { other: earlier.unwrap() },
        _ => return Int8Layer::new(Int8Operation::Reshape(Shape::vector(input.len())), from),
    };
    let layer = Int8Layer::new(operation, to);
    if n[7] % 2 == 1 { layer.with_relu() } else { layer }
}

fn dense(input: Shape, output: Shape, to: Quantization, seed: &mut u64) -> Int8Layer {
    let plain = Dense::from_out_in(&vec![0.0; input.len() * output.len()], [output.len(), input.len()], None).unwrap();
    let mut dense = plain.with_parameters(integers(input.len() * output.len(), seed), vec![99; output.len()]);
    dense.output = output;
    let factor = 0.6 / (73.0 * (input.len() as f64).sqrt());
    Int8Layer::new(Int8Operation::Dense(dense, vec![factor]), to)
}

/// A graph of these layers, brought back to the image's shape by a dense one.
fn graph(image: Shape, dice: &[Dice]) -> Graph {
    let mut graph = Graph::new(image);
    graph.element = Element::I8(q(1.0 / 255.0, -128));
    for dice in dice {
        let shapes = graph.shapes().unwrap();
        let elements = graph.elements().unwrap();
        let (shape, from) = (*shapes.last().unwrap(), elements.last().unwrap().quantization().unwrap());
        let same: Vec<usize> = (0..shapes.len()).filter(|&t| shapes[t] == shape).collect();
        let earlier = same[dice.1[0] % same.len()];
        let earlier = (earlier < graph.nodes.len() || dice.1[1] % 4 == 0).then_some(earlier);
        graph.push(layer(dice, shape, from, earlier));
        // Resizing grows without end, and 8-bit dense layers take up to 2^14 inputs in the layout `Paired`.
        if graph.shapes().unwrap().last().unwrap().len() > 1 << 14 {
            graph.nodes.pop();
            break;
        }
    }
    let shape = *graph.shapes().unwrap().last().unwrap();
    graph.latent = Some(graph.nodes.len()).filter(|&n| n > 0);
    graph.push(dense(shape, image, q(0.004, -100), &mut 5));
    graph
}

/// The same file with every tensor and all scratch memory in a place of its own.
fn spread_out(file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let layers = word(&bytes, 20);
    let mut end = 0;
    for layer in (0..layers).map(|layer| 128 + 80 * layer) {
        let len: usize = (0..3).map(|i| word(&bytes, layer + 8 + 4 * i)).product();
        bytes[layer + 20..layer + 24].copy_from_slice(&(end as u32).to_le_bytes());
        end += len.div_ceil(4);
        if [1, 2, 3].contains(&bytes[layer]) && bytes[layer + 71] == Layout::Paired as u8 {
            bytes[layer + 76..layer + 80].copy_from_slice(&(end as u32).to_le_bytes());
            end += 100_000;
        }
    }
    with_arena(bytes, end)
}

/// The same file with an arena of so many words and the right checksum.
fn with_arena(mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
    bytes[36..40].copy_from_slice(&(len as u32).to_le_bytes());
    let mut crc = u32::MAX;
    for byte in &bytes[20..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    bytes[16..20].copy_from_slice(&(!crc).to_le_bytes());
    bytes
}

/// Reconstruction, latent and energy of an image.
fn run(file: &[u8], image: &[i8]) -> (Vec<i8>, Option<Vec<i8>>, f32) {
    let words = aligned(file);
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let engine = Engine::new(&model).unwrap();
    let mut arena = vec![f32::NAN; model.arena_len()];
    let output = engine.run_i8(image, &mut arena).unwrap();
    (output.reconstruction.to_vec(), output.latent.map(<[i8]>::to_vec), output.score.energy)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn plan_and_layout_change_nothing(
        (channels, height, width) in (1usize..4, 1usize..8, 1usize..8),
        dice in prop::collection::vec((0u8..16, any::<[u16; 8]>(), any::<u64>()), 0..8),
        mut seed in any::<u64>(),
    ) {
        let dice: Vec<Dice> = dice.into_iter().map(|(k, n, s)| (k, n.map(usize::from), s)).collect();
        let image = Shape::new(channels, height, width);
        let pixels = integers(image.len(), &mut seed);
        let mut graph = graph(image, &dice);
        let mut results = Vec::new();
        for layout in [Layout::Plain, Layout::Paired] {
            graph.layout = layout;
            let file = emit(&graph).unwrap();
            results.push(run(&file, &pixels));
            results.push(run(&spread_out(&file), &pixels));
        }
        prop_assert!(results.iter().all(|r| *r == results[0]));
        prop_assert!(results[0].1.is_some() == graph.latent.is_some());
    }
}

/// A table, the layer, and a dense layer; the table's output, which the layer reads, begins `distance` words behind the
/// layer's.
fn with_distance(file: &[u8], distance: usize) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let words = |layer: usize| (0..3).map(|i| word(128 + 80 * layer + 8 + 4 * i)).product::<usize>().div_ceil(4);
    let end = (distance + words(0)).max(words(1));
    let mut put = |layer: usize, field: usize, value: usize| {
        bytes[128 + 80 * layer + field..][..4].copy_from_slice(&(value as u32).to_le_bytes());
    };
    put(0, 20, distance);
    put(1, 20, 0);
    put(2, 20, end);
    if file[128 + 80 + 71] == Layout::Paired as u8 {
        put(1, 76, end + words(2));
        put(2, 76, end + words(2));
    }
    with_arena(bytes, end + words(2) + 100_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_layer_over_its_input_gives_the_same(
        (channels, height, width) in (1usize..9, 1usize..10, 1usize..6),
        (kind, numbers, seed) in (0u8..4, any::<[u16; 8]>(), any::<u64>()),
        more in 0usize..30,
    ) {
        let image = Shape::new(channels, height, width);
        let from = q(0.02, 7);
        let mut graph = Graph::new(image);
        graph.element = Element::I8(q(1.0 / 255.0, -128));
        let mut numbers = numbers.map(usize::from);
        if kind > 1 {
            numbers[2] = 0; // stride 1 down
        }
        let mut seed = seed;
        graph.push(Int8Layer::new(Int8Operation::Table(integers(256, &mut seed)), from));
        graph.push(layer(&(kind, numbers, seed), image, from, None));
        graph.push(dense(*graph.shapes().unwrap().last().unwrap(), image, q(0.004, -100), &mut 5));
        let pixels = integers(image.len(), &mut seed);
        for layout in [Layout::Plain, Layout::Paired] {
            graph.layout = layout;
            let file = emit(&graph).unwrap();
            let words = aligned(&file);
            let record = Model::parse(bytemuck::cast_slice(&words)).unwrap().layers().nth(1).unwrap();
            // Where the kernel does not fit, it is another kind of layer.
            let Some(lead) = record.lead(image, 1) else { continue };
            let apart = run(&spread_out(&file), &pixels);
            prop_assert_eq!(&run(&file, &pixels), &apart);
            prop_assert_eq!(&run(&with_distance(&file, lead + more), &pixels), &apart);
            // A word less, and a row would be written over what it reads.
            let overlap = ModelError::Layer { index: 1, fault: LayerFault::Overlap };
            let less = with_distance(&file, lead - 1);
            prop_assert_eq!(Model::parse(bytemuck::cast_slice(&aligned(&less))).unwrap_err(), overlap);
        }
    }
}

/// An 8-bit identity with an f32 layer in its middle.
fn mixed() -> Graph {
    let unit = q(1.0 / 255.0, -128);
    let mut graph = Graph::new(Shape::new(1, 2, 2));
    graph.element = Element::I8(unit);
    graph.push(Op::Dequantize);
    graph.push(Activation::Relu);
    graph.push(Op::Quantize(unit));
    graph
}

#[test]
fn f32_layers_between_8_bit_ones() {
    let (reconstruction, _, energy) = run(&emit(&mixed()).unwrap(), &[-128, 0, 5, 127]);
    assert_eq!((reconstruction, energy), (vec![-128, 0, 5, 127], 0.0));
}

#[test]
fn f32_images_of_a_quantised_network() {
    let mut graph = Graph::new(Shape::new(1, 1, 2));
    graph.push(Op::Quantize(q(0.5, 0)));
    graph.push(Int8Layer::new(Int8Operation::Requantize, q(0.25, 10)));
    graph.push(Op::Dequantize);
    let words = aligned(&emit(&graph).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let engine = Engine::new(&model).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let output = engine.run(&[1.1, -0.3], &mut arena).unwrap();
    assert_eq!(output.reconstruction, [1.0, -0.5]);
    assert!((output.score.energy - 0.025).abs() < 1e-7);
    assert_eq!(engine.run_i8(&[0, 0], &mut arena).unwrap_err(), EngineError::ImageType);
    assert!(model.quantize_bytes(&[0, 0], &mut [0, 0]).is_err());
}

#[test]
fn a_product_is_of_the_scales_of_both_and_of_its_own() {
    let mut graph = Graph::new(Shape::new(1, 1, 3));
    graph.element = Element::I8(q(0.5, 0));
    graph.push(Int8Layer::new(Int8Operation::Requantize, q(0.25, 0)));
    graph.push(Int8Layer::new(Int8Operation::Multiply { other: 0 }, q(2.0, 1)));
    // 2, −4 and 6, whose squares are 4, 16 and 36.
    let (squares, ..) = run(&emit(&graph).unwrap(), &[4, -8, 12]);
    assert_eq!(squares, [3, 9, 19]);
}

#[test]
fn a_dense_layer_has_one_multiplier_or_one_an_output() {
    let file = |factors: &[f64]| {
        let dense = Dense::from_out_in(&[0.0; 4], [2, 2], None).unwrap().with_parameters(vec![1, 0, 0, 1], vec![0; 2]);
        let mut graph = Graph::new(Shape::vector(2));
        graph.element = Element::I8(q(0.5, 0));
        graph.push(Int8Layer::new(Int8Operation::Dense(dense, factors.to_vec()), q(0.5, 0)));
        emit(&graph).unwrap()
    };
    let (shared, each) = (file(&[0.5]), file(&[0.5, 2.0]));
    assert_eq!((run(&shared, &[10, 20]).0, run(&each, &[10, 20]).0), (vec![5, 10], vec![5, 40]));
    // Two words, and a bias an output; three words an output.
    assert_eq!(each.len() - shared.len(), 4 * (6 - 4));
}

#[test]
fn both_kinds_of_bilinear_interpolation_are_written() {
    let resized = |mode: ResizeMode| {
        let mut graph = Graph::new(Shape::new(1, 1, 2));
        graph.element = Element::I8(q(1.0, 0));
        let resize = |width: usize| Int8Layer::new(Int8Operation::Resize { height: 1, width, mode }, q(1.0, 0));
        graph.latent = Some(graph.push(resize(4)));
        graph.push(resize(2));
        run(&emit(&graph).unwrap(), &[0, 100]).1.unwrap()
    };
    assert_eq!(resized(ResizeMode::BilinearHalfPixel), [0, 25, 75, 100]);
    assert_eq!(resized(ResizeMode::BilinearAlignCorners), [0, 33, 67, 100]);
}

#[test]
fn wrong_types_and_lengths_are_errors() {
    let words = aligned(&emit(&mixed()).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let engine = Engine::new(&model).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    assert_eq!(engine.run(&[0.0; 4], &mut arena).unwrap_err(), EngineError::ImageType);
    assert_eq!(engine.run_i8(&[0; 3], &mut arena).unwrap_err(), EngineError::ImageLength);
    assert_eq!(engine.run_i8(&[0; 4], &mut arena[1..]).unwrap_err(), EngineError::ArenaLength);
    assert!(model.quantize_bytes(&[0; 4], &mut [0; 3]).is_err());
}

#[test]
fn bytes_become_values_of_the_image() {
    let mut graph = mixed();
    for (low, high, quantization) in
        [(0.0, 1.0, q(1.0 / 255.0, -128)), (-1.0, 1.0, q(2.0 / 255.0, 0)), (0.0, 1.0, q(0.01, -50))]
    {
        graph.contract.preprocessing = Preprocessing::new(low, high, ResizeFilter::Box).unwrap();
        graph.element = Element::I8(quantization);
        let bytes = emit(&graph).unwrap();
        let model = Model::parse(&bytes).unwrap();
        for byte in 0..=255u8 {
            let mut image = [0; 4];
            model.quantize_bytes(&[byte; 4], &mut image).unwrap();
            assert_eq!(image, [quantization.quantize(model.preprocessing().value(byte)); 4], "{byte}");
        }
    }
}

#[test]
fn absolute_errors_of_8_bit_images() {
    let mut graph = mixed();
    graph.contract.energy = Energy::L1;
    graph.nodes[2].op = Op::Quantize(q(0.1, -128));
    let (reconstruction, _, energy) = run(&emit(&graph).unwrap(), &[-128, 0, 5, 127]);
    assert_eq!(reconstruction, [-128, -123, -123, -118]);
    let errors = [0.0, 128.0 / 255.0 - 0.5, 133.0 / 255.0 - 0.5, 0.0f64];
    assert!((f64::from(energy) - errors.iter().sum::<f64>() / 4.0).abs() < 1e-7);
}

/// Padding that counts is real zeros: nine values a mean, four of them in the image.
#[test]
fn padding_counts_in_a_mean_where_it_should() {
    let scale = q(1.0 / 255.0, -128);
    for (count_include_padding, expected) in [(true, -128 + 10), (false, -128 + 23)] {
        let mut graph = Graph::new(Shape::new(1, 2, 2));
        graph.element = Element::I8(scale);
        let pool = AveragePool2d { kernel: [3, 3], stride: [1, 1], padding: Padding::all(1), count_include_padding };
        graph.push(Int8Layer::new(Int8Operation::AveragePool2d(pool), scale));
        let bytes = aligned(&emit(&graph).unwrap());
        let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
        let mut arena = vec![0.0; model.arena_len()];
        let output = Engine::new(&model).unwrap().run_i8(&[-128 + 91, -128, -128, -128], &mut arena).unwrap();
        assert_eq!(output.reconstruction, [expected; 4], "{count_include_padding}");
    }
}

#[test]
fn an_overflow_before_8_bits_never_becomes_a_finite_energy() {
    let scale = q(1.0 / 255.0, -128);
    let mut graph = Graph::new(Shape::vector(2));
    graph.element = Element::I8(scale);
    graph.push(Op::Dequantize);
    // +∞ and −∞ meet.
    let huge = [f32::MAX, f32::MAX, -f32::MAX, -f32::MAX];
    graph.push(Dense::from_out_in(&huge, [2, 2], None).unwrap());
    graph.push(Dense::from_out_in(&[1.0; 4], [2, 2], None).unwrap());
    graph.push(Op::Quantize(scale));
    let bytes = aligned(&emit(&graph).unwrap());
    let model = Model::parse(bytemuck::cast_slice(&bytes)).unwrap();
    let mut arena = vec![0.0; model.arena_len()];
    let result = Engine::new(&model).unwrap().run_i8(&[127, 127], &mut arena);
    assert_eq!(result, Err(EngineError::NonFiniteResult));
}
