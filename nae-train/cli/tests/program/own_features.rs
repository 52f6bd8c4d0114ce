//! A run on features, as a user meets it: a frozen network, a user's images, a model that holds both.

use std::path::{Path, PathBuf};

use crate::harness::{assert_made_again, nae_train, refused, run, train};
use nae_infer::image::{Rgb, RgbImage};
use nae_infer::{BackendKind, Detector};
use nae_onnx::builder::{Conv2d, GraphBuilder, Pool2d};
use nae_train::report::RunFolder;
use tempfile::TempDir;

/// A network of images [3, 32, 32] with outputs `fine` [6, 16, 16] and `coarse` [8, 8, 8].
fn backbone(folder: &Path) -> PathBuf {
    let mut state = 1u64;
    let mut some = |count: usize| -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    };
    let mut graph = GraphBuilder::new("backbone");
    let image = graph.image_input("image", [3, 32, 32]).unwrap();
    let weights = some(6 * 27);
    let conv = Conv2d { stride: [2; 2], padding: [1, 1, 0, 0], ..Conv2d::new(6, [3; 2], &weights, None) };
    let fine = graph.conv2d("fine.conv", image, &conv).unwrap();
    let fine = graph.clip("fine.relu6", fine, [0.0, 6.0]).unwrap();
    graph.output("fine", fine).unwrap();
    let half = graph.max_pool2d("half", fine, &Pool2d { kernel: [2; 2], stride: [2; 2], padding: [0; 4] }).unwrap();
    let weights = some(8 * 6);
    let coarse = graph.conv2d("coarse.conv", half, &Conv2d::new(8, [1; 2], &weights, None)).unwrap();
    graph.output("coarse", coarse).unwrap();
    saved(folder, "backbone.onnx", graph)
}

fn saved(folder: &Path, name: &str, graph: GraphBuilder) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, graph.finish_bytes().unwrap()).unwrap();
    file
}

/// Coloured waves; with a spot where `spot`.
fn waves(folder: &Path, name: &str, count: u32, spot: bool) -> PathBuf {
    let data = folder.join(name);
    std::fs::create_dir_all(&data).unwrap();
    for n in 0..count {
        let picture = RgbImage::from_fn(48, 40 + n % 3, |x, y| {
            let wave = (0.8 * f64::from(x) + 0.3 * f64::from(y) + f64::from(n)).sin();
            let inside = spot && (n % 30..n % 30 + 8).contains(&x) && (n % 20..n % 20 + 8).contains(&y);
            let bright = if inside { 0 } else { (127.0 + 100.0 * wave) as u8 };
            Rgb([bright, bright / 2, 255 - bright])
        });
        picture.save(data.join(format!("{n:03}.png"))).unwrap();
    }
    data
}

