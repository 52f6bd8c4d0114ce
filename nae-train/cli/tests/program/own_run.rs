//! `nae-train --data DIR` as a user meets it: a model with nothing else said, and what it is worth in `nae-infer`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{assert_made_again, nae_train, refused, run};
use burn::tensor::Device;
use nae_core::Shape;
use nae_data::Source;
use nae_data::own::{self, Corrupt};
use nae_data::own_table;
use nae_infer::image::{GrayImage, Luma, Rgb, RgbImage};
use nae_infer::{BackendKind, Detector};
use nae_input::table;
use nae_train::engine::Engine;
use nae_train::eval::energies;
use nae_train::methods;
use nae_train::report::RunFolder;
use nae_train::run::Prepared;
use tempfile::TempDir;

/// Stripes of 20×24 pixels, upright ones in `upright`, the others in `level`.
pub(crate) fn images(folder: &Path, name: &str, count: u32) -> PathBuf {
    let data = folder.join(name);
    for sub in ["level", "upright"] {
        std::fs::create_dir_all(data.join(sub)).unwrap();
    }
    for n in 0..count {
        let upright = n % 2 == 0;
        let image = GrayImage::from_fn(20, 24, |x, y| {
            let at = if upright { x } else { y } + n;
            Luma([if (at / (n % 5 + 1)).is_multiple_of(2) { 230 } else { 20 }])
        });
        let sub = if upright { "upright" } else { "level" };
        image.save(data.join(sub).join(format!("{n:03}.png"))).unwrap();
    }
    data
}

fn train(folder: &Path, name: &str, data: &Path, extra: &[&str]) -> Command {
    crate::harness::train(folder, name, "--data", data, extra)
}

#[test]
fn a_folder_becomes_a_model_that_scores_as_it_was_trained() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = images(path, "stripes", 120);
    let outliers = path.join("spots");
    std::fs::create_dir(&outliers).unwrap();
    for n in 0..7u32 {
        let image = RgbImage::from_fn(30, 30, |x, y| Rgb([(x * y + n) as u8, (x * 5) as u8, 9]));
        image.save(outliers.join(format!("{n}.png"))).unwrap();
    }
    let outliers = outliers.to_str().unwrap();
    let output = run(&mut train(path, "one", &data, &["--json", "--outliers", outliers, "--time-budget", "4s"]));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("120 images in 2 folders (level: 60, upright: 60), grey, brought to 16x16")
            && said.contains("for 4s in all"),
        "{said}"
    );
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        result["auroc"]["rows"].as_array().unwrap().iter().map(|row| row["outliers"].as_str().unwrap()).collect();
    assert_eq!(names, ["spots (given)", "half-images", "chimeras", "uniform noise", "ConstantGray"]);
    assert_eq!((&result["auroc"]["rows"][0]["count"], &result["auroc"]["normal_count"]), (&7.into(), &12.into()));
    assert_eq!((&result["held_out"], &result["false_positive_rate"]["target"]), (&().into(), &0.1.into()));
    assert!(result["warnings"].to_string().contains("120 normal images are few"), "{result}");
    let report = std::fs::read_to_string(path.join("one/report.md")).unwrap();
    for text in
        ["# stripes", "## Warnings", "## Chosen", "never used in training", "validation images after pre-training"]
    {
        assert!(report.contains(text), "{text}: {report}");
    }

    // The run folder has the numbers that were chosen: no measuring, the same model.
    assert_made_again(path, &data);
    let again = path.join("again.onnx");
    let mut export = nae_train();
    export.arg("export").arg(path.join("one")).arg("--data").arg(&data).arg("--export").arg(&again);
    assert!(run(&mut export).status.success());
    assert!(std::fs::read(&again).unwrap() == std::fs::read(path.join("one.onnx")).unwrap());
    let message = refused(nae_train().arg("export").arg(path.join("one")).arg("--export").arg(&again));
    assert!(message.contains("--data") && message.contains("stripes"), "{message}");
    let inner = data.join("level");
    let preset = ["--preset", path.join("one/config.toml").to_str().unwrap(), "--outliers"].map(str::to_owned);
    let message = refused(train(path, "no", &data, &[]).args(&preset).arg(&inner));
    assert!(message.contains("would be trained on"), "{message}");
    let message = refused(train(path, "no", &inner, &[]).args(&preset).arg(&data));
    assert!(message.contains("would be taken for outliers"), "{message}");
    // A rate of .1, with half of the images.
    let message = refused(train(path, "no", &inner, &[]).args(&preset[..2]));
    assert!(message.contains("6 decisions") && message.contains("takes 9"), "{message}");

    // Energies of the files, scored, are those of the images as they were read for training.
    let detector = Detector::builder().backend(BackendKind::Native).open(path.join("one.onnx")).unwrap();
    let (config, _) = RunFolder::read(&path.join("one")).unwrap();
    let trained = methods::load(&config, &path.join("one/checkpoint.safetensors"), &Device::flex()).unwrap();
    let (chosen, read) = own::choose(&data, Corrupt::Refuse).unwrap();
    assert_eq!((chosen.shape(), detector.contract().input), (Shape::new(1, 16, 16), Shape::new(1, 16, 16)));
    for (n, energy) in energies(&*trained, &read.images, Engine::Burn, &Device::flex()).into_iter().enumerate() {
        let sub = if n < 60 { format!("level/{:03}", 2 * n + 1) } else { format!("upright/{:03}", 2 * (n - 60)) };
        let image = nae_infer::image::open(data.join(format!("{sub}.png"))).unwrap();
        let scored = detector.score(&image).unwrap().energy;
        assert!((scored - energy).abs() <= 1e-4 * energy, "{sub}: {scored} {energy}");
    }

    // These are no new data to evaluate the model on, and half of them are not known to be the same.
    let evaluated = |model: &Path, normal: &Path| {
        let mut command = nae_train();
        command.arg("eval").arg(model).arg("--normal").arg(normal).args(["--outliers", outliers]);
        String::from_utf8(run(&mut command).stderr).unwrap()
    };
    for model in [path.join("one.onnx"), path.join("one")] {
        let said = evaluated(&model, &data);
        assert!(said.contains("stripes: the model was trained on these data"), "{said}");
        assert_eq!(evaluated(&model, &inner), "");
    }

    // One image more, and data are divided otherwise: what was trained on would calibrate.
    std::fs::copy(inner.join("001.png"), inner.join("more.png")).unwrap();
    for command in [&mut export, nae_train().arg("eval").arg(path.join("one")).arg("--data").arg(&data)] {
        let message = refused(command);
        assert!(message.contains("SHA-256") && message.contains("give the same --data"), "{message}");
    }
}

