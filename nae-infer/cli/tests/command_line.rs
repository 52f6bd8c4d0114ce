//! The binary: tables, JSON, exit status, and what it says of bad files.
#![allow(clippy::unwrap_used)]

#[path = "../../../crates/nae-onnx/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use nae_core::calibration::Calibration;
use nae_core::energy::Energy;
use nae_infer::image::{DynamicImage, GrayImage, ImageFormat, Luma};
use nae_infer::{BackendKind, Detector};
use nae_onnx::metadata::{Column, Columns, Missing, ModelMetadata, Reading, RowWindow};
use nae_onnx::proto::ModelProto;
use predicates::prelude::*;
use predicates::str::{contains, diff, is_empty, is_match};
use prost::Message;

struct Folder(tempfile::TempDir);

impl Folder {
    /// A folder with `model.onnx`, `model.nae`, and an 8×8 `a.png`, `a.jpg` and `a.pgm`.
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        let onnx = support::digits(1, Energy::SquaredL2).unwrap();
        std::fs::write(this.path("model.onnx"), &onnx).unwrap();
        std::fs::write(this.path("model.nae"), nae_onnx::lower::to_nae(&onnx).unwrap()).unwrap();
        let image = GrayImage::from_fn(8, 8, |x, y| Luma([(17 * (x + y)) as u8]));
        let image = DynamicImage::ImageLuma8(image);
        for (name, format) in [("a.png", ImageFormat::Png), ("a.jpg", ImageFormat::Jpeg), ("a.pgm", ImageFormat::Pnm)] {
            image.save_with_format(this.path(name), format).unwrap();
        }
        this
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command, in the folder.
    fn run(&self, arguments: &[&str]) -> assert_cmd::assert::Assert {
        Command::cargo_bin("nae-infer").unwrap().current_dir(self.0.path()).args(arguments).assert()
    }

    fn npy(&self, name: &str, descr: &str, shape: &str, data: &[u8]) {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        std::fs::write(self.path(name), bytes).unwrap();
    }
}

fn lines(output: &[u8]) -> Vec<serde_json::Value> {
    std::str::from_utf8(output).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_table_by_default() {
    let folder = Folder::new();
    let assert = folder.run(&["score", "model.onnx", "a.png", "a.pgm", "--backend", "native"]).success();
    let output = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let rows: Vec<Vec<&str>> = output.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["input", "energy", "p-value", "verdict"]);
    assert_eq!((rows[1][0], rows[2][0], rows.len()), ("a.png", "a.pgm", 3));
    // PNG and PGM hold the same bytes.
    assert_eq!(rows[1][1..], rows[2][1..]);
    assert_eq!(rows[1][3], "normal");
}

#[test]
fn json_has_one_object_a_line() {
    let folder = Folder::new();
    let assert = folder.run(&["score", "model.onnx", "a.png", "a.jpg", "--json"]).success().stderr(is_empty());
    let found = lines(&assert.get_output().stdout);
    assert_eq!(found.len(), 2);
    let detector = Detector::open(folder.path("model.onnx")).unwrap();
    for (line, name) in found.iter().zip(["a.png", "a.jpg"]) {
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["energy", "input", "p_value", "verdict"]);
        assert_eq!(line["input"], name);
        let scored = detector.score(&nae_infer::image::open(folder.path(name)).unwrap()).unwrap();
        let numbers = ["energy", "p_value"].map(|key| line[key].as_f64().unwrap() as f32);
        assert_eq!(numbers, [scored.energy, scored.p_value.unwrap()]);
        assert_eq!(line["verdict"], "normal");
    }
}

#[test]
fn backends_and_formats_agree() {
    let folder = Folder::new();
    let energies = |arguments: &[&str]| -> Vec<f64> {
        let assert = folder.run(&[&["score"], arguments, &["a.png", "a.pgm", "--json"]].concat()).success();
        lines(&assert.get_output().stdout).iter().map(|l| l["energy"].as_f64().unwrap()).collect()
    };
    let native = energies(&["model.nae"]);
    assert_eq!(energies(&["model.onnx", "--backend", "native"]), native);
    if cfg!(feature = "tract") {
        for (a, b) in energies(&["model.onnx"]).iter().zip(&native) {
            assert!((a - b).abs() <= 2e-6 * b, "{a} {b}");
        }
    }
}

#[test]
fn batches_of_numpy_are_read() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..2 * 256).map(|i| (i % 251) as u8).collect();
    folder.npy("u8.npy", "|u1", "(2, 16, 16)", &bytes);
    let floats: Vec<u8> = bytes.iter().flat_map(|&b| (f32::from(b) / 255.0).to_le_bytes()).collect();
    folder.npy("f4.npy", "<f4", "(2, 1, 16, 16)", &floats);
    folder.npy("one.npy", "<f4", "(16, 16)", &floats[..1024]);
    // NumPy's own defaults: 64 bits, channels last.
    let doubles: Vec<u8> = bytes.iter().flat_map(|&b| (f64::from(b) / 255.0).to_le_bytes()).collect();
    folder.npy("f8.npy", "<f8", "(2, 16, 16, 1)", &doubles);
    let assert = folder.run(&["score", "model.nae", "u8.npy", "f4.npy", "one.npy", "f8.npy", "--json"]).success();
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|l| l["input"].as_str().unwrap()).collect();
    assert_eq!(names, ["u8.npy[0]", "u8.npy[1]", "f4.npy[0]", "f4.npy[1]", "one.npy", "f8.npy[0]", "f8.npy[1]"]);
    assert_eq!(found[0]["energy"], found[2]["energy"]);
    assert_eq!(found[0]["energy"], found[4]["energy"]);
    assert_eq!(found[1]["energy"], found[6]["energy"]);
}

