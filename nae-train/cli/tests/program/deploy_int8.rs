//! Quantization after training: the digits model and networks made here, before and after.

use nae_core::Shape;
use nae_core::energy::Energy;
use nae_core::engine::Engine;
use nae_core::layer::{Activation, Element, Padding, ResizeMode};
use nae_core::model::{Model, Preprocessing, ResizeFilter};
use nae_graph::quantize::evaluate::{energies, reconstruction_error};
use nae_graph::quantize::split;
use nae_graph::quantize::{Activations, QuantizeOptions, Ranges, Scales, equalize, quantize};
use nae_graph::{
    AveragePool2d, Conv2d, ConvTranspose2d, Dense, Graph, GroupNormalize, Int8Operation, MaxPool2d, Op, emit,
};
use nae_infer::image::{GrayImage, Luma};
use nae_onnx::check::{Limits, check};
use nae_onnx::lower::lower_with_scales;
use nae_simd::Observer;
use nae_train::deploy::Data;
use nae_train::deploy::report::{self, Pair};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use nae_data::own_table;
use nae_onnx::metadata::{Missing, RowWindow};

use crate::harness::{self, nae_train, refused};
use crate::own_run::images;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");

/// Numbers between −1 and 1, the same ones for a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn weights(&mut self, count: usize, fan_in: usize) -> Vec<f32> {
        (0..count).map(|_| self.next() * (3.0 / fan_in as f32).sqrt()).collect()
    }

    fn images(&mut self, count: usize, shape: Shape) -> Vec<Vec<f32>> {
        (0..count).map(|_| (0..shape.len()).map(|_| self.next().abs()).collect()).collect()
    }
}

const IMAGE: Shape = Shape::new(2, 8, 8);

/// Every kind of layer, with a branch and the latent in the middle.
fn network() -> Graph {
    let mut n = Numbers(1);
    let mut network = Graph::new(IMAGE);
    let conv = Conv2d::from_oihw(&n.weights(6 * 18, 18), [6, 2, 3, 3], Some(&n.weights(6, 20))).unwrap();
    network.push(conv.with_padding(Padding::all(1)).with_activation(Activation::Relu));
    network.push(MaxPool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE });
    let branch = network.push(Activation::LeakyRelu { slope: 0.1 });
    let conv = Conv2d::from_oihw(&n.weights(6 * 54, 54), [6, 6, 3, 3], None).unwrap().with_padding(Padding::all(1));
    network.push(conv);
    network.push(Activation::Elu { alpha: 0.7 });
    network.push(Op::Add { other: branch });
    let scale = network.push(Activation::Sigmoid);
    network.push_from(branch, Op::Multiply { other: scale });
    network.push(AveragePool2d { kernel: [2, 2], stride: [2, 2], padding: Padding::NONE, count_include_padding: true });
    network.push(Dense::from_out_in(&n.weights(5 * 24, 24), [5, 24], None).unwrap());
    network.latent = Some(network.push(Op::L2Normalize { epsilon: 1e-12 }));
    network.push(Dense::from_out_in(&n.weights(16 * 5, 5), [16, 5], None).unwrap().with_activation(Activation::Tanh));
    network.push(Op::Reshape(Shape::new(4, 2, 2)));
    let up = ConvTranspose2d::from_iohw(&n.weights(4 * 3 * 4, 12), [4, 3, 2, 2], None).unwrap();
    network.push(up.with_stride([2, 2]).with_activation(Activation::Relu));
    network.push(Op::Resize { height: 8, width: 8, mode: ResizeMode::BilinearHalfPixel });
    let conv = Conv2d::from_oihw(&n.weights(2 * 27, 27), [2, 3, 3, 3], None).unwrap().with_padding(Padding::all(1));
    network.push(conv.with_activation(Activation::Sigmoid));
    network
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64
}

