//! Rows of tables and windows of time series, by models that have columns.

use nae_onnx::metadata::{Column, Columns, Missing, Reading, RowWindow};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};

use super::{Folder, lines};

/// Columns of numbers, and the header of their table.
fn numbers(count: usize) -> (Columns, String) {
    let names: Vec<String> = (0..count).map(|n| format!("c{n}")).collect();
    // An eighth: readings from 0 to 1 stay what they are.
    let columns = names.iter().map(|name| Column::number(name, 0.5, 0.125, 4.0)).collect();
    (Columns::new(columns, Missing::Refuse).unwrap(), names.join(","))
}

/// The network for 16×16 images, as if each of its 256 values were a column.
#[test]
fn rows_of_a_table_are_scored_by_the_models_columns() {
    let folder = Folder::new();
    let (columns, _) = numbers(256);
    folder.model_with("table.onnx", |metadata| metadata.columns = Some(columns));

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
        .stderr(contains("rows.csv:4: the reading in the column \"c7\" is missing"))
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
    let (columns, header) = numbers(16);
    folder.model_with("series.onnx", |metadata| {
        metadata.columns = Some(columns);
        metadata.window = Some(RowWindow { rows: 16, stride: 16 });
    });

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
    let assert = score("gap.csv").code(1).stderr(contains("gap.csv:19: the reading in the column \"c0\" is missing"));
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

/// The threshold is that of the same numbers as images.
#[test]
fn a_model_of_tables_is_calibrated_on_rows() {
    let folder = Folder::new();
    let (columns, header) = numbers(256);
    folder.model_with("table.onnx", |metadata| metadata.columns = Some(columns));
    let bytes: Vec<u8> = (0..150 * 256).map(|i: u64| (i * 2_654_435_761 % 251) as u8).collect();
    folder.npy("normal.npy", "|u1", "(150, 16, 16)", &bytes);
    let row = |row: &[u8]| row.iter().map(|&b| (f64::from(b) / 255.0).to_string()).collect::<Vec<_>>().join(",") + "\n";
    let rows: Vec<String> = bytes.chunks(256).map(row).collect();
    let before = format!("{header}\n{}", rows.concat());
    std::fs::create_dir(folder.path("good")).unwrap();
    std::fs::write(folder.path("good/rows.csv"), &before).unwrap();
    std::fs::copy(folder.path("a.png"), folder.path("good/a.png")).unwrap();

    let threshold = |assert: &assert_cmd::assert::Assert| {
        let said = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
        said.split(' ').nth(2).unwrap().parse::<f64>().unwrap()
    };
    let images = folder.run(&["calibrate", "model.onnx", "normal.npy", "-o", "images.onnx"]).success();
    let tables = folder.run(&["calibrate", "table.onnx", "good", "-o", "again.onnx"]).success();
    let tables = tables.stdout(contains("from 150 normal rows; by their number, the rate lies between"));
    let tables = tables.stderr(contains("note: 1 file is left out, such as good/a.png: only tables are read"));
    let (expected, found) = (threshold(&images), threshold(&tables));
    assert!((found - expected).abs() <= 1e-5 * expected, "{found} {expected}");
    let scored = folder.run(&["score", "again.onnx", "good/rows.csv", "--json"]).success();
    let scored = lines(&scored.get_output().stdout);
    // Of 150 rows, the largest energy is the threshold.
    let largest = scored.iter().map(|line| line["energy"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!((largest - found).abs() <= 1e-6 * found, "{largest} {found}");
    assert!(scored.iter().all(|line| line["verdict"] == "normal"));

    let lost = folder.run(&["calibrate", "table.onnx", "good", "-o", "good/rows.csv"]).code(1);
    lost.stderr(contains("cannot write good/rows.csv: it is one of the files that are read"));
    assert_eq!(std::fs::read_to_string(folder.path("good/rows.csv")).unwrap(), before);
    std::fs::write(folder.path("gap.csv"), format!("{before},{}", rows[0].split_once(',').unwrap().1)).unwrap();
    let gap = ["calibrate", "table.onnx", "gap.csv", "-o", "gap.onnx"];
    let strict = folder.run(&[&gap[..], &["--strict"]].concat()).code(1).stdout(is_empty());
    let strict = strict.stderr(contains("gap.csv:152: the reading in the column \"c0\" is missing"));
    strict.stderr(contains(
        "that cannot be read: 0; rows that cannot be scored: 1; rows that can: 150; leave out --strict",
    ));
    assert!(!folder.path("gap.onnx").exists());
    assert_eq!(threshold(&folder.run(&gap).code(1)), found);
    let image = folder.run(&["calibrate", "table.onnx", "a.png", "-o", "image.onnx"]).code(1);
    image.stderr(contains("a.png: expected a table").and(contains("that cannot be read: 1; rows")));
}

/// Windows depend on each other, so that nothing is said of the interval that as many independent samples would have.
#[test]
fn a_model_of_a_time_series_is_calibrated_on_windows() {
    let folder = Folder::new();
    let (columns, header) = numbers(16);
    folder.model_with("series.onnx", |metadata| {
        metadata.columns = Some(columns);
        metadata.window = Some(RowWindow { rows: 16, stride: 1 });
    });
    let row =
        |n: usize| (0..16).map(|c| format!("0.{:03}", (77 * n + 31 * c) % 997)).collect::<Vec<_>>().join(",") + "\n";
    let rows: String = (0..200).map(row).collect();
    std::fs::write(folder.path("rows.csv"), format!("{header}\n{rows}")).unwrap();
    let calibrate = ["calibrate", "series.onnx", "rows.csv", "-o", "again.onnx"];
    let said = folder.run(&calibrate).success().stdout(contains("from 185 normal windows; they are not independent"));
    said.stdout(contains("with a probability of").not());
    let scored = folder.run(&["score", "again.onnx", "rows.csv", "--json"]).success();
    let anomalies = lines(&scored.get_output().stdout).iter().filter(|line| line["verdict"] == "anomaly").count();
    assert_eq!(anomalies, 0);
    let sure = folder.run(&[&calibrate[..], &["--confidence", "0.9"]].concat()).code(2);
    sure.stderr(contains("--confidence is for independent samples, and the windows of a time series are not"));
}

/// A column with several inputs is one column of the table.
#[test]
fn columns_are_those_of_a_table() {
    let folder = Folder::new();
    let column = |name: &str, reading| Column { reading, ..Column::number(name, 0.5, 0.125, 4.0) };
    let numbers = (0..253).map(|n| column(&format!("c{n}"), Reading::Number));
    let is = |value: &str| column("colour", Reading::Is(value.to_owned()));
    let inputs = numbers.chain([is("blue"), is("red"), column("c1", Reading::Absent)]).collect();
    let columns = Columns::new(inputs, Missing::Fill).unwrap();
    folder.model_with("table.onnx", |metadata| metadata.columns = Some(columns));
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
