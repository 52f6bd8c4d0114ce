//! The library: backends agree with one another and with what they were given.
#![allow(clippy::unwrap_used)]

#[path = "../../crates/nae-onnx/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::sync::Arc;

use nae_core::Shape;
use nae_core::energy::Energy;
use nae_core::engine::Engine;
use nae_core::model::Model;
use nae_core::verdict::Verdict;
use nae_infer::backend::{Backend, BackendError, Reconstructions};
use nae_infer::input::Pixels;
use nae_infer::{BackendKind, Detector, Limits, OpenError, ScoreError};
use nae_onnx::builder::{Conv2d, Gemm, GraphBuilder, Pool2d, Value};
use nae_onnx::check::graph::OnnxGraph;
use nae_onnx::metadata::{Column, Columns, Features, Missing, ModelMetadata, RowWindow, Tiles, Transforms};
use nae_onnx::proto::{AttributeProto, ModelProto, NodeProto, TensorProto};
use prost::Message as _;
use support::Numbers;

/// Largest relative difference between the energies of two backends on these models.
const BOUND: f32 = 2e-6;

fn images(shape: Shape, n: usize) -> Vec<f32> {
    let mut numbers = Numbers(5);
    (0..n * shape.len()).map(|_| numbers.unit()).collect()
}

fn open(kind: BackendKind, onnx: &[u8]) -> Result<Detector, OpenError> {
    Detector::builder().backend(kind).read(onnx.to_vec(), "model.onnx")
}

/// The backends of this build that can run here; says which cannot, and why.
fn backends() -> Vec<BackendKind> {
    let mut kinds = vec![BackendKind::Native];
    if BackendKind::Tract.is_built_in() {
        kinds.push(BackendKind::Tract);
    } else {
        eprintln!("skipped: tract, this build has no feature `tract`");
    }
    if BackendKind::Simd.is_built_in() {
        kinds.push(BackendKind::Simd);
    } else {
        eprintln!("skipped: nae-simd, this build has no feature `simd`");
    }
    match (BackendKind::Ort.is_built_in(), std::env::var_os("ORT_DYLIB_PATH")) {
        (true, Some(_)) => kinds.push(BackendKind::Ort),
        (true, None) => eprintln!("skipped: ONNX Runtime, ORT_DYLIB_PATH is not set"),
        (false, _) => eprintln!("skipped: ONNX Runtime, this build has no feature `ort`"),
    }
    kinds
}

#[test]
fn backends_agree_on_features() {
    let (onnx, shape) = (support::features(3).unwrap(), Shape::new(3, 12, 10));
    let model = nae_onnx::check::check(&onnx, &nae_infer::Limits::default()).unwrap();
    let batch = images(shape, 11);
    // nae-core's engine has no such layers, and says so.
    let error = open(BackendKind::Native, &onnx).err().unwrap().to_string();
    assert!(error.contains("cannot load the model: it is a model of features"), "{error}");
    for kind in backends().into_iter().filter(|&kind| kind != BackendKind::Native) {
        let detector = open(kind, &onnx).unwrap();
        let scored = detector.score_prepared(&batch).unwrap();
        assert_eq!(scored.len(), 11);
        for (image, scored) in batch.chunks(shape.len()).zip(&scored) {
            let outputs = support::reference::run(&model.graph, image);
            let output = |name: &str| &outputs.iter().find(|(output, _)| output == name).unwrap().1;
            assert!((f64::from(scored.energy) - output("energy")[0]).abs() < 1e-5, "{kind:?}");
            // Each place is two pixels wide and high.
            assert_eq!((scored.error_map_shape, scored.error_map.len()), (Shape::new(1, 12, 10), 120));
            for (pixel, found) in scored.error_map.iter().enumerate() {
                let expected = output("heat_map")[pixel / 20 * 5 + pixel % 10 / 2];
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{kind:?} {pixel}: {found} {expected}");
            }
            assert!(scored.latent.is_none() && scored.verdict.is_some());
        }
    }
    // Metadata that do not fit the graph.
    let mut metadata = nae_onnx::metadata::ModelMetadata::read(&prost_model(&onnx)).unwrap().unwrap();
    metadata.features.as_mut().unwrap().rows = 5;
    let error = open(BackendKind::Simd, &metadata.attach(&onnx).unwrap()).err().unwrap().to_string();
    assert!(error.contains("metadata says features of 6x5x5") && error.contains("`features` has 6x6x5"), "{error}");
}

fn prost_model(onnx: &[u8]) -> nae_onnx::proto::ModelProto {
    prost::Message::decode(onnx).unwrap()
}

#[test]
fn backends_agree() {
    for (onnx, shape) in [
        (support::digits(1, Energy::SquaredL2).unwrap(), Shape::new(1, 16, 16)),
        (support::digits(2, Energy::Ssim).unwrap(), Shape::new(1, 16, 16)),
        (support::odd(1, Energy::L1).unwrap(), Shape::new(3, 6, 8)),
    ] {
        let batch = images(shape, 40);
        let expected = open(BackendKind::Native, &onnx).unwrap().score_prepared(&batch).unwrap();
        assert_eq!(expected.len(), 40);
        for kind in backends() {
            let detector = open(kind, &onnx).unwrap();
            assert_eq!(detector.backend(), kind);
            let found = detector.score_prepared(&batch).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                let difference = (found.energy - expected.energy).abs() / expected.energy;
                assert!(difference <= BOUND, "{kind:?}: {} {}", found.energy, expected.energy);
                let latents = found.latent.as_ref().unwrap().iter().zip(expected.latent.as_ref().unwrap());
                for (a, b) in latents {
                    assert!((a - b).abs() < 1e-5, "{kind:?}: latent {a} {b}");
                }
                for (a, b) in found.error_map.iter().zip(&expected.error_map) {
                    assert!((a - b).abs() < 1e-5, "{kind:?}: map {a} {b}");
                }
            }
        }
    }
}