#[test]
fn a_confidence_chooses_a_rate_that_the_rows_allow() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = path.join("pump.csv");
    readings(&data, 240, false);
    let output = run(&mut train(path, "sure", &data, &["--json", "--confidence", "0.9", "--time-budget", "2s"]));
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = &result["false_positive_rate"];
    // Of 24 rows the largest energy bounds a rate of .1, 1 − .9^24 = .92, and none one of .05.
    assert_eq!((&rate["target"], &rate["confidence"]), (&0.1.into(), &0.9.into()));
    assert!((rate["expected"].as_f64().unwrap() - 1.0 / 25.0).abs() < 1e-6, "{rate}");
    assert!((rate["interval"][1].as_f64().unwrap() - (1.0 - 0.025_f64.powf(1.0 / 24.0))).abs() < 1e-6, "{rate}");
    let detector = Detector::builder().backend(BackendKind::Native).open(path.join("sure.onnx")).unwrap();
    let largest = detector.contract().calibration().unwrap().table().last().copied();
    assert_eq!(detector.threshold(), largest);
    let report = std::fs::read_to_string(path.join("sure/report.md")).unwrap();
    assert!(
        report.contains(
            "Planned false-positive rate: at most 0.1 with a probability of 0.9, which makes it 0.040 on average. Calibrated on \
             24 rows. Measured"
        ),
        "{report}"
    );

    let message = refused(&mut train(path, "surer", &data, &["--confidence", "0.999"]));
    assert!(message.contains("takes 31 images or rows") && message.contains("there are 24"), "{message}");
    let preset = path.join("sure/config.toml");
    let text = std::fs::read_to_string(&preset).unwrap().replace("confidence = 0.9", "confidence = 0.99");
    std::fs::write(path.join("changed.toml"), text).unwrap();
    let mut again = nae_train();
    again.arg("--preset").arg(path.join("changed.toml")).arg("--data").arg(&data).arg("--out").arg(path.join("no"));
    let message = refused(&mut again);
    assert!(message.contains("takes 44 normal images or rows") && !path.join("no").exists(), "{message}");
}

