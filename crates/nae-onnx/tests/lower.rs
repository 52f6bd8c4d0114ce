//! Lowered models against a float64 interpreter of the graph they came from; and what cannot be
//! lowered, by name.
#![allow(clippy::unwrap_used)]

mod support;

use nae_core::energy::Energy;
use nae_core::engine::Engine;
use nae_core::layer::Activation;
use nae_core::model::Model;
use nae_graph::Op;
use nae_onnx::builder::*;
use nae_onnx::check::{Limits, check};
use nae_onnx::lower::{LowerError, lower, to_nae};
use nae_onnx::proto::{AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use prost::Message;
use support::Numbers;

/// A file's bytes at an address divisible by 4, as the engine needs them.
fn aligned(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect()
}

fn chw_to_hwc(data: &[f32], [c, h, w]: [usize; 3]) -> Vec<f32> {
    (0..h * w * c).map(|i| data[(i % c) * h * w + i / c]).collect()
}

/// Runs a model both ways on random images and compares reconstruction, energy and latent.
fn compare(onnx: &[u8], bound: f64) {
    let checked = check(onnx, &Limits::default()).unwrap();
    let file = to_nae(onnx).unwrap();
    let words = aligned(&file);
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    assert_eq!(bytes, file);
    let model = Model::parse(&file).unwrap();
    let engine = Engine::new(&model).unwrap();
    let shape = model.input_shape();
    let chw = [shape.channels, shape.height, shape.width];
    let mut arena = vec![0.0; model.arena_len()];
    let mut numbers = Numbers(99);
    for _ in 0..5 {
        let image: Vec<f32> = (0..shape.len()).map(|_| numbers.unit()).collect();
        let outputs = support::reference::run(&checked.graph, &image);
        let output = |name: &str| outputs.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let expected = output("reconstruction").or_else(|| output("y")).unwrap();
        let run = engine.run(&chw_to_hwc(&image, chw), &mut arena).unwrap();
        let expected_f32: Vec<f32> = expected.iter().map(|&v| v as f32).collect();
        for (found, expected) in run.reconstruction.iter().zip(chw_to_hwc(&expected_f32, chw)) {
            assert!(f64::from(found - expected).abs() <= bound, "{found} {expected}");
        }
        if let Some(energy) = output("energy") {
            let error = (f64::from(run.score.energy) - energy[0]).abs() / energy[0];
            assert!(error <= bound, "{} {}", run.score.energy, energy[0]);
        }
        if let Some(expected) = output("latent") {
            let latent = model.latent_shape().unwrap();
            let expected: Vec<f32> = expected.iter().map(|&v| v as f32).collect();
            let expected = chw_to_hwc(&expected, [latent.channels, latent.height, latent.width]);
            for (found, expected) in run.latent.unwrap().iter().zip(expected) {
                assert!(f64::from(found - expected).abs() <= bound, "{found} {expected}");
            }
        }
    }
}

#[test]
fn digits_is_lowered() {
    for seed in 1..4 {
        compare(&support::digits(seed, Energy::SquaredL2).unwrap(), 3e-6);
    }
    let file = to_nae(&support::digits(1, Energy::Ssim).unwrap()).unwrap();
    let model = Model::parse(&file).unwrap();
    assert_eq!(model.energy(), Energy::Ssim);
    assert_eq!(model.latent_shape(), Some(nae_core::Shape::vector(32)));
    let expected = support::metadata(nae_core::Shape::new(1, 16, 16), 32, Energy::Ssim);
    let contract = expected.contract;
    assert_eq!(model.calibration().map(|view| view.to_owned()).as_ref(), contract.calibration());
    assert_eq!(model.contract().threshold(), contract.threshold());
    assert_eq!(model.preprocessing(), contract.preprocessing);
}

#[test]
fn every_other_layer_is_lowered() {
    for seed in 1..4 {
        compare(&support::odd(seed, Energy::L1).unwrap(), 3e-6);
    }
}

/// A graph around one 2×3×4 image, whose output `y` has the image's shape; nodes by hand.
fn by_hand(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> Vec<u8> {
    by_hand_of([2, 3, 4], nodes, constants)
}

fn by_hand_of(image: [usize; 3], nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> Vec<u8> {
    let mut g = GraphBuilder::new("by hand");
    let x = g.image_input("x", image).unwrap();
    let y = g.relu("last", x).unwrap();
    g.output("y", y).unwrap();
    let mut model = g.finish().unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node.splice(0..0, nodes);
    graph.node.last_mut().unwrap().input = vec!["m".into()];
    graph.initializer = constants;
    model.encode_to_vec()
}

fn node(operator: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|&i| i.to_owned()).collect(),
        output: vec![output.to_owned()],
        op_type: Some(operator.to_owned()),
        attribute: attributes,
        ..NodeProto::default()
    }
}

fn constant(name: &str, dims: &[usize], seed: u64) -> TensorProto {
    let n = dims.iter().product();
    TensorProto::floats(name, dims, &Numbers(seed).weights(n, 3))
}

#[test]
fn other_peoples_graphs_are_lowered() {
    // Batch normalization after a convolution (folded), and alone (a layer of its own).
    let statistics = |mut list: Vec<TensorProto>| {
        list.extend([constant("s", &[2], 2), constant("b", &[2], 3), constant("mean", &[2], 4)]);
        list.push(TensorProto::floats("variance", &[2], &[0.5, 2.0]));
        list
    };
    let w = constant("w", &[2, 2, 1, 1], 1);
    let normalize = |x| node("BatchNormalization", &[x, "s", "b", "mean", "variance"], "m", vec![]);
    compare(&by_hand(vec![node("Conv", &["x", "w"], "c", vec![]), normalize("c")], statistics(vec![w.clone()])), 1e-6);
    compare(&by_hand(vec![normalize("x")], statistics(vec![])), 1e-6);

    // SAME padding, a residual connection, a scalar and a per-channel constant.
    let nodes = vec![
        node("Conv", &["x", "k"], "c", vec![AttributeProto::string("auto_pad", "SAME_LOWER")]),
        node("Add", &["c", "x"], "a", vec![]),
        node("Mul", &["half", "a"], "b", vec![]),
        node("Sub", &["b", "channels"], "d", vec![]),
        node("Identity", &["d"], "e", vec![]),
        node("Dropout", &["e"], "m", vec![]),
    ];
    let half = TensorProto::floats("half", &[], &[0.5]);
    let constants = vec![constant("k", &[2, 2, 2, 3], 5), half, constant("channels", &[1, 2, 1, 1], 6)];
    compare(&by_hand(nodes, constants), 1e-6);

    // Flatten, MatMul + Add, an activation, reshape to maps; LpNormalization; a constant node.
    let mut shape = node("Constant", &[], "shape", vec![]);
    shape.attribute.push(AttributeProto::ints("value_ints", [0, 2, -1, 4]));
    let nodes = vec![
        shape,
        node("Flatten", &["x"], "f", vec![]),
        node("LpNormalization", &["f"], "u", vec![AttributeProto::int("axis", 1)]),
        node("MatMul", &["u", "dense"], "g", vec![]),
        node("Add", &["g", "shift"], "h", vec![]),
        node("Tanh", &["h"], "t", vec![]),
        node("Reshape", &["t", "shape"], "m", vec![]),
    ];
    compare(&by_hand(nodes, vec![constant("dense", &[24, 24], 7), constant("shift", &[24], 8)]), 1e-6);

    // Global pooling and back by nearest resize; a norm with a lower bound.
    let nodes = vec![
        node("GlobalAveragePool", &["x"], "p", vec![]),
        node("ReduceL2", &["p"], "n", vec![AttributeProto::ints("axes", [1])]),
        node("Clip", &["n", "least"], "n2", vec![]),
        node("Div", &["p", "n2"], "u", vec![]),
        node("Resize", &["u", "", "scales"], "m", vec![]),
    ];
    let constants =
        vec![TensorProto::floats("least", &[], &[1e-6]), TensorProto::floats("scales", &[4], &[1.0, 1.0, 3.0, 4.0])];
    compare(&by_hand(nodes, constants), 1e-6);
}

/// Group normalization by our exporter, by PyTorch's, with the square as a power, and as ONNX's own operators.
/// The image is [N, 2, 3, 4]: a window of the last row alone.
#[test]
fn windows_are_rounded_up_where_a_file_says_so() {
    let pool = |operator: &str, from: &str, to: &str, ceil: i64| {
        let both = |name: &str| AttributeProto::ints(name, [2, 2]);
        node(operator, &[from], to, vec![both("kernel_shape"), both("strides"), AttributeProto::int("ceil_mode", ceil)])
    };
    for operator in ["MaxPool", "AveragePool"] {
        let nodes = vec![pool(operator, "x", "p", 1), node("ConvTranspose", &["p", "w"], "m", vec![])];
        compare(&by_hand(nodes, vec![constant("w", &[2, 2, 2, 3], 1)]), 1e-6);
        let nodes = vec![pool(operator, "x", "p", 0), node("ConvTranspose", &["p", "w"], "m", vec![])];
        compare(&by_hand(nodes, vec![constant("w", &[2, 2, 3, 3], 1)]), 1e-6);
    }
    // Of a plane of four and a padding of one, the last window of two, three apart, begins in the padding.
    let attributes = vec![
        AttributeProto::ints("kernel_shape", [2, 2]),
        AttributeProto::ints("strides", [1, 3]),
        AttributeProto::ints("pads", [0, 1, 0, 1]),
        AttributeProto::int("ceil_mode", 1),
    ];
    let e = refusal(vec![node("MaxPool", &["x"], "m", attributes)], vec![]);
    assert!(e.starts_with("node `m` (MaxPool): ceil_mode: expected windows that meet the input"), "{e}");
    let mut included = pool("AveragePool", "x", "m", 1);
    included.attribute.push(AttributeProto::int("count_include_pad", 1));
    let e = refusal(vec![included], vec![]);
    assert!(e.starts_with("node `m` (AveragePool): ceil_mode: expected 0 where padding counts"), "{e}");
}

/// A latent of one layer before that of the reconstruction, and one that is read before it is part of another layer.
#[test]
fn a_layer_with_a_scale_in_it_is_computed_once() {
    let constants = |mut list: Vec<TensorProto>| {
        list.extend([constant("s", &[2], 2), constant("b", &[2], 3), constant("mean", &[2], 4)]);
        list.push(TensorProto::floats("variance", &[2], &[0.5, 2.0]));
        list
    };
    let nodes = |latent: &str| {
        vec![
            node("Conv", &["x", "w"], "c", vec![]),
            node("BatchNormalization", &["c", "s", "b", "mean", "variance"], latent, vec![]),
            node("Conv", &[latent, "w"], "m", vec![]),
        ]
    };
    let layers = |bytes: &[u8]| {
        let nae = to_nae(bytes).unwrap();
        Model::parse(&nae).unwrap().layer_count()
    };
    let weights = || constants(vec![constant("w", &[2, 2, 1, 1], 1)]);
    let plain = by_hand(nodes("l"), weights());
    let mut model = ModelProto::decode(&*by_hand(nodes("latent"), weights())).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node.last_mut().unwrap().output = vec!["reconstruction".into()];
    let output = graph.output[0].clone();
    graph.output[0].name = Some("reconstruction".to_owned());
    graph.output.push(ValueInfoProto { name: Some("latent".to_owned()), ..output });
    let both = model.encode_to_vec();
    compare(&both, 1e-6);
    assert_eq!((layers(&plain), layers(&both)), (2, 2));
}

/// ONNX Runtime cuts the input by negative padding, others leave it.
#[test]
fn strides_longer_than_the_kernel_have_no_automatic_padding_before_the_input() {
    let pool = |padding: &str, kernel: i64, stride: i64| {
        let attributes = vec![
            AttributeProto::ints("kernel_shape", [1, kernel]),
            AttributeProto::ints("strides", [1, stride]),
            AttributeProto::string("auto_pad", padding),
        ];
        vec![node("MaxPool", &["x"], "p", attributes), node("ConvTranspose", &["p", "w"], "m", vec![])]
    };
    // The image has four columns: one, three or four apart, or two of them.
    for (padding, kernel, stride) in [("SAME_LOWER", 1, 2), ("SAME_UPPER", 1, 3 + 1), ("SAME_UPPER", 2, 4)] {
        let e = refusal(pool(padding, kernel, stride), vec![constant("w", &[2, 2, 1, 4], 1)]);
        let expected = "auto_pad: expected padding that is not negative, found a stride that is longer than the kernel";
        assert_eq!(e, format!("node `p` (MaxPool): {expected}"), "{padding} {kernel} {stride}");
    }
    compare(&by_hand(pool("SAME_UPPER", 1, 2), vec![constant("w", &[2, 2, 1, 3], 1)]), 1e-6);
}

/// Some runtimes round up then, others do not.
#[test]
fn windows_are_not_rounded_up_beside_automatic_padding() {
    for operator in ["MaxPool", "AveragePool"] {
        let pool = |strides: [i64; 2]| {
            let attributes = vec![
                AttributeProto::ints("kernel_shape", [2, 2]),
                AttributeProto::ints("strides", strides),
                AttributeProto::string("auto_pad", "VALID"),
                AttributeProto::int("ceil_mode", 1),
            ];
            node(operator, &["x"], "p", attributes)
        };
        // Two windows of two are three rows, one apart; two apart, the second is cut off.
        let e =
            refusal(vec![pool([2, 2]), node("Conv", &["p", "w"], "m", vec![])], vec![constant("w", &[2, 2, 1, 1], 1)]);
        let expected = "ceil_mode: expected 0 beside auto_pad, unless it makes no difference, found 1";
        assert_eq!(e, format!("node `p` ({operator}): {expected}"));
        let grown = node("ConvTranspose", &["p", "w"], "m", vec![]);
        compare(&by_hand(vec![pool([1, 2]), grown], vec![constant("w", &[2, 2, 2, 3], 1)]), 1e-6);
    }
    // Padding to the same size leaves nothing to round.
    let same = ["SAME_UPPER", "SAME_LOWER"].map(|padding| {
        let attributes = vec![
            AttributeProto::ints("kernel_shape", [3, 2]),
            AttributeProto::string("auto_pad", padding),
            AttributeProto::int("ceil_mode", 1),
        ];
        node("MaxPool", &["x"], "m", attributes)
    });
    same.into_iter().for_each(|pool| compare(&by_hand(vec![pool], vec![]), 1e-6));
}

/// Whichever comes first.
#[test]
fn a_norm_that_is_clipped_twice_has_both_bounds() {
    for [first, second] in [[20.0, 1e-12], [1e-12, 20.0]] {
        let nodes = vec![
            node("ReduceL2", &["x"], "n", vec![AttributeProto::ints("axes", [1, 2, 3])]),
            node("Clip", &["n", "first"], "p", vec![]),
            node("Clip", &["p", "second"], "q", vec![]),
            node("Div", &["x", "q"], "m", vec![]),
        ];
        let bound = |name: &str, least: f32| TensorProto::floats(name, &[], &[least]);
        compare(&by_hand(nodes, vec![bound("first", first), bound("second", second)]), 1e-6);
    }
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let refused = |inputs: &[&str], axis: i64| {
        let turned = vec![AttributeProto::ints("kernel_shape", [2, 1])];
        let pool = node("MaxPool", &["x"], "low", turned);
        refusal(vec![pool, node("Concat", inputs, "m", vec![AttributeProto::int("axis", axis)])], vec![])
    };
    let e = refused(&["x", "low"], 1);
    assert_eq!(
        e,
        "node `m` (Concat): inputs: expected the shape of [N, 2, 3, 4] but for the second axis, found [N, 2, 2, 4]"
    );
    let e = refused(&["x", "x"], 2);
    assert_eq!(e, "node `m` (Concat): axis: expected the second, 1, found 2");
    // A `.nae` file has no such layer.
    let e = to_nae(&by_hand(
        vec![
            node("Concat", &["x", "x"], "j", vec![AttributeProto::int("axis", -3)]),
            node("Conv", &["j", "w"], "m", vec![]),
        ],
        vec![constant("w", &[2, 4, 1, 1], 1)],
    ));
    assert!(e.unwrap_err().to_string().contains("a concatenation of channels, which a .nae file has no form for"));
}

#[test]
fn group_normalisation_is_lowered_however_it_is_spelled() {
    let mut g = GraphBuilder::new("ours");
    let x = g.image_input("x", [6, 3, 4]).unwrap();
    let (scale, shift) = ([0.5, -1.0, 2.0, 1.0, 0.1, 3.0], [0.1, 0.2, -0.3, 0.4, 0.5, -0.6]);
    let norm = GroupNorm { groups: 2, scale: &scale, shift: &shift, epsilon: 1e-3 };
    let y = g.group_norm("norm", x, &norm).unwrap();
    g.output("y", y).unwrap();
    let ours = g.finish().unwrap().encode_to_vec();
    compare(&ours, 3e-6);
    // Scale and shift are in the layer.
    assert_eq!(Model::parse(&to_nae(&ours).unwrap()).unwrap().layer_count(), 1);

    let epsilon = || vec![AttributeProto::float("epsilon", 1e-3)];
    let ones = || vec![TensorProto::floats("ones", &[1], &[1.0]), TensorProto::floats("zeros", &[1], &[0.0])];
    let shapes = || vec![TensorProto::int64s("there", &[0, 1, -1]), TensorProto::int64s("back", &[-1, 2, 3, 4])];
    let channels = || vec![constant("scale", &[2, 1, 1], 1), constant("shift", &[2, 1, 1], 2)];
    let pytorch = vec![
        node("Reshape", &["x", "there"], "grouped", vec![]),
        node("InstanceNormalization", &["grouped", "ones", "zeros"], "normalized", epsilon()),
        node("Reshape", &["normalized", "back"], "maps", vec![]),
        node("Mul", &["maps", "scale"], "scaled", vec![]),
        node("Add", &["scaled", "shift"], "m", vec![]),
    ];
    compare(&by_hand(pytorch.clone(), [ones(), shapes(), channels()].concat()), 3e-6);

    let axis = || vec![AttributeProto::ints("axes", [2])];
    let written_out = vec![
        node("Reshape", &["x", "there"], "grouped", vec![]),
        node("ReduceMean", &["grouped"], "mean", axis()),
        node("Sub", &["grouped", "mean"], "centered", vec![]),
        node("Pow", &["centered", "two"], "squared", vec![]),
        node("ReduceMean", &["squared"], "variance", axis()),
        node("Add", &["epsilon", "variance"], "stable", vec![]),
        node("Sqrt", &["stable"], "deviation", vec![]),
        node("Div", &["centered", "deviation"], "normalized", vec![]),
        node("Reshape", &["normalized", "back"], "m", vec![]),
    ];
    let constants = vec![TensorProto::floats("two", &[], &[2.0]), TensorProto::floats("epsilon", &[1], &[1e-3])];
    compare(&by_hand(written_out.clone(), [constants.clone(), shapes()].concat()), 3e-6);

    let both = || vec![constant("scale", &[2], 1), constant("shift", &[2], 2)];
    let instance = node("InstanceNormalization", &["x", "scale", "shift"], "m", epsilon());
    compare(&by_hand(vec![instance], both()), 3e-6);
    let attributes = [epsilon(), vec![AttributeProto::int("num_groups", 2)]].concat();
    let group = node("GroupNormalization", &["x", "scale", "shift"], "m", attributes);
    compare(&by_hand(vec![group], both()), 3e-6);

    // What only begins like it.
    let mut halfway = written_out;
    halfway[8].input[0] = "centered".into();
    let e = refusal(halfway, [constants, shapes()].concat());
    assert!(e.ends_with("values of groups of channels are known in group normalization only"), "{e}");
    let e =
        refusal(pytorch, [vec![constant("ones", &[1], 1), constant("zeros", &[1], 2)], shapes(), channels()].concat());
    assert!(e.ends_with("it scales or shifts groups"), "{e}");
}

fn refusal(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> String {
    to_nae(&by_hand(nodes, constants)).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_lowered_is_named() {
    let e = refusal(vec![node("Abs", &["x"], "m", vec![])], vec![]);
    assert_eq!(e, "node `m`: operator Abs cannot be lowered: the engine has no such layer");
    let e = refusal(vec![node("Hardmax", &["x"], "m", vec![])], vec![]);
    assert_eq!(e, "node `m`: operator Hardmax is not supported; docs/scoring.md lists those that are");
    let groups = vec![AttributeProto::int("group", 2)];
    let twice = vec![node("Conv", &["x", "w"], "n", groups), node("Conv", &["n", "v"], "m", vec![])];
    let e = refusal(twice, vec![constant("w", &[4, 1, 1, 1], 1), constant("v", &[2, 4, 1, 1], 2)]);
    assert_eq!(e, "node `n`: operator Conv cannot be lowered: 2 groups; the engine has one, or one for each channel");
    let groups = vec![AttributeProto::int("group", 2)];
    let e = refusal(vec![node("Conv", &["x", "w"], "m", groups)], vec![constant("w", &[2, 1, 1, 1], 1)]);
    assert_eq!(e, "layer 0 is a depthwise convolution, which a .nae file has no form for");
    let e = refusal(vec![node("Sub", &["x", "x"], "m", vec![])], vec![]);
    assert_eq!(e, "node `m`: operator Sub cannot be lowered: both operands are computed at run time");
    let norm = node("ReduceL2", &["x"], "n", vec![AttributeProto::ints("axes", [1])]);
    let e = refusal(vec![norm, node("Div", &["x", "n"], "m", vec![])], vec![]);
    assert_eq!(e, "layer 0 is a normalization of each place, which a .nae file has no form for");
    let norm = node("ReduceL2", &["x"], "n", vec![AttributeProto::ints("axes", [2])]);
    let e = refusal(vec![norm, node("Div", &["x", "n"], "m", vec![])], vec![]);
    assert_eq!(e, "node `n`: operator ReduceL2 cannot be lowered: its norm leaves out axis 1");
    let nodes = vec![node("Reshape", &["x", "there"], "r", vec![]), node("Reshape", &["r", "back"], "m", vec![])];
    let shapes = vec![TensorProto::int64s("there", &[-1, 4, 3, 2]), TensorProto::int64s("back", &[-1, 2, 3, 4])];
    let e = refusal(nodes, shapes);
    assert_eq!(e, "node `r`: operator Reshape cannot be lowered: it reorders the elements of feature maps");
    let e = refusal(vec![node("Mul", &["x", "pixels"], "m", vec![])], vec![constant("pixels", &[3, 4], 1)]);
    assert!(e.ends_with("its constant is neither one number nor one for each channel"), "{e}");
    // Where pixels lie depends on the scale: ⌊3·1.3⌋ × ⌊4·1.2⌋ is 3 × 4, and no pixel but the first stays.
    let resized = |scales: [f32; 4], mode, transformation| {
        let modes = [("mode", mode), ("coordinate_transformation_mode", transformation), ("nearest_mode", "floor")];
        let attributes = modes.map(|(name, value)| AttributeProto::string(name, value)).to_vec();
        let resize = node("Resize", &["x", "", "scales"], "m", attributes);
        by_hand(vec![resize], vec![TensorProto::floats("scales", &[4], &scales)])
    };
    for (mode, transformation) in
        [("linear", "half_pixel"), ("linear", "pytorch_half_pixel"), ("nearest", "asymmetric")]
    {
        let e = to_nae(&resized([1.0, 1.0, 1.3, 1.2], mode, transformation)).unwrap_err().to_string();
        assert_eq!(e, "node `m`: operator Resize cannot be lowered: its scale is not the ratio of the sizes", "{mode}");
        compare(&resized([1.0; 4], mode, transformation), 1e-6);
    }
    // Corners are aligned with the last pixel, or with where it would be if there were parts of pixels: runtimes differ.
    let e = to_nae(&resized([1.0, 1.0, 1.3, 1.2], "linear", "align_corners")).unwrap_err().to_string();
    assert_eq!(
        e,
        "node `m` (Resize): scales: expected with align_corners, whole numbers of rows and columns, found [1.3, 1.2] \
         of 3×4"
    );
    compare(&resized([1.0; 4], "linear", "align_corners"), 1e-6);
    // By 2.2 it is not twice the size: the rounded positions are others.
    for transformation in ["half_pixel", "pytorch_half_pixel"] {
        let enlarged = |scale: f32| {
            let modes = [("mode", "nearest"), ("coordinate_transformation_mode", transformation)];
            let attributes = modes.map(|(name, value)| AttributeProto::string(name, value)).to_vec();
            let half = ["kernel_shape", "strides"].map(|name| AttributeProto::ints(name, [2, 2])).to_vec();
            let nodes = vec![node("Resize", &["x", "", "scales"], "r", attributes), node("MaxPool", &["r"], "m", half)];
            by_hand(nodes, vec![TensorProto::floats("scales", &[4], &[1.0, 1.0, scale, scale])])
        };
        let e = to_nae(&enlarged(2.2)).unwrap_err().to_string();
        assert_eq!(e, "node `r`: operator Resize cannot be lowered: its scale is not the ratio of the sizes");
        compare(&enlarged(2.0), 1e-6);
    }
    // A layer of its own for it would have 6,400² weights, of a file of some hundred bytes.
    let halved = vec![
        node("Flatten", &["x"], "f", vec![]),
        node("Mul", &["f", "half"], "h", vec![]),
        node("Reshape", &["h", "shape"], "m", vec![]),
    ];
    let constants = vec![TensorProto::floats("half", &[], &[0.5]), TensorProto::int64s("shape", &[-1, 1, 80, 80])];
    let e = to_nae(&by_hand_of([1, 80, 80], halved, constants)).unwrap_err().to_string();
    assert!(e.ends_with("it has 6400 channels; with a factor each there may be up to 4096"), "{e}");
}

/// Channels last, the elements of a flattened map lie in another order than those of a vector.
#[test]
fn a_window_does_not_read_a_flattened_map() {
    let ones = |name: &str| AttributeProto::ints(name, [1, 1]);
    for (reader, constants) in [
        (node("MaxPool", &["v"], "p", vec![ones("kernel_shape")]), vec![]),
        (node("GlobalAveragePool", &["v"], "p", vec![]), vec![]),
        (
            node("Conv", &["v", "k"], "p", vec![AttributeProto::int("group", 24)]),
            vec![constant("k", &[24, 1, 1, 1], 1)],
        ),
        (
            node("InstanceNormalization", &["v", "k", "k"], "p", vec![]),
            vec![TensorProto::floats("k", &[24], &[1.0; 24])],
        ),
    ] {
        let operator = reader.op_type().to_owned();
        let nodes = vec![
            node("Flatten", &["x"], "f", vec![]),
            node("Reshape", &["f", "pixel"], "v", vec![]),
            reader,
            node("Flatten", &["p"], "g", vec![]),
            node("Gemm", &["g", "w"], "h", vec![]),
            node("Reshape", &["h", "maps"], "m", vec![]),
        ];
        let shapes = vec![TensorProto::int64s("pixel", &[0, 24, 1, 1]), TensorProto::int64s("maps", &[-1, 2, 3, 4])];
        let e = refusal(nodes, [constants, shapes, vec![constant("w", &[24, 24], 2)]].concat());
        assert_eq!(e, format!("node `p`: operator {operator} cannot be lowered: it reads a flattened map"));
    }
}

/// `count` times a function and a constant of each of 256 channels added to it.
fn shifted(count: usize) -> Vec<u8> {
    let name = |index: usize| if index == 0 { "x".to_owned() } else { format!("a{index}") };
    let pair = |index: usize| {
        let (r, to) = (format!("r{index}"), if index + 1 == count { "m".to_owned() } else { name(index + 1) });
        [node("Relu", &[&name(index)], &r, vec![]), node("Add", &[&r, "shift"], &to, vec![])]
    };
    by_hand_of([256, 1, 1], (0..count).flat_map(pair).collect(), vec![constant("shift", &[1, 256, 1, 1], 1)])
}

/// A file of some kilobytes asked for gigabytes: each layer had its own copy of weights that are in the file once, or
/// the square of their number.
#[test]
fn weights_that_are_copied_are_bounded() {
    let too_many = "its weights, with those of the layers before, are more than four times the file's";
    let e = to_nae(&shifted(300)).unwrap_err().to_string();
    assert!(e.contains("operator Add cannot be lowered") && e.contains(too_many), "{e}");
    // Fewer are what they were, as full convolutions in a file.
    compare(&shifted(3), 1e-6);

    let name = |index: usize| if index == 0 { "f".to_owned() } else { format!("d{index}") };
    let product = |index: usize| node("MatMul", &[&name(index), "w"], &name(index + 1), vec![]);
    let nodes: Vec<NodeProto> = std::iter::once(node("Flatten", &["x"], "f", vec![]))
        .chain((0..300).map(product))
        .chain([node("Reshape", &["d300", "maps"], "m", vec![])])
        .collect();
    let constants = vec![constant("w", &[256, 256], 1), TensorProto::int64s("maps", &[-1, 256, 1, 1])];
    let onnx = by_hand_of([256, 1, 1], nodes, constants);
    let e = to_nae(&onnx).unwrap_err().to_string();
    assert!(e.contains("operator MatMul cannot be lowered") && e.contains(too_many), "{e}");
    assert_eq!(lower(&check(&onnx, &Limits::default()).unwrap()).unwrap_err().to_string(), e);
}

/// On a host, a factor and a shift for each channel are as many weights as channels.
#[test]
fn on_a_host_scaling_takes_a_weight_for_each_channel() {
    let graph = lower(&check(&shifted(300), &Limits::default()).unwrap()).unwrap();
    let layers: Vec<_> = graph.nodes.iter().filter(|node| matches!(node.op, Op::DepthwiseConv2d(_))).collect();
    assert_eq!(layers.len(), 300);
    let Op::DepthwiseConv2d(layer) = &layers[0].op else { unreachable!("they were filtered") };
    assert_eq!((layer.kernel, layer.weights.as_slice()), ([1, 1], &[1.0; 256][..]));
    assert_eq!(layer.bias, Numbers(1).weights(256, 3));
}

/// What exporters compute from shapes; the image is [N, 2, 3, 4].
#[test]
fn shapes_are_computed_beforehand() {
    let ints = |name: &str, values: &[i64]| TensorProto::int64s(name, values);
    let nodes = vec![
        node("Shape", &["x"], "s", vec![]),
        node("Gather", &["s", "first"], "n", vec![]),
        node("Slice", &["s", "one", "last"], "rest", vec![]),
        node("Gather", &["rest", "all"], "extents", vec![]),
        node("Mul", &["extents", "one"], "same", vec![]),
        node("Cast", &["same"], "c", vec![AttributeProto::int("to", 7)]),
        node("Concat", &["n", "minus"], "flat", vec![AttributeProto::int("axis", 0)]),
        node("Reshape", &["x", "flat"], "v", vec![]),
        node("Gemm", &["v", "w"], "g", vec![]),
        node("Concat", &["n", "c"], "back", vec![AttributeProto::int("axis", 0)]),
        node("Reshape", &["g", "back"], "m", vec![AttributeProto::int("allowzero", 1)]),
    ];
    let lists = [("first", &[0][..]), ("one", &[1]), ("last", &[i64::MAX]), ("all", &[0, 1, -1]), ("minus", &[-1])];
    let mut constants: Vec<_> = lists.iter().map(|(name, values)| ints(name, values)).collect();
    constants.push(constant("w", &[24, 24], 9));
    compare(&by_hand(nodes, constants), 1e-6);
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    let shape = || node("Shape", &["x"], "s", vec![]);
    let reshape = || node("Reshape", &["x", "t"], "m", vec![]);
    let refused = |middle: NodeProto, values: &[i64]| {
        refusal(vec![shape(), middle, reshape()], vec![TensorProto::int64s("k", values)])
    };
    let e = refused(node("Gather", &["s", "k"], "t", vec![]), &[4]);
    assert_eq!(e, "node `t` (Gather): indices: expected within 4, found one beyond");
    // Nothing can be computed from a batch that is open.
    let e = refused(node("Add", &["s", "k"], "t", vec![]), &[1]);
    assert!(e.starts_with("node `t` (Add): operands: expected integers that can be computed beforehand"), "{e}");
    let e = refused(node("Div", &["k", "k"], "t", vec![]), &[0]);
    assert!(e.contains("integers that can be computed beforehand"), "{e}");
    let e = refused(node("Slice", &["s", "k", "k"], "t", vec![]), &[i64::MIN]);
    assert!(e.starts_with("node `m` (Reshape): shape"), "{e}");
    let e = refused(node("Concat", &["s", "x"], "t", vec![AttributeProto::int("axis", 0)]), &[1]);
    assert!(e.starts_with("node `t` (Concat): input: expected a list of integers"), "{e}");
    // The mark of the batch in a file.
    let e = refused(node("Identity", &["k"], "t", vec![]), &[i64::MIN + 1, 2, 3, 4]);
    assert!(e.starts_with("constant `k`: expected shapes and axes"), "{e}");
    let e = refused(node("Expand", &["x", "k"], "t", vec![]), &[1, 2, 3, 5]);
    assert!(e.starts_with("node `t` (Expand): shape"), "{e}");
}

#[test]
fn the_reconstruction_must_be_clear() {
    let mut g = GraphBuilder::new("two");
    let x = g.image_input("x", [1, 2, 2]).unwrap();
    let (a, b) = (g.relu("a", x).unwrap(), g.activation("b", x, Activation::Tanh).unwrap());
    g.output("first", a).unwrap();
    g.output("second", b).unwrap();
    let e = to_nae(&g.finish_bytes().unwrap()).unwrap_err();
    assert!(matches!(e, LowerError::NoReconstruction { .. }));
    assert!(e.to_string().ends_with("found `first` [N, 1, 2, 2], `second` [N, 1, 2, 2]"), "{e}");
}

/// An output of the image's shape may be any other value: the file says which is the reconstruction.
#[test]
fn an_output_called_reconstruction_is_not_passed_over() {
    let mut g = GraphBuilder::new("named");
    let x = g.image_input("x", [1, 2, 2]).unwrap();
    let (a, b) = (g.relu("a", x).unwrap(), g.flatten("b", x).unwrap());
    g.output("attention", a).unwrap();
    g.output("reconstruction", b).unwrap();
    let e = to_nae(&g.finish_bytes().unwrap()).unwrap_err();
    assert!(matches!(e, LowerError::NoReconstruction { .. }));
    assert_eq!(
        e.to_string(),
        "no reconstruction: expected an output of the image's shape [N, 1, 2, 2], called `reconstruction` or the only \
         one; found `attention` [N, 1, 2, 2], `reconstruction` [N, 4]"
    );
}

#[test]
fn metadata_must_fit_the_graph() {
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let mut model = ModelProto::decode(onnx.as_slice()).unwrap();
    for (key, value, message) in [
        (
            "nae.preprocessing.width",
            "15",
            "metadata `nae.preprocessing.width, .height, .channels` says 1x16x15 (CxHxW), the graph has an input of 1x16x16",
        ),
        ("nae.latent.dimension", "31", "metadata `nae.latent.dimension` says 31, the graph has a latent of 32"),
        ("nae.energy", "l3", "metadata `nae.energy` must be squared-l2, l1 or ssim, found l3"),
    ] {
        let entry = model.metadata_props.iter_mut().find(|e| e.key() == key).unwrap();
        let old = entry.value.replace(value.into());
        assert_eq!(to_nae(&model.encode_to_vec()).unwrap_err().to_string(), message);
        model.metadata_props.iter_mut().find(|e| e.key() == key).unwrap().value = old;
    }
}

#[test]
fn ssim_is_for_images_from_0_to_1() {
    let onnx = support::digits(1, Energy::Ssim).unwrap();
    let mut model = ModelProto::decode(onnx.as_slice()).unwrap();
    let low = model.metadata_props.iter_mut().find(|e| e.key() == "nae.preprocessing.low").unwrap();
    low.value = Some("-1".into());
    let error = to_nae(&model.encode_to_vec()).unwrap_err().to_string();
    assert_eq!(error, "metadata `nae.energy` must be squared-l2 or l1 for a range other than 0 to 1, found ssim");
}