/// A model of these outputs of a graph, with the metadata of its images; without those of features.
fn foreign(mut graph: GraphBuilder, image: Shape, outputs: &[(&str, Value)]) -> ModelProto {
    outputs.iter().for_each(|&(name, value)| graph.output(name, value).unwrap());
    let metadata = support::metadata(image, 1, Energy::SquaredL2);
    ModelMetadata { latent: None, ..metadata }.add_to(&mut graph);
    graph.finish().unwrap()
}

/// A network that makes `channels` features of a grey image of 8×8 pixels, and reconstructs `reconstructed` of them.
fn of_features(channels: usize, reconstructed: usize, absolute: bool) -> ModelProto {
    let mut graph = GraphBuilder::new("features");
    let (mut numbers, image) = (Numbers(3), graph.image_input("image", [1, 8, 8]).unwrap());
    let weights = [numbers.weights(channels, 1), numbers.weights(channels * reconstructed, channels)];
    let mut features = graph.conv2d("encode", image, &Conv2d::new(channels, [1; 2], &weights[0], None)).unwrap();
    if absolute {
        features = graph.abs("absolute", features).unwrap();
    }
    let decode = Conv2d::new(reconstructed, [1; 2], &weights[1], None);
    let reconstruction = graph.conv2d("decode", features, &decode).unwrap();
    foreign(graph, Shape::new(1, 8, 8), &[("features", features), ("reconstruction", reconstruction)])
}

/// Of such a model, an image's energy was computed with the values of others of its batch.
#[test]
fn a_reconstruction_has_the_shape_of_what_it_is_compared_with() {
    let onnx = of_features(3, 3, false).encode_to_vec();
    for kind in backends() {
        let error = open(kind, &onnx).err().unwrap().to_string();
        assert_eq!(
            error,
            "model.onnx: metadata says images of 1x8x8 (CxHxW) and no features, output `reconstruction` has 3x8x8; add \
             the metadata `nae.features.`, or export a reconstruction of the image",
            "{kind:?}"
        );
    }
}

/// A backend that returns more, or less, than an image.
struct Another(usize);

impl Backend for Another {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn reconstruct(&self, _: &[f32]) -> Result<Reconstructions, BackendError> {
        Ok(Reconstructions { images: vec![0.5; self.0], ..Reconstructions::default() })
    }
}

#[test]
fn a_backend_returns_as_many_values_as_its_images_have() {
    let settings =
        open(BackendKind::Native, &support::digits(1, Energy::SquaredL2).unwrap()).unwrap().settings().clone();
    let score =
        |length| Detector::with_backend(settings.clone(), Arc::new(Another(length))).score_prepared(&[0.5; 512]);
    assert_eq!(score(512).unwrap().len(), 2);
    for length in [0, 256, 511, 1536] {
        let error = score(length).unwrap_err();
        assert!(matches!(error, ScoreError::Backend(BackendError::Run { .. })), "{error}");
        assert!(error.to_string().contains(&format!("expected 512 values, found {length}")), "{error}");
    }
}

/// A bottleneck may be called `features`.
#[test]
fn an_output_called_features_is_one_of_its_reconstructions_shape() {
    let onnx = of_features(3, 1, false).encode_to_vec();
    let batch = images(Shape::new(1, 8, 8), 3);
    let energies = |kind| -> Vec<f32> {
        open(kind, &onnx).unwrap().score_prepared(&batch).unwrap().iter().map(|scored| scored.energy).collect()
    };
    let expected = energies(BackendKind::Native);
    for kind in backends() {
        for (found, expected) in energies(kind).iter().zip(&expected) {
            assert!((found - expected).abs() <= BOUND * expected, "{kind:?}: {found} {expected}");
        }
    }
}

/// Not that of native, which is tried last and for such a model always the same.
#[cfg(feature = "simd")]
#[test]
fn if_no_backend_takes_the_model_the_preferred_ones_reason_is_named() {
    use nae_onnx::proto::DimensionValue;
    let mut model = of_features(3, 3, true);
    let input = &mut model.graph.as_mut().unwrap().input[0];
    let tensor = input.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap();
    tensor.shape.as_mut().unwrap().dim[0].value = Some(DimensionValue::Size(4));
    let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
    metadata.features = Some(Features { components: 3, rows: 8, columns: 8, top_k: 1 });
    metadata.replace_in(&mut model);
    let error = Detector::builder().read(model.encode_to_vec(), "model.onnx").err().unwrap().to_string();
    assert!(error.contains("backend `simd` cannot load") && error.contains("operator Abs"), "{error}");
}

/// The elements of a flattened map are in another order in simd and native, which gave other energies for this graph.
#[cfg(all(feature = "simd", feature = "tract"))]
#[test]
fn a_window_on_a_flattened_map_is_left_to_tract() {
    let mut graph = GraphBuilder::new("flattened");
    let (mut numbers, image) = (Numbers(3), graph.image_input("image", [1, 4, 4]).unwrap());
    let [first, second] = [16, 256].map(|count| numbers.weights(count, 4));
    let halves = Conv2d { stride: [2; 2], ..Conv2d::new(4, [2; 2], &first, None) };
    let mut x = graph.conv2d("encode", image, &halves).unwrap();
    x = graph.flatten("flat", x).unwrap();
    x = graph.reshape("pixel", x, &[16, 1, 1]).unwrap();
    x = graph.max_pool2d("pool", x, &Pool2d::square(1)).unwrap();
    x = graph.flatten("again", x).unwrap();
    x = graph.gemm("decode", x, &Gemm { features: 16, weight: &second, bias: None, transposed: true }).unwrap();
    x = graph.reshape("image.shape", x, &[1, 4, 4]).unwrap();
    let onnx = foreign(graph, Shape::new(1, 4, 4), &[("reconstruction", x)]).encode_to_vec();
    for kind in [BackendKind::Simd, BackendKind::Native] {
        let error = open(kind, &onnx).err().unwrap().to_string();
        assert!(error.contains("node `pool`") && error.contains("it reads a flattened map"), "{error}");
    }
    let checked = nae_onnx::check::check(&onnx, &Limits::default()).unwrap();
    let detector = Detector::builder().read(onnx, "model.onnx").unwrap();
    assert_eq!(detector.backend(), BackendKind::Tract);
    for image in images(Shape::new(1, 4, 4), 5).chunks(16) {
        let outputs = support::reference::run(&checked.graph, image);
        let squares = outputs[0].1.iter().zip(image).map(|(made, &given)| (made - f64::from(given)).powi(2));
        let expected = squares.sum::<f64>() / 16.0;
        let found = f64::from(detector.score_prepared(image).unwrap()[0].energy);
        assert!((found - expected).abs() < 1e-5 * expected, "{found} {expected}");
    }
}