/// Two readings on a circle, and one that follows from them; with a time that is no number.
fn readings(path: &Path, count: usize, damaged: bool) {
    let mut text = "time,x,y,product\n".to_owned();
    for n in 0..count {
        let (x, y) = (0.7 * n as f64).sin_cos();
        let product = if damaged { -x * y } else { x * y };
        text += &format!("12:{n},{:.5},{:.5},{:.5}\n", 10.0 * x, y, product);
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_table_becomes_a_model_that_scores_as_it_was_trained() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, odd) = (path.join("pump.csv"), path.join("odd.csv"));
    readings(&data, 240, false);
    readings(&odd, 30, true);
    let odd = odd.to_str().unwrap();
    let output = run(&mut train(path, "one", &data, &["--json", "--outliers", odd, "--time-budget", "4s"]));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("pump: 240 rows, 3 columns of numbers")
            && said.contains("time (text with more than 32 values, such as "),
        "{said}"
    );
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        result["auroc"]["rows"].as_array().unwrap().iter().map(|row| row["outliers"].as_str().unwrap()).collect();
    assert_eq!(names, ["odd (given)", "half-rows", "shuffled rows", "uniform noise", "ConstantGray"]);
    // A third column is the product of two others: to nearest neighbours, rows with its sign wrong are far off.
    let neighbours = result["auroc"]["rows"][0]["nearest_neighbours"].as_f64();
    assert!(neighbours.is_some_and(|auroc| auroc > 0.9), "{neighbours:?}");

    assert_made_again(path, &data);

    let detector = Detector::builder().backend(BackendKind::Native).open(path.join("one.onnx")).unwrap();
    let (config, _) = RunFolder::read(&path.join("one")).unwrap();
    let trained = methods::load(&config, &path.join("one/checkpoint.safetensors"), &Device::flex()).unwrap();
    let Source::Table(own) = config.source() else { panic!("{:?}", config.source()) };
    let rows = own_table::load(&data, own).unwrap();
    let columns = detector.settings().columns.as_ref().unwrap();
    let table = table::read(&data).unwrap();
    let positions = table.positions(columns).unwrap();
    for (row, energy) in table.rows().iter().zip(energies(&*trained, &rows.samples, Engine::Burn, &Device::flex())) {
        let scored = detector.score_prepared(&row.prepare(&positions, columns).unwrap()).unwrap()[0].energy;
        assert!((scored - energy).abs() <= 1e-4 * energy + 1e-8, "line {}: {scored} {energy}", row.line);
    }

    let text = std::fs::read_to_string(&data).unwrap();
    std::fs::write(&data, text.replacen(",1.00000,", ",NA,", 1)).unwrap();
    let message = refused(&mut train(path, "no", &data, &[]));
    assert!(message.contains("line 2") && message.contains("\"y\"") && message.contains("--missing fill"), "{message}");
}

/// A table of two columns.
fn write_table(file: &Path, header: &str, count: usize, row: impl Fn(usize) -> [f64; 2]) {
    let rows = (0..count).map(row).map(|[a, b]| format!("{a:.5},{b:.5}\n"));
    std::fs::write(file, format!("{header}\n{}", rows.collect::<String>())).unwrap();
}

/// What the model gives the second row of a table, and its threshold.
fn energy_and_threshold(model: &Path, backend: BackendKind, file: &Path) -> [f32; 2] {
    let detector = Detector::builder().backend(backend).open(model).unwrap();
    let columns = detector.settings().columns.as_ref().unwrap().clone();
    let table = table::read(file).unwrap();
    let positions = table.positions(&columns).unwrap();
    let prepared = table.rows()[1].prepare(&positions, &columns).unwrap();
    [detector.score_prepared(&prepared).unwrap()[0].energy, detector.threshold().unwrap()]
}

