//! What a run replaces, and what it refuses before and after training.

use std::path::Path;
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::harness::{appears, nae_train, refused, run, spawn, train};
use crate::own_run::images;

#[test]
fn a_finished_run_is_replaced_only_by_the_same() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    for (name, count) in [("A/good", 60), ("B/good", 61)] {
        images(path, name, count);
    }
    let knn = |data: &str| {
        let mut command = nae_train();
        command.current_dir(path).args(["--method", "knn", "--data", data]);
        command
    };
    let result = |name: &str| std::fs::read_to_string(path.join("runs").join(name).join("result.json")).unwrap();
    let sha256 = |name: &str| serde_json::from_str::<serde_json::Value>(&result(name)).unwrap()["data_sha256"].clone();
    let said = |command: &mut std::process::Command| {
        let output = run(command);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };

    // Folders of the same name have the same default.
    said(&mut knn("A/good"));
    let first = result("good-knn-0");
    let note = said(&mut knn("B/good"));
    assert!(note.contains("run folder: runs/good-knn-0-2"), "{note}");
    assert_eq!(result("good-knn-0"), first);
    assert_ne!(sha256("good-knn-0-2"), sha256("good-knn-0"));
    let note = said(&mut knn("A/good"));
    assert!(note.contains("runs/good-knn-0: the finished run there") && note.contains("is replaced"), "{note}");
    let note = said(&mut knn("B/good"));
    assert!(note.contains("runs/good-knn-0-2: the finished run there") && note.contains("is replaced"), "{note}");

    // A folder that was asked for is that one, or none.
    let first = result("good-knn-0");
    let other: [&[&str]; 2] = [&[], &["--confidence", "0.5"]];
    for (data, extra) in ["B/good", "A/good"].into_iter().zip(other) {
        let message = refused(knn(data).args(["--out", "runs/good-knn-0"]).args(extra));
        assert!(message.contains("runs/good-knn-0: a finished run of other data or settings"), "{message}");
        assert!(message.contains("--out"), "{message}");
        assert_eq!(result("good-knn-0"), first);
    }
    assert!(said(knn("A/good").args(["--out", "runs/good-knn-0"])).contains("is replaced"));

    let note = said(knn("A/good").args(["--seed", "3", "--outliers", "B/good"]));
    assert!(note.contains("of 61 are copies of images that are trained on as normal"), "{note}");

    let sample = refused(nae_train().current_dir(path).args(["sample", "runs/good-knn-0", "-o", "s.png"]));
    assert!(sample.contains("its model was fitted, not trained"), "{sample}");

    // An interrupted run is noticed before anything is read: these data are not there.
    let interrupted = path.join("runs/not there-knn-5");
    std::fs::create_dir(&interrupted).unwrap();
    std::fs::write(interrupted.join("resume.bin"), "").unwrap();
    let message = refused(knn("A/not there").args(["--seed", "5"]));
    let said =
        "it is too short for a state of a run; the run has to start again; remove runs/not there-knn-5, or choose";
    assert!(message.contains(said), "{message}");
}

#[test]
fn data_beside_a_preset_that_has_its_own_are_refused() {
    let folder = TempDir::new().unwrap();
    for data in [images(folder.path(), "mine", 60), folder.path().join("none")] {
        let message = refused(&mut train(folder.path(), "no", "--data", &data, &["--preset", "digits"]));
        assert!(message.contains("leave --data out, or leave --preset out to train on your own data"), "{message}");
    }
    // The digits are trained on only by default; here the outliers end it.
    let out = folder.path().join("no");
    let message = refused(nae_train().arg("--out").arg(&out).arg("--outliers").arg(folder.path().join("none")));
    assert!(message.contains("handwritten digits") && message.contains("give --data"), "{message}");
    assert!(!out.exists());
}