/// By 2.003, 200 columns are 400 that are not those of twice the size.
#[cfg(all(feature = "simd", feature = "tract"))]
#[test]
fn a_scale_that_is_not_the_ratio_of_the_sizes_is_left_to_tract() {
    let (height, width, scale) = (2, 200, 2.003f32);
    let mut graph = GraphBuilder::new("enlarged");
    let image = graph.image_input("image", [1, height, width]).unwrap();
    let large = graph.resize_nearest("large", image, [2 * height, 2 * width]).unwrap();
    let pool = Pool2d { stride: [2; 2], ..Pool2d::square(1) };
    let y = graph.max_pool2d("half", large, &pool).unwrap();
    let shape = Shape::new(1, height, width);
    let mut model = foreign(graph, shape, &[("reconstruction", y)]);
    let graph = model.graph.as_mut().unwrap();
    let resize = graph.node.iter_mut().find(|node| node.op_type() == "Resize").unwrap();
    resize.input = vec!["image".into(), String::new(), "scales".into()];
    let modes =
        [("mode", "nearest"), ("coordinate_transformation_mode", "half_pixel"), ("nearest_mode", "round_prefer_floor")];
    resize.attribute = modes.map(|(name, value)| AttributeProto::string(name, value)).to_vec();
    graph.initializer = vec![TensorProto::floats("scales", &[4], &[1.0, 1.0, scale, scale])];
    let onnx = model.encode_to_vec();
    for kind in [BackendKind::Simd, BackendKind::Native] {
        let error = open(kind, &onnx).err().unwrap().to_string();
        assert!(error.contains("its scale is not the ratio of the sizes"), "{error}");
    }
    let detector = Detector::builder().read(onnx, "model.onnx").unwrap();
    assert_eq!(detector.backend(), BackendKind::Tract);
    // Every second pixel of the large image, where it comes from: halves are rounded down.
    let from = |to: usize| ((2.0 * to as f64 + 0.5) / f64::from(scale) - 1.0).ceil().max(0.0) as usize;
    let image = images(shape, 1);
    let made: Vec<f32> = (0..height * width).map(|at| image[from(at / width) * width + from(at % width)]).collect();
    let expected = Energy::SquaredL2.evaluate(&image, &made, shape).unwrap();
    let found = detector.score_prepared(&image).unwrap()[0].energy;
    assert!(expected > 0.0 && (found - expected).abs() < 1e-6, "{found} {expected}");
}

/// A model whose features are the second operand of `operator`. The first is one number for each of up to 3 `channels`: a constant,
/// or the mean of other features.
fn of_numbers_first(operator: &str, constant: bool, channels: usize) -> Vec<u8> {
    let (mut numbers, mut graph) = (Numbers(8), GraphBuilder::new("numbers first"));
    let image = graph.image_input("image", [1, 6, 5]).unwrap();
    let [first, second, third] = [9, 1, 9].map(|count| numbers.weights(count * channels, 9));
    // Biases keep what is divided by, and powers, away from zero.
    let biases = &[4.0, 5.0, 6.0][..channels];
    let conv = |weights| Conv2d { padding: [1; 4], ..Conv2d::new(channels, [3; 2], weights, Some(biases)) };
    let features = graph.conv2d("encode", image, &conv(&first)).unwrap();
    graph.conv2d("others", image, &conv(&third)).unwrap();
    let decoded = graph.conv2d("decode", features, &Conv2d::new(1, [1; 2], &second, None)).unwrap();
    let mut model = foreign(graph, Shape::new(1, 6, 5), &[("reconstruction", decoded)]);
    let graph = model.graph.as_mut().unwrap();
    let node = |operator: &str, inputs: &[&str], output: &str| NodeProto {
        name: Some(output.into()),
        input: inputs.iter().map(|&input| input.into()).collect(),
        output: vec![output.into()],
        op_type: Some(operator.into()),
        ..NodeProto::default()
    };
    let at = graph.node.iter().position(|node| node.name() == "decode").unwrap();
    let features = std::mem::replace(&mut graph.node[at].input[0], "taken".into());
    graph.node.insert(at, node(operator, &["numbers", &features], "taken"));
    if constant {
        let first = &[0.5, 1.0, 2.0][..channels];
        graph.initializer.push(TensorProto::floats("numbers", &[channels, 1, 1], first));
    } else {
        let others = graph.node.iter().find(|node| node.name() == "others").unwrap().output[0].clone();
        graph.node.insert(at, node("GlobalAveragePool", &[&others], "numbers"));
    }
    model.encode_to_vec()
}