#[test]
fn a_model_of_features_scores_as_it_was_trained() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, spots, backbone) = (waves(path, "waves", 60, false), waves(path, "spots", 9, true), backbone(path));
    let model = path.join("one.onnx");
    let [features, outliers, export] = [&backbone, &spots, &model].map(|path| path.to_str().unwrap());
    let extra = ["--features", features, "--top-k", "3", "--json", "--outliers", outliers, "--time-budget", "5s"];
    let output = run(&mut train(path, "one", "--data", &data, &extra));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("features: outputs fine, coarse of") && said.contains("in 16 × 16 places"), "{said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["auroc"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["outliers"].as_str().unwrap()).collect();
    assert_eq!(names, ["spots (given)", "squares from other images", "squares of noise", "squares of one grey"]);
    let auroc = rows[0]["autoencoder"].as_f64().unwrap();
    assert!(auroc > 0.9, "spots of black in waves: {auroc}");
    let references = ["mahalanobis", "nearest_neighbours"].map(|key| rows[0][key].as_f64().unwrap());
    assert!(references.iter().all(|auroc| (0.5..=1.0).contains(auroc)), "{references:?}");
    let distance = the_distance_alone(path, &data, &extra, "mahalanobis");
    assert!((distance - references[0]).abs() < 0.005, "of whitened features: {distance} {references:?}");
    // Of one neighbour, softly, where the reference has the mean of three.
    let distance = the_distance_alone(path, &data, &extra, "knn");
    assert!((distance - references[1]).abs() < 0.05, "of whitened features: {distance} {references:?}");
    // Of 48 images of 256 places, as many as the method stores.
    let (config, _) = RunFolder::read(&path.join("knn")).unwrap();
    assert_eq!(config.baselines().knn.vectors, 4096);

    // Tiles keep an image's size, and are not tried where it is cropped.
    let cropped = ["--features", features, "--form", "best", "--fit", "crop", "--time-budget", "2s", "--method", "knn"];
    let output = run(&mut train(path, "cropped", "--data", &data, &cropped));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tiles were not tried: --fit") && said.contains("trial of features"), "{said}");
    assert!(said.contains("also those for calibration and test"), "{said}");

    // The exported model, given the images as files: what the trainer made of them.
    let detector = Detector::builder().backend(BackendKind::Simd).open(&model).unwrap();
    let threshold = detector.threshold().unwrap();
    let energies = |detector: &Detector, folder: &Path| -> Vec<f32> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let score = |file: &PathBuf| detector.score(&nae_infer::image::open(file).unwrap()).unwrap().energy;
        files.iter().map(score).collect()
    };
    let (normal, spotted) = (energies(&detector, &data), energies(&detector, &spots));
    let above = normal.iter().filter(|&&energy| energy > threshold).count();
    assert!(above <= 12, "{above} of 60 normal images are above the threshold");
    let output = run(nae_train().args(["eval", export, "--json", "--normal"]).arg(&data).arg("--outliers").arg(&spots));
    assert!(output.status.success(), "{output:?}");
    let evaluated: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = evaluated["false_positive_rate"].as_f64().unwrap();
    assert!((rate - above as f64 / 60.0).abs() < 1e-9, "{rate} {above}");
    assert_eq!(evaluated["caught"][0]["outliers"], "spots");
    let caught = evaluated["caught"][0]["share"].as_f64().unwrap();
    let expected = spotted.iter().filter(|&&energy| energy > threshold).count() as f64 / 9.0;
    assert!((caught - expected).abs() < 1e-9, "{caught} {expected}");

    // Of a VQ-VAE, a code is chosen in every place. Its threshold is of the energies that training computes, so that other
    // codes in the file would raise most of the energies above it.
    let coded = path.join("coded.toml");
    let config = std::fs::read_to_string(path.join("one/config.toml")).unwrap();
    std::fs::write(&coded, config.replace("method = \"nae\"", "method = \"vqvae\"")).unwrap();
    let of_codes = path.join("coded.onnx");
    let mut command = nae_train();
    command.arg("--preset").arg(&coded).arg("--data").arg(&data).arg("--out").arg(path.join("coded"));
    let output = run(command.arg("--quiet").arg("--export").arg(&of_codes));
    assert!(output.status.success(), "{output:?}");
    let coded = Detector::builder().backend(BackendKind::Simd).open(&of_codes).unwrap();
    let threshold = coded.threshold().unwrap();
    let above = energies(&coded, &data).iter().filter(|&&energy| energy > threshold).count();
    assert!(above <= 12, "{above} of 60 normal images are above the threshold of the VQ-VAE");

    // The same model again from the run folder.
    let again = path.join("again.onnx");
    let one = path.join("one");
    let output = run(nae_train().arg("export").arg(&one).arg("--data").arg(&data).arg("--export").arg(&again));
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::read(&again).unwrap() == std::fs::read(&model).unwrap(), "the exported files differ");

    // Other data would be whitened otherwise.
    let said = refused(nae_train().arg("export").arg(&one).arg("--data").arg(&spots).arg("--export").arg(&again));
    assert!(said.contains("--data: expected the data that the run was begun with"), "{said}");
    let said = refused(nae_train().arg("deploy").arg(&model).arg("-o").arg(path.join("model.nae")));
    assert!(said.contains("a model of features"), "{said}");
    // A new run by the same settings may have them.
    assert_made_again(path, &data);

    // Before the training, not after.
    let said = refused(
        nae_train()
            .args(["--method", "ganomaly", "--preset"])
            .arg(one.join("config.toml"))
            .arg("--data")
            .arg(&data)
            .arg("--export")
            .arg(path.join("ganomaly.onnx"))
            .arg("--out")
            .arg(path.join("ganomaly")),
    );
    assert!(said.contains("of a run on features only autoencoders are"), "{said}");
    assert!(!path.join("ganomaly").exists());

    // Where the frozen network is another one, or gone.
    let moved = path.join("moved.onnx");
    std::fs::rename(&backbone, &moved).unwrap();
    let export_again =
        || refused(nae_train().arg("export").arg(&one).arg("--data").arg(&data).arg("--export").arg(&again));
    assert!(export_again().contains("backbone.onnx"), "{}", export_again());
    let mut other = std::fs::read(&moved).unwrap();
    // One weight of it.
    let at = other.len() / 2;
    other[at] ^= 1;
    std::fs::write(&backbone, other).unwrap();
    let said = export_again();
    assert!(said.contains("expected the network that the run was begun with"), "{said}");
}