#[test]
fn energies_stay_what_they_are() {
    let network = network();
    let mut numbers = Numbers(2);
    let (images, others) = (numbers.images(40, IMAGE), numbers.images(20, IMAGE));
    let before = energies(&network, &others).unwrap();
    for ranges in [Ranges::MinMax, Ranges::Percentile(0.9999), Ranges::MeanSquaredError] {
        for equalize in [Some(false), Some(true), None] {
            let quantized = quantize(
                &network,
                &images,
                &QuantizeOptions { ranges, equalize, ..QuantizeOptions::default() },
                &Observer,
            )
            .unwrap();
            assert!(quantized.float_layers.is_empty());
            let after = energies(&quantized.graph, &others).unwrap();
            for (a, b) in before.iter().zip(&after) {
                assert!((a / b - 1.0).abs() < 0.05, "{ranges:?} {equalize:?}: {a} {b}");
            }
            let error = reconstruction_error(&network, &quantized.graph, &others).unwrap();
            assert!(error < 2e-4, "{ranges:?} {equalize:?}: {error}");
        }
    }
}

#[test]
fn evening_out_channels_changes_nothing_in_f32() {
    let mut network = network();
    // Channels of very different size.
    let Op::Conv2d(first) = &mut network.nodes[0].op else { panic!() };
    first
        .weights
        .chunks_exact_mut(18)
        .enumerate()
        .for_each(|(i, row)| row.iter_mut().for_each(|w| *w *= (i + 1) as f32));
    let plain = split(&network, &Scales::default()).0;
    let images = Numbers(3).images(10, IMAGE);
    let seen = Activations::observe(&plain, &images, &Observer).unwrap();
    let equal = equalize(&plain, &seen).unwrap();
    assert_ne!(equal, plain);
    assert!(reconstruction_error(&plain, &equal, &images).unwrap() < 1e-10);
}

#[test]
fn what_has_no_8_bit_form_stays_f32_and_is_named() {
    let mut network = network();
    network.contract.energy = Energy::Ssim;
    let images = Numbers(2).images(10, IMAGE);
    let options = QuantizeOptions::default();
    let quantized = quantize(&network, &images, &options, &Observer).unwrap();
    // Structural similarity is computed in f32.
    assert_eq!(quantized.graph.element, Element::F32);
    assert!(
        (mean(&energies(&quantized.graph, &images).unwrap()) - mean(&energies(&network, &images).unwrap())).abs()
            < 0.02
    );

    let mut grouped = Graph::new(IMAGE);
    let mut numbers = Numbers(8);
    let padded = |shape: [usize; 4], weights: &[f32]| {
        Conv2d::from_oihw(weights, shape, None).unwrap().with_padding(Padding::all(1))
    };
    grouped.push(padded([4, 2, 3, 3], &numbers.weights(72, 18)).with_activation(Activation::Relu));
    let (scale, shift) = (numbers.weights(4, 3), numbers.weights(4, 3));
    grouped.push(GroupNormalize { groups: 2, scale, shift, epsilon: 1e-5 });
    grouped.push(Activation::Relu);
    grouped.push(padded([2, 4, 3, 3], &numbers.weights(72, 36)).with_activation(Activation::Sigmoid));
    let quantized = quantize(&grouped, &images, &options, &Observer).unwrap();
    let named: Vec<_> = quantized.float_layers.iter().map(|layer| layer.node).collect();
    assert_eq!(named, [(2, "group normalization")]);
    let [before, after] = [&grouped, &quantized.graph].map(|network| mean(&energies(network, &images).unwrap()));
    assert!((before / after - 1.0).abs() < 0.02, "{before} {after}");

    let mut wide = Graph::new(Shape::vector(2));
    let mut numbers = Numbers(5);
    wide.push(
        Dense::from_out_in(&numbers.weights(40_000, 2), [20_000, 2], None).unwrap().with_activation(Activation::Relu),
    );
    wide.push(Dense::from_out_in(&numbers.weights(40_000, 20_000), [2, 20_000], None).unwrap());
    let images = numbers.images(10, Shape::vector(2));
    let quantized = quantize(&wide, &images, &options, &Observer).unwrap();
    let named: Vec<_> = quantized.float_layers.iter().map(|layer| layer.node).collect();
    assert_eq!(named, [(2, "dense")]);
    assert!(reconstruction_error(&wide, &quantized.graph, &images).unwrap() < 1e-3);
}