/// A convolution of `kernel` taps of three channels that `Expand` makes of a grey image; and the same of the grey image.
fn of_repeated_channels(kernel: usize) -> [Vec<u8>; 2] {
    let (shape, taps) = (Shape::new(1, 6, 5), kernel * kernel);
    let weights = Numbers(5).weights(3 * taps, 3);
    let summed: Vec<f32> = (0..taps).map(|tap| (0..3).map(|c| weights[c * taps + tap]).sum()).collect();
    let of = |channels: usize, weights: &[f32]| {
        let mut graph = GraphBuilder::new("repeated channels");
        let image = graph.image_input("image", [channels, 6, 5]).unwrap();
        let conv = Conv2d { padding: [kernel / 2; 4], ..Conv2d::new(1, [kernel; 2], weights, None) };
        let decoded = graph.conv2d("decode", image, &conv).unwrap();
        foreign(graph, shape, &[("reconstruction", decoded)])
    };
    let mut repeated = of(3, &weights);
    let graph = repeated.graph.as_mut().unwrap();
    graph.initializer.push(TensorProto::int64s("shape", &[1, 3, 1, 1]));
    let repeat = NodeProto {
        name: Some("repeat".into()),
        input: vec!["image".into(), "shape".into()],
        output: vec!["repeated".into()],
        op_type: Some("Expand".into()),
        ..NodeProto::default()
    };
    graph.node.insert(0, repeat);
    graph.node.iter_mut().filter(|node| node.name() == "decode").for_each(|node| node.input[0] = "repeated".into());
    let input = graph.input[0].r#type.as_mut().unwrap().tensor_type.as_mut().unwrap().shape.as_mut().unwrap();
    input.dim[1].value = Some(nae_onnx::proto::DimensionValue::Size(1));
    [repeated.encode_to_vec(), of(1, &summed).encode_to_vec()]
}

/// tract's energies of such models were wrong, without an error.
#[cfg(feature = "tract")]
#[test]
fn tract_refuses_repeated_channels_before_a_convolution_of_one_tap() {
    let [repeated, _] = of_repeated_channels(1);
    let error = open(BackendKind::Tract, &repeated).err().unwrap().to_string();
    assert!(error.contains("wrong values of node `decode`") && error.contains("Expand"), "{error}");
    let [repeated, plain] = of_repeated_channels(3);
    let image = images(Shape::new(1, 6, 5), 1);
    let energy = |kind, onnx| open(kind, onnx).unwrap().score_prepared(&image).unwrap()[0].energy;
    let (found, expected) = (energy(BackendKind::Tract, &repeated), energy(BackendKind::Native, &plain));
    assert!((found - expected).abs() < 1e-5 * expected, "{found} {expected}");
}

/// tract's energies of such models were wrong, without an error.
#[test]
fn a_backend_refuses_what_it_would_get_wrong() {
    let shape = Shape::new(1, 6, 5);
    let operators = [("Sub", true), ("Div", true), ("Pow", true), ("Sub", false), ("Div", false)];
    for ((operator, constant), channels) in operators.into_iter().flat_map(|operator| [1, 2, 3].map(|n| (operator, n)))
    {
        let onnx = of_numbers_first(operator, constant, channels);
        let checked = nae_onnx::check::check(&onnx, &Limits::default()).unwrap();
        for kind in backends() {
            let detector = match (kind, open(kind, &onnx)) {
                (_, Ok(detector)) => detector,
                (BackendKind::Tract, Err(error)) => {
                    let error = error.to_string();
                    assert!(operator != "Pow" && error.contains("wrong values of node `taken`"), "{error}");
                    continue;
                }
                (BackendKind::Simd | BackendKind::Native, Err(error)) => {
                    let error = error.to_string();
                    assert!((operator, constant) != ("Sub", true) && error.contains("node `taken`"), "{error}");
                    continue;
                }
                (_, Err(error)) => panic!("{kind:?}: {error}"),
            };
            for image in images(shape, 5).chunks(shape.len()) {
                let expected = energy_by_reference(&checked.graph, image);
                let found = f64::from(detector.score_prepared(image).unwrap()[0].energy);
                let agree = (found - expected).abs() < 1e-5 * expected;
                assert!(agree, "{kind:?} {operator} {constant} {channels}: {found} {expected}");
            }
        }
    }
}

/// tract's energies of such models were wrong, without an error: it padded for a stride of 2 what has a stride of 1.
#[test]
fn padding_is_that_of_the_convolution_also_if_a_stride_of_one_tap_follows() {
    let (shape, mut numbers) = (Shape::new(1, 6, 8), Numbers(6));
    let (first, second) = (numbers.weights(18, 9), numbers.weights(2, 2));
    for same in ["SAME_UPPER", "SAME_LOWER"] {
        let mut graph = GraphBuilder::new("padded");
        let image = graph.image_input("image", [1, 6, 8]).unwrap();
        let conv = Conv2d { padding: [1; 4], ..Conv2d::new(2, [3; 2], &first, None) };
        let mut x = graph.conv2d("padded", image, &conv).unwrap();
        x = graph.relu("relu", x).unwrap();
        x = graph.conv2d("strided", x, &Conv2d { stride: [2; 2], ..Conv2d::new(1, [1; 2], &second, None) }).unwrap();
        x = graph.resize_nearest("large", x, [6, 8]).unwrap();
        let mut model = foreign(graph, shape, &[("reconstruction", x)]);
        let nodes = &mut model.graph.as_mut().unwrap().node;
        let padded = nodes.iter_mut().find(|node| node.name() == "padded").unwrap();
        padded.attribute.retain(|attribute| attribute.name() != "pads");
        padded.attribute.push(AttributeProto::string("auto_pad", same));
        let onnx = model.encode_to_vec();
        let checked = nae_onnx::check::check(&onnx, &Limits::default()).unwrap();
        for kind in backends() {
            let detector = open(kind, &onnx).unwrap();
            for image in images(shape, 3).chunks(shape.len()) {
                let expected = energy_by_reference(&checked.graph, image);
                let found = f64::from(detector.score_prepared(image).unwrap()[0].energy);
                assert!((found - expected).abs() < 1e-5 * expected, "{kind:?} {same}: {found} {expected}");
            }
        }
    }
}

/// The mean squared error of a model's first output, computed in f64.
fn energy_by_reference(graph: &OnnxGraph, image: &[f32]) -> f64 {
    let outputs = support::reference::run(graph, image);
    let squares = outputs[0].1.iter().zip(image).map(|(made, &given)| (made - f64::from(given)).powi(2));
    squares.sum::<f64>() / image.len() as f64
}

