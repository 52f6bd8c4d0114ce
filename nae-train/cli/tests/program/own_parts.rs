//! Samples that are parts, as a user meets them: tiles of larger images, windows of a time series.

use std::path::{Path, PathBuf};

use crate::harness::{assert_made_again, nae_train, refused, run, train};
use burn::tensor::Device;
use nae_data::Source;
use nae_data::own::{self, Asked, Corrupt};
use nae_data::own_table;
use nae_infer::image::{self, GrayImage, Luma};
use nae_infer::{BackendKind, Detector};
use nae_input::table;
use nae_input::tiling::{Grid, image_score};
use nae_onnx::metadata::{Missing, RowWindow, Tiles};
use nae_train::engine::Engine;
use nae_train::eval::{decided, energies};
use nae_train::methods::{self, Decision, Model};
use nae_train::report::RunFolder;
use tempfile::TempDir;

/// Waves of 40×30 pixels and more; with a dark spot where `spot`.
fn waves(folder: &Path, name: &str, count: u32, spot: bool) -> PathBuf {
    let data = folder.join(name);
    std::fs::create_dir_all(&data).unwrap();
    for n in 0..count {
        let (width, height) = (40 + n % 3, 30 + n % 5);
        let picture = GrayImage::from_fn(width, height, |x, y| {
            let wave = (0.8 * f64::from(x) + 0.3 * f64::from(y) + f64::from(n)).sin();
            let inside = spot && (n % 30..n % 30 + 5).contains(&x) && (n % 20..n % 20 + 5).contains(&y);
            Luma([if inside { 0 } else { (127.0 + 100.0 * wave) as u8 }])
        });
        picture.save(data.join(format!("{n:03}.png"))).unwrap();
    }
    data
}

fn trained(path: &Path) -> Box<dyn Model> {
    let (config, _) = RunFolder::read(path).unwrap();
    methods::load(&config, &path.join("checkpoint.safetensors"), &Device::flex()).unwrap()
}

#[test]
fn tiles_are_scored_as_they_were_trained() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, spots) = (waves(path, "waves", 60, false), waves(path, "spots", 9, true));
    let spots = spots.to_str().unwrap();
    let tiles = ["--tile", "16", "--stride", "10", "--top-k", "2"];
    let extra = [&tiles[..], &["--json", "--outliers", spots, "--time-budget", "5s"]].concat();
    let output = run(&mut train(path, "one", "--data", &data, &extra));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("60 images, grey, cut into ") && said.contains("the mean of the 2 largest"), "{said}");
    assert!(said.contains("6 ("), "six images for calibration, and their tiles: {said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts: Vec<(&str, u64)> = result["auroc"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["outliers"].as_str().unwrap(), row["count"].as_u64().unwrap()))
        .collect();
    let expected =
        [("spots (given)", 9), ("squares from other images", 6), ("squares of noise", 6), ("squares of one grey", 6)];
    assert_eq!(counts, expected);

    // The same model from what the run folder recorded.
    assert_made_again(path, &data);

    let model = trained(&path.join("one"));
    let asked = Asked { tiles: Some((16, Tiles { stride: 10, top_k: 2 })), ..Asked::default() };
    let (chosen, read) = own::choose_with(&data, &asked, Corrupt::Refuse).unwrap();
    assert_eq!(read.images.decisions(), 60);
    let expected = decided(&*model, Decision::Reconstruction, &read.images, Engine::Burn, &Device::flex());
    // Those of this build: tract is there where the whole workspace is tested.
    let backends = [BackendKind::Native, BackendKind::Simd, BackendKind::Tract];
    for backend in backends.into_iter().filter(|kind| kind.is_built_in()) {
        let detector = Detector::builder().backend(backend).threads(2).open(path.join("one.onnx")).unwrap();
        let settings = detector.settings();
        assert_eq!((settings.tiles, settings.contract.input), (chosen.tiles, chosen.shape()));
        assert_eq!(settings.contract.calibration().unwrap().count(), 6);
        for (n, expected) in expected.iter().enumerate() {
            let picture = image::open(data.join(format!("{n:03}.png"))).unwrap();
            let scored = detector.score(&picture).unwrap();
            assert!((scored.energy - expected).abs() <= 1e-4 * expected, "{n}: {} {expected}", scored.energy);
            let (width, height) = (picture.width() as usize, picture.height() as usize);
            assert_eq!((scored.error_map_shape.height, scored.error_map_shape.width), (height, width));
            assert_eq!(scored.error_map.len(), width * height);
            assert!(scored.p_value.is_some() && scored.verdict.is_some());
        }
    }
    // What the command measures by the model file is what it measured in training.
    let mut eval = nae_train();
    eval.arg("eval").arg(path.join("one.onnx")).arg("--normal").arg(&data).args(["--outliers", spots, "--json"]);
    let output = run(&mut eval);
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["auroc"]["normal_count"], &result["auroc"]["rows"][0]["count"]), (&60.into(), &9.into()));

    let mut deploy = nae_train();
    deploy.arg("deploy").arg(path.join("one.onnx")).arg("-o").arg(path.join("one.nae"));
    let message = refused(&mut deploy);
    assert!(message.contains("one tile at a time") && message.contains("--top-k 1"), "{message}");
}

