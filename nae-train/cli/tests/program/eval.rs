//! `nae-train eval`, `sample` and `fid`: a trained model on data it has and on data it has not seen, and what it takes for
//! normal.

use std::path::{Path, PathBuf};

use burn::module::Module as _;
use burn::tensor::Device;
use nae_data::own::Corrupt;
use nae_features::{Embedding, Moments, frechet_distance};
use nae_infer::{BackendKind, Detector, image};
use nae_onnx::builder::{Conv2d, GraphBuilder, Pool2d};
use nae_train::arch::checkpoint;
use nae_train::report::{AUTOENCODER, RunFolder};
use nae_train::run::Prepared;
use nae_train::tensors::Batches as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::changed::{few_images, preset, replaced};
use crate::harness::{nae_train, refused, run, train};

fn result(command: &mut std::process::Command) -> Value {
    let output = run(command);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Grey images of 16×16 pixels, stripes that lie or stand.
pub(crate) fn stripes(folder: &Path, name: &str, standing: bool) -> PathBuf {
    let data = folder.join(name);
    std::fs::create_dir(&data).unwrap();
    for k in 0..20usize {
        let mut image = b"P5 16 16 255\n".to_vec();
        image.extend((0..256).map(|at| {
            let along = if standing { at % 16 } else { at / 16 };
            ((along + k) / 3 % 2 * 200 + k) as u8
        }));
        std::fs::write(data.join(format!("{k}.pgm")), image).unwrap();
    }
    data
}

#[test]
fn a_model_is_measured_in_every_form_it_has() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let short = preset(path, "short.toml", |text| {
        let text = replaced(&few_images(&text), "epochs = 600", "epochs = 2");
        replaced(&replaced(&text, "updates = 1500", "updates = 4"), "every = 20", "every = 2")
    });
    let trained = result(&mut train(path, "run", "--preset", &short, &["--json"]));
    let folder_of_run = path.join("run");

    // Its own test data: the same table as at the end of the run.
    let own = result(nae_train().arg("eval").arg(&folder_of_run).arg("--json"));
    for (trained, own) in
        trained["auroc"]["rows"].as_array().unwrap().iter().zip(own["auroc"]["rows"].as_array().unwrap())
    {
        assert_eq!((&trained["outliers"], &trained["nae"]), (&own["outliers"], &own["nae"]));
    }
    assert_eq!(own["threshold"], trained["threshold"]);
    assert_eq!(own["false_positive_rate"], trained["false_positive_rate"]["measured"]);
    assert_eq!(own["caught"].as_array().unwrap().len(), 5);

    // Data from elsewhere: alike by weights, by the ONNX file and by what a microcontroller gets.
    let (normal, outliers) = (stripes(path, "lying", false), stripes(path, "standing", true));
    let deployed = path.join("run.nae");
    assert!(run(nae_train().arg("deploy").arg(path.join("run.onnx")).arg("-o").arg(&deployed)).status.success());
    let figures: Vec<Value> = [folder_of_run.clone(), path.join("run.onnx"), deployed]
        .iter()
        .map(|model| {
            let mut command = nae_train();
            command.arg("eval").arg(model).arg("--normal").arg(&normal).arg("--outliers").arg(&outliers);
            let result = result(command.arg("--json"));
            assert_eq!(result["auroc"]["rows"][0]["outliers"], "standing");
            assert_eq!(result["auroc"]["rows"][0]["count"], 20);
            // A run's folder has it in its results, and a model file in its contract.
            assert_eq!(result["threshold"], trained["threshold"], "{}", model.display());
            let caught = &result["caught"][0];
            assert!(caught["outliers"] == "standing" && caught["share"].is_number(), "{result}");
            result["auroc"]["rows"][0]["figures"].as_object().unwrap().values().next().unwrap()["auroc"]["value"]
                .clone()
        })
        .collect();
    assert!(figures[0].is_number() && figures.iter().all(|figure| *figure == figures[0]), "{figures:?}");

    // Sets of the same name are apart.
    std::fs::create_dir(path.join("elsewhere")).unwrap();
    let namesake = stripes(&path.join("elsewhere"), "standing", false);
    let mut command = nae_train();
    command.arg("eval").arg(path.join("run.onnx")).arg("--normal").arg(&normal);
    let two = result(command.arg("--outliers").arg(&outliers).arg("--outliers").arg(&namesake).arg("--json"));
    assert_eq!([&two["caught"][0]["outliers"], &two["caught"][1]["outliers"]], ["standing"; 2]);

    // The files of outliers that a run was evaluated on are not kept, and its folder says which they were.
    let results = std::fs::read_to_string(folder_of_run.join("result.json")).unwrap();
    let mut with_given: Value = serde_json::from_str(&results).unwrap();
    with_given["given_outliers"] = json!([{ "outliers": "standing (given)", "count": 20 }]);
    std::fs::write(folder_of_run.join("result.json"), with_given.to_string()).unwrap();
    let said = |command: &mut std::process::Command| String::from_utf8(run(command).stderr).unwrap();
    let note = "the run was also evaluated on standing (given)";
    assert!(said(nae_train().arg("eval").arg(&folder_of_run)).contains(note));
    assert!(!said(nae_train().arg("eval").arg(&folder_of_run).arg("--outliers").arg(&outliers)).contains(note));
    std::fs::write(folder_of_run.join("result.json"), results).unwrap();

    // With the mark of the selection set; and normal data that the model was trained on are not new.
    let said = run(nae_train().arg("eval").arg(&folder_of_run));
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("ConstantGray *") && said.contains("* selection set:"), "{said}");
    assert!(said.contains("Shares above it:") && said.contains("of the normal images"), "{said}");

    let mut both = nae_train();
    both.arg("eval").arg(&folder_of_run).arg("--normal").arg(&normal).arg("--data").arg(&normal);
    assert_eq!(run(&mut both).status.code(), Some(2));

    let message = refused(nae_train().arg("eval").arg(path.join("run.onnx")));
    assert!(message.contains("--normal"), "{message}");
    let message = refused(nae_train().arg("eval").arg(&normal));
    assert!(message.contains("config.toml"), "{message}");
    let message = refused(nae_train().arg("eval").arg(path.join("run.onnx")).arg("--normal").arg(&normal));
    assert!(message.contains("--outliers"), "{message}");

    // Samples: a picture, the same for the same seed.
    let sample = |name: &str, seed: &str| {
        let file = path.join(name);
        let mut command = nae_train();
        command.arg("sample").arg(&folder_of_run).args(["--count", "5", "--seed", seed, "-o"]).arg(&file);
        assert!(run(&mut command).status.success());
        std::fs::read(file).unwrap()
    };
    let one = sample("one.png", "1");
    assert!(one.starts_with(b"\x89PNG"));
    assert!(one == sample("again.png", "1") && one != sample("other.png", "2"));
    for command in ["sample", "reconstruct"] {
        for (name, instead) in [("one.txt", "one.png"), ("one", "one.png")] {
            let file = path.join(name);
            let message = refused(nae_train().arg(command).arg(&folder_of_run).arg("-o").arg(&file));
            let expected = format!("{name}: expected a name that ends in .png");
            assert!(message.contains(&expected) && message.contains(instead), "{message}");
            assert!(!file.exists());
        }
    }

    // What comes out of the model, beside what its autoencoder gave.
    let picture = path.join("reconstructed.png");
    let reconstruct = |extra: &[&str]| {
        let mut command = nae_train();
        command.arg("reconstruct").arg(&folder_of_run).args(["--count", "4", "-o"]).arg(&picture).args(extra);
        command
    };
    let sets = ["--sets", "normal test images", "--sets", "digit 1 (held out)"];
    let found = result(reconstruct(&sets).arg("--json"));
    assert_eq!(found["models"], json!(["autoencoder", "NAE"]));
    let rows = found["sets"].as_array().unwrap();
    assert_eq!([&rows[0]["row"], &rows[1]["row"]], [1, 4]);
    for row in rows {
        let expected = mean_energies(path, row["set"].as_str().unwrap(), 4);
        for (found, expected) in row["mean_energies"].as_array().unwrap().iter().zip(expected) {
            assert!((found.as_f64().unwrap() / expected - 1.0).abs() < 1e-4, "{expected}, {row}");
        }
    }
    // Six rows of four images, each four pixels a pixel, two apart.
    let picture = std::fs::read(&picture).unwrap();
    let size = [16, 20].map(|at| u32::from_be_bytes(*picture[at..].first_chunk().unwrap()));
    assert_eq!(size, [4 * 66 - 2, 6 * 66 - 2]);
    let output = run(reconstruct(&[]).arg("--outliers").arg(&outliers));
    assert!(String::from_utf8(output.stdout).unwrap().contains("standing (given)"));
    let message = refused(&mut reconstruct(&["--sets", "digit 7"]));
    assert!(message.contains("no set \"digit 7\"") && message.contains("\"digit 1 (held out)\""), "{message}");

    // FID, by a network of four features.
    let network = path.join("network.onnx");
    std::fs::write(&network, network_of_four_features()).unwrap();
    let fid = |count: &str, seed: &str| {
        let mut command = nae_train();
        command.args(["fid", "-q"]).arg(&folder_of_run).arg("--network").arg(&network);
        command.args(["--count", count, "--seed", seed]);
        command
    };
    let found = |seed: &str| result(fid("60", seed).args(["--real", "120", "--json"]));
    let first = found("1");
    let distance = first["fid"].as_f64().unwrap();
    assert_eq!(first, json!({ "fid": distance, "real": 120, "generated": 60, "features": 4, "output": "pool" }));
    // The images are those that `sample` draws, there with 255 shades.
    let picture = path.join("sixty.png");
    let mut sixty = nae_train();
    sixty.arg("sample").arg(&folder_of_run).args(["--count", "60", "--seed", "1", "-o"]).arg(&picture);
    assert!(run(&mut sixty).status.success());
    let expected = distance_to_picture(&folder_of_run, 120, &picture, 60);
    assert!((distance / expected - 1.0).abs() < 5e-6, "{distance}, {expected}");
    assert!(first == found("1") && first != found("2"), "{distance}");
    let output = run(&mut fid("3", "1"));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("against 161 of the training data") && said.contains("3 images are too few"), "{said}");
    let message = refused(&mut fid("1", "1"));
    assert!(message.contains("takes two images and more of both kinds"), "{message}");
    let message = refused(fid("60", "1").args(["--output", "logits"]));
    assert!(
        message.contains("network.onnx: no network for a FID") && message.contains("`pool` [N, 4, 1, 1]"),
        "{message}"
    );
}