/// After an activation, a layer of its own: of a weight for each channel on a host, and a full convolution in a `.nae` file.
#[test]
fn backends_agree_on_scaling_by_channel() {
    let (mut numbers, mut graph) = (Numbers(8), GraphBuilder::new("scaled"));
    let mut x = graph.image_input("image", [1, 9, 7]).unwrap();
    let (first, second) = (numbers.weights(20, 1), numbers.weights(20, 20));
    x = graph.conv2d("encode", x, &Conv2d::new(20, [1; 2], &first, None)).unwrap();
    x = graph.relu("relu", x).unwrap();
    x = graph.conv2d("decode", x, &Conv2d::new(1, [1; 2], &second, None)).unwrap();
    let shape = Shape::new(1, 9, 7);
    let mut model = foreign(graph, shape, &[("reconstruction", x)]);
    let graph = model.graph.as_mut().unwrap();
    let parameters = ["scale", "bias", "mean", "variance"];
    for name in parameters {
        let values: Vec<f32> = (0..20).map(|_| numbers.unit() + 0.1).collect();
        graph.initializer.push(TensorProto::floats(name, &[20], &values));
    }
    let at = graph.node.iter().position(|node| node.name() == "decode").unwrap();
    let from = std::mem::replace(&mut graph.node[at].input[0], "normal".into());
    let normalize = NodeProto {
        input: [from].into_iter().chain(parameters.map(str::to_owned)).collect(),
        output: vec!["normal".into()],
        op_type: Some("BatchNormalization".into()),
        ..NodeProto::default()
    };
    graph.node.insert(at, normalize);
    let onnx = model.encode_to_vec();
    let batch = images(shape, 9);
    let expected = open(BackendKind::Native, &onnx).unwrap().score_prepared(&batch).unwrap();
    for kind in backends() {
        for (found, expected) in open(kind, &onnx).unwrap().score_prepared(&batch).unwrap().iter().zip(&expected) {
            let difference = (found.energy - expected.energy).abs() / expected.energy;
            assert!(difference <= BOUND, "{kind:?}: {} {}", found.energy, expected.energy);
        }
    }
}

/// A table's row is an input as a grey image is, of one column.
#[test]
fn an_image_is_not_scored_by_a_model_of_tables() {
    let mut model = prost_model(&support::digits(1, Energy::SquaredL2).unwrap());
    let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
    let column = |n| Column::number(format!("c{n}"), 0.5, 0.125, 4.0);
    metadata.columns = Some(Columns::new((0..64).map(column).collect(), Missing::Refuse).unwrap());
    metadata.window = Some(RowWindow { rows: 4, stride: 3 });
    metadata.replace_in(&mut model);
    let detector = open(BackendKind::Native, &model.encode_to_vec()).unwrap();
    let image = nae_infer::image::DynamicImage::new_luma8(16, 16);
    let error = detector.score(&image).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a model of tables, not of images: prepare its rows, and hand them over with `score_prepared`"
    );
    assert_eq!(detector.score_pixels(&Pixels::from(&image)), Err(ScoreError::Table));
    assert_eq!(detector.score_pixels_where(&Pixels::from(&image), |_, _| true), Err(ScoreError::Table));
    assert_eq!(detector.stream().unwrap().score(&image), Err(ScoreError::Table));
    assert!(detector.score_prepared(&[0.5; 256]).is_ok());
}

/// What a microcontroller's file has no form for: depthwise convolutions and clamps.
#[test]
fn backends_of_a_host_agree_on_the_layers_of_small_networks() {
    let (onnx, batch) = (support::mobile(3).unwrap(), images(Shape::new(3, 12, 10), 7));
    let error = open(BackendKind::Native, &onnx).err().unwrap().to_string();
    assert!(error.contains("layer 1 is a clamp, which a .nae file has no form for"), "{error}");
    let mut scores = Vec::new();
    for kind in backends().into_iter().filter(|kind| *kind != BackendKind::Native) {
        scores.push((kind, open(kind, &onnx).unwrap().score_prepared(&batch).unwrap()));
    }
    for (kind, found) in &scores {
        for (found, expected) in found.iter().zip(&scores[0].1) {
            let difference = (found.energy - expected.energy).abs() / expected.energy;
            assert!(difference <= BOUND, "{kind:?}: {} {}", found.energy, expected.energy);
        }
    }
}

/// simd where it has the layers, and what comes next where it does not.
#[cfg(all(feature = "simd", feature = "tract"))]
#[test]
fn the_usual_backend_is_one_that_has_the_layers() {
    use nae_infer::backend::{BackendChoice, BackendOptions, load};
    use nae_infer::card::ModelFile;
    let usual = |onnx: Vec<u8>, length| {
        let file = ModelFile::parse(onnx, &nae_infer::Limits::default()).unwrap();
        load(&file, BackendChoice::Usual, &BackendOptions::default(), length).unwrap().kind()
    };
    assert_eq!(usual(support::digits(1, Energy::SquaredL2).unwrap(), 256), BackendKind::Simd);
    let mut graph = nae_onnx::builder::GraphBuilder::new("absolute");
    let x = graph.image_input("image", [1, 4, 4]).unwrap();
    let y = graph.abs("y", x).unwrap();
    graph.output("reconstruction", y).unwrap();
    assert_eq!(usual(graph.finish_bytes().unwrap(), 16), BackendKind::Tract);

    // A plane that its tables would take a gigabyte for.
    let mut graph = nae_onnx::builder::GraphBuilder::new("large");
    let x = graph.image_input("image", [1, 4096, 4096]).unwrap();
    let y = graph.sigmoid("y", x).unwrap();
    graph.output("reconstruction", y).unwrap();
    assert_eq!(usual(graph.finish_bytes().unwrap(), 1 << 24), BackendKind::Tract);
}