#[test]
fn the_distance_to_a_table_is_a_model_for_every_backend() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, odd) = (path.join("pump.csv"), path.join("odd.csv"));
    // Readings (t, 10 t + a little): what is usual is how they go together.
    let row = |slope: f64| {
        move |n: usize| {
            let (t, little) = (2.4 * n as f64).sin_cos();
            [t, slope * t + 0.3 * little]
        }
    };
    write_table(&data, "t,ten", 300, row(10.0));
    write_table(&odd, "t,ten", 40, row(-10.0));
    let extra = ["--json", "--method", "mahalanobis", "--outliers", odd.to_str().unwrap()];
    let output = run(&mut train(path, "one", &data, &extra));
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["method"], "mahalanobis");
    let auroc = result["auroc"]["rows"][0]["mahalanobis"].as_f64().unwrap();
    assert!(auroc > 0.9, "rows whose slope has the other sign: {auroc}");
    let backends = [BackendKind::Native, BackendKind::Simd, BackendKind::Tract]
        .map(|backend| energy_and_threshold(&path.join("one.onnx"), backend, &odd)[0]);
    assert!(backends.iter().all(|energy| (energy / backends[0] - 1.0).abs() < 1e-4), "{backends:?}");
    assert_made_again(path, &data);
}

/// The nearest of the remembered images is then a copy, at a distance of 0.
#[test]
fn copies_of_images_are_warned_of() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = path.join("good");
    std::fs::create_dir(&data).unwrap();
    for image in 0..60u32 {
        let pixels: Vec<String> = (0..64)
            .map(|at: u32| (image.wrapping_mul(7919).wrapping_add(at * at * (image + 3)) % 17).to_string())
            .collect();
        for copy in 0..5 {
            let text = format!("P2 8 8 16\n{}\n", pixels.join(" "));
            std::fs::write(data.join(format!("{image}-{copy}.pgm")), text).unwrap();
        }
    }
    let output = run(&mut train(path, "one", &data, &["--json", "--method", "knn"]));
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("of 30 calibration images") && warnings.contains("are copies of training images"),
        "{warnings}"
    );
    assert_eq!(result["device"], "cpu");
    assert_eq!(result["given_outliers"], serde_json::json!([]));
}

#[test]
fn the_nearest_rows_of_a_table_are_a_model() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, odd) = (path.join("ring.csv"), path.join("odd.csv"));
    // Readings on a ring; what lies at its middle has the mean of all.
    let row = |radius: f64| {
        move |n: usize| {
            let (sine, cosine) = (2.4 * n as f64).sin_cos();
            let around = radius + 0.05 * (7.1 * n as f64).sin();
            [around * sine, around * cosine]
        }
    };
    write_table(&data, "x,y", 300, row(1.0));
    write_table(&odd, "x,y", 40, row(0.2));
    let extra = ["--json", "--method", "knn", "--outliers", odd.to_str().unwrap()];
    let output = run(&mut train(path, "one", &data, &extra));
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["method"], "knn");
    // The rows to train on, all of which are different.
    let (config, _) = RunFolder::read(&path.join("one")).unwrap();
    assert_eq!(config.baselines().knn.vectors, 210);
    let row = &result["auroc"]["rows"][0];
    assert_eq!(row["nearest_neighbours"].as_f64(), Some(1.0), "{row}");
    assert!(result["warnings"].as_array().unwrap().iter().all(|warning| !warning.to_string().contains("nearest")));
    let energies = [BackendKind::Simd, BackendKind::Tract].map(|backend| {
        let [energy, threshold] = energy_and_threshold(&path.join("one.onnx"), backend, &odd);
        assert!(energy > threshold);
        energy
    });
    assert!((energies[1] / energies[0] - 1.0).abs() < 1e-3, "{energies:?}");
    let model = path.join("one.onnx");
    let said = refused(nae_train().arg("sample").arg(path.join("one")).arg("-o").arg(path.join("s.png")));
    assert!(said.contains("its samples are no images"), "{said}");
    let said = refused(nae_train().arg("deploy").arg(&model).arg("-o").arg(path.join("one.nae")));
    assert!(said.contains("softmax"), "{said}");
    assert_made_again(path, &data);
}