#[test]
fn a_device_scores_single_tiles() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = waves(path, "waves", 50, false);
    let output = run(&mut train(path, "one", "--data", &data, &["--tile", "12", "--time-budget", "1s", "--quiet"]));
    assert!(output.status.success(), "{output:?}");
    let mut deploy = nae_train();
    deploy.arg("deploy").arg(path.join("one.onnx")).arg("-o").arg(path.join("one.nae"));
    let output = run(&mut deploy);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("6 pixels from one tile to the next"), "{output:?}");

    // A device that cuts the image and takes the largest energy finds what the whole model does, to the bit.
    let whole = Detector::builder().backend(BackendKind::Native).open(path.join("one.onnx")).unwrap();
    let device = Detector::open(path.join("one.nae")).unwrap();
    assert_eq!(device.threshold(), whole.threshold());
    let picture = image::open(data.join("007.png")).unwrap();
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let tile = whole.contract().input;
    let grid = Grid::new(nae_core::Shape::new(1, height, width), tile, 6).unwrap();
    let values: Vec<f32> = picture.to_luma8().into_raw().into_iter().map(|v| f32::from(v) / 255.0).collect();
    let scored = device.score_prepared(&grid.cut(&values, 0..grid.len())).unwrap();
    let energies: Vec<f32> = scored.iter().map(|scored| scored.energy).collect();
    assert_eq!(image_score(&energies, 1), whole.score(&picture).unwrap().energy);
}

/// Two tones that follow each other; a third of the way they lose step where `odd`.
fn series(path: &Path, rows: usize, odd: bool) {
    let mut text = "a,b\n".to_owned();
    for n in 0..rows {
        let phase = if odd && n > rows / 3 { 2.0 } else { 0.0 };
        text += &format!("{:.5},{:.5}\n", (0.4 * n as f64).sin(), (0.4 * n as f64 - 0.5 + phase).sin());
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn windows_are_scored_as_they_were_trained() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, odd) = (path.join("pump.csv"), path.join("odd.csv"));
    series(&data, 600, false);
    series(&odd, 60, true);
    let window = ["--window", "8", "--window-stride", "2", "--time-budget", "5s"];
    let extra = [&window[..], &["--json", "--outliers", odd.to_str().unwrap()]].concat();
    let output = run(&mut train(path, "one", "--data", &data, &extra));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("600 rows, 2 columns of numbers") && said.contains("windows of 8, 2 from one"), "{said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // All windows of the other series: (60 − 8)/2 + 1.
    assert_eq!(
        (&result["auroc"]["rows"][0]["count"], &result["auroc"]["rows"][0]["given"]),
        (&27.into(), &true.into())
    );

    // Stretches of 16 rows have 5 windows, and of so few that are independent the promise is vague.
    let rate = &result["false_positive_rate"];
    let [windows, stretches] = ["calibration_count", "independent_count"].map(|key| rate[key].as_u64().unwrap());
    assert!(windows >= 5 * stretches && stretches < 10, "{rate}");
    assert!(rate["target"].as_f64().unwrap() < 1.0 / (stretches as f64 + 1.0));
    let high = 1.0 - 0.025_f64.powf(1.0 / stretches as f64);
    assert_eq!(rate["interval"][0], 0.0);
    assert!((rate["interval"][1].as_f64().unwrap() - high).abs() < 1e-6, "{rate}");
    let report = std::fs::read_to_string(path.join("one/report.md")).unwrap();
    assert!(report.contains(&format!("on {windows} windows of {stretches} stretches, whose")), "{report}");
    let sure = [&window[..], &["--confidence", "0.9"]].concat();
    let message = refused(&mut train(path, "sure", "--data", &data, &sure));
    assert!(message.contains("stretches") && message.contains(&format!("there are {stretches}")), "{message}");
    // Of 1,150 rows there are 604 windows of 40, of which one stretch of 41 or so calibrates: a tenth would be 60.
    let long = path.join("long.csv");
    series(&long, 1150, false);
    let overlapping = ["--window", "40", "--window-stride", "1", "--time-budget", "1s", "--json"];
    let output = run(&mut train(path, "long", "--data", &long, &overlapping));
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = &result["false_positive_rate"];
    assert_eq!((&rate["calibration_count"], &rate["target"]), (&41.into(), &0.05.into()), "{rate}");

    assert_made_again(path, &data);

    let output = run(nae_train().arg("deploy").arg(path.join("one.onnx")).arg("-o").arg(path.join("one.nae")));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("scale them, to form windows of rows"), "{output:?}");

    let model = trained(&path.join("one"));
    let (config, _) = RunFolder::read(&path.join("one")).unwrap();
    let Source::Table(own) = config.source() else { panic!("{:?}", config.source()) };
    let detector = Detector::builder().backend(BackendKind::Native).open(path.join("one.onnx")).unwrap();
    let columns = detector.settings().columns.as_ref().unwrap();
    let window = detector.settings().window.unwrap();
    assert_eq!(Some(window), own.window);
    let rows = own_table::load_whole(&data, own).unwrap();
    let expected = energies(&*model, &rows.samples, Engine::Burn, &Device::flex());
    let table = table::read(&data).unwrap();
    let windows: Vec<_> = table.windows(columns, window).unwrap().collect();
    assert_eq!(windows.len(), expected.len());
    for (window, expected) in windows.into_iter().zip(expected) {
        let scored = detector.score_prepared(&window.values.unwrap()).unwrap()[0].energy;
        assert!((scored - expected).abs() <= 1e-4 * expected + 1e-8, "line {}: {scored} {expected}", window.first);
    }
}