/// The batch size of a model by other programs is any symbol, or none. PyTorch also writes it into the shapes of values inside
/// the network.
#[cfg(feature = "tract")]
#[test]
fn tract_runs_models_with_any_symbol_for_the_batch() {
    use nae_infer::backend::{BackendChoice, BackendOptions, load};
    use nae_infer::card::ModelFile;
    use nae_onnx::proto::{DimensionValue, ValueInfoProto};
    let batch = |info: &mut ValueInfoProto, to: Option<&str>| {
        let shape = info.r#type.as_mut()?.tensor_type.as_mut()?.shape.as_mut()?;
        let first = shape.dim.first_mut().filter(|dim| matches!(dim.value, Some(DimensionValue::Symbol(_))))?;
        first.value = to.map(|symbol| DimensionValue::Symbol(symbol.to_owned()));
        Some(())
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/pytorch");
    for name in ["perceptron", "residual", "strided"] {
        let samples = std::fs::read(folder.join(name).with_extension("bin")).unwrap();
        let samples: Vec<f32> = samples.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        for exporter in ["old", "new"] {
            let original = std::fs::read(folder.join(format!("{name}-{exporter}.onnx"))).unwrap();
            let mut models = vec![original.clone()];
            for symbol in [Some("N"), Some("batch"), None] {
                let mut model = prost_model(&original);
                let graph = model.graph.as_mut().unwrap();
                assert!(batch(&mut graph.input[0], symbol).is_some());
                graph.output.iter_mut().chain(&mut graph.value_info).for_each(|info| _ = batch(info, symbol));
                models.push(model.encode_to_vec());
            }
            for onnx in models {
                let file = ModelFile::parse(onnx, &Limits::default()).unwrap();
                let length = samples.len() / 8;
                let choice = BackendChoice::This(BackendKind::Tract);
                let tract = load(&file, choice, &BackendOptions::default(), length).unwrap();
                for sample in samples.chunks_exact(2 * length) {
                    let (image, expected) = sample.split_at(length);
                    let found = tract.reconstruct(image).unwrap().images;
                    let nearly = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-6);
                    assert!(found.len() == length && nearly, "{name} {exporter}");
                }
            }
        }
    }
}

/// A `.nae` file has no tiles, transforms or columns: what they would have made of an image cannot be scored by it.
#[test]
fn a_lowered_file_scores_no_image_that_its_model_would_have_prepared_otherwise() {
    let whole = ModelMetadata::read(&prost_model(&support::digits(1, Energy::SquaredL2).unwrap())).unwrap().unwrap();
    let tiles = ModelMetadata { tiles: Some(Tiles { stride: 8, top_k: 1 }), ..whole.clone() };
    let inverted = ModelMetadata { transforms: Transforms { invert: true, ..Transforms::default() }, ..whole.clone() };
    for (metadata, prepared) in [(whole, false), (tiles, true), (inverted, true)] {
        let mut model = prost_model(&support::digits(1, Energy::SquaredL2).unwrap());
        metadata.replace_in(&mut model);
        let nae = nae_onnx::lower::to_nae(&model.encode_to_vec()).unwrap();
        let detector = Detector::builder().read(nae, "model.nae").unwrap();
        let score = |side: u32| detector.score(&nae_infer::image::DynamicImage::new_luma8(side, 16));
        assert_eq!(detector.settings().prepared, prepared);
        assert!(score(16).is_ok());
        match score(20) {
            Ok(_) => assert!(!prepared),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    prepared && error.starts_with("expected a sample of 16×16") && error.contains("20×16"),
                    "{error}"
                );
            }
        }
    }
}

/// A dilated convolution is left to tract, which is then the usual backend.
#[cfg(all(feature = "simd", feature = "tract"))]
#[test]
fn a_model_of_pytorch_that_simd_does_not_support_is_scored() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/pytorch/residual-old.onnx");
    let mut model = prost_model(&std::fs::read(path).unwrap());
    let graph = model.graph.as_mut().unwrap();
    let node = graph.node.iter_mut().find(|node| node.name() == "/b/Conv").unwrap();
    node.attribute.retain(|attribute| !["dilations", "pads"].contains(&attribute.name()));
    node.attribute.extend([AttributeProto::ints("dilations", [2; 2]), AttributeProto::ints("pads", [2; 4])]);
    let image = Shape::new(1, 16, 16);
    let metadata = support::metadata(image, 1, Energy::SquaredL2);
    ModelMetadata { latent: None, ..metadata }.replace_in(&mut model);
    let detector = Detector::builder().read(model.encode_to_vec(), "model.onnx").unwrap();
    assert_eq!(detector.backend(), BackendKind::Tract);
    assert_eq!(detector.score_prepared(&images(image, 3)).unwrap().len(), 3);
}

/// An image's result does not depend on how many go through together.
#[cfg(feature = "simd")]
#[test]
fn simd_scores_an_image_alone_as_in_a_batch() {
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let detector = open(BackendKind::Simd, &onnx).unwrap();
    let batch = images(Shape::new(1, 16, 16), 21);
    let alone: Vec<_> = batch.chunks(256).flat_map(|image| detector.score_prepared(image).unwrap()).collect();
    assert_eq!(detector.score_prepared(&batch).unwrap(), alone);
}

#[cfg(feature = "ort")]
#[test]
fn an_execution_provider_that_is_not_there_is_named() {
    use nae_infer::ExecutionProvider;
    if !backends().contains(&BackendKind::Ort) {
        return;
    }
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let open = |providers: &[ExecutionProvider]| {
        let builder = Detector::builder().backend(BackendKind::Ort).execution_providers(providers);
        builder.read(onnx.clone(), "model.onnx")
    };
    assert!(open(&[ExecutionProvider::Cpu]).is_ok());
    // No library has both of them.
    let error = open(&[ExecutionProvider::CoreMl, ExecutionProvider::DirectMl]).err().unwrap().to_string();
    assert!(error.starts_with("model.onnx: ONNX Runtime's library has no execution provider `"), "{error}");
}

#[test]
fn a_lowered_file_scores_as_its_model() {
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let nae = nae_onnx::lower::to_nae(&onnx).unwrap();
    let batch = images(Shape::new(1, 16, 16), 3);
    let from_nae = Detector::builder().read(nae.clone(), "model.nae").unwrap();
    assert_eq!(from_nae.backend(), BackendKind::Native);
    let from_onnx = open(BackendKind::Native, &onnx).unwrap();
    assert_eq!(from_nae.score_prepared(&batch).unwrap(), from_onnx.score_prepared(&batch).unwrap());
    assert_eq!(from_nae.settings(), from_onnx.settings());
    let error = Detector::builder().backend(BackendKind::Tract).read(nae, "model.nae").err().unwrap();
    assert_eq!(error.to_string(), "model.nae: backend `tract` does not read .nae files: use `native`");
}

