//! The backward pass against finite differences of the forward pass, and the accumulation of gradients of weights.
#![allow(clippy::unwrap_used)]

use nae_core::Shape;
use nae_core::layer::{Activation, Padding, ResizeMode};
use nae_graph::{AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, GroupNormalize, MaxPool2d, Op};
use nae_simd::{Gradients, Learned, Options, Planes, Program, WeightOrder, Workspace};

/// Numbers of channels: of the loop for few of them, of a whole vector, and of vectors with a rest.
const CHANNELS: [usize; 3] = [3, 8, 17];
const ACTIVATIONS: [Activation; 7] = [
    Activation::Identity,
    Activation::Relu,
    Activation::LeakyRelu { slope: 0.2 },
    Activation::LeakyRelu { slope: -0.3 },
    Activation::Elu { alpha: 0.7 },
    Activation::Sigmoid,
    Activation::Tanh,
];
/// The distance to either side over which differences are taken. Their rounding error is some 10⁻⁴.
const STEP: f32 = 1e-3;

/// Pseudo-random numbers from −1 to 1.
struct Numbers(u32);

impl Numbers {
    fn take(&mut self, count: usize) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }
}

/// Returns the graph of these layers.
fn graph(input: Shape, layers: impl IntoIterator<Item = Op>) -> Graph {
    let mut graph = Graph::new(input);
    for layer in layers {
        graph.push(layer);
    }
    graph
}

fn conv(numbers: &mut Numbers, [input, output, side]: [usize; 3]) -> Conv2d {
    let weights = numbers.take(output * input * side * side);
    Conv2d::from_oihw(&weights, [output, input, side, side], Some(&numbers.take(output))).unwrap()
}

/// Compares the gradient of Σ cᵢ·yᵢ at every value of two samples with the difference quotient, up to `tolerance`,
/// relative for slopes above 1. The programs for scoring and for training must have the same output.
fn check(name: &str, graph: &Graph, tolerance: f64) {
    let mut numbers = Numbers(7);
    let program = Program::compile(graph, &Options::training(&[])).unwrap();
    let workspace = Workspace::default();
    let planes = |values: &[f32]| Planes::from_channels_first(&workspace, 2, program.input(), values);
    let image = numbers.take(2 * graph.input().len());
    let x = planes(&image);
    let trace = program.trace(&x);
    let y = trace.output(&x);
    let slopes = numbers.take(y.data.len());
    let gradient = Planes::from_channels_first(&workspace, 2, y.size, &slopes);
    let found = program.backward(&x, &trace, gradient, true, None).to_channels_first();

    let scored = Program::compile(graph, &Options::scoring()).unwrap().run(planes(&image)).output;
    for (scored, trained) in scored.data.iter().zip(&y.data) {
        assert!((scored - trained).abs() <= 1e-5 * (1.0 + trained.abs()), "{name}: {scored} in scoring, {trained}");
    }

    let sum = |values: &[f32]| -> f64 {
        let x = planes(values);
        let outputs = program.trace(&x).output(&x).to_channels_first();
        outputs.iter().zip(&slopes).map(|(y, slope)| f64::from(*y) * f64::from(*slope)).sum()
    };
    let here = sum(&image);
    let mut kinks = 0;
    for (at, found) in found.iter().enumerate() {
        let quotient = |step: f32| {
            let mut moved = image.clone();
            moved[at] += step;
            (sum(&moved) - here) / f64::from(moved[at] - image[at])
        };
        let (after, before) = (quotient(STEP), quotient(-STEP));
        let expected = (after + before) / 2.0;
        let allowed = tolerance * expected.abs().max(1.0);
        // A rectifier or a maximum between the two points has no single slope there.
        if (after - before).abs() > 2.0 * allowed {
            kinks += 1;
            continue;
        }
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= allowed, "{name}: the gradient at {at} is {found}, not {expected}");
    }
    assert!(kinks * 10 <= image.len(), "{name}: {kinks} of {} values are at a kink", image.len());
}

#[test]
fn activations() {
    for channels in CHANNELS {
        for activation in ACTIVATIONS {
            let name = format!("{activation:?}, {channels} channels");
            check(&name, &graph(Shape::new(channels, 3, 4), [activation.into()]), 2e-3);
            // Between layers with weights, where rectifiers are part of the layers.
            let mut numbers = Numbers(11);
            let first = conv(&mut numbers, [2, channels, 3]).with_padding(Padding::all(1));
            let last = conv(&mut numbers, [channels, 2, 1]);
            let layers = [first.into(), activation.into(), last.into()];
            check(&format!("{name}, within"), &graph(Shape::new(2, 3, 4), layers), 1e-2);
        }
    }
}