/// The network for 16×16 images, as if each of its 256 values were a column.
#[test]
fn rows_of_a_table_are_scored_by_the_models_columns() {
    use prost::Message as _;
    let folder = Folder::new();
    let mut model = ModelProto::decode(&*std::fs::read(folder.path("model.onnx")).unwrap()).unwrap();
    let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
    // An eighth: readings from 0 to 1 stay what they are.
    let column = |n| Column::number(format!("c{n}"), 0.5, 0.125, 4.0);
    metadata.columns = Some(Columns::new((0..256).map(column).collect(), Missing::Refuse).unwrap());
    metadata.replace_in(&mut model);
    std::fs::write(folder.path("table.onnx"), model.encode_to_vec()).unwrap();

    let bytes: Vec<u8> = (0..2 * 256).map(|i| (i % 251) as u8).collect();
    folder.npy("u8.npy", "|u1", "(2, 16, 16)", &bytes);
    let cells = |cells: Vec<String>| cells.into_iter().rev().collect::<Vec<_>>().join(",");
    let mut text = format!("time,{}\n", cells((0..256).map(|n| format!("c{n}")).collect()));
    for row in bytes.chunks(256) {
        text += &format!("noon,{}\n", cells(row.iter().map(|&b| (f64::from(b) / 255.0).to_string()).collect()));
    }
    text += &format!("noon,{}\n", cells((0..256).map(|n| if n == 7 { String::new() } else { "0.5".into() }).collect()));
    std::fs::write(folder.path("rows.csv"), &text).unwrap();

    let assert = folder.run(&["score", "model.onnx", "u8.npy", "--json"]).success();
    let expected = lines(&assert.get_output().stdout);
    let assert = folder
        .run(&["score", "table.onnx", "rows.csv", "a.png", "--json"])
        .code(1)
        .stderr(contains("rows.csv:4: expected a number in the column \"c7\", found none"))
        .stderr(contains("a.png: expected a table"));
    let found = lines(&assert.get_output().stdout);
    assert_eq!(found.iter().map(|l| l["input"].as_str().unwrap()).collect::<Vec<_>>(), ["rows.csv:2", "rows.csv:3"]);
    for (found, expected) in found.iter().zip(&expected) {
        let (a, b) = (found["energy"].as_f64().unwrap(), expected["energy"].as_f64().unwrap());
        assert!((a - b).abs() <= 1e-5 * b, "{a} {b}");
    }
    std::fs::write(folder.path("other.csv"), "c0,c1\n1,2\n").unwrap();
    folder
        .run(&["score", "table.onnx", "other.csv"])
        .code(1)
        .stderr(contains("expected the column \"c2\", found c0, c1"));
    folder.run(&["inspect", "table.onnx"]).success().stdout(contains("c0, c1, c2"));
    let pictures = ["score", "table.onnx", "rows.csv", "--heat-map", "maps"];
    folder.run(&pictures).code(2).stderr(contains("--heat-map is of images"));
    assert!(!folder.path("maps").exists());
}

/// A series is scored to its last row, and says which windows have no energy.
#[test]
fn the_last_window_of_a_series_ends_at_its_last_row() {
    let folder = Folder::new();
    let mut model = ModelProto::decode(&*std::fs::read(folder.path("model.onnx")).unwrap()).unwrap();
    let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
    let column = |n| Column::number(format!("c{n}"), 0.5, 0.125, 4.0);
    metadata.columns = Some(Columns::new((0..16).map(column).collect(), Missing::Refuse).unwrap());
    metadata.window = Some(RowWindow { rows: 16, stride: 16 });
    metadata.replace_in(&mut model);
    std::fs::write(folder.path("series.onnx"), model.encode_to_vec()).unwrap();

    let header = (0..16).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
    let row = |n: usize| (0..16).map(|c| format!("0.{}", (7 * n + 3 * c) % 10)).collect::<Vec<_>>().join(",") + "\n";
    let rows: Vec<String> = (0..30).map(row).collect();
    std::fs::write(folder.path("rows.csv"), format!("{header}\n{}", rows.concat())).unwrap();
    std::fs::write(folder.path("end.csv"), format!("{header}\n{}", rows[14..].concat())).unwrap();
    let score = |name: &str| folder.run(&["score", "series.onnx", name, "--json"]);
    let found = |assert: &assert_cmd::assert::Assert| {
        let lines = lines(&assert.get_output().stdout);
        let of =
            |line: &serde_json::Value| (line["input"].as_str().unwrap().to_owned(), line["energy"].as_f64().unwrap());
        lines.iter().map(of).collect::<Vec<_>>()
    };
    let whole = found(&score("rows.csv").success().stderr(is_empty()));
    let names: Vec<&str> = whole.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["rows.csv:2-17", "rows.csv:16-31"]);
    let end = found(&score("end.csv").success());
    assert_eq!((end.len(), end[0].1), (1, whole[1].1));

    // Line 19 has no reading: the rows before it are all scored, those after it are fewer than a window.
    let (_, others) = rows[17].split_once(',').unwrap();
    let gap = format!("{header}\n{},{others}{}", rows[..17].concat(), rows[18..].concat());
    std::fs::write(folder.path("gap.csv"), gap).unwrap();
    let assert = score("gap.csv").code(1).stderr(contains("gap.csv:19: expected a number in the column \"c0\""));
    let assert = assert.stderr(contains("the window 16-31 is left out"));
    let names: Vec<String> = found(&assert).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["gap.csv:2-17", "gap.csv:3-18"]);

    // Windows depend on each other: the interval of independent ones is too narrow.
    let assert = folder.run(&["inspect", "series.onnx"]).success().stdout(contains("16 rows, 16 from one to the next"));
    assert.stdout(
        contains("rate_interval").not().and(contains("0.01; its interval is in the report of the training run")),
    );
    let assert = folder.run(&["inspect", "series.onnx", "--json"]).success();
    let card: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert!(card.get("rate_interval").is_none() && card["false_positive_rate"] == 0.01, "{card}");
    let assert = folder.run(&["inspect", "model.onnx", "--json"]).success();
    let card: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert!(card["rate_interval"].is_array(), "{card}");
}

/// A column with several inputs is one column of the table.
#[test]
fn columns_are_those_of_a_table() {
    let folder = Folder::new();
    let mut model = ModelProto::decode(&*std::fs::read(folder.path("model.onnx")).unwrap()).unwrap();
    let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
    let column = |name: &str, reading| Column { reading, ..Column::number(name, 0.5, 0.125, 4.0) };
    let numbers = (0..253).map(|n| column(&format!("c{n}"), Reading::Number));
    let is = |value: &str| column("colour", Reading::Is(value.to_owned()));
    let inputs = numbers.chain([is("blue"), is("red"), column("c1", Reading::Absent)]).collect();
    metadata.columns = Some(Columns::new(inputs, Missing::Fill).unwrap());
    metadata.replace_in(&mut model);
    std::fs::write(folder.path("table.onnx"), model.encode_to_vec()).unwrap();
    let assert = folder.run(&["inspect", "table.onnx"]).success();
    let assert = assert.stdout(contains("c251, c252, colour\n"));
    assert.stdout(contains("; categories: colour (blue, red); an input for missing values: c1\n"));
    let assert = folder.run(&["inspect", "table.onnx", "--json"]).success();
    let card: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let names: Vec<&str> = card["columns"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!((names.len(), names[0], names[253]), (254, "c0", "colour"));
    let colour = serde_json::json!({"column": "colour", "number": false, "values": ["blue", "red"], "missing": false});
    assert_eq!(card["readings"][253], colour);
    // The names are the header of a table for this model. A quote too many would hide rows of it.
    let row = vec!["0.5"; 253].join(",");
    let rows = |cells: [&str; 4]| cells.map(|cell| format!("{row},{cell}\n")).concat();
    std::fs::write(
        folder.path("rows.csv"),
        format!("{}\n{}", names.join(","), rows(["red", "\"re\nd\"", "", "\"red\" "])),
    )
    .unwrap();
    let score = ["score", "table.onnx", "rows.csv", "--json"];
    let assert = folder.run(&score).success();
    let assert = assert.stderr(contains("note: rows.csv: the lines 3 to 4 are one row"));
    assert_eq!(lines(&assert.get_output().stdout).len(), 4);
    folder.run(&[&score[..], &["--quiet"]].concat()).success().stderr(is_empty());
    let hidden = rows(["\"red", "red", "\"red", "red"]);
    std::fs::write(folder.path("rows.csv"), format!("{}\n{hidden}", names.join(","))).unwrap();
    let refused = folder.run(&score).code(1).stdout(is_empty());
    refused.stderr(contains("line 4: text after the closing quote of a cell that begins in line 2"));
}

/// Otherwise nobody could tell which of them is the anomaly.
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf_8_stay_different() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new();
    std::fs::create_dir(folder.path("parts")).unwrap();
    for name in [&b"x\xfe.png"[..], b"x\xff.png", "é.png".as_bytes()] {
        let path = folder.path("parts").join(std::ffi::OsStr::from_bytes(name));
        std::fs::copy(folder.path("a.png"), path).unwrap();
    }
    let assert = folder.run(&["score", "model.nae", "parts", "--json"]).success();
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|line| line["input"].as_str().unwrap()).collect();
    assert_eq!(names, ["parts/x\\xfe.png", "parts/x\\xff.png", "parts/é.png"]);
    let assert = folder.run(&["score", "model.nae", "parts"]).success();
    assert.stdout(contains(" parts/x\\xfe.png ").and(contains(" parts/x\\xff.png ")));
}