#[test]
fn a_nae_file_that_asks_for_too_much_is_refused() {
    let nae = nae_onnx::lower::to_nae(&support::digits(1, Energy::SquaredL2).unwrap()).unwrap();
    let words: Vec<u32> = nae.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let (operations, elements) = (model.operations(), model.arena_len() as u64);
    let open = |operations, elements| {
        let limits = Limits { operations, elements, ..Limits::default() };
        Detector::builder().limits(limits).read(nae.clone(), "model.nae").map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(open(operations, elements), Ok(()));
    let expected = format!("model.nae: the model: {operations} operations, more than the limit of {}", operations - 1);
    assert_eq!(open(operations - 1, elements), Err(expected));
    assert!(open(operations, elements - 1).unwrap_err().contains("values in memory"));
}

#[test]
fn an_8_bit_file_scores_as_the_engine_does() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/digits/digits-int8.nae");
    let file = std::fs::read(path).unwrap();
    let words: Vec<u32> = file.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
    let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
    let (engine, mut arena) = (Engine::new(&model).unwrap(), vec![0.0; model.arena_len()]);
    let detector = Detector::builder().backend(BackendKind::Native).read(file, "model.nae").unwrap();
    let bytes: Vec<u8> = images(Shape::new(1, 16, 16), 8).iter().map(|value| (value * 255.0) as u8).collect();
    let batch: Vec<f32> = bytes.iter().map(|&byte| model.preprocessing().value(byte)).collect();
    let scored = detector.score_prepared(&batch).unwrap();
    for (scored, bytes) in scored.iter().zip(bytes.chunks_exact(256)) {
        let mut image = [0; 256];
        model.quantize_bytes(bytes, &mut image).unwrap();
        let output = engine.run_i8(&image, &mut arena).unwrap();
        assert!((scored.energy / output.score.energy - 1.0).abs() < 1e-5);
        assert_eq!(scored.verdict, output.verdict);
        assert_eq!(scored.latent.as_ref().unwrap().len(), 32);
    }
}

#[test]
fn threads_change_nothing() {
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let batch = images(Shape::new(1, 16, 16), 7);
    let one = open(BackendKind::Native, &onnx).unwrap().score_prepared(&batch).unwrap();
    for threads in [2, 3, 16] {
        let detector = Detector::builder().backend(BackendKind::Native).threads(threads);
        let detector = detector.read(onnx.clone(), "model.onnx").unwrap();
        assert_eq!(detector.score_prepared(&batch).unwrap(), one);
    }
    let detector = open(BackendKind::Native, &onnx).unwrap();
    assert_eq!(detector.score_prepared(&[]).unwrap(), []);
    assert_eq!(detector.score_prepared(&batch[1..]), Err(ScoreError::Length { expected: 256, found: 7 * 256 - 1 }));
}

#[test]
fn verdicts_follow_the_rate() {
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let pixels = Pixels { shape: Shape::new(1, 16, 16), values: images(Shape::new(1, 16, 16), 1) };
    let scored = open(BackendKind::Native, &onnx).unwrap().score_pixels(&pixels).unwrap();
    // The calibration is 0.001, 0.002, …, 0.4: (1 + #{c ≥ e}) / 401.
    let above = (1..=400).filter(|&i| i as f32 * 0.001 >= scored.energy).count();
    let p_value = scored.p_value.unwrap();
    assert!(p_value >= (1 + above) as f32 / 401.0 && p_value <= (3 + above) as f32 / 401.0, "{p_value}");
    assert_eq!(scored.verdict, Some(Verdict::Normal));
    let strict = Detector::builder().backend(BackendKind::Native).false_positive_rate(0.999);
    let scored = strict.read(onnx.clone(), "model.onnx").unwrap().score_pixels(&pixels).unwrap();
    assert_eq!(scored.verdict, Some(Verdict::Anomaly));
    let error = Detector::builder().false_positive_rate(0.001).read(onnx, "m.onnx").err().unwrap().to_string();
    assert_eq!(
        error,
        "m.onnx: false-positive rate 0.001: the false-positive rate is below 1/(n + 1): more energies are needed (this model has 400, enough for rates from 1/401)"
    );
}

#[test]
fn a_stream_raises_and_clears_the_alarm() {
    use nae_core::verdict::AlarmSettings;
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let shape = Shape::new(1, 16, 16);
    let pictures = [images(shape, 1), vec![0.5; 256]].map(|values| Pixels { shape, values });
    let builder = || Detector::builder().backend(BackendKind::Native);
    let detector = builder().read(onnx.clone(), "model.onnx").unwrap();
    let energies = pictures.clone().map(|picture| detector.score_pixels(&picture).unwrap().energy);
    // Between the two, so that one is normal and the other is not.
    let normal = usize::from(energies[1] < energies[0]);
    let detector = builder()
        .threshold((energies[0] + energies[1]) / 2.0)
        .alarm_filter(AlarmSettings::new(2, 0, 2).unwrap())
        .read(onnx, "model.onnx")
        .unwrap();
    let (normal, strange) = (&pictures[normal], &pictures[1 - normal]);
    let mut stream = detector.stream().unwrap();
    let alarms = [strange, normal, strange, strange, normal, normal]
        .map(|picture| stream.score_pixels(picture).unwrap())
        .map(|observed| (observed.scored.verdict.unwrap().is_anomaly(), observed.alarm));
    let expected = [(true, false), (false, false), (true, false), (true, true), (false, true), (false, false)];
    assert_eq!(alarms, expected);
    // The threshold is between 0.050 and 0.051. Of the calibration's 0.001, 0.002, …, 0.4 the model has 256, of which 0.049 is the
    // last below it: the 351 above that may be above the threshold, too.
    assert!((0.050..0.051).contains(&detector.threshold().unwrap()));
    assert_eq!(detector.false_positive_rate(), Some(352.0 / 401.0));
}

