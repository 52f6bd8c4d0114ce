//! The checks of NaN, infinities and very large or small numbers, for the instructions that the process has chosen.

use nae_core::Shape;
use nae_core::layer::{Activation, Padding};
use nae_graph::{Conv2d, DepthwiseConv2d, Graph, GroupNormalize, MaxPool2d, Op};
use nae_simd::{Options, Planes, Program, Workspace};

/// Numbers of channels: of the loop for few of them, and of vectors of eight and of sixteen.
const CHANNELS: [usize; 4] = [1, 4, 8, 16];

/// What the pixels of an image can be after an overflow, and ordinary numbers.
const VALUES: [f32; 9] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1.5, -1.5, 3e38, -3e38];

/// Returns the outputs, channels last: as in scoring, with the layers as steps of their own, and, if there is a way back,
/// as in training.
fn outputs(graph: &Graph, image: &[f32]) -> Vec<(&'static str, Vec<f32>)> {
    let planes = |program: &Program| Planes::from_channels_first(&Workspace::default(), 1, program.input(), image);
    let run = |options: &Options<'_>| {
        let program = Program::compile(graph, options).unwrap();
        program.run(planes(&program)).output.data.clone()
    };
    let mut all = vec![("scoring", run(&Options::scoring())), ("observing", run(&Options::observing()))];
    if let Ok(program) = Program::compile(graph, &Options::training(&[])) {
        let x = planes(&program);
        all.push(("training", program.trace(&x).output(&x).data.clone()));
    }
    all
}

/// A layer that repeats a single channel: no sum mixes values.
fn repeat(channels: usize) -> Conv2d {
    Conv2d::from_oihw(&vec![1.0; channels], [channels, 1, 1, 1], None).unwrap()
}

fn each_channel(channels: usize) -> DepthwiseConv2d {
    DepthwiseConv2d::from_oihw(&vec![1.0; channels], [channels, 1, 1, 1], None).unwrap()
}

/// Both are NaN, or equal up to the rounding error of an exponential function.
fn agree(found: f32, expected: f32) -> bool {
    found == expected || found.is_nan() && expected.is_nan() || (found - expected).abs() <= 1e-6 * expected.abs()
}

/// Functions of each value, fused and alone, give what `nae-core` gives. NaN must stay NaN: an overflow within a network
/// would otherwise look like an ordinary image.
pub(crate) fn functions_are_those_of_nae_core() {
    let activations = [
        Activation::Identity,
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.1 },
        Activation::LeakyRelu { slope: -0.5 },
        Activation::Elu { alpha: 0.7 },
        Activation::Sigmoid,
        Activation::Tanh,
    ];
    type Function = Box<dyn Fn(f32) -> f32>;
    let function = |activation: Activation| -> Function { Box::new(move |x| activation.apply(x)) };
    let mut cases: Vec<(Op, Function)> = activations.map(|a| (a.into(), function(a))).into();
    for [min, max] in [[-1.0, 1.0], [0.0, 6.0], [-2.0, 0.0]] {
        cases.push((Op::Clamp { min, max }, Box::new(move |x| x.clamp(min, max))));
    }
    for channels in CHANNELS {
        for (op, function) in &cases {
            for writers in
                [vec![Op::from(repeat(channels))], vec![repeat(channels).into(), each_channel(channels).into()]]
            {
                let mut graph = Graph::new(Shape::new(1, 3, 3));
                for writer in writers {
                    graph.push(writer);
                }
                graph.push(op.clone());
                for (mode, output) in outputs(&graph, &VALUES) {
                    for (x, values) in VALUES.iter().zip(output.chunks(channels)) {
                        let expected = function(*x);
                        let all = values.iter().all(|value| agree(*value, expected));
                        assert!(all, "{op:?} of {x}, {channels} channels, {mode}: {values:?}, not {expected}");
                    }
                }
            }
        }
    }
}

/// A convolution of three by three taps mixes an overflow into other values; none of them is finite.
pub(crate) fn overflow_remains_in_convolutions() {
    for channels in CHANNELS {
        for op in [Op::from(Activation::Relu), Op::Clamp { min: 0.0, max: 6.0 }] {
            let weights = vec![0.5; channels * channels * 9];
            let layer = Conv2d::from_oihw(&weights, [channels, channels, 3, 3], None).unwrap();
            let mut graph = Graph::new(Shape::new(channels, 6, 6));
            graph.push(layer.with_padding(Padding::all(1)));
            graph.push(op.clone());
            for (mode, output) in outputs(&graph, &vec![f32::NAN; channels * 36]) {
                assert!(output.iter().all(|value| value.is_nan()), "{op:?}, {channels} channels, {mode}");
            }
        }
    }
}