/// Without loss they hold the same image.
#[test]
fn formats_of_other_cameras_are_read() {
    let folder = Folder::new();
    let image = nae_infer::image::open(folder.path("a.png")).unwrap();
    let files = [("a.bmp", ImageFormat::Bmp), ("a.tiff", ImageFormat::Tiff), ("a.webp", ImageFormat::WebP)];
    for (name, format) in files {
        image.to_rgb8().save_with_format(folder.path(name), format).unwrap();
    }
    let assert = folder.run(&["score", "model.nae", "a.png", "a.bmp", "a.tiff", "a.webp", "--json"]).success();
    let energies: Vec<f64> =
        lines(&assert.get_output().stdout).iter().map(|line| line["energy"].as_f64().unwrap()).collect();
    assert_eq!(energies.len(), 4);
    assert!(energies.iter().all(|energy| (energy - energies[0]).abs() <= 1e-4 * energies[0]), "{energies:?}");
}

/// docs/scoring.md shows both ways of scoring a file. `image::open` does not turn it.
#[test]
fn a_turned_image_has_the_same_score_from_rust() {
    let folder = Folder::new();
    // A TIFF of two grey pixels, 0 and 255, that is turned by a quarter.
    let entry = |tag: u16, value: u8| [&tag.to_le_bytes()[..], &[3, 0, 1, 0, 0, 0, value, 0, 0, 0]].concat();
    let entries = [(256, 2), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (274, 6), (277, 1), (279, 2)];
    let entries: Vec<u8> = entries.into_iter().flat_map(|(tag, value)| entry(tag, value)).collect();
    std::fs::write(folder.path("turned.tiff"), [&b"II*\0\x0a\0\0\0\0\xff\x09\0"[..], &entries, &[0; 4]].concat())
        .unwrap();
    let assert = folder.run(&["score", "model.nae", "turned.tiff", "--json"]).success();
    let energy = lines(&assert.get_output().stdout)[0]["energy"].as_f64().unwrap() as f32;
    let detector = Detector::open(folder.path("model.nae")).unwrap();
    let images = nae_infer::input::read(&folder.path("turned.tiff")).unwrap();
    assert_eq!((images[0].pixels.shape.height, images[0].pixels.shape.width), (2, 1));
    assert_eq!(detector.score_pixels(&images[0].pixels).unwrap().energy, energy);
    let as_it_is = nae_infer::image::open(folder.path("turned.tiff")).unwrap();
    assert_ne!(detector.score(&as_it_is).unwrap().energy, energy);
}

#[test]
fn a_folder_is_scored_with_what_is_below_it() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("parts/b/c")).unwrap();
    let png = std::fs::read(folder.path("a.png")).unwrap();
    for name in ["parts/z.png", "parts/b/y.PNG", "parts/b/c/x.png", "parts/.hidden.png", "parts/notes.txt"] {
        std::fs::write(folder.path(name), &png).unwrap();
    }
    let assert = folder.run(&["score", "model.nae", "parts", "a.png", "--json"]).success();
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|line| line["input"].as_str().unwrap()).collect();
    assert_eq!(names, ["parts/b/c/x.png", "parts/b/y.PNG", "parts/z.png", "a.png"]);
    std::fs::create_dir(folder.path("empty")).unwrap();
    let assert = folder.run(&["score", "model.nae", "empty", "a.png", "--json"]);
    let assert = assert.code(1).stderr(contains("empty: expected images (by their names), found none"));
    assert_eq!(lines(&assert.get_output().stdout).len(), 1);
}

#[test]
fn an_image_comes_by_standard_input() {
    let folder = Folder::new();
    let score = |bytes: Vec<u8>| {
        let mut command = Command::cargo_bin("nae-infer").unwrap();
        command.current_dir(folder.0.path()).args(["score", "model.nae", "-", "--json"]).write_stdin(bytes).assert()
    };
    let assert = score(std::fs::read(folder.path("a.png")).unwrap()).success();
    let found = lines(&assert.get_output().stdout).remove(0);
    let assert = folder.run(&["score", "model.nae", "a.png", "--json"]).success();
    assert_eq!((&found["input"], &found["energy"]), (&"-".into(), &lines(&assert.get_output().stdout)[0]["energy"]));
    score(b"no image".to_vec()).code(1).stderr(contains("-: expected a PNG, JPEG"));
}

#[test]
fn anomalies_are_a_failure_where_that_is_asked_for() {
    let folder = Folder::new();
    let score = |arguments: &[&str]| folder.run(&[&["score", "model.nae"], arguments].concat());
    score(&["a.png", "--threshold", "0"]).success();
    score(&["a.png", "--threshold", "0", "--fail-on-anomaly"]).code(3).stdout(contains("anomaly"));
    score(&["a.png", "--threshold", "1e3", "--fail-on-anomaly"]).success();
    // What failed may have been an anomaly, or not: that comes first.
    score(&["a.png", "none.png", "--threshold", "0", "--fail-on-anomaly"]).code(1);
    folder.run(&["score", "--help"]).success().stdout(contains("the exit status is 3"));
    folder.run(&["--help"]).success().stdout(contains("3 when"));
}

