//! `nae-infer score` on what is larger than the network's input: images cut into tiles, windows of a time series.
#![allow(clippy::unwrap_used)]

#[path = "../../../crates/nae-onnx/tests/support/mod.rs"]
mod support;

use std::path::Path;

use assert_cmd::Command;
use nae_core::energy::Energy;
use nae_infer::Detector;
use nae_infer::image::{self, DynamicImage, GenericImageView, GrayImage, Luma};
use nae_onnx::metadata::{Column, Columns, Missing, ModelMetadata, RowWindow, Tiles};
use nae_onnx::proto::ModelProto;
use predicates::str::contains;
use prost::Message as _;

/// A model for 16×16 images, and the same with other metadata.
fn model(folder: &Path, change: impl FnOnce(&mut ModelMetadata)) {
    let bytes = support::digits(1, Energy::SquaredL2).unwrap();
    std::fs::write(folder.join("single.onnx"), &bytes).unwrap();
    let mut model = ModelProto::decode(&*bytes).unwrap();
    let mut metadata = ModelMetadata::read(&model).unwrap().unwrap();
    change(&mut metadata);
    metadata.replace_in(&mut model);
    std::fs::write(folder.join("model.onnx"), model.encode_to_vec()).unwrap();
}

fn run(folder: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("nae-infer").unwrap().current_dir(folder).args(arguments).assert()
}

fn lines(output: &[u8]) -> Vec<serde_json::Value> {
    std::str::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_image_is_scored_by_its_tiles() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    model(folder, |metadata| metadata.tiles = Some(Tiles { stride: 8, top_k: 1 }));
    let picture = DynamicImage::ImageLuma8(GrayImage::from_fn(37, 20, |x, y| Luma([(x * y) as u8])));
    picture.save(folder.join("large.png")).unwrap();
    image::DynamicImage::new_luma8(15, 40).save(folder.join("narrow.png")).unwrap();

    // Tiles by hand, as images of the network's own size.
    let single = Detector::open(folder.join("single.onnx")).unwrap();
    let (mut largest, mut sums, mut counts) = (0.0f32, vec![0.0f32; 37 * 20], vec![0.0f32; 37 * 20]);
    for top in [0, 4] {
        for left in [0, 8, 16, 21] {
            let scored = single.score(&picture.crop_imm(left, top, 16, 16)).unwrap();
            largest = largest.max(scored.energy);
            for (at, error) in scored.error_map.iter().enumerate() {
                let at = (top as usize + at / 16) * 37 + left as usize + at % 16;
                sums[at] += error;
                counts[at] += 1.0;
            }
        }
    }
    let scored = Detector::open(folder.join("model.onnx")).unwrap().score(&picture).unwrap();
    assert_eq!(scored.energy, largest);
    let mean: Vec<f32> = sums.iter().zip(&counts).map(|(sum, count)| sum / count).collect();
    assert_eq!(scored.error_map, mean);

    let arguments = ["score", "model.onnx", "large.png", "narrow.png", "--json", "--heat-map", "maps"];
    let assert = run(folder, &arguments).code(1).stderr(contains("narrow.png: expected an image of at least one tile"));
    let found = lines(&assert.get_output().stdout);
    assert_eq!((found.len(), found[0]["energy"].as_f64().unwrap() as f32), (1, largest));
    assert_eq!(image::open(folder.join("maps/0001-large.png.png")).unwrap().dimensions(), (37, 20));
    let score = ["score", "model.onnx", "large.png", "--threshold", "0", "--fail-on-anomaly"];
    run(folder, &score).code(3).stdout(contains("large.png"));
    run(folder, &["inspect", "model.onnx"]).success().stdout(contains("8 pixels from one to the next"));
}

#[test]
fn a_time_series_has_an_energy_for_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let column = |n| Column::number(format!("c{n}"), 0.5, 0.125, 4.0);
    model(folder, |metadata| {
        metadata.columns = Some(Columns::new((0..64).map(column).collect(), Missing::Refuse).unwrap());
        metadata.window = Some(RowWindow { rows: 4, stride: 3 });
    });
    let header = (0..64).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
    let rows: Vec<Vec<f64>> =
        (0..11).map(|row| (0..64).map(|n| f64::from((7 * row + 3 * n) % 50) / 50.0).collect()).collect();
    let text = |rows: &[Vec<f64>]| {
        let row = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        format!("{header}\n{}\n", rows.iter().map(row).collect::<Vec<_>>().join("\n"))
    };
    std::fs::write(folder.join("rows.csv"), text(&rows)).unwrap();
    std::fs::write(folder.join("short.csv"), text(&rows[..3])).unwrap();
    std::fs::write(folder.join("gap.csv"), text(&rows).replacen("\n0.14,", "\n,", 1)).unwrap();

    let assert = run(folder, &["score", "model.onnx", "rows.csv", "short.csv", "--json"])
        .code(1)
        .stderr(contains("short.csv: expected at least 4 rows, as many as make one window, found 3"));
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|line| line["input"].as_str().unwrap()).collect();
    // The last window ends at the last row.
    assert_eq!(names, ["rows.csv:2-5", "rows.csv:5-8", "rows.csv:8-11", "rows.csv:9-12"]);
    let single = Detector::open(folder.join("single.onnx")).unwrap();
    for (line, start) in found.iter().zip([0, 3, 6, 7]) {
        let values: Vec<f32> = rows[start..start + 4].concat().into_iter().map(|value| value as f32).collect();
        let (expected, energy) = (single.score_prepared(&values).unwrap()[0].energy, line["energy"].as_f64().unwrap());
        assert!((energy as f32 - expected).abs() <= 1e-5 * expected, "{energy} {expected}");
    }
    let assert = run(folder, &["score", "model.onnx", "gap.csv", "--json"])
        .code(1)
        .stderr(contains("gap.csv:3: the reading in the column \"c0\" is missing; the window 2-5 is left out"));
    // The rows after the gap begin with a window, too.
    let found = lines(&assert.get_output().stdout);
    let names: Vec<&str> = found.iter().map(|line| line["input"].as_str().unwrap()).collect();
    assert_eq!(names, ["gap.csv:4-7", "gap.csv:5-8", "gap.csv:8-11", "gap.csv:9-12"]);
    run(folder, &["inspect", "model.onnx"]).success().stdout(contains("4 rows, 3 from one to the next"));
}