#[test]
fn values_that_are_not_numbers_are_refused() {
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    for kind in backends() {
        let detector = open(kind, &onnx).unwrap();
        let mut image = images(Shape::new(1, 16, 16), 1);
        image[7] = f32::NAN;
        assert!(matches!(detector.score_prepared(&image), Err(ScoreError::Energy(_))));
        let pixels = Pixels { shape: Shape::new(1, 16, 16), values: image };
        let error = detector.score_pixels(&pixels).unwrap_err().to_string();
        assert_eq!(error, "expected values from 0 to 1, found NaN at 7; replace values that are not a number");
    }
}

#[cfg(feature = "ort")]
#[test]
fn a_missing_library_is_an_error() {
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let detector = Detector::builder().backend(BackendKind::Ort).ort_library("/nowhere/libonnxruntime.so");
    // Where another test loaded the library first, it serves the whole process.
    if let Err(error) = detector.read(onnx, "model.onnx") {
        let text = error.to_string();
        assert!(text.starts_with("model.onnx: cannot load ONNX Runtime from /nowhere/libonnxruntime.so"), "{text}");
        assert!(text.contains("ORT_DYLIB_PATH"), "{text}");
    }
}

#[test]
fn images_are_prepared_as_the_model_says() {
    use nae_infer::image::{DynamicImage, GrayImage, Luma, Rgb, RgbImage};
    let onnx = support::digits(1, Energy::SquaredL2).unwrap();
    let detector = open(BackendKind::Native, &onnx).unwrap();
    let prepared = |image: DynamicImage| detector.settings().prepare(&Pixels::from(&image)).unwrap();

    // The right size: byte / 255, exactly.
    let image = GrayImage::from_fn(16, 16, |x, y| Luma([(x * 16 + y) as u8]));
    let expected: Vec<f32> = image.as_raw().iter().map(|&b| f32::from(b) / 255.0).collect();
    assert_eq!(prepared(DynamicImage::ImageLuma8(image)), expected);
    // Half the size: corners aligned.
    let small = GrayImage::from_fn(8, 8, |x, _| Luma([(x * 30) as u8]));
    let large = prepared(DynamicImage::ImageLuma8(small));
    for (i, v) in large.iter().enumerate() {
        let expected = 30.0 / 255.0 * (i % 16) as f32 * 7.0 / 15.0;
        assert!((v - expected).abs() < 1e-6, "{i}: {v} {expected}");
    }
    // Colour: Rec. 709 luma.
    let green = prepared(DynamicImage::ImageRgb8(RgbImage::from_pixel(20, 30, Rgb([0, 255, 0]))));
    assert!(green.iter().all(|v| (v - 0.7152).abs() < 1e-6), "{}", green[0]);
    // 16 bits.
    let deep = nae_infer::image::ImageBuffer::<Luma<u16>, _>::from_pixel(16, 16, Luma([12345u16]));
    assert!(prepared(DynamicImage::ImageLuma16(deep)).iter().all(|v| (v - 12345.0 / 65535.0).abs() < 1e-7));
}

/// Altered models are refused or run; the caller sees errors, never a panic.
#[test]
fn altered_models_do_not_panic() {
    let original = support::odd(1, Energy::L1).unwrap();
    let batch = images(Shape::new(3, 6, 8), 1);
    let mut numbers = Numbers(17);
    let mut opened = 0;
    for round in 0..400 {
        let mut bytes = original.clone();
        // Most of the file is weights; what comes before them is more worth changing.
        let span = if round % 2 == 0 { 2500 } else { bytes.len() };
        for _ in 0..=numbers.next() % 3 {
            let at = numbers.next() as usize % span.min(bytes.len());
            bytes[at] = numbers.next() as u8;
        }
        for kind in backends_without_ort() {
            if let Ok(detector) = open(kind, &bytes) {
                opened += 1;
                if detector.contract().input == Shape::new(3, 6, 8) {
                    for scored in detector.score_prepared(&batch).into_iter().flatten() {
                        assert!(scored.energy.is_finite());
                    }
                }
            }
        }
    }
    assert!(opened > 0, "no altered model was opened: the test is empty");
}

fn backends_without_ort() -> impl Iterator<Item = BackendKind> {
    backends().into_iter().filter(|&k| k != BackendKind::Ort)
}

/// Altered images give errors or pixels.
#[test]
fn altered_images_do_not_panic() {
    use nae_infer::image::{DynamicImage, ImageFormat, Rgb, RgbImage};
    let picture = RgbImage::from_fn(24, 17, |x, y| Rgb([(x * 10) as u8, (y * 9) as u8, (x * y) as u8]));
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(3);
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Pnm] {
        let mut original = std::io::Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(picture.clone()).write_to(&mut original, format).unwrap();
        let original = original.into_inner();
        assert_eq!(nae_infer::input::decode(&original).unwrap().shape, Shape::new(3, 17, 24));
        for _ in 0..500 {
            let mut bytes = original.clone();
            for _ in 0..=numbers.next() % 4 {
                let at = numbers.next() as usize % bytes.len();
                bytes[at] = numbers.next() as u8;
            }
            bytes.truncate(bytes.len() - numbers.next() as usize % 40);
            let _ = nae_infer::input::decode(&bytes);
        }
    }
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 6), }";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    npy.extend([0; 96]);
    let path = folder.path().join("a.npy");
    std::fs::write(&path, &npy).unwrap();
    assert_eq!(nae_infer::input::read(&path).unwrap().len(), 2);
    for _ in 0..1000 {
        let mut bytes = npy.clone();
        for _ in 0..=numbers.next() % 3 {
            let at = numbers.next() as usize % (npy.len() - 96);
            bytes[at] = if numbers.next().is_multiple_of(2) {
                b"0123456789()[]{},'-"[numbers.next() as usize % 19]
            } else {
                numbers.next() as u8
            };
        }
        std::fs::write(&path, &bytes).unwrap();
        let _ = nae_infer::input::read(&path);
    }
}