/// Without a threshold nothing is an anomaly, and that would look like success.
#[test]
fn anomalies_need_a_threshold_to_be_found() {
    let folder = Folder::new();
    let mut model = ModelProto::decode(&*std::fs::read(folder.path("model.onnx")).unwrap()).unwrap();
    let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
    metadata.contract = nae_core::contract::Contract::new(metadata.contract.input);
    metadata.replace_in(&mut model);
    std::fs::write(folder.path("bare.onnx"), model.encode_to_vec()).unwrap();
    folder.run(&["score", "bare.onnx", "a.png", "--backend", "native"]).success();
    folder
        .run(&["score", "bare.onnx", "a.png", "--backend", "native", "--fail-on-anomaly"])
        .code(1)
        .stderr(contains("bare.onnx has no threshold"));
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let folder = Folder::new();
    std::fs::write(folder.path("bad.png"), b"not a picture").unwrap();
    let png = std::fs::read(folder.path("a.png")).unwrap();
    std::fs::write(folder.path("short.png"), &png[..png.len() / 2]).unwrap();
    let nan: Vec<u8> = [f32::NAN; 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    folder.npy("nan.npy", "<f4", "(2, 2)", &nan);
    folder.npy("long.npy", "<f4", "(3, 2, 2)", &nan);
    folder.npy("i4.npy", "<i4", "(1, 2)", &nan[..8]);
    folder.npy("deep.npy", "<f4", &"(".repeat(3000), &nan);
    folder.npy("huge.npy", "<f4", "(4294967296, 4294967296, 4294967296)", &nan);
    let bad = ["bad.png", "short.png", "missing.png", "nan.npy", "long.npy", "i4.npy", "deep.npy", "huge.npy"];
    let arguments = [&["score", "model.nae"][..], &bad, &["a.png", "--json"]].concat();
    let assert = folder
        .run(&arguments)
        .code(1)
        .stderr(contains("bad.png: expected a PNG, JPEG, BMP, TIFF, WebP or PNM image, or a .npy file"))
        .stderr(contains("cannot read missing.png: No such file"))
        .stderr(contains("nan.npy: expected values from 0 to 1, found NaN at 0"))
        .stderr(contains("long.npy: expected as many bytes as its header says, found 16 for [3, 2, 2] of <f4"))
        .stderr(contains(
            "i4.npy: expected little-endian float32 ('<f4') or float64 ('<f8'), or uint8 ('|u1'), found <i4",
        ))
        .stderr(contains(
            "deep.npy: expected an array of floats or uint8, found records, or a header that NumPy does not write",
        ))
        .stderr(contains("short.png: "))
        .stderr(contains("huge.npy: "));
    let found = lines(&assert.get_output().stdout);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["input"], "a.png");
}

#[test]
fn bad_models_are_refused() {
    let folder = Folder::new();
    let onnx = std::fs::read(folder.path("model.onnx")).unwrap();
    std::fs::write(folder.path("half.onnx"), &onnx[..onnx.len() / 2]).unwrap();
    folder
        .run(&["score", "half.onnx", "a.png"])
        .code(1)
        .stdout(is_empty())
        .stderr(contains("half.onnx: not an ONNX model"));
    let mut nae = std::fs::read(folder.path("model.nae")).unwrap();
    let middle = nae.len() / 2;
    nae[middle] ^= 1;
    std::fs::write(folder.path("altered.nae"), nae).unwrap();
    folder.run(&["score", "altered.nae", "a.png"]).code(1).stderr(contains("altered.nae: not a valid .nae file"));
    folder.run(&["score", "none.onnx", "a.png"]).code(1).stderr(contains("cannot read none.onnx: No such file"));
    folder.run(&["inspect", "a.png"]).code(1).stderr(contains("a.png: not an ONNX model"));

    let mut graph = nae_onnx::builder::GraphBuilder::new("foreign");
    let x = graph.image_input("x", [1, 4, 4]).unwrap();
    let y = graph.relu("y", x).unwrap();
    graph.output("y", y).unwrap();
    std::fs::write(folder.path("foreign.onnx"), graph.finish_bytes().unwrap()).unwrap();
    folder
        .run(&["score", "foreign.onnx", "a.png"])
        .code(1)
        .stderr(contains("foreign.onnx: expected metadata under `nae.`, found none"));
    folder.run(&["inspect", "foreign.onnx"]).success().stdout(contains("cannot be scored as it is"));
}

#[test]
fn usage_is_checked() {
    let folder = Folder::new();
    folder.run(&["score", "model.onnx"]).code(2).stderr(contains("IMAGES"));
    folder
        .run(&["score", "model.onnx", "a.png", "--backend", "gpu"])
        .code(2)
        .stderr(contains("tract, ort, simd, native"));
    folder
        .run(&["score", "model.onnx", "a.png", "--false-positive-rate", "2"])
        .code(2)
        .stderr(contains("expected a number above 0 and below 1"));
    folder
        .run(&["score", "model.nae", "a.png", "--false-positive-rate", "1e-6"])
        .code(1)
        .stderr(contains("model.nae: false-positive rate 0.000001: the false-positive rate is below 1/(n + 1)"));
    folder.run(&["score", "--help"]).success().stdout(contains("Examples:"));
    folder
        .run(&["score", "model.onnx", "a.png", "--backend", "simd", "--execution-provider", "cuda"])
        .code(2)
        .stderr(contains("--execution-provider is for the backend ort"));
    folder
        .run(&["bench", "model.onnx", "--backend", "simd", "--execution-provider", "cuda"])
        .code(2)
        .stderr(contains("--execution-provider is for the backend ort"));
    // Of the library: built with the whole workspace, it has a backend that this package did not ask for.
    if !BackendKind::Ort.is_built_in() {
        folder
            .run(&["score", "model.onnx", "a.png", "--backend", "ort"])
            .code(1)
            .stderr(contains("build nae-infer with `--features ort`"));
    }
}

#[test]
fn a_threshold_is_an_energy() {
    let folder = Folder::new();
    for (threshold, verdict) in [("0", "anomaly"), ("1e3", "normal")] {
        let output = folder.run(&["score", "model.nae", "a.png", "--json", "--threshold", threshold]).success();
        assert_eq!(lines(&output.get_output().stdout)[0]["verdict"], verdict);
    }
    folder.run(&["score", "model.nae", "a.png", "--threshold", "inf"]).code(1).stderr(contains("a finite energy"));
    let both = ["score", "model.nae", "a.png", "--threshold", "1", "--false-positive-rate", "0.1"];
    folder.run(&both).code(2).stderr(contains("cannot be used with"));
}

#[test]
fn heat_maps_are_pictures() {
    let folder = Folder::new();
    folder.run(&["score", "model.nae", "a.png", "--heat-map", "maps/new"]).success();
    let map = nae_infer::image::open(folder.path("maps/new/0001-a.png.png")).unwrap().to_luma8();
    assert_eq!(map.dimensions(), (16, 16));
    assert_eq!(map.as_raw().iter().max(), Some(&255));
    // One that cannot be written costs no score.
    std::fs::create_dir_all(folder.path("maps/0001-a.png.png/in the way")).unwrap();
    let output = folder.run(&["score", "model.nae", "a.png", "a.jpg", "--heat-map", "maps", "--json"]).code(1);
    assert_eq!(lines(&output.get_output().stdout).len(), 2);
    output.stderr(contains("the heat map of a.png"));
    assert!(folder.path("maps/0002-a.jpg.png").is_file());
}