/// Squares of 96×64 pixels with threads of two pixels, or without any detail.
fn threads(folder: &Path, name: &str, count: u32, are_fine: bool) -> PathBuf {
    let data = folder.join(name);
    std::fs::create_dir_all(&data).unwrap();
    for n in 0..count {
        let image = GrayImage::from_fn(96, 64, |x, y| {
            let thread = ((x + n) / 2 + y / 2).is_multiple_of(2);
            Luma([if are_fine { 60 + 130 * u8::from(thread) } else { (x + y + n) as u8 }])
        });
        image.save(data.join(format!("{n:03}.png"))).unwrap();
    }
    data
}

/// Tiles, which keep an image's size, were tried all the same, and the run ended.
#[test]
fn images_that_are_cropped_or_padded_are_not_cut() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (fine, plain) = (threads(path, "fine", 64, true), threads(path, "plain", 60, false));
    let said = |name: &str, data: &Path, extra: &[&str]| {
        let output = run(&mut train(path, name, data, &[&["--method", "knn", "--form", "best"], extra].concat()));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for fit in ["crop", "pad"] {
        let said = said(fit, &fine, &["--fit", fit, "--top-k", "2"]);
        assert!(said.contains("form: whole images; ") && said.contains("--fit changes their size"), "{said}");
        assert!(said.contains("--top-k 2 is not used"), "{said}");
    }
    // There is nothing to choose between where little is lost.
    let said = said("plain", &plain, &[]);
    assert!(said.contains("form: whole images; they lose little detail"), "{said}");
}

#[test]
fn folders_are_named_and_those_of_outliers_warned_of() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = images(path, "all", 60);
    std::fs::rename(data.join("upright"), data.join("anomaly")).unwrap();
    let output = run(&mut train(path, "one", &data, &["--method", "knn"]));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("60 images in 2 folders (anomaly: 30, level: 30), grey"), "{said}");
    assert!(said.contains("warning: the folder \"anomaly\" (30 images) is trained on like the others"), "{said}");
    // Outliers are not trained on.
    let outliers = data.to_str().unwrap();
    let good = images(path, "good", 60);
    let output = run(&mut train(path, "two", &good, &["--method", "knn", "--outliers", outliers]));
    assert!(output.status.success() && !String::from_utf8(output.stderr).unwrap().contains("is trained on"));
    // A method without training has no curves of it.
    let shown = |run: &str| {
        let page = std::fs::read_to_string(path.join(run).join("report.html")).unwrap();
        ["Energies of normal test", "ROC: ", "Along training."].map(|caption| page.contains(caption))
    };
    assert_eq!([shown("one"), shown("two")], [[true, true, false]; 2]);
}

/// An array may be meant as a table; a picture is one image.
#[test]
fn one_image_is_too_few_and_an_array_is_explained() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let mixed = path.join("mixed");
    std::fs::create_dir(&mixed).unwrap();
    std::fs::write(mixed.join("a.csv"), "a,b\n1,2\n").unwrap();
    GrayImage::new(20, 20).save(mixed.join("a.png")).unwrap();
    let message = refused(&mut train(path, "no", &mixed, &["--time-budget", "1s"]));
    assert!(message.contains("mixed: 1 image; at least 50") && !message.contains("[H, W]"), "{message}");
    let header = format!("{:<117}\n", "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 20), }");
    let array = path.join("x.npy");
    std::fs::write(&array, [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[7; 400]].concat()).unwrap();
    let message = refused(&mut train(path, "no", &array, &["--time-budget", "1s"]));
    assert!(message.contains("x: 1 image; at least 50") && message.contains("a table as .csv"), "{message}");
}