/// Of `count` images, evenly from the set of this name, the mean energy under the run's autoencoder, as the squared difference
/// of what it makes of them, and under its NAE, as the model file gives it. Run and model file are called `run`.
fn mean_energies(folder: &Path, set: &str, count: usize) -> [f64; 2] {
    let run = folder.join("run");
    let (config, seed) = RunFolder::read(&run).unwrap();
    let prepared = Prepared::new(config, seed, None, Corrupt::Refuse).unwrap();
    let outliers = prepared.outlier_sets();
    let images = match set {
        "normal test images" => &prepared.split.test,
        _ => &outliers.iter().find(|of| of.name == set).unwrap().images,
    };
    let chosen: Vec<usize> = (0..count).map(|k| k * images.len() / count).collect();
    let values: Vec<f32> = chosen.iter().flat_map(|&index| images.image(index)).copied().collect();

    let (device, spec) = (Device::flex(), prepared.config.architecture());
    let model = checkpoint::load(checkpoint::blank(spec, &device), spec.name(), &run.join(AUTOENCODER)).unwrap();
    let reconstructed = model.valid().reconstruct(images.batch(&chosen, &device)).into_data();
    let squares = values.iter().zip(reconstructed.iter::<f32>()).map(|(x, y)| f64::from(x - y).powi(2));
    let autoencoder = squares.sum::<f64>() / values.len() as f64;

    let detector = Detector::builder().backend(BackendKind::Simd).open(folder.join("run.onnx")).unwrap();
    let scored = detector.score_prepared(&values).unwrap();
    let nae = scored.iter().map(|scored| f64::from(scored.energy)).sum::<f64>() / count as f64;
    [autoencoder, nae]
}