/// An editor's lock, a link to a file that is gone, and one that leads back: what can be read is scored.
#[test]
#[cfg(unix)]
fn a_folder_is_scored_but_for_what_cannot_be_read() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = Folder::new();
    let inside = folder.path("f");
    std::fs::create_dir_all(inside.join("sub")).unwrap();
    for name in ["a.png", "sub/b.png"] {
        std::fs::copy(folder.path("a.png"), inside.join(name)).unwrap();
    }
    for (target, link) in [("gone", ".#a.png"), ("gone", "latest.txt"), ("..", "sub/up")] {
        symlink(target, inside.join(link)).unwrap();
    }
    for command in [&["score", "model.onnx", "f", "--json"][..], &["score", "model.onnx", "f/", "f/a.png", "--json"]] {
        let output = folder.run(command).success().stderr(is_empty());
        assert!(lines(&output.get_output().stdout).len() >= 2, "{command:?}");
    }
    symlink("gone", inside.join("lost.png")).unwrap();
    symlink("round.png", inside.join("round.png")).unwrap();
    // Another user's folders, of which one is hidden. The superuser reads them, and finds nothing.
    let locked = ["locked", ".locked"].map(|name| inside.join(name));
    let lock = |mode| {
        locked.iter().for_each(|path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap());
    };
    locked.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    lock(0);
    let is_locked = std::fs::read_dir(&locked[0]).is_err();
    let output = folder.run(&["score", "model.onnx", "f", "--json"]).code(1);
    lock(0o700);
    assert_eq!(lines(&output.get_output().stdout).len(), 2);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let mut expected = vec!["f/lost.png: cannot be read: No such file", "f/round.png: cannot be read: Too many levels"];
    if is_locked {
        expected.insert(0, "f/locked: cannot be read: Permission denied");
    }
    let found: Vec<&str> = said.lines().collect();
    assert_eq!(found.len(), expected.len(), "{said}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected) && found.matches("f/").count() == 1, "{said}");
    }
}

/// More rows than are printed together are in columns of one width, below one line of names.
#[test]
fn many_rows_are_one_table() {
    let folder = Folder::new();
    folder.npy("many.npy", "|u1", "(150, 16, 16)", &vec![7; 150 * 256]);
    let output = folder.run(&["score", "model.nae", "a.png", "many.npy"]).success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!((rows.len(), rows.iter().filter(|row| row.contains("p-value")).count()), (152, 1));
    let verdicts = |rows: &[&str]| -> Vec<usize> {
        rows.iter()
            .filter_map(|row| row.find("normal").or_else(|| row.find("anomaly")).or_else(|| row.find("verdict")))
            .collect()
    };
    let places = verdicts(&rows);
    assert_eq!(places.len(), 152);
    // Names grow longer; no column moves back.
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(places[100], places[151]);

    // Names that are known before the first row is printed have their room from then on.
    std::fs::copy(folder.path("a.png"), folder.path("a-name-that-is-longer-than-the-others.png")).unwrap();
    let output = folder.run(&["score", "model.nae", "many.npy", "a-name-that-is-longer-than-the-others.png"]).success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    let places = verdicts(&rows);
    assert_eq!((places.len(), places.iter().filter(|&place| *place == places[0]).count()), (152, 152), "{text}");
}

/// What is found is printed before the rest comes: a batch that is full, and a smaller one when time has gone.
#[cfg(target_os = "linux")]
#[test]
fn rows_are_printed_as_they_are_found() {
    use std::io::{BufRead as _, Write as _};
    use std::process::Stdio;
    let folder = Folder::new();
    folder.npy("many.npy", "|u1", "(64, 16, 16)", &vec![7; 64 * 256]);
    let program = assert_cmd::cargo::cargo_bin("nae-infer");
    // The time begins when the pipe is opened to be read.
    let late = "rm -f late; mkfifo late; { sleep 2.1; cat a.png; } >late &";
    for (before, inputs, count) in [("", "many.npy", 64), (late, "a.png late", 2)] {
        for (json, count) in [("", count + 1), ("--json", count)] {
            let mut child = std::process::Command::new("bash")
                .current_dir(folder.0.path())
                .args(["-c", &format!("{before} exec {} score model.nae {inputs} - {json}", program.display())])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let output = child.stdout.take().unwrap();
            let (sender, receiver) = std::sync::mpsc::channel();
            let reader = std::thread::spawn(move || {
                std::io::BufReader::new(output)
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|line| sender.send(line).unwrap());
            });
            // The last image does not come until the rows before it have.
            let patience = std::time::Duration::from_secs(60);
            let found = (0..count).map_while(|_| receiver.recv_timeout(patience).ok()).count();
            child.stdin.take().unwrap().write_all(&std::fs::read(folder.path("a.png")).unwrap()).unwrap();
            assert!(child.wait().unwrap().success());
            assert_eq!((found, receiver.iter().count()), (count, 1), "{inputs} {json}");
            reader.join().unwrap();
        }
    }
}

