//! `score`: energies, verdicts, exit status and heat maps. What is read is tested in `inputs` and `tables`, what is printed in `printing`.

use nae_core::contract::Contract;
use nae_infer::Detector;
use predicates::str::{contains, is_empty, is_match};

use super::{Folder, lines};

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
fn anomalies_are_a_failure_where_that_is_asked_for() {
    let folder = Folder::new();
    let score = |arguments: &[&str]| folder.run(&[&["score", "model.nae"], arguments].concat());
    score(&["a.png", "--threshold", "0"]).success();
    score(&["a.png", "--threshold", "0", "--fail-on-anomaly"]).code(3).stdout(contains("anomaly"));
    score(&["a.png", "--threshold", "1e3", "--fail-on-anomaly"]).success();
    // What failed may have been an anomaly, or not: that comes first.
    score(&["a.png", "none.png", "--threshold", "0", "--fail-on-anomaly"]).code(1);
    // Lines may end between any two words.
    folder.run(&["score", "--help"]).success().stdout(is_match(r"the\s+exit\s+status\s+is\s+3").unwrap());
    folder.run(&["--help"]).success().stdout(contains("3 when"));
}

/// Without a threshold nothing is an anomaly, and that would look like success.
#[test]
fn anomalies_need_a_threshold_to_be_found() {
    let folder = Folder::new();
    folder.model_with("bare.onnx", |metadata| metadata.contract = Contract::new(metadata.contract.input));
    folder.run(&["score", "bare.onnx", "a.png", "--backend", "native"]).success();
    folder
        .run(&["score", "bare.onnx", "a.png", "--backend", "native", "--fail-on-anomaly"])
        .code(1)
        .stderr(contains("bare.onnx has no threshold"));
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

/// The next command would take them for images.
#[test]
fn heat_maps_do_not_lie_among_the_images() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("shots")).unwrap();
    std::fs::create_dir(folder.path("beside")).unwrap();
    std::fs::copy(folder.path("a.png"), folder.path("shots/a.png")).unwrap();
    for maps in ["shots", "shots/maps/new", "beside/../shots/maps"] {
        let refused = folder.run(&["score", "model.nae", "shots", "--heat-map", maps]).code(2);
        refused.stderr(contains(format!("{maps} lies in shots, whose images are scored")));
    }
    assert!(!folder.path("shots/maps").exists());
    folder.run(&["score", "model.nae", "shots", "--heat-map", "shots-maps"]).success();
    folder.run(&["score", "model.nae", "shots/a.png", "--heat-map", "shots/maps"]).success();
}

/// Pictures take most of the time, so that the signal comes while one is written.
#[cfg(unix)]
#[test]
fn ctrl_c_leaves_whole_pictures_each_with_its_row() {
    let message = stopped("-INT");
    assert!(message.contains("Ctrl-C again"), "{message}");
    stopped("-TERM");
}

/// Stops a program that writes pictures by a signal, and returns what it said.
#[cfg(unix)]
fn stopped(signal: &str) -> String {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let folder = Folder::new();
    std::fs::create_dir(folder.path("many")).unwrap();
    for number in 0..4000 {
        std::fs::hard_link(folder.path("a.png"), folder.path(format!("many/{number}.png"))).unwrap();
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_nae-infer"));
    program.args(["score", "model.nae", "many", "--heat-map", "maps"]).current_dir(folder.path(""));
    let program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pictures = || -> Vec<String> {
        let found = std::fs::read_dir(folder.path("maps")).into_iter().flatten();
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let begun = Instant::now();
    while pictures().len() < 100 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no pictures");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([signal, &program.id().to_string()]).status().unwrap().success());
    let output = program.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{signal}: {message}");
    let pictures = pictures();
    assert!(pictures.iter().all(|name| name.ends_with(".png") && !name.starts_with('.')), "{pictures:?}");
    // The first line has the columns' names.
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count() - 1, pictures.len(), "{signal}");
    message
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