#[test]
fn images_between_minus_one_and_one() {
    let mut network = network();
    network.contract.preprocessing = Preprocessing::new(-1.0, 1.0, ResizeFilter::Box).unwrap();
    let images: Vec<Vec<f32>> = Numbers(6)
        .images(20, IMAGE)
        .into_iter()
        .map(|image| image.into_iter().map(|v| 2.0 * v - 1.0).collect())
        .collect();
    let quantized = quantize(&network, &images, &QuantizeOptions::default(), &Observer).unwrap();
    let (before, after) = (energies(&network, &images).unwrap(), energies(&quantized.graph, &images).unwrap());
    assert!((mean(&before) / mean(&after) - 1.0).abs() < 0.02);
}

/// A network of three dense layers whose middle one 8 bits spoil: in each row a weight of a thousand, which
/// normal data never meet, beside one of one.
#[test]
fn the_layer_that_costs_most_is_named() {
    let shape = Shape::vector(16);
    let mut network = Graph::new(shape);
    let identity: Vec<f32> = (0..256).map(|i| f32::from(i % 17 == 0)).collect();
    network.push(Dense::from_out_in(&identity, [16, 16], None).unwrap());
    // Every output is its own input; one more input, which is always 0, has a huge weight.
    let mut spoiled = identity.clone();
    spoiled.chunks_exact_mut(16).for_each(|row| row[15] = 1000.0);
    network.push(Dense::from_out_in(&spoiled, [16, 16], None).unwrap());
    network.push(Dense::from_out_in(&identity, [16, 16], None).unwrap());
    let mut numbers = Numbers(7);
    let mut draw = |count: usize, last: f32| {
        let mut images = numbers.images(count, shape);
        images.iter_mut().for_each(|image| image[15] = last);
        images
    };
    let data = Data {
        ranges: draw(50, 0.0),
        calibration: draw(200, 0.0),
        test: draw(50, 0.0),
        every_fourth: false,
        outliers: vec![("last".to_owned(), draw(50, 0.004))],
        description: String::new(),
    };
    let mut quantized = quantize(
        &network,
        &data.ranges,
        &QuantizeOptions { equalize: Some(false), ..QuantizeOptions::default() },
        &Observer,
    )
    .unwrap();
    let report = report::calibrate(&network, &mut quantized, &data, 0.01).unwrap();
    let row = &report.rows[0];
    assert_eq!(row.auroc.f32, Some(1.0));
    assert!(row.auroc.int8.unwrap() < 0.9, "{row:?}");
    let cost = report.costliest.as_ref().unwrap();
    assert_eq!((cost.layer, cost.kind), (1, "dense"));
    assert!(report.terminal().contains("layer 1 (dense)"), "{}", report.terminal());
    // The file's threshold is that of its own energies.
    let bytes = emit(&quantized.graph).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!(model.threshold(), report.threshold.int8);
    assert_eq!(model.calibration().unwrap().count(), 200);
}

#[test]
fn too_few_samples_are_reported() {
    let network = network();
    let deploy = |count: usize, every_fourth: bool| {
        let calibration = Numbers(4).images(count, IMAGE);
        let data = Data {
            ranges: calibration.clone(),
            calibration,
            test: Vec::new(),
            every_fourth,
            outliers: Vec::new(),
            description: String::new(),
        };
        let mut quantized = quantize(&network, &data.ranges, &QuantizeOptions::default(), &Observer).unwrap();
        report::calibrate(&network, &mut quantized, &data, 0.01).unwrap()
    };
    // Of 131, every fourth is for the test: 32. Then 99 are left.
    assert_eq!(deploy(98, true).images_needed, Some(131));
    let report = deploy(98, false);
    assert_eq!((report.images_needed, report.threshold.int8), (Some(99), None));
    assert_eq!(report.energy, Pair { f32: None, int8: None });
    let text = report.terminal();
    assert!(text.contains("warning: no normal data to measure on") && !text.contains("NaN"), "{text}");
    let report = deploy(99, true);
    assert!(report.images_needed.is_none() && report.threshold.int8.is_some());
}