#[test]
fn changes_of_size() {
    for mode in [ResizeMode::Nearest, ResizeMode::BilinearAlignCorners, ResizeMode::BilinearHalfPixel] {
        for channels in CHANNELS {
            for ([height, width], from) in [
                ([7, 4], [3, 5]),
                ([2, 9], [3, 5]),
                ([5, 3], [3, 5]),
                ([1, 7], [3, 5]),
                ([6, 10], [3, 5]),
                ([3, 2], [1, 1]),
            ] {
                let resize = Op::Resize { height, width, mode };
                let name = format!("{mode:?} from {from:?} to {height}×{width}, {channels} channels");
                check(&name, &graph(Shape::new(channels, from[0], from[1]), [resize]), 2e-3);
            }
        }
    }
}

#[test]
fn pools() {
    for channels in CHANNELS {
        for side in [1, 2, 3] {
            let (kernel, stride, padding) = ([side; 2], [side; 2], Padding::NONE);
            let max = Op::from(MaxPool2d { kernel, stride, padding });
            let mean = Op::from(AveragePool2d { kernel, stride, padding, count_include_padding: false });
            for pool in [&max, &mean] {
                let name = format!("{pool:?}, {channels} channels");
                // The last row and the last column are in no block of 2×2, the last column in none of 3×3.
                check(&name, &graph(Shape::new(channels, 5, 7), [pool.clone()]), 2e-3);
                // The gradient passes the rectifier together with the pool.
                let layer =
                    conv(&mut Numbers(5), [2, channels, 1]).with_activation(Activation::LeakyRelu { slope: 0.3 });
                let name = format!("{name}, after a rectifier");
                check(&name, &graph(Shape::new(2, 5, 7), [layer.into(), pool.clone()]), 1e-2);
            }
        }
    }
}

/// The largest value of a block is NaN if one is. The gradient is then NaN as a rule, and must not be lost.
#[test]
fn the_gradient_of_nan_passes_pools() {
    for channels in CHANNELS {
        let pool = MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE };
        let program =
            Program::compile(&graph(Shape::new(channels, 2, 4), [pool.into()]), &Options::training(&[])).unwrap();
        let workspace = Workspace::default();
        for at in 0..4 {
            let mut x = Planes::from_channels_first(&workspace, 1, program.input(), &Numbers(1).take(8 * channels));
            let pixel = at / 2 * 4 + at % 2;
            x.data[pixel * channels..][..channels].fill(f32::NAN);
            let trace = program.trace(&x);
            let gradient = trace.output(&x).clone();
            let found = program.backward(&x, &trace, gradient, true, None);
            for (pixel, values) in found.data.chunks(channels).enumerate() {
                // The block's first pixel receives it.
                let nan = values.iter().filter(|value| value.is_nan()).count();
                assert_eq!(nan, if pixel == 0 { channels } else { 0 }, "NaN at {at}: {:?}", found.data);
            }
        }
    }
}

#[test]
fn norms() {
    for channels in CHANNELS {
        let shape = Shape::new(channels, 2, 3);
        check("L2", &graph(shape, [Op::L2Normalize { epsilon: 1e-6 }]), 2e-3);
        // Below the least divisor, here one and a half times the norm, the divisor is constant.
        let epsilon = 1.5 * (shape.len() as f32 / 3.0).sqrt();
        check("L2, short", &graph(shape, [Op::L2Normalize { epsilon }]), 2e-3);
        check("softmax", &graph(shape, [Op::Softmax]), 2e-3);
        for groups in [1, channels] {
            let mut numbers = Numbers(3);
            let (scale, shift) = (numbers.take(channels), numbers.take(channels));
            let norm = GroupNormalize { groups, epsilon: 1e-3, scale, shift };
            check(&format!("group norm, {groups} of {channels}"), &graph(shape, [norm.into()]), 1e-2);
        }
    }
}

/// A `.nae` file holds 255 groups at most, a program any number: instance normalization has one for each channel.
#[test]
fn instance_normalization_of_many_channels() {
    let (scale, shift) = (Numbers(3).take(300), Numbers(4).take(300));
    let norm = GroupNormalize { groups: 300, epsilon: 1e-2, scale, shift };
    check("instance norm", &graph(Shape::new(300, 2, 2), [norm.into()]), 1e-2);
}