/// The FID by [`network_of_four_features`] of the run's first `real` training images and the `drawn` of a picture by
/// `nae-train sample`.
fn distance_to_picture(run: &Path, real: usize, picture: &Path, drawn: usize) -> f64 {
    let (config, seed) = RunFolder::read(run).unwrap();
    let shape = config.architecture().image();
    let train = Prepared::new(config, seed, None, Corrupt::Refuse).unwrap().split.train;
    let embedding = Embedding::parse(&network_of_four_features(), None, shape).unwrap();
    let moments = |images: &[&[f32]]| {
        let mut moments = Moments::new(4);
        embedding.run(images).iter().for_each(|vector| moments.add(vector));
        moments
    };
    // Rows of eight images; one has 16×16 pixels, each of four by four of the picture, and two are between images.
    let picture = image::open(picture).unwrap().to_luma8();
    let pixel = |k: usize, at: usize| {
        let (x, y) = (k % 8 * 66 + at % 16 * 4, k / 8 * 66 + at / 16 * 4);
        f32::from(picture.get_pixel(x as u32, y as u32).0[0]) / 255.0
    };
    let images: Vec<Vec<f32>> = (0..drawn).map(|k| (0..256).map(|at| pixel(k, at)).collect()).collect();
    let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    let real: Vec<&[f32]> = (0..real).map(|index| train.image(index)).collect();
    frechet_distance(&moments(&real), &moments(&images)).unwrap()
}

/// Of colour images of 32×32 pixels: `pool` has four features.
fn network_of_four_features() -> Vec<u8> {
    let mut graph = GraphBuilder::new("network");
    let image = graph.image_input("image", [3, 32, 32]).unwrap();
    let weights: Vec<f32> = (0..4 * 3 * 25).map(|k| ((k * k % 31) as f32 - 15.0) / 10.0).collect();
    let maps =
        graph.conv2d("conv", image, &Conv2d { stride: [3; 2], ..Conv2d::new(4, [5, 5], &weights, None) }).unwrap();
    let maps = graph.sigmoid("sigmoid", maps).unwrap();
    let pool = Pool2d { kernel: [10; 2], stride: [1; 2], padding: [0; 4] };
    let pool = graph.average_pool2d("pool.mean", maps, &pool).unwrap();
    graph.output("pool", pool).unwrap();
    graph.finish_bytes().unwrap()
}