#[test]
fn images_of_a_user_are_divided() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images");
    std::fs::create_dir(&images).unwrap();
    for index in 0..3_u32 {
        let picture = GrayImage::from_fn(16, 16, |x, y| Luma([(x * (5 + index) + y) as u8]));
        picture.save(images.join(format!("{index}.png"))).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nae-train"));
    command.args(["deploy", DIGITS, "--int8", "--calibrate"]).arg(images).arg("-o").arg(folder.path().join("m.nae"));
    let printed = command.output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(text.contains("from 3 samples, measured on every fourth, 0"), "{text}");
    assert!(text.contains("give at least four samples") && !text.contains("NaN"), "{text}");
    assert!(text.contains("for the rate (131 samples would do), so it gives no verdicts"), "{text}");
}

/// Windows of one stretch overlap: one of them would be known where the other one measures.
#[test]
fn windows_of_a_user_are_divided_by_stretches() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pump.csv");
    let rows: String = (0..400).map(|n| format!("{n},{}\n", n % 7)).collect();
    std::fs::write(&file, format!("row,b\n{rows}")).unwrap();
    let window = Some(RowWindow { rows: 4, stride: 1 });
    let (own, rows) = own_table::choose(&file, Missing::Refuse, window).unwrap();
    let data = Data::of_images(&rows.samples, None, &Graph::new(own.shape()));
    let rows_of = |windows: &[Vec<f32>]| -> BTreeSet<u32> {
        windows.iter().flat_map(|window| window.chunks(2).map(|row| row[0].to_bits())).collect()
    };
    let (calibration, test) = (rows_of(&data.calibration), rows_of(&data.test));
    // Of 50 stretches of 8 rows and 5 windows.
    assert_eq!((data.calibration.len(), data.test.len()), (38 * 5, 12 * 5));
    assert_eq!((calibration.len(), test.len()), (38 * 8, 12 * 8));
    assert!(calibration.is_disjoint(&test));
    assert!(data.description.contains("every fourth stretch, 60"), "{}", data.description);

    // The program reads them so.
    let run = folder.path().join("run");
    let model = folder.path().join("m.onnx");
    let extra = ["--window", "4", "--window-stride", "1", "--time-budget", "1s", "--quiet", "--export"];
    let mut train = nae_train();
    train.arg("--data").arg(&file).arg("--out").arg(&run).args(extra).arg(&model);
    assert!(train.status().unwrap().success());
    let mut deploy = nae_train();
    deploy
        .arg("deploy")
        .arg(&model)
        .args(["--int8", "--calibrate"])
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("m.nae"));
    let printed = deploy.output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    assert!(String::from_utf8_lossy(&printed.stdout).contains("measured on every fourth stretch, 60"), "{printed:?}");

    // Images, resized to a window's size, would give a meaningless threshold.
    let images = folder.path().join("images");
    std::fs::create_dir(&images).unwrap();
    GrayImage::from_fn(4, 2, |x, y| Luma([(x + y) as u8])).save(images.join("0.png")).unwrap();
    let mut deploy = nae_train();
    deploy.arg("deploy").arg(&model).args(["--int8", "--calibrate"]).arg(&images);
    let message = refused(deploy.arg("-o").arg(folder.path().join("no.nae")));
    assert!(message.contains("images: expected a table, .csv or .tsv"), "{message}");
}