#[test]
fn inspect_prints_the_card() {
    let folder = Folder::new();
    let expected = "\
format               ONNX, operator set 17
producer             nae-onnx 0.1.0
";
    let assert = folder.run(&["inspect", "model.onnx"]).success();
    let output = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let head: String = output.lines().take(2).map(|l| format!("{l}\n")).collect();
    assert!(diff(expected).eval(&head), "{output}");
    for line in [
        "outputs              reconstruction [N, 1, 16, 16], energy [N], latent [N, 32]",
        "energy               squared-l2",
        "resize               bilinear-align-corners",
        "calibration          400 held-out normal energies",
        "latent               sphere of dimension 32",
    ] {
        assert!(output.lines().any(|l| l == line), "{line}\n{output}");
    }
    let assert = folder.run(&["inspect", "model.nae", "--json"]).success();
    let card: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(card["format"], ".nae, version 2");
    assert_eq!(card["false_positive_rate"], 0.01);
    assert_eq!(card["calibration"], 400);
    assert_eq!(card["image"], serde_json::json!([1, 16, 16]));
    assert_eq!(card["range"], serde_json::json!([0.0, 1.0]));
    assert_eq!(card["bytes"], std::fs::metadata(folder.path("model.nae")).unwrap().len());
    assert!(card.get("layout").is_none(), "{card}");
    let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits");
    for (file, layout) in [("digits-int8.nae", "paired"), ("digits-int8-plain.nae", "plain")] {
        let assert = folder.run(&["inspect", &format!("{digits}/{file}"), "--json"]).success();
        let card: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        assert_eq!(card["layout"], layout);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_pipe_is_no_error() {
    let folder = Folder::new();
    for json in ["", "--json"] {
        let binary = assert_cmd::cargo::cargo_bin("nae-infer");
        let line = format!("{} score model.nae a.png a.png {json} | true; exit ${{PIPESTATUS[0]}}", binary.display());
        Command::new("bash")
            .current_dir(folder.0.path())
            .args(["-c", &line])
            .assert()
            .success()
            .stderr(contains("panic").not());
    }
}

/// The exit status says what was found, whoever reads the output.
#[test]
fn a_reader_that_is_gone_changes_no_exit_status() {
    let folder = Folder::new();
    let run = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(assert_cmd::cargo::cargo_bin("nae-infer"))
            .current_dir(folder.0.path())
            .args(arguments)
            .stdout(writer)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("panic") && !said.contains("pipe"), "{said}");
        output.status.code().unwrap()
    };
    folder.npy("both.npy", "|u1", "(2, 16, 16)", &[[255; 256], [7; 256]].concat());
    let assert = folder.run(&["score", "model.nae", "both.npy", "--json"]).success();
    let energies: Vec<f64> =
        lines(&assert.get_output().stdout).iter().map(|line| line["energy"].as_f64().unwrap()).collect();
    let between = f64::midpoint(energies[0], energies[1]).to_string();
    assert!(energies[0] < energies[1], "the second is the anomaly: {energies:?}");
    for json in [&[][..], &["--json"]] {
        let score = |rest: &[&str]| run(&[&["score", "model.nae"], rest, json].concat());
        assert_eq!(score(&["a.png"]), 0);
        assert_eq!(score(&["a.png", "--threshold", "0"]), 0);
        assert_eq!(score(&["a.png", "--threshold", "0", "--fail-on-anomaly"]), 3);
        // The reader was gone at the first.
        assert_eq!(score(&["both.npy", "--threshold", &between, "--fail-on-anomaly"]), 3);
        assert_eq!(score(&["both.npy", "missing.png", "--threshold", "0", "--fail-on-anomaly"]), 1);
        assert_eq!(run(&[&["bench", "none.onnx", "--seconds", "0"], json].concat()), 1);
    }
    assert_eq!(run(&["bench", "model.nae", "--seconds", "0", "--backend", "native", "--alone"]), 0);
    folder.npy("normal.npy", "|u1", "(120, 16, 16)", &vec![7; 120 * 256]);
    assert_eq!(run(&["calibrate", "model.onnx", "normal.npy", "-o", "out.onnx"]), 0);
    assert_eq!(run(&["calibrate", "model.onnx", "normal.npy", "missing.png", "-o", "more.onnx"]), 1);
    let written = ["out.onnx", "more.onnx"].map(|name| std::fs::read(folder.path(name)).unwrap());
    assert_eq!(written[0], written[1]);
}

#[test]
fn bench_measures_every_backend() {
    let folder = Folder::new();
    let output = folder.run(&["bench", "model.onnx", "--seconds", "0.05", "--json"]).success();
    let lines = lines(&output.get_output().stdout);
    let backends: Vec<&str> = lines.iter().map(|line| line["backend"].as_str().unwrap()).collect();
    assert!(backends.contains(&"tract") && backends.contains(&"native"), "{backends:?}");
    for line in lines.iter().filter(|line| line["error"].is_null()) {
        let number = |key: &str| line[key].as_f64().unwrap();
        assert!(number("latency_p99") >= number("latency_median") && number("latency_median") > 0.0, "{line}");
        assert!(number("throughput_32") > 0.0 && number("memory") > 1e6 && number("start_up") > 0.0, "{line}");
    }
    folder.run(&["bench", "model.nae", "--seconds", "0.05"]).success().stdout(contains("does not read .nae files"));
    folder.run(&["bench", "none.onnx"]).failure().stderr(contains("none.onnx"));
}

/// The child of each backend gets the model's path too.
#[test]
fn bench_takes_a_model_whose_name_looks_like_a_flag() {
    let folder = Folder::new();
    std::fs::copy(folder.path("model.nae"), folder.path("-m.nae")).unwrap();
    let output = folder.run(&["bench", "--backend", "native", "--seconds", "0", "--json", "--", "-m.nae"]).success();
    let found = lines(&output.get_output().stdout);
    assert_eq!((found.len(), &found[0]["backend"], &found[0]["error"]), (1, &"native".into(), &().into()));
}

/// One backend that cannot run a model is a result, and no failure.
#[test]
fn bench_fails_where_no_backend_runs_the_model_as_its_help_says() {
    let folder = Folder::new();
    let bench = |backend: &str| folder.run(&["bench", "model.nae", "--seconds", "0", "--json", "--backend", backend]);
    bench("native").code(0);
    bench("simd").code(1).stdout(contains("does not read .nae files"));
    folder.run(&["bench", "model.nae", "--seconds", "0"]).code(0).stdout(contains("does not read .nae files"));
    // The help is wrapped.
    let says = |arguments: &[&str], text: &str| {
        folder.run(arguments).success().stdout(is_match(text.replace(' ', r"\s+")).unwrap());
    };
    says(&["bench", "--help"], "the exit status is 1 only if no backend can run it");
    says(&["--help"], "for bench, when no backend ran the model");
}

#[test]
fn the_fastest_backend_gives_the_same_verdicts() {
    let folder = Folder::new();
    let verdict = |backend: &str| {
        let output = folder.run(&["score", "model.onnx", "a.png", "--json", "--backend", backend]).success();
        let line = lines(&output.get_output().stdout).remove(0);
        (line["verdict"].clone(), line["energy"].as_f64().unwrap())
    };
    let ((auto, energy), (tract, expected)) = (verdict("auto"), verdict("tract"));
    assert_eq!(auto, tract);
    assert!((energy - expected).abs() <= 1e-5 * expected, "{energy} {expected}");
}