#[test]
fn layers_with_weights() {
    for channels in CHANNELS {
        let mut numbers = Numbers(13);
        for (kernel, stride, [top, left]) in [([3, 3], 1, [1, 1]), ([2, 5], 2, [0, 2]), ([4, 4], 3, [1, 2])] {
            let padding = Padding { top, left, bottom: top, right: left };
            let [rows, columns] = kernel;
            let weights = numbers.take(2 * channels * rows * columns);
            let bias = numbers.take(channels);
            let name = format!("{kernel:?}, stride {stride}, {channels} channels");
            let layer = Conv2d::from_oihw(&weights, [channels, 2, rows, columns], Some(&bias)).unwrap();
            let layer = layer.with_stride([stride; 2]).with_padding(padding);
            check(&format!("convolution {name}"), &graph(Shape::new(2, 4, 5), [layer.into()]), 5e-3);
            let layer = ConvTranspose2d::from_iohw(&weights, [2, channels, rows, columns], Some(&bias)).unwrap();
            let layer = layer.with_stride([stride; 2]).with_padding(padding).with_output_padding([stride - 1; 2]);
            check(&format!("transposed convolution {name}"), &graph(Shape::new(2, 4, 5), [layer.into()]), 5e-3);
        }
        let dense = Dense::from_out_in(&numbers.take(4 * 6 * channels), [4, 6 * channels], None).unwrap();
        check("dense", &graph(Shape::new(channels, 2, 3), [dense.into()]), 5e-3);
    }
}

/// Tensors with several readers receive the sum of their gradients.
#[test]
fn sums_and_products() {
    for channels in CHANNELS {
        let shape = Shape::new(channels, 2, 3);
        check("x·x", &graph(shape, [Op::Multiply { other: 0 }]), 5e-3);
        let (tanh, sigmoid) = (Activation::Tanh.into(), Activation::Sigmoid.into());
        let layers = [tanh, sigmoid, Op::Multiply { other: 1 }, Op::Add { other: 0 }];
        check("sum and product", &graph(shape, layers), 5e-3);
    }
}

/// Two backward passes into the same gradients are the sum of both: also for a dense layer, whose gradient is computed
/// at the end.
#[test]
fn backward_passes_accumulate() {
    let mut numbers = Numbers(3);
    let layer = conv(&mut numbers, [2, 3, 3]).with_padding(Padding::all(1));
    let dense = Dense::from_out_in(&numbers.take(4 * 18), [4, 18], Some(&numbers.take(4))).unwrap();
    let norm = GroupNormalize { groups: 1, epsilon: 1e-3, scale: numbers.take(2), shift: numbers.take(2) };
    let cases = [
        (Op::from(layer), WeightOrder::NarrowFirst),
        (Op::from(dense.clone()), WeightOrder::NarrowFirst),
        (Op::from(dense), WeightOrder::NarrowLast),
        (Op::from(norm), WeightOrder::NarrowFirst),
    ];
    for (op, order) in cases {
        let learned = [Learned { node: 0, order, bias: true }];
        let program =
            Program::compile(&graph(Shape::new(2, 3, 3), [op.clone()]), &Options::training(&learned)).unwrap();
        let workspace = Workspace::default();
        let pass = |seed: u32, gradients: &mut Gradients| {
            let mut numbers = Numbers(seed);
            let x = Planes::from_channels_first(&workspace, 2, program.input(), &numbers.take(36));
            let trace = program.trace(&x);
            let size = trace.output(&x).size;
            let gradient = Planes::from_channels_first(&workspace, 2, size, &numbers.take(2 * size.len()));
            program.backward(&x, &trace, gradient, true, Some(gradients));
        };
        let sums = |seeds: &[u32]| {
            let mut gradients = program.gradients();
            seeds.iter().for_each(|seed| pass(*seed, &mut gradients));
            program.sums(&workspace, vec![gradients], |parts| parts.into_iter().for_each(|part| part.run()))
        };
        let (both, first, second) = (sums(&[1, 2]), sums(&[1]), sums(&[2]));
        assert_eq!(both.len(), 2, "weights and biases");
        for ((both, first), second) in both.iter().zip(&first).zip(&second) {
            for ((both, first), second) in both.iter().zip(first).zip(second) {
                assert!((both - first - second).abs() <= 1e-5, "{op:?}: {both}, not {first} + {second}");
            }
        }
    }
}