/// Energies of training data are low, and so is a threshold from them.
#[test]
fn data_that_were_trained_on_do_not_calibrate_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (data, other) = (images(path, "stripes", 60), images(path, "other", 62));
    let train = |name: &str, data: &Path, seed: &str| {
        let extra = ["--time-budget", "1s", "--quiet", "--seed", seed];
        let printed = harness::run(&mut harness::train(path, name, "--data", data, &extra));
        assert!(printed.status.success(), "{printed:?}");
    };
    train("one", &data, "0");
    train("two", &data, "1");
    train("three", &other, "0");
    let deploy = |calibrate: &Path, data: Option<&Path>| {
        let mut command = nae_train();
        command.arg("deploy").arg(path.join("one.onnx")).args(["--int8", "--calibrate"]).arg(calibrate);
        if let Some(data) = data {
            command.arg("--data").arg(data);
        }
        command.arg("-o").arg(path.join("one.nae"));
        let printed = harness::run(&mut command);
        (printed.status.code(), String::from_utf8(printed.stderr).unwrap())
    };
    let (code, said) = deploy(&data, None);
    assert!(code == Some(0) && said.contains("stripes: the model was trained on these data"), "{said}");
    assert_eq!(deploy(&other, None), (Some(0), String::new()));
    assert_eq!(deploy(&path.join("one"), Some(&data)), (Some(0), String::new()));
    for (run, data, found) in [("two", &data, "seed 1 and data"), ("three", &other, "seed 0 and data")] {
        let (code, said) = deploy(&path.join(run), Some(data));
        assert!(code == Some(1) && said.contains("the run that the model is from, of seed 0"), "{said}");
        assert!(said.contains(found) && said.contains("give the folder of the model's own run"), "{said}");
    }
}

/// The seed and the data are the same, and what is normal is not.
#[test]
fn a_run_that_divided_the_data_otherwise_does_not_calibrate_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let train = |name: &str, class: &str, calibration: &str| {
        let text = String::from_utf8(harness::run(nae_train().args(["presets", "digits"])).stdout).unwrap();
        let text = text.replace("epochs = 600", "epochs = 1").replace("calibration = 0.1,", calibration);
        std::fs::write(path.join("short.toml"), text).unwrap();
        let extra = ["--method", "ae", "--held-out", class, "--quiet"];
        let printed = harness::run(&mut harness::train(path, name, "--preset", &path.join("short.toml"), &extra));
        assert!(printed.status.success(), "{printed:?}");
    };
    train("one", "1", "calibration = 0.1,");
    train("two", "2", "calibration = 0.1,");
    train("more", "1", "calibration = 0.2,");
    let deploy = |run: &str, extra: &[&str]| {
        let mut command = nae_train();
        command.arg("deploy").arg(path.join("one.onnx")).arg("-o").arg(path.join("one.nae")).args(extra);
        if !run.is_empty() {
            command.args(["--int8", "--calibrate"]).arg(path.join(run));
        }
        let printed = harness::run(&mut command);
        (printed.status.code(), String::from_utf8(printed.stderr).unwrap())
    };
    assert_eq!(deploy("one", &[]), (Some(0), String::new()));
    let (code, said) = deploy("two", &[]);
    assert!(code == Some(1) && said.contains("class 1 held out") && said.contains("class 2 held out"), "{said}");
    let (code, said) = deploy("more", &[]);
    assert!(code == Some(0) && said.contains("warning: the model was calibrated with"), "{said}");

    assert_eq!(deploy("one", &["--layout", "plain"]), (Some(0), String::new()));
    let (code, said) = deploy("", &["--layout", "plain"]);
    assert!(code == Some(1) && said.contains("--layout: it is of 8-bit weights, and the model has none"), "{said}");
}