#[test]
fn an_export_that_cannot_be_written_is_refused_before_training() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = images(path, "mine", 60);
    let attempt = |option: &str, target: &Path| {
        let mut command = nae_train();
        command.arg("--data").arg(&data).arg("--out").arg(path.join("no")).arg(option).arg(target);
        refused(&mut command)
    };
    for (option, target, found) in [
        ("--export", Path::new("/dev/null"), "it is not a regular file"),
        ("--export", path, "it is a folder"),
        ("--export", &path.join("model.nae"), "model.nae: the model is written as ONNX, and .nae is another format"),
        ("--export", &path.join("none/model.onnx"), "none does not exist"),
        ("--export-parts", &data.join("level/001.png"), "this is a file"),
        ("--export", &data.join("level/001.png"), "it is one of the files that are read"),
    ] {
        let message = attempt(option, target);
        assert!(message.contains(found), "{message}");
    }
    assert!(!path.join("no").exists());
    assert!(std::fs::read(data.join("level/001.png")).unwrap().starts_with(b"\x89PNG"));

    let site = path.join("site");
    std::fs::create_dir(&site).unwrap();
    std::fs::write(site.join("config.toml"), "title = \"my site\"").unwrap();
    let message = refused(nae_train().arg("--data").arg(&data).arg("--out").arg(&site));
    assert!(message.contains("site/config.toml: it would be replaced"), "{message}");
    assert_eq!(std::fs::read_to_string(site.join("config.toml")).unwrap(), "title = \"my site\"");
}

#[test]
fn a_run_that_cannot_be_exported_leaves_its_report() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let (data, target) = (images(path, "mine", 60), path.join("models"));
    std::fs::create_dir(&target).unwrap();
    let mut command = nae_train();
    command.arg("--data").arg(&data).arg("--out").arg(path.join("one")).args(["--time-budget", "4s"]);
    let child = spawn(command.arg("--export").arg(target.join("model.onnx")));
    appears(&path.join("one/config.toml"));
    std::fs::remove_dir(&target).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("nae-train export") && said.contains("models/model.onnx") && said.contains("--data"),
        "{said}"
    );
    assert!(path.join("one/report.html").exists() && path.join("one/result.json").exists());
    let mut export = nae_train();
    export.arg("export").arg(path.join("one")).arg("--data").arg(&data).arg("--export").arg(path.join("model.onnx"));
    let output = run(&mut export);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let message =
        refused(nae_train().args(["compare", "--data"]).arg(&data).arg("--preset").arg(path.join("one/config.toml")));
    assert!(message.contains("no classes to hold out"), "{message}");
}

#[test]
fn a_run_whose_report_cannot_be_written_is_exported_and_prints_its_results() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = images(path, "mine", 60);
    let mut command = nae_train();
    command.arg("--data").arg(&data).arg("--out").arg(path.join("one")).args(["--time-budget", "4s"]);
    command.arg("--export").arg(path.join("model.onnx"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    appears(&path.join("one/config.toml"));
    // Where the page belongs.
    std::fs::create_dir(path.join("one/report.html")).unwrap();
    let said = failed_with_results(child.wait_with_output().unwrap(), path);
    assert!(
        said.contains("report.html") && said.contains("nae-train export") && said.contains("model.onnx, but"),
        "{said}"
    );
}

/// Checks that a run failed, and that its results were printed and its model exported all the same; returns what it said.
fn failed_with_results(output: Output, path: &Path) -> String {
    let (printed, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(printed.contains("threshold") && printed.contains("run folder:"), "{printed}");
    assert!(path.join("model.onnx").exists() && path.join("one/result.json").exists());
    said
}

/// The model of hours is exported and its results are printed, although the run's folder has no weights.
#[test]
fn a_run_whose_weights_cannot_be_written_is_exported_and_prints_its_results() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let data = images(path, "mine", 60);
    std::fs::create_dir_all(path.join("one/checkpoint.safetensors.tmp")).unwrap();
    let mut command = nae_train();
    command.arg("--data").arg(&data).arg("--out").arg(path.join("one")).args(["--time-budget", "1s"]);
    let said = failed_with_results(run(command.arg("--export").arg(path.join("model.onnx"))), path);
    assert!(
        said.contains("its weights could not be written to the run folder") && said.contains("checkpoint"),
        "{said}"
    );
    assert!(said.contains("nae-train --resume") && path.join("one/resume.bin").exists(), "{said}");
}

#[test]
fn a_time_that_is_too_short_is_said() {
    let folder = TempDir::new().unwrap();
    let data = images(folder.path(), "mine", 60);
    let output = run(nae_train()
        .arg("--data")
        .arg(&data)
        .arg("--out")
        .arg(folder.path().join("one"))
        .args(["--time-budget", "10ms"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("warning: the run takes about"), "{said}");
    assert!(said.contains("in place of 10ms: reading and preparing the data took"), "{said}");
}