#[test]
fn a_model_of_others_is_calibrated_and_then_scores() {
    let folder = Folder::new();
    // As somebody else would have exported it: nothing under `nae.`.
    let mut proto = ModelProto::decode(std::fs::read(folder.path("model.onnx")).unwrap().as_slice()).unwrap();
    proto.metadata_props.retain(|entry| !entry.key().starts_with("nae."));
    let theirs = proto.encode_to_vec();
    std::fs::write(folder.path("theirs.onnx"), &theirs).unwrap();
    let values: Vec<f32> = (0..200 * 64).map(|i| (i * 2_654_435_761_u64 % 1000) as f32 / 1000.0).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    folder.npy("normal.npy", "<f4", "(200, 8, 8)", &bytes);
    folder.run(&["score", "theirs.onnx", "a.png"]).failure().stderr(contains("nae-infer calibrate"));

    let calibrate = |arguments: &[&str]| {
        folder.run(&[&["calibrate", "theirs.onnx", "normal.npy", "-o", "ours.onnx"], arguments].concat())
    };
    calibrate(&["--range", "-1,1"]).success().stdout(contains("from 200 normal images"));
    // A folder of batches, and what is wrong is counted as what it is.
    std::fs::create_dir(folder.path("good")).unwrap();
    std::fs::copy(folder.path("normal.npy"), folder.path("good/normal.npy")).unwrap();
    folder
        .run(&["calibrate", "theirs.onnx", "good", "-o", "folder.onnx", "--range", "-1,1"])
        .success()
        .stdout(contains("from 200 normal images"));
    assert_eq!(std::fs::read(folder.path("folder.onnx")).unwrap(), std::fs::read(folder.path("ours.onnx")).unwrap());
    folder.npy("bad.npy", "<f4", "(60, 8, 8)", &f32::NAN.to_le_bytes().repeat(60 * 64));
    let batch = std::fs::read(folder.path("normal.npy")).unwrap();
    Command::cargo_bin("nae-infer")
        .unwrap()
        .current_dir(folder.0.path())
        .args(["calibrate", "theirs.onnx", "-", "-o", "stdin.onnx", "--range", "-1,1"])
        .write_stdin(batch)
        .assert()
        .success();
    assert_eq!(std::fs::read(folder.path("stdin.onnx")).unwrap(), std::fs::read(folder.path("ours.onnx")).unwrap());
    folder
        .run(&["calibrate", "theirs.onnx", "bad.npy", "-o", "bad.onnx"])
        .code(1)
        .stderr(contains("cannot be read: 0; images that cannot be scored: 60; images that can: 0\n"));
    // An empty folder, and a file that is missing.
    std::fs::create_dir(folder.path("empty")).unwrap();
    let mixed = ["calibrate", "theirs.onnx", "good", "bad.npy", "empty", "missing.png", "-o", "bad.onnx"];
    folder.run(&[&mixed[..], &["--strict"]].concat()).code(1).stderr(contains(
        "cannot be read: 2; images that cannot be scored: 60; images that can: 200; leave out --strict",
    ));
    assert!(!folder.path("bad.onnx").exists());
    folder.run(&mixed).code(1).stdout(contains("from 200 normal images"));
    folder.npy("empty.npy", "<f4", "(0, 8, 8)", &[]);
    let none = folder.run(&["score", "ours.onnx", "empty.npy"]).code(1).stdout(is_empty());
    none.stderr(contains("empty.npy: expected at least one image, found [0, 8, 8]"));
    assert!(std::fs::read(folder.path("ours.onnx")).unwrap().starts_with(&theirs), "the network is not touched");
    let scored = folder.run(&["score", "ours.onnx", "normal.npy", "--json"]).success();
    let lines = lines(&scored.get_output().stdout);
    let anomalies = lines.iter().filter(|line| line["verdict"] == "anomaly").count();
    assert!(lines.len() == 200 && anomalies <= 2, "{anomalies} of {}", lines.len());
    folder.run(&["inspect", "ours.onnx"]).success().stdout(contains("-1.0 to 1.0"));

    let ssim = ["--energy", "ssim", "--range", "-1,1"];
    calibrate(&ssim).failure().stderr(contains("ssim is for images from 0 to 1, not for --range -1,1"));
    calibrate(&["--false-positive-rate", "0.001"]).failure().stderr(contains("; 999 would do"));
    let sure = ["--false-positive-rate", "0.05", "--confidence", "0.95"];
    calibrate(&sure).success().stdout(contains("rate of 0.05 with a confidence of 0.95, from 200 normal images"));
    // The fifth largest of 200 (Wilks, 1941).
    folder
        .run(&["inspect", "ours.onnx"])
        .success()
        .stdout(contains("0.024875622"))
        .stdout(contains("0.0082 to 0.0504"));
    let sure = ["--false-positive-rate", "0.01", "--confidence", "0.95"];
    calibrate(&sure).failure().stderr(contains("confidence is too high").and(contains("299 would do")));
    calibrate(&["missing.png", "--strict"]).failure().stderr(contains("missing.png"));
    // One of ours says itself how images are prepared, and is calibrated anew.
    let again = ["calibrate", "model.onnx", "normal.npy", "-o", "again.onnx"];
    folder.run(&again).success();
    folder.run(&[&again[..], &["--range", "0,1"]].concat()).failure().stderr(contains("leave out --range"));
    folder
        .run(&["calibrate", "model.nae", "normal.npy", "-o", "x.onnx"])
        .failure()
        .stderr(contains("not an ONNX model"));
}

/// Images that are read would be lost, and what cannot be written would be found only after the work. The model may be replaced:
/// its network stays in the file.
#[test]
fn calibrate_refuses_an_output_first_that_cannot_be_written() {
    let folder = Folder::new();
    let values: Vec<u8> = (0..200 * 64).map(|i: u64| (i * 2_654_435_761 % 251) as u8).collect();
    folder.npy("normal.npy", "|u1", "(200, 8, 8)", &values);
    let before = std::fs::read(folder.path("normal.npy")).unwrap();
    let lost = folder.run(&["calibrate", "model.onnx", "a.png", "normal.npy", "-o", "normal.npy"]).code(1);
    lost.stderr(contains("cannot write normal.npy: it is one of the files that are read; choose another name"));
    assert_eq!(std::fs::read(folder.path("normal.npy")).unwrap(), before);
    // A folder is given, and a file in it is read.
    std::fs::create_dir_all(folder.path("good/below")).unwrap();
    std::fs::copy(folder.path("normal.npy"), folder.path("good/below/normal.npy")).unwrap();
    for output in ["good/below/normal.npy", "good/../good/below/normal.npy"] {
        let lost = folder.run(&["calibrate", "model.onnx", "good", "-o", output]).code(1).stdout(is_empty());
        lost.stderr(contains(format!("cannot write {output}: it is one of the files that are read")));
        assert_eq!(std::fs::read(folder.path("good/below/normal.npy")).unwrap(), before);
    }
    // Beside the images, where it is not read.
    folder.run(&["calibrate", "model.onnx", "good", "-o", "good/model.onnx"]).success();
    folder.run(&["calibrate", "model.onnx", "good", "-o", "good/model.onnx"]).success();
    folder.run(&["calibrate", "model.onnx", "normal.npy", "-o", "model.onnx"]).success();
    let missing = folder.run(&["calibrate", "missing.onnx", "normal.npy", "-o", "no/m.onnx"]).code(1);
    missing.stderr(contains("cannot write no/m.onnx: the folder no does not exist; make it first"));
}