/// What is read would be lost, and what cannot be written would be found only after the work.
#[test]
fn an_output_that_cannot_be_written_is_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    let [model, data, missing] = ["m.onnx", "data.npy", "no/m.nae"].map(|name| folder.path().join(name));
    std::fs::copy(DIGITS, &model).unwrap();
    std::fs::write(&data, b"images").unwrap();
    let deploy = |arguments: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nae-train"));
        let printed = command.arg("deploy").args(arguments).output().unwrap();
        assert_eq!(printed.status.code(), Some(1), "{printed:?}");
        String::from_utf8(printed.stderr).unwrap()
    };
    let [output, int8, calibrate, outliers] = ["-o", "--int8", "--calibrate", "--outliers"].map(Path::new);
    let digits = Path::new(DIGITS).parent().unwrap();
    for arguments in [
        &[&model, output, &model][..],
        &[&model, output, &model, int8, calibrate, digits],
        &[&model, output, &data, int8, calibrate, &data],
        &[&model, output, &data, int8, calibrate, digits, outliers, &data],
    ] {
        let message = deploy(arguments);
        assert!(message.contains("it is one of the files that are read; choose another name"), "{message}");
    }
    assert_eq!(std::fs::read(&model).unwrap(), std::fs::read(DIGITS).unwrap());
    assert_eq!(std::fs::read(&data).unwrap(), b"images");
    // A folder is given, and a file in it may be read.
    let images = folder.path().join("images");
    std::fs::create_dir_all(images.join("below")).unwrap();
    let [image, deployed] = ["below/a.png", "old.nae"].map(|name| images.join(name));
    std::fs::write(&image, b"an image").unwrap();
    std::fs::write(&deployed, b"a model").unwrap();
    for arguments in [
        &[&model, output, &image, int8, calibrate, &images][..],
        &[&model, output, &image, int8, calibrate, digits, outliers, &images],
    ] {
        let message = deploy(arguments);
        assert!(message.contains("it is one of the files that are read; choose another name"), "{message}");
    }
    assert_eq!(std::fs::read(&image).unwrap(), b"an image");
    // A model beside the images is none of them: what is wrong are the images.
    let message = deploy(&[&model, output, &deployed, int8, calibrate, &images]);
    assert!(!message.contains("it is one of the files that are read"), "{message}");
    let message = deploy(&[&model, output, &folder.path().join("other.onnx")]);
    assert!(message.contains("other.onnx: the model is written in the format .nae"), "{message}");
    // Before the model is read.
    let message = deploy(&[&missing, output, &missing]);
    assert!(message.contains("cannot write") && message.contains("make it first"), "{message}");
}

#[test]
fn the_digits_model_keeps_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits");
    let output = folder.path().join("digits.nae");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nae-train"));
    command.args(["deploy", &format!("{digits}/digits.onnx"), "--int8", "--calibrate", digits, "--json", "-o"]);
    let printed = command.arg(&output).output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let line: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!((&line["input_type"], &line["calibrated"]), (&"int8".into(), &true.into()));
    let report = &line["quantization"];
    assert!(report["float_layers"].as_array().unwrap().is_empty());
    for row in report["rows"].as_array().unwrap() {
        let [before, after] = ["f32", "int8"].map(|side| row["auroc"][side].as_f64().unwrap());
        assert!(after > before - 0.005, "{row}");
    }
    assert!(report["costliest"].is_null());
    let [before, after] = ["f32", "int8"].map(|side| report["threshold"][side].as_f64().unwrap());
    assert!((after / before - 1.0).abs() < 0.1);
    let bytes = std::fs::read(output).unwrap();
    let model = Model::parse(&bytes).unwrap();
    assert_eq!(model.threshold(), Some(after as f32));
    assert!(bytes.len() < 100_000 && model.arena_len() * 4 < 5000);
}

fn weights(layer: &Op) -> Option<&[f32]> {
    match layer {
        Op::Conv2d(layer) => Some(&layer.weights),
        Op::ConvTranspose2d(layer) => Some(&layer.weights),
        Op::Dense(layer) => Some(&layer.weights),
        _ => None,
    }
}

fn integers(layer: &Op) -> Option<&[i8]> {
    let Op::Int8(layer) = layer else { return None };
    match &layer.operation {
        Int8Operation::Conv2d(layer, _) => Some(&layer.weights),
        Int8Operation::ConvTranspose2d(layer, _) => Some(&layer.weights),
        Int8Operation::Dense(layer, _) => Some(&layer.weights),
        _ => None,
    }
}