/// What is not trained on is not known to the columns either; their order is that of the same division.
#[test]
fn columns_are_fitted_to_the_rows_to_train_on() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = path.join("pump.csv");
    let row = |n: usize, x: usize, text: &str| format!("{},{},{text}\n", n * 7 % 11, x);
    let texts = ["in", "out"];
    let write = |held: &dyn Fn(usize) -> bool| {
        let rows: String =
            (0..200).map(|n| if held(n) { row(n, 1000, "late") } else { row(n, n * 3 % 13, texts[n % 2]) }).collect();
        std::fs::write(&data, format!("a,b,c\n{rows}")).unwrap();
    };
    let columns = |name: &str| {
        let output = run(&mut train(path, name, &data, &["--method", "mahalanobis"]));
        assert!(output.status.success(), "{output:?}");
        let (config, seed) = RunFolder::read(&path.join(name)).unwrap();
        let Source::Table(own) = config.source() else { panic!("{:?}", config.source()) };
        (own.columns.clone(), Prepared::new(config.clone(), seed, Some(&data), Corrupt::Skip).unwrap())
    };
    write(&|_| false);
    let (usual, prepared) = columns("one");
    // The rows that are trained on, by their values: a, b and c together say which row it is.
    let keys = |set: &nae_data::ImageSet| -> std::collections::BTreeSet<Vec<u32>> {
        (0..set.len()).map(|at| set.image(at).iter().map(|value| value.to_bits()).collect()).collect()
    };
    let trained = keys(&prepared.split.train);
    let rows = own_table::load(&data, prepared_table(&prepared)).unwrap().samples;
    let held: Vec<bool> = (0..rows.len())
        .map(|at| !trained.contains(&rows.image(at).iter().map(|value| value.to_bits()).collect::<Vec<u32>>()))
        .collect();
    assert!(held.iter().filter(|held| **held).count() >= 20, "{held:?}");
    write(&|n| held[n]);
    assert_eq!(columns("two").0, usual);
}

fn prepared_table(prepared: &Prepared) -> &own_table::OwnTable {
    let Source::Table(own) = prepared.config.source() else { panic!("{:?}", prepared.config.source()) };
    own
}

#[test]
fn what_makes_no_sense_is_refused_before_training() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = images(path, "stripes", 60);
    let inner = data.join("level");
    let message = refused(&mut train(path, "no", &data, &["--outliers", inner.to_str().unwrap()]));
    assert!(message.contains("--outliers") && message.contains("keep it apart"), "{message}");
    // Before anything is read.
    let message = refused(&mut train(path, "no", &path.join("absent"), &["--held-out", "1"]));
    assert!(message.contains("--held-out") && message.contains("--outliers"), "{message}");
    let table = path.join("pump.csv");
    readings(&table, 240, false);
    // What would be passed over in silence.
    for (data, extra, named) in [
        (&table, &["--fit", "crop"][..], "--fit"),
        (&table, &["--form", "best"], "--form"),
        (&table, &["--tile", "16"], "--tile"),
        (&table, &["--strict"], "--strict"),
        (&data, &["--missing", "fill"], "--missing"),
        (&data, &["--form", "whole", "--tile", "16"], "--tile"),
    ] {
        let message = refused(&mut train(path, "no", data, extra));
        assert!(message.contains(named) && message.contains("leave"), "{extra:?}: {message}");
    }
    let message = refused(&mut train(path, "no", &data, &["--method", "vae"]));
    assert!(message.contains("--method") && message.contains("config.toml"), "{message}");
    let message = refused(nae_train().args(["--preset", "cifar10-ood", "--method", "mahalanobis"]));
    assert!(message.contains("at most 1,024 values"), "{message}");
    let message = refused(&mut train(path, "no", &inner, &[]));
    assert!(message.contains("level: 30 images;") && message.contains("50"), "{message}");
    let message = refused(&mut train(path, "no", &path.join("absent"), &[]));
    assert!(message.contains("absent") && message.contains("--data"), "{message}");
    std::fs::write(data.join("bad.png"), b"no image").unwrap();
    let message = refused(&mut train(path, "no", &data, &["--strict"]));
    assert!(message.contains("bad.png") && message.contains("--strict"), "{message}");
    let absent = path.join("absent");
    let message =
        refused(&mut train(path, "no", &data, &["--outliers", absent.to_str().unwrap(), "--time-budget", "1s"]));
    assert!(message.contains("absent") && message.contains("--outliers"), "{message}");
    assert!(!path.join("no").exists());
    for extra in [
        &["--time-budget", "soon"][..],
        &["--time-budget", "1m", "--preset", "digits"],
        &["--missing", "fill", "--preset", "digits"],
    ] {
        assert_eq!(run(&mut train(path, "no", &data, extra)).status.code(), Some(2), "{extra:?}");
    }
}