/// The bounds are those of independent images: a file that counts twice would make the threshold look surer than it is.
#[test]
fn calibrate_counts_a_file_once_however_often_it_is_given() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("good")).unwrap();
    let values: Vec<u8> = (0..200 * 64).map(|i: u64| (i * 2_654_435_761 % 251) as u8).collect();
    folder.npy("good/normal.npy", "|u1", "(200, 8, 8)", &values);
    folder.run(&["calibrate", "model.onnx", "good", "-o", "once.onnx"]).success().stderr(is_empty());
    let often = ["calibrate", "model.onnx", "good", "good/normal.npy", "./good/", "-o", "often.onnx"];
    let said = folder.run(&often).success().stdout(contains("from 200 normal images"));
    said.stderr(diff("files given more than once are counted once: 2 repetitions are left out\n"));
    let [once, often] = ["once.onnx", "often.onnx"].map(|name| std::fs::read(folder.path(name)).unwrap());
    assert_eq!(once, often);
    // Each of them is reported: there is nothing to count.
    let missing = ["calibrate", "model.onnx", "good", "none.png", "none.png", "-o", "x.onnx", "--strict"];
    folder.run(&missing).code(1).stderr(contains("files or folders that cannot be read: 2;"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("good/normal.npy", folder.path("link.npy")).unwrap();
        let linked = ["calibrate", "model.onnx", "link.npy", "good", "-o", "linked.onnx"];
        folder.run(&linked).success().stdout(contains("from 200 normal images")).stderr(contains("1 repetition is"));
    }
}

/// The printed interval is that of energies without ties: if the largest are equal, no image has to be above the threshold.
#[test]
fn calibrate_warns_of_energies_that_are_equal_to_the_threshold() {
    let folder = Folder::new();
    let image = |n: u64| (0..64).map(move |i| ((64 * n + i) * 2_654_435_761 % 251) as u8);
    let images = |numbers: &[u64]| numbers.iter().flat_map(|&n| image(n)).collect::<Vec<u8>>();
    let calibrate = || folder.run(&["calibrate", "model.onnx", "normal.npy", "-o", "ours.onnx"]).success();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&[3; 100]));
    let all = calibrate().stdout(contains("the rate lies between 0.00025 and 0.0362"));
    let all = all.stderr(contains("warning: all 100 energies are "));
    all.stderr(contains("the rate may be below 0.00025, also 0; check that the model is an autoencoder"));
    // The largest of 100 energies is the threshold: of two copies of its image.
    let numbers: Vec<u64> = (0..100).collect();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&numbers));
    calibrate().stderr(is_empty());
    let scored = folder.run(&["score", "ours.onnx", "normal.npy", "--json"]).success();
    let energies: Vec<f64> = lines(&scored.get_output().stdout).iter().map(|l| l["energy"].as_f64().unwrap()).collect();
    let sorted = {
        let mut numbers = numbers.clone();
        numbers.sort_by(|&a, &b| energies[a as usize].total_cmp(&energies[b as usize]));
        numbers
    };
    let (least, largest) = (sorted[0], sorted[99]);
    let copied: Vec<u64> = numbers.iter().map(|&n| if n == least { largest } else { n }).collect();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&copied));
    calibrate().stderr(contains("warning: 2 of 100 energies are ").and(contains("look for copies among the images")));
    // Equal energies elsewhere change nothing.
    let copied: Vec<u64> = numbers.iter().map(|&n| if n == sorted[1] { least } else { n }).collect();
    folder.npy("normal.npy", "|u1", "(100, 8, 8)", &images(&copied));
    calibrate().stderr(is_empty());
}

/// A p-value is never 0, and a rate that is not 0 does not look like it.
#[test]
fn small_probabilities_have_two_digits() {
    let folder = Folder::new();
    let mut proto = ModelProto::decode(std::fs::read(folder.path("model.onnx")).unwrap().as_slice()).unwrap();
    let mut metadata = ModelMetadata::read(&proto).unwrap().unwrap();
    let mut energies = vec![1e-9; 40_000];
    let calibration = Calibration::from_energies(&mut energies).unwrap();
    metadata.contract = metadata.contract.with_calibration(calibration, 0.001).unwrap();
    metadata.replace_in(&mut proto);
    std::fs::write(folder.path("many.onnx"), proto.encode_to_vec()).unwrap();
    // 1/40,001.
    folder.run(&["score", "many.onnx", "a.png"]).success().stdout(contains(" 0.000025 "));
    folder.run(&["inspect", "many.onnx"]).success().stdout(contains("0.00069 to 0.0013, with a probability"));

    let values: Vec<u8> = (0..1100 * 64).map(|i: u64| (i * 2_654_435_761 % 251) as u8).collect();
    folder.npy("normal.npy", "|u1", "(1100, 8, 8)", &values);
    let calibrate = ["calibrate", "model.onnx", "normal.npy", "-o", "ours.onnx", "--false-positive-rate", "0.001"];
    let said = folder.run(&calibrate).success().stdout(contains("from 1100 normal images"));
    said.stdout(is_match(r"the rate lies between 0\.0000[1-9]\d and 0\.00\d\d with").unwrap());
}

#[test]
fn the_log_says_which_backend_was_taken_and_why_where_it_is_asked_to() {
    let folder = Folder::new();
    folder.run(&["score", "model.onnx", "a.png", "-v"]).success().stderr(contains("model loaded backend=\"simd\""));
    folder.run(&["score", "model.onnx", "a.png"]).success().stderr(is_empty());
    folder.run(&["-q", "score", "model.onnx", "a.png"]).success().stderr(is_empty()).stdout(contains("a.png"));
    folder.run(&["score", "-q", "-v", "model.onnx", "a.png"]).code(2).stderr(contains("cannot be used with"));
}

#[test]
fn completions_and_man_pages_know_the_commands() {
    let folder = Folder::new();
    folder.run(&["completions", "bash"]).success().stdout(contains("calibrate"));
    folder.run(&["man", "man1"]).success();
    let page = std::fs::read_to_string(folder.path("man1/nae-infer-score.1")).unwrap();
    assert!(page.contains("heat\\-map"), "{page}");
    folder.run(&["man", "a.png"]).code(1).stderr(contains("cannot write man pages to a.png"));
}

#[cfg(feature = "serve")]
#[test]
fn wrong_settings_of_the_service_are_wrong_usage() {
    let folder = Folder::new();
    folder.run(&["serve"]).code(2).stderr(contains("no `model`, and no `source` to learn one from"));
    let nowhere = ["serve", "--source", "folder:frames", "--learn-room", "0", "--state", "s"];
    folder.run(&nowhere).code(2).stderr(contains("no `model`, and `learn_room` is 0"));
    folder.run(&["serve", "--model", "model.onnx", "--queue", "no"]).code(2).stderr(contains("expected a number"));
    // Settings that are right, and a file that is not there.
    folder.run(&["serve", "--model", "none.onnx", "--state", "s"]).code(1).stderr(contains("cannot read none.onnx"));
}

#[test]
fn help_has_the_exit_status() {
    Folder::new().run(&["--help"]).success().stdout(contains("Exit status: 0 when all went well"));
}