/// The largest value of each window, and NaN for a window that contains it, at any place.
pub(crate) fn pools_keep_nan() {
    let side = 6;
    let windows = [
        ([2, 2], [2, 2], Padding::NONE),
        ([3, 3], [3, 3], Padding::NONE),
        ([2, 2], [1, 1], Padding::NONE),
        ([3, 2], [2, 1], Padding { top: 1, left: 1, bottom: 1, right: 0 }),
    ];
    for channels in CHANNELS {
        for (kernel, stride, padding) in windows {
            let mut graph = Graph::new(Shape::new(1, side, side));
            graph.push(repeat(channels));
            graph.push(MaxPool2d { kernel, stride, padding });
            for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in 0..side * side {
                    let mut image: Vec<f32> = (0..side * side).map(|i| (i as f32 * 1.7).sin()).collect();
                    image[at] = special;
                    let count = |axis: usize, around: usize| (side + around - kernel[axis]) / stride[axis] + 1;
                    let columns = count(1, padding.left + padding.right);
                    let places = count(0, padding.top + padding.bottom) * columns;
                    let largest = |place: usize| {
                        let [top, left] = [place / columns * stride[0], place % columns * stride[1]];
                        let mut values = Vec::new();
                        for (y, x) in (0..kernel[0]).flat_map(|y| (0..kernel[1]).map(move |x| (y, x))) {
                            let (y, x) = ((top + y).wrapping_sub(padding.top), (left + x).wrapping_sub(padding.left));
                            if y < side && x < side {
                                values.push(image[y * side + x]);
                            }
                        }
                        let nan = values.iter().any(|value| value.is_nan());
                        if nan { f32::NAN } else { values.into_iter().fold(f32::NEG_INFINITY, f32::max) }
                    };
                    let expected: Vec<f32> = (0..places).map(largest).collect();
                    for (mode, output) in outputs(&graph, &image) {
                        assert_eq!(output.len(), places * channels);
                        for (values, expected) in output.chunks(channels).zip(&expected) {
                            let all = values.iter().all(|value| agree(*value, *expected));
                            assert!(all, "{kernel:?}, {special} at {at}, {mode}: {values:?}, not {expected}");
                        }
                    }
                }
            }
        }
    }
}

/// Quotients by the norm are right where its square is beyond `f32`, in either direction; those of group normalization
/// are not numbers.
pub(crate) fn norms_are_right_beyond_the_squares() {
    let least = f32::MIN_POSITIVE;
    let vectors: [[f32; 4]; 11] = [
        [3.0, 4.0, 0.0, 0.0],
        [1e20, 1e20, 0.0, 0.0],
        [1e-23, 1e-23, 0.0, 0.0],
        [3e38, -3e38, 3e38, 0.0],
        [1e-20, 2e-20, -3e-20, 0.0],
        [1e19, -1e19, 1e-19, 1e-30],
        [1e-39, 1e-39, 0.0, 0.0],
        [1e-38, 1e-38, 0.0, 0.0],
        [0.0; 4],
        [f32::NAN, 1.0, 0.0, 0.0],
        [f32::INFINITY, 1.0, 0.0, -1.0],
    ];
    for vector in vectors {
        let norm = vector.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let divisor = if norm < f64::from(least) { f64::from(least) } else { norm };
        let finite = vector.iter().all(|value| value.is_finite());
        for op in [Op::L2Normalize { epsilon: least }, Op::L2NormalizePlaces { epsilon: least }] {
            let mut graph = Graph::new(Shape::vector(4));
            graph.push(op.clone());
            for (mode, output) in outputs(&graph, &vector) {
                for (found, value) in output.iter().zip(vector) {
                    let expected = f64::from(value) / divisor;
                    // The second term is the least number above zero.
                    let right = (f64::from(*found) - expected).abs() <= 1e-6 * expected.abs() + 1.5e-45;
                    assert!(if finite { right } else { found.is_nan() }, "{op:?} of {vector:?}, {mode}: {output:?}");
                }
            }
        }
    }
    // The sum of the squares is an ordinary number, but they themselves have lost digits.
    let many = vec![2e-21; 4096];
    let mut graph = Graph::new(Shape::vector(many.len()));
    graph.push(Op::L2Normalize { epsilon: least });
    for (mode, output) in outputs(&graph, &many) {
        assert!(output.iter().all(|value| agree(*value, 1.0 / 64.0)), "{mode}: {}", output[0]);
    }
    for (image, finite) in
        [([1e18, -1e18], true), ([1e20, -1e20], false), ([f32::NAN, 1.0], false), ([f32::INFINITY, 1.0], false)]
    {
        let mut graph = Graph::new(Shape::new(1, 1, 2));
        graph.push(GroupNormalize { groups: 1, epsilon: 1e-5, scale: vec![2.0], shift: vec![0.5] });
        for (mode, output) in outputs(&graph, &image) {
            let right = if finite { output == [2.5, -1.5] } else { output.iter().all(|value| value.is_nan()) };
            assert!(right, "group norm of {image:?}, {mode}: {output:?}");
        }
    }
}
