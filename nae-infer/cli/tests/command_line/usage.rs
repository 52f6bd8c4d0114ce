//! Arguments, help, `inspect`, the log, completions and man pages.

use nae_infer::BackendKind;
use predicates::prelude::*;
use predicates::str::{contains, diff, is_empty};

use super::Folder;

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
        .stderr(contains("model.nae: false-positive rate 0.000001: the false-positive rate is below 1/(n + 1)"))
        .stderr(contains("enough for rates from"));
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
