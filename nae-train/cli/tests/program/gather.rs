//! Work that was shared out: seeds and cells made in folders of their own, and one table of them.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::changed::{few_images, preset, replaced};
use crate::harness::{nae_train, refused, run};

fn reproduce(out: &Path, name: &str, extra: &[&str]) -> Value {
    let mut command = nae_train();
    command.args(["reproduce", name, "--scale", "smoke", "--json", "--out"]).arg(out).args(extra);
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn gathered(folders: &[&Path]) -> (Value, String) {
    let output = run(nae_train().args(["gather", "--json"]).args(folders));
    assert!(output.status.success(), "{output:?}");
    (serde_json::from_slice(&output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn refuses(folders: &[&Path]) -> String {
    refused(nae_train().arg("gather").args(folders))
}

/// What is alike whatever the machine: all but the time.
fn timeless(mut result: Value) -> Value {
    let models = result["models"].as_array_mut().unwrap();
    for model in models.iter_mut() {
        model.as_object_mut().unwrap().remove("processor_seconds");
    }
    models.sort_by_key(|model| (model["seed"].as_u64(), model["cell"].to_string()));
    result
}

/// A copy of the folder with `change` made to its file `name`.
fn changed(folder: &Path, copy: &Path, name: &str, change: impl Fn(String) -> String) -> PathBuf {
    std::fs::create_dir(copy).unwrap();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
    }
    let text = change(std::fs::read_to_string(copy.join(name)).unwrap());
    std::fs::write(copy.join(name), text).unwrap();
    copy.to_owned()
}

#[test]
fn cells_and_seeds_of_several_folders_are_one_table() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let data = at("data");
    crate::made_up_mnist::write(&data.join("mnist"));
    let data = data.to_str().unwrap();
    let made = |out: &str, cells: &str, seeds: &str| {
        reproduce(&at(out), "mnist-holdout", &["--data", data, "--cells", cells, "--seeds", seeds])
    };
    let whole = made("whole", "digit-1,digit-9", "0,7");
    assert_eq!(whole["seeds"], serde_json::json!([0, 7]));
    made("shared/a", "digit-1", "0,");
    made("shared/b", "digit-1,digit-9", "7,");
    made("shared/c", "digit-9", "0,");
    let (result, said) = gathered(&[&at("shared")]);
    assert_eq!(said, "");
    assert_eq!(timeless(result.clone()), timeless(whole.clone()));

    // What is in two folders counts once; a folder can be given twice.
    let twice: Vec<PathBuf> = ["shared", "whole", "shared/a"].map(at).to_vec();
    let (again, _) = gathered(&twice.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    assert_eq!(timeless(again), timeless(whole));
    let other = changed(&at("shared/a"), &at("other"), "cells.jsonl", |text| {
        replaced(&text, "\"kept_update\":", "\"kept_update\":1")
    });
    let message = refuses(&[&at("shared"), &other]);
    assert!(message.contains("digit-1, seed 0 is in") && message.contains("with other figures"), "{message}");

    // What does not belong together.
    let older =
        changed(&at("shared/a"), &at("older"), "experiment.json", |text| replaced(&text, "\"0.1.0\"", "\"0.0.9\""));
    let message = refuses(&[&at("shared"), &older]);
    assert!(message.contains("shared/a and") && message.contains("older do not belong"), "{message}");
    assert!(message.contains("program version is 0.1.0 in the first and 0.0.9 in the second"), "{message}");
    let mut command = nae_train();
    command.args(["reproduce", "mnist-holdout", "--scale", "smoke", "--data", data, "--out"]).arg(&older);
    let message = refused(&mut command);
    assert!(message.contains("program version 0.0.9, and this is 0.1.0"), "{message}");
    let others = at("other data");
    crate::made_up_mnist::write_of(&others.join("mnist"), 254);
    let others = others.to_str().unwrap();
    reproduce(&at("elsewhere"), "mnist-holdout", &["--data", others, "--cells", "digit-1", "--seeds", "3,"]);
    let message = refuses(&[&at("shared"), &at("elsewhere")]);
    assert!(message.contains("elsewhere/digit-1-3 do not belong") && message.contains("SHA-256 is"), "{message}");
    let mut command = nae_train();
    command.args(["reproduce", "mnist-holdout", "--scale", "smoke", "--data", others, "--cells", "digit-1", "--seeds"]);
    let message = refused(command.args(["0,", "--out"]).arg(at("shared/a")));
    assert!(message.contains("shared/a/digit-1-0") && message.contains("give the same data"), "{message}");
    let settings = at("mine.toml");
    let printed = run(nae_train().args(["reproduce", "mnist-holdout", "--print"]));
    let text =
        replaced(&String::from_utf8(printed.stdout).unwrap(), "\"stopping.every\" = 1", "\"stopping.every\" = 2");
    std::fs::write(&settings, text).unwrap();
    let extra = ["--settings", settings.to_str().unwrap(), "--data", data, "--cells", "digit-1", "--seeds", "3,"];
    reproduce(&at("mine"), "mnist-holdout", &extra);
    let message = refuses(&[&at("shared"), &at("mine")]);
    assert!(message.contains("stopping.every is 1 in the first and 2 in the second"), "{message}");
    let message = refuses(&[folder.path().join("data").as_path()]);
    assert!(message.contains("data: expected the folder of an experiment"), "{message}");

    // A model that has not ended is said and left out.
    std::fs::write(at("shared/a/digit-1-0/resume.bin"), "a state").unwrap();
    std::fs::write(at("shared/a/cells.jsonl"), "").unwrap();
    let (result, said) = gathered(&[&at("shared")]);
    assert!(said.contains("shared/a/digit-1-0: the run has not ended"), "{said}");
    let seeds = |cell: &str| {
        result["rows"].as_array().unwrap().iter().find(|row| row["cell"] == cell).unwrap()["seeds"].clone()
    };
    assert_eq!((seeds("digit-1"), seeds("digit-9")), (1.into(), 2.into()));
}

#[test]
fn densities_are_gathered_likewise() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = reproduce(&at("whole"), "gaussians8", &["--seeds", "2"]);
    reproduce(&at("one"), "gaussians8", &["--seeds", "0,"]);
    reproduce(&at("two"), "gaussians8", &["--seeds", "1,", "--threads", "1"]);
    let (result, _) = gathered(&[&at("one"), &at("two")]);
    assert_eq!(result, whole);
}

#[test]
fn seeds_of_a_run_are_one_table_and_do_not_depend_on_threads() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let short = |updates: &str, name: &str| {
        preset(folder.path(), name, |text| {
            let text = replaced(&replaced(&few_images(&text), "epochs = 600", "epochs = 2"), "updates = 1500", updates);
            replaced(&text, "every = 20", "every = 4")
        })
    };
    let preset = short("updates = 6", "short.toml");
    let train = |preset: &Path, seed: &str, threads: &str, out: &str| -> Value {
        let mut command = nae_train();
        command
            .arg("--preset")
            .arg(preset)
            .args(["--seed", seed, "--threads", threads, "--json", "--out"])
            .arg(at(out));
        let output = run(&mut command);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let one = train(&preset, "3", "1", "runs/a");
    let other = train(&preset, "11", "2", "runs/b");
    // The same run on another number of threads, so the same seed with the same figures.
    train(&preset, "3", "3", "runs/c");
    let (result, _) = gathered(&[&at("runs")]);
    assert_eq!(result["seeds"], serde_json::json!([3, 11]));
    let auroc = |run: &Value, column: &str| run["auroc"]["rows"][0][column].as_f64().unwrap();
    for column in ["autoencoder", "nae"] {
        let found = &result["rows"][0]["auroc"][column];
        let (a, b) = (auroc(&one, column), auroc(&other, column));
        assert!((found["mean"].as_f64().unwrap() - (a + b) / 2.0).abs() < 1e-12, "{found}");
        assert!((found["standard_error"].as_f64().unwrap() - (a - b).abs() / 2.0).abs() < 1e-12, "{found}");
    }
    let table = String::from_utf8(run(nae_train().arg("gather").arg(at("runs"))).stdout).unwrap();
    assert!(table.contains("over seeds 3, 11") && table.contains("digit 1 (held out)"), "{table}");

    // A table among the runs can be written again, and what is read is not replaced.
    let written_to = |name: &str| {
        let mut command = nae_train();
        command.arg("gather").arg(at("runs")).arg("-o").arg(at(name));
        command
    };
    for _ in 0..2 {
        assert!(run(&mut written_to("runs/all.json")).status.success());
    }
    for name in ["runs/a/result.json", "runs/b/config.toml", "runs/b/checkpoint.safetensors"] {
        assert!(refused(&mut written_to(name)).contains(name));
    }

    train(&short("updates = 7", "longer.toml"), "4", "1", "longer");
    let message = refuses(&[&at("runs"), &at("longer")]);
    assert!(message.contains("training.updates is 6 in the first and 7 in the second"), "{message}");
    assert_eq!(run(nae_train().args(["--threads", "0"])).status.code(), Some(2));
}
