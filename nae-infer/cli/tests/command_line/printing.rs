//! How results are printed: as a table, while they are found, and to a reader that has gone.

use assert_cmd::Command;
use nae_core::calibration::Calibration;
use predicates::prelude::*;
use predicates::str::{contains, is_match};

use super::{Folder, lines};

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
        assert_eq!(score(&["a.png", "--threshold", "-1"]), 0);
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

/// A p-value is never 0, and a rate that is not 0 does not look like it.
#[test]
fn small_probabilities_have_two_digits() {
    let folder = Folder::new();
    let mut energies = vec![1e-9; 40_000];
    let calibration = Calibration::from_energies(&mut energies).unwrap();
    folder.model_with("many.onnx", |metadata| {
        metadata.contract = metadata.contract.clone().with_calibration(calibration, 0.001).unwrap();
    });
    // 1/40,001.
    folder.run(&["score", "many.onnx", "a.png"]).success().stdout(contains(" 0.000025 "));
    folder.run(&["inspect", "many.onnx"]).success().stdout(contains("0.00069 to 0.0013, with a probability"));

    let values: Vec<u8> = (0..1100 * 64).map(|i: u64| (i * 2_654_435_761 % 251) as u8).collect();
    folder.npy("normal.npy", "|u1", "(1100, 8, 8)", &values);
    let calibrate = ["calibrate", "model.onnx", "normal.npy", "-o", "ours.onnx", "--false-positive-rate", "0.001"];
    let said = folder.run(&calibrate).success().stdout(contains("from 1100 normal images"));
    said.stdout(is_match(r"the rate lies between 0\.0000[1-9]\d and 0\.00\d\d with").unwrap());
}
