//! The header is what cbindgen makes of the source; a program in C and one in Python give the library's scores.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn digits() -> PathBuf {
    here().join("../../models/digits")
}

/// The folder that has the built libraries, and this test.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn images() -> Vec<PathBuf> {
    ["six", "zero", "checkerboard", "half-three"].map(|name| digits().join(format!("images/{name}.png"))).into()
}

/// What the library says of each image: name, energy, p-value, verdict.
fn expected() -> Vec<(String, f32, f32, String)> {
    let detector = nae_infer::Detector::open(digits().join("digits.onnx")).unwrap();
    let scored = |path: &PathBuf| {
        let scored = detector.score(&nae_infer::image::open(path).unwrap()).unwrap();
        let verdict = scored.verdict.unwrap().to_string();
        (path.display().to_string(), scored.energy, scored.p_value.unwrap(), verdict)
    };
    images().iter().map(scored).collect()
}

fn compare(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let found: Vec<_> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].to_owned(), words[1].parse().unwrap(), words[2].parse().unwrap(), words[3].to_owned())
        })
        .collect();
    assert_eq!(found, expected());
}

#[test]
fn the_header_is_the_sources() {
    let path = here().join("nae_infer.h");
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::Builder::new()
        .with_src(here().join("src/lib.rs"))
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut header);
    if std::env::var_os("NAE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    assert_eq!(String::from_utf8(header).unwrap(), std::fs::read_to_string(path).unwrap());
}

#[test]
fn a_program_in_c_scores_as_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("score");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(here())
        .arg(here().join("examples/score.c"))
        .arg(built().join("libnae_infer_c.a"))
        .args(["-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = |arguments: &[PathBuf]| Command::new(&program).args(arguments).output().unwrap();
    let arguments: Vec<PathBuf> = [digits().join("digits.onnx")].into_iter().chain(images()).collect();
    compare(&run(&arguments));
    let failed = run(&[digits().join("README.md"), images()[0].clone()]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("README.md"));
    let failed = run(&[digits().join("digits.onnx"), digits().join("README.md")]);
    assert_eq!(failed.status.code(), Some(1));
}

#[test]
fn python_scores_as_the_library_and_cannot_bring_it_down() {
    let library = built().join("libnae_infer_c.so");
    let output = Command::new("python3")
        .arg(here().join("tests/interface.py"))
        .arg(library)
        .arg(digits().join("digits.onnx"))
        .args(images())
        .output()
        .unwrap();
    compare(&output);
}