#[test]
fn parts_of_one_whole_stay_together() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    // Every reading says which row it is of.
    let files = path.join("files");
    std::fs::create_dir(&files).unwrap();
    for (name, from) in [("a.csv", 0), ("b.csv", 1000)] {
        let rows: String = (0..300).map(|n| format!("{},{}\n", from + n, n % 7)).collect();
        std::fs::write(files.join(name), format!("row,b\n{rows}")).unwrap();
    }
    let (own, rows) = own_table::choose(&files, Missing::Refuse, Some(RowWindow { rows: 6, stride: 1 })).unwrap();
    let config = nae_train::plan::draft_table(&own, rows.samples.len()).unwrap();
    let prepared = nae_train::run::Prepared::of(config, 3, rows.into()).unwrap();
    let column = &own.columns[0];
    let rows_of = |set: &nae_data::ImageSet| -> std::collections::BTreeSet<i64> {
        let row =
            |value: f32| (column.center + (f64::from(value) - 0.5) * 2.0 * column.span * column.scale).round() as i64;
        let mut all = std::collections::BTreeSet::new();
        for n in 0..set.len() {
            let rows: Vec<i64> = set.image(n).chunks(2).map(|values| row(values[0])).collect();
            assert!(rows.windows(2).all(|pair| pair[1] == pair[0] + 1), "a window spans two files: {rows:?}");
            all.extend(rows);
        }
        all
    };
    let split = &prepared.split;
    let parts = [&split.train, &split.validation, &split.calibration, &split.test].map(rows_of);
    for (n, a) in parts.iter().enumerate() {
        assert!(!a.is_empty());
        assert!(parts[n + 1..].iter().all(|b| a.is_disjoint(b)));
    }
    assert_eq!(parts.iter().map(std::collections::BTreeSet::len).sum::<usize>(), 600);
}

#[test]
fn what_makes_no_sense_is_refused_before_training() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = waves(path, "waves", 60, false);
    let table = path.join("pump.csv");
    series(&table, 30, false);
    let refused = |data: &Path, extra: &[&str]| refused(&mut train(path, "no", "--data", data, extra));
    let message = refused(&data, &["--tile", "16", "--stride", "17"]);
    assert!(message.contains("--stride") && message.contains("would leave some out"), "{message}");
    // Images of 40×30 to 42×34 pixels.
    let message = refused(&data, &["--tile", "16", "--top-k", "100"]);
    assert!(message.contains("--top-k: expected at most the number of an image's tiles, 20, found 100"), "{message}");
    let message = refused(&data, &["--tile", "32"]);
    assert!(message.contains("at least one tile, 32×32"), "{message}");
    let message = refused(&data, &["--window", "5"]);
    assert!(message.contains("--window") && message.contains("no table"), "{message}");
    let message = refused(&table, &["--tile", "16"]);
    assert!(message.contains("--tile") && message.contains("is a table"), "{message}");
    let message = refused(&table, &["--window", "5", "--window-stride", "6"]);
    assert!(
        message.contains("--window-stride: 6 rows from one window of 5 to the next would leave some out"),
        "{message}"
    );
    let message = refused(&table, &["--window", "31"]);
    assert!(
        message.contains("pump.csv") && message.contains("at least 31 rows") && message.contains("30"),
        "{message}"
    );
    let message = refused(&table, &["--window", "5"]);
    assert!(message.contains("at least 10 stretches of 10 rows or more, found 3, in 1 file of 30 rows"), "{message}");
    series(&table, 9000, false);
    let message = refused(&table, &["--window", "4097"]);
    assert!(message.contains("4097 rows of 2 columns are more than 8192 values"), "{message}");
    assert!(!path.join("no").exists());
    for extra in
        [&["--stride", "5"][..], &["--window-stride", "5"], &["--tile", "11"], &["--tile", "16", "--window", "5"]]
    {
        assert_eq!(run(&mut train(path, "no", "--data", &data, extra)).status.code(), Some(2), "{extra:?}");
    }
}