/// The AUROC of the first outliers by a `method` that trains nothing, whose model scores images as files.
fn the_distance_alone(folder: &Path, data: &Path, extra: &[&str], method: &str) -> f64 {
    let extra = [extra, &["--method", method]].concat();
    let output = run(&mut train(folder, method, "--data", data, &extra));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(": nothing is trained, whatever the time"), "{said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["warnings"].as_array().unwrap().iter().all(|warning| !warning.to_string().contains("reconstructs")));
    let row = &result["auroc"]["rows"][0];
    assert!(row.get("autoencoder").is_none() && row["nearest_neighbours"].is_number(), "{row}");
    let model = folder.join(format!("{method}.onnx"));
    let detector = Detector::builder().backend(BackendKind::Simd).open(model).unwrap();
    let threshold = detector.threshold().unwrap();
    let above = std::fs::read_dir(data).unwrap().filter(|entry| {
        let image = nae_infer::image::open(entry.as_ref().unwrap().path()).unwrap();
        detector.score(&image).unwrap().energy > threshold
    });
    assert!(above.count() <= 12, "of 60 normal images are above the threshold");
    row[if method == "knn" { "nearest_neighbours" } else { method }].as_f64().unwrap()
}

/// A network whose numbers exceed the range of f32.
#[test]
fn features_that_are_no_numbers_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let mut graph = GraphBuilder::new("overflow");
    let image = graph.image_input("image", [3, 32, 32]).unwrap();
    let first = graph.conv2d("first", image, &Conv2d::new(2, [1; 2], &[1e25; 6], None)).unwrap();
    let second = graph.conv2d("second", first, &Conv2d::new(2, [1; 2], &[1e25, -1e25, 1e25, 1e25], None)).unwrap();
    graph.output("map", second).unwrap();
    let network = saved(path, "overflow.onnx", graph);
    let data = waves(path, "waves", 60, false);
    let error = refused(&mut train(path, "none", "--data", &data, &["--features", network.to_str().unwrap()]));
    assert!(error.contains("overflow.onnx: expected features that are finite"), "{error}");
}

/// A network whose outputs are the same for all images: its features would be copies of each other.
#[test]
fn features_that_say_nothing_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let mut graph = GraphBuilder::new("blind");
    let image = graph.image_input("image", [3, 32, 32]).unwrap();
    let map = graph.conv2d("nothing", image, &Conv2d::new(2, [1; 2], &[0.0; 6], Some(&[0.25, 4.0]))).unwrap();
    graph.output("map", map).unwrap();
    let network = saved(path, "blind.onnx", graph);
    let data = waves(path, "waves", 60, false);
    let error = refused(&mut train(path, "none", "--data", &data, &["--features", network.to_str().unwrap()]));
    assert!(
        error.contains("blind.onnx: expected features that differ") && error.contains("the same 2 numbers"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_features_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, backbone) = (waves(path, "waves", 5, false), backbone(path));
    let features = backbone.to_str().unwrap();
    let said = |extra: &[&str]| refused(&mut train(path, "none", "--data", &data, extra));
    let error = said(&["--features", features, "--feature-outputs", "fine,stride16"]);
    assert!(error.contains("backbone.onnx") && error.contains("no output `stride16`"), "{error}");
    let error = said(&["--features", features]);
    assert!(error.contains("waves: 5 images") && error.contains("at least 50"), "{error}");
    assert!(said(&["--top-k", "3"]).contains("--top-k"));
    let error = said(&["--features", features, "--top-k", "257"]);
    assert!(error.contains("--top-k: expected at most the number of an image's places, 256, found 257"), "{error}");
    let table = path.join("table.csv");
    std::fs::write(&table, "a,b\n1,2\n").unwrap();
    let error = refused(&mut train(path, "none", "--data", &table, &["--features", features]));
    assert!(error.contains("--features") && error.contains("is a table"), "{error}");
}