/// ONNX Runtime's quantizer chose the scales (`tests/python/qdq_vectors.py`); int8 has one for each output of a layer,
/// uint8 one for all its weights.
#[test]
fn a_quantised_model_keeps_its_scales() {
    for name in ["int8", "uint8"] {
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/qdq");
        let onnx = std::fs::read(format!("{vectors}/digits-{name}.onnx")).unwrap();
        let samples = std::fs::read(format!("{vectors}/digits-{name}.bin")).unwrap();
        let values: Vec<f32> = samples.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let pairs: Vec<&[f32]> = values.chunks_exact(512).collect();
        let images: Vec<Vec<f32>> = pairs.iter().map(|pair| pair[..256].to_vec()).collect();

        let (network, scales) = lower_with_scales(&check(&onnx, &Limits::default()).unwrap()).unwrap();
        let with = |scales| {
            quantize(&network, &images, &QuantizeOptions { scales, ..QuantizeOptions::default() }, &Observer).unwrap()
        };
        let quantized = with(scales.clone());
        assert!(!quantized.equalized && quantized.own_scales() == scales.tensors.len());
        assert!(quantized.float_layers.is_empty());

        // Weights are integers times scales, and these integers come out. Outputs whose weights are next to nothing, as
        // those of units that died have them, are their biases.
        let before = (1..).zip(&network.nodes).filter_map(|(tensor, node)| Some((tensor, weights(&node.op)?)));
        let after = quantized.graph.nodes.iter().filter_map(|node| integers(&node.op));
        let mut rows = 0;
        for ((tensor, floats), integers) in before.zip(after) {
            let scales = &scales.weights[&tensor];
            let row = floats.len() / scales.len();
            for ((floats, integers), &scale) in floats.chunks(row).zip(integers.chunks(row)).zip(scales) {
                if scale > 1e-6 {
                    assert!(floats.iter().zip(integers).all(|(&w, &q)| (w / scale - f32::from(q)).abs() < 1e-4));
                    rows += 1;
                }
            }
        }
        assert!(rows > 230, "{name}: {rows}");

        let errors = |network: &Graph| {
            let file = emit(network).unwrap();
            let words: Vec<u32> = file.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
            let model = Model::parse(bytemuck::cast_slice(&words)).unwrap();
            let engine = Engine::new(&model).unwrap();
            let (from, to) = (model.image_quantization().unwrap(), model.reconstruction_quantization().unwrap());
            let mut arena = vec![0.0; model.arena_len()];
            let mut errors = Vec::new();
            for pair in &pairs {
                let pixels: Vec<i8> = pair[..256].iter().map(|&value| from.quantize(value)).collect();
                let output = engine.run_i8(&pixels, &mut arena).unwrap();
                errors.extend(
                    output.reconstruction.iter().zip(&pair[256..]).map(|(&q, &e)| (to.dequantize(q) - e).abs()),
                );
            }
            (errors.iter().copied().fold(0.0, f32::max), mean(&errors))
        };
        // ONNX Runtime computes the norm and the last sigmoid in floats, and the layers from integers like these.
        let (own, chosen) = (errors(&quantized.graph), errors(&with(Scales::default()).graph));
        assert!(own.0 < 0.07 && own.1 < 0.005 && own.1 < 0.8 * chosen.1, "{name}: {own:?} {chosen:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tflite = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/tflite/dense.tflite");
    let output = folder.path().join("m.nae");
    let deploy = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nae-train"));
        let printed = command.arg("deploy").args(arguments).arg("-o").arg(&output).output().unwrap();
        (printed.status.success(), String::from_utf8(printed.stderr).unwrap())
    };
    let (ok, message) = deploy(&[DIGITS, "--int8"]);
    assert!(!ok && message.contains("--calibrate"), "{message}");
    let (ok, message) = deploy(&[tflite, "--int8", "--calibrate", "x"]);
    assert!(!ok && message.contains("own scales"), "{message}");
    let (ok, message) = deploy(&[DIGITS, "--int8", "--calibrate", "nothing-here"]);
    assert!(!ok && message.contains("nothing-here"), "{message}");
    let (run, qdq) = ("/../../models/digits", "/../../tests/vectors/qdq/digits-int8.onnx");
    let [run, qdq] = [run, qdq].map(|path| format!("{}{path}", env!("CARGO_MANIFEST_DIR")));
    let quantized = [qdq.as_str(), "--int8", "--calibrate", run.as_str()];
    let (ok, message) = deploy(&[&quantized[..], &["--equalize", "always"]].concat());
    assert!(!ok && message.contains("choose new ones by --ranges"), "{message}");
    assert!(!output.exists());
    assert!(deploy(&[&quantized[..], &["--equalize", "always", "--ranges", "mse"]].concat()).0);
    assert!(deploy(&[tflite]).0 && output.exists());
}
