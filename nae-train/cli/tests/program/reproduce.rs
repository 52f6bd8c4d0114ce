//! `nae-train reproduce` as a user meets it, at the scale of seconds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::changed::replaced;
use crate::harness::{nae_train, refused, spawn, stopped_by};

fn reproduce(out: &Path, extra: &[&str]) -> Output {
    let mut command = nae_train();
    command.args(["reproduce", "gaussians8", "--scale", "smoke", "--out"]).arg(out).args(extra).output().unwrap()
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The commit that `--version` names; `None` where the program was built outside its repository.
fn commit() -> Option<String> {
    let output = nae_train().arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let version = text.trim().strip_prefix("nae-train 0.1.0").unwrap();
    let commit = version.strip_prefix(" (")?.strip_suffix(')').unwrap();
    let hash = commit.strip_suffix("-modified").unwrap_or(commit);
    assert!(hash.len() == 12 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{text}");
    Some(commit.to_owned())
}

/// The lines of `text` from the line `first` on.
fn lines_from(text: &str, first: usize) -> String {
    text.lines().skip(first).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn the_eight_gaussians_give_a_table_and_a_picture_and_go_on_where_they_were() {
    let folder = TempDir::new().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let output = reproduce(&one, &["--seeds", "2", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 6, "two latent spaces, six methods");
    let cells: Vec<serde_json::Value> = lines(&one.join("cells.jsonl"));
    for row in rows {
        let of_row =
            |cell: &&serde_json::Value| ["method", "latent_dim"].iter().all(|key| cell["cell"][key] == row[key]);
        let seeds: Vec<f64> =
            cells.iter().filter(of_row).map(|cell| cell["result"]["total_variation"].as_f64().unwrap()).collect();
        let [one, other] = seeds[..] else { panic!("two seeds: {row}") };
        assert_eq!(row["seeds"], 2);
        // The standard error of two values is half of what is between them.
        for (key, expected) in [("mean", 0.5 * (one + other)), ("standard_error", 0.5 * (one - other).abs())] {
            let found = row["total_variation"][key].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-12, "{key}: {expected}, {row}");
        }
    }
    let picture = std::fs::read_to_string(one.join("densities.svg")).unwrap();
    assert!(picture.contains("OMI, D_z = 3") && picture.contains("VAE, D_z = 2"), "the first seed's densities");

    // Broken off in the middle of the second seed: what is missing is trained, to the same result.
    let cells = std::fs::read_to_string(one.join("cells.jsonl")).unwrap();
    std::fs::create_dir(&two).unwrap();
    let first: String = cells.lines().take(15).flat_map(|line| [line, "\n"]).collect();
    std::fs::write(two.join("cells.jsonl"), first).unwrap();
    for file in std::fs::read_dir(&one).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|e| e == "safetensors") || path.ends_with("experiment.json") {
            std::fs::copy(&path, two.join(path.file_name().unwrap())).unwrap();
        }
    }
    let output = reproduce(&two, &["--seeds", "2", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let again: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(again == result, "{again}\n{result}");
    let cells = std::fs::read_to_string(two.join("cells.jsonl")).unwrap();
    assert_eq!(cells.lines().count(), 24);

    // A table whose models are of several programs names them.
    let own = commit();
    assert_eq!(result["commits"], serde_json::json!([own]));
    let of_another = |line: &str| {
        let mut cell: serde_json::Value = serde_json::from_str(line).unwrap();
        cell["commit"] = "0123456789ab".into();
        cell.to_string() + "\n"
    };
    let changed: String = cells.lines().take(15).map(of_another).chain([lines_from(&cells, 15)]).collect();
    let table = |cells: &str| {
        std::fs::write(two.join("cells.jsonl"), cells).unwrap();
        String::from_utf8(reproduce(&two, &["--seeds", "2"]).stdout).unwrap()
    };
    let own = own.unwrap_or_else(|| "not recorded".to_owned());
    let mut named = [("0123456789ab", 15), (own.as_str(), 9)];
    named.sort_unstable();
    let [one_of, other] = named.map(|(commit, count)| format!("{commit} ({count})"));
    let text = table(&changed);
    assert!(text.contains(&format!("\nThe models are of several commits: {one_of}, {other}.\n")), "{text}");
    assert!(!table(&cells).contains("several"));

    let output = reproduce(&two, &["--engine", "burn"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("side by side on the processor; leave --engine out"), "{message}");

    // A damaged line is named.
    std::fs::write(two.join("cells.jsonl"), "{\"digest\": 3}\n").unwrap();
    let output = reproduce(&two, &["--quiet"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cells.jsonl, line 1"), "{message}");
}

#[test]
fn settings_can_be_changed_and_are_checked() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let printed = reproduce(&out, &["--print"]);
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(!out.exists(), "printing makes no folder");
    let file = folder.path().join("mine.toml");
    let path = file.to_str().unwrap();
    assert_eq!(reproduce(&out, &["--print", "--settings", path]).status.code(), Some(2), "which of both is not said");
    std::fs::write(&file, text.replace("batch_size = 200", "batch_size = 0")).unwrap();
    let message = String::from_utf8(reproduce(&out, &["--settings", path]).stderr).unwrap();
    assert!(message.contains("mine.toml") && message.contains("batch_size"), "{message}");

    // A learning rate that no training survives is reported as such.
    std::fs::write(&file, text.replace("\nlearning_rate = 1e-3", "\nlearning_rate = 1e30")).unwrap();
    // Without --out, its folder is not that of the paper's settings.
    let arguments = ["reproduce", "gaussians8", "--scale", "smoke", "--settings", path, "--seeds", "1"];
    let output = nae_train().current_dir(&folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("1 of 1 diverged"), "{table}");
    assert!(folder.path().join("runs/gaussians8-smoke-mine/cells.jsonl").exists());

    // Other densities in one folder; all have their titles, and the picture of the first stays that of its models.
    let out = folder.path().join("densities");
    let drawn = |extra: &[&str]| {
        let output = reproduce(&out, &[&["--seeds", "1"], extra].concat());
        assert!(output.status.success(), "{output:?}");
        (std::fs::read_to_string(out.join("densities.svg")).unwrap(), output)
    };
    let (first, _) = drawn(&[]);
    for (density, title) in [("two_spirals", "two spirals"), ("checkerboard", "checkerboard")] {
        std::fs::write(&file, text.replace("\"eight_gaussians\"", &format!("{density:?}"))).unwrap();
        let (picture, output) = drawn(&["--settings", path]);
        assert!(String::from_utf8(output.stdout).unwrap().starts_with(title), "{title}");
        assert!(picture.contains(title), "{title}");
    }
    assert!(drawn(&[]).0 == first, "the picture is of other models");
    // The table needs no weights.
    for file in std::fs::read_dir(&out).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("omi-3-0-") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let (picture, output) = drawn(&[]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("OMI") && !picture.contains("OMI, D_z = 3"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("densities.svg lacks models whose weights are not in") && said.contains("OMI, D_z = 3"),
        "{said}"
    );
}

fn detection_command(name: &str, out: &Path, data: &Path, extra: &[&str]) -> Command {
    let mut command = nae_train();
    command.args(["reproduce", name, "--scale", "smoke", "--out"]).arg(out).arg("--data").arg(data).args(extra);
    command
}

fn detection(name: &str, out: &Path, data: &Path, extra: &[&str]) -> Output {
    detection_command(name, out, data, extra).output().unwrap()
}

#[test]
fn models_start_from_another_cells_network() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/starts.toml");
    let cells = "pretrained-9,cold";
    let run = |settings: &Path, cells: &str| {
        let extra = ["--settings", settings.to_str().unwrap(), "--cells", cells, "--seeds", "2", "--json"];
        detection("mnist-holdout", &out, &data, &extra)
    };
    let output = run(&settings, cells);
    assert!(output.status.success(), "{output:?}");
    // Past the header of a safetensors file, whose remarks burn writes in any order.
    let weights = |run: &str, file: &str| {
        let bytes = std::fs::read(out.join(run).join(file)).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    let start = weights("pretrained-9-0", "checkpoint.safetensors");
    for seed in 0..2 {
        // The plain autoencoder that the NAE is compared with.
        let name = format!("cold-{seed}");
        assert!(weights(&name, "autoencoder.safetensors") == start, "{name}");
    }
    // One network a digit, whatever the number of seeds.
    assert!(!out.join("pretrained-9-1").exists());

    // Of seed 0 also where that is not among the seeds.
    let listed = folder.path().join("listed");
    let extra = ["--settings", settings.to_str().unwrap(), "--cells", cells, "--seeds", "4,"];
    let output = detection("mnist-holdout", &listed, &data, &extra);
    assert!(output.status.success(), "{output:?}");
    assert!(listed.join("cold-4").exists() && !listed.join("pretrained-9-4").exists());

    // As if the program had been killed after the model was written down: it is no unfinished one.
    let state = out.join("pretrained-9-0/resume.bin");
    std::fs::write(&state, "a state").unwrap();
    assert!(run(&settings, cells).status.success() && !state.exists());

    // Models stay finished where other cells change, and not where their own start does.
    let text = std::fs::read_to_string(&settings).unwrap();
    let mine = folder.path().join("mine.toml");
    let trained = || std::fs::read_to_string(out.join("cells.jsonl")).unwrap().lines().count();
    assert_eq!(trained(), 3);
    let other = text.replace("\"training.learning_rate\" = 1e-4", "\"training.learning_rate\" = 2e-4");
    assert_ne!(other, text);
    std::fs::write(&mine, other).unwrap();
    assert!(run(&mine, cells).status.success());
    assert_eq!(trained(), 3);
    let start_with = |change: &str| {
        let changed = text.replacen("\"method\" = \"ae\",", &format!("\"method\" = \"ae\", {change},"), 1);
        std::fs::write(&mine, changed).unwrap();
    };
    start_with("\"pretraining.learning_rate\" = 3e-4");
    let message = String::from_utf8(run(&mine, cells).stderr).unwrap();
    assert!(message.contains("pretrained-9-0: a finished model of other settings is there"), "{message}");
    assert_eq!(trained(), 3);
    std::fs::write(&mine, text.replacen("pretrained = \"pretrained-9\"", "pretrained = \"elsewhere\"", 1)).unwrap();
    let message = String::from_utf8(run(&mine, cells).stderr).unwrap();
    assert!(message.contains("mine.toml, cell cold") && message.contains("`elsewhere`"), "{message}");
    // A network of another size does not fit. Said before it is trained.
    start_with("\"architecture.latent_dim\" = 31");
    let message = String::from_utf8(run(&mine, cells).stderr).unwrap();
    assert!(message.contains("an autoencoder of this architecture and is called `pretrained-9`"), "{message}");
    let message = String::from_utf8(run(&settings, "cold-small").stderr).unwrap();
    assert!(
        message.contains("cold-small starts from") && message.contains("pretrained-9-small,cold-small"),
        "{message}"
    );
}

/// Settings in `folder` of two cells, one of which starts from the network of the other.
fn a_start_and_its_end(folder: &Path) -> PathBuf {
    let text = include_str!("starts.toml");
    let cells: Vec<&str> = text.split("[[cells]]").collect();
    let settings = folder.join("two.toml");
    std::fs::write(&settings, [cells[0], cells[1], cells[3]].join("[[cells]]")).unwrap();
    settings
}

#[test]
fn a_model_counts_once_however_often_the_command_is_given() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let settings = a_start_and_its_end(folder.path());
    let models = || {
        let extra = ["--settings", settings.to_str().unwrap(), "--seeds", "2", "--json"];
        let output = detection("mnist-holdout", &out, &data, &extra);
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        result["models"].as_array().unwrap().len()
    };
    assert_eq!([models(), models()], [3, 3]);
}

#[test]
fn a_network_that_is_not_trained_to_its_end_is_no_start() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let settings = a_start_and_its_end(folder.path());
    let run = |cells: &str| {
        let extra = ["--settings", settings.to_str().unwrap(), "--seeds", "1", "--cells", cells];
        detection_command("mnist-holdout", &out, &data, &extra)
    };
    assert!(run("pretrained-9").output().unwrap().status.success());
    std::fs::write(out.join("pretrained-9-0/resume.bin"), "a state").unwrap();
    let message = refused(&mut run("cold"));
    assert!(message.contains("the cell pretrained-9, which is not trained to its end there"), "{message}");
}

#[test]
fn one_process_works_on_a_folder() {
    let folder = TempDir::new().unwrap();
    let lock = std::fs::File::create(folder.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let messages = [
        String::from_utf8(reproduce(folder.path(), &[]).stderr).unwrap(),
        refused(&mut detection_command("mnist-holdout", folder.path(), folder.path(), &[])),
        refused(nae_train().args(["reproduce", "bimodal", "--scale", "smoke", "--out"]).arg(folder.path())),
        refused(&mut detection_command("reconstruction-error", folder.path(), folder.path(), &[])),
    ];
    for message in messages {
        assert!(message.contains("another process works on the experiment there"), "{message}");
    }
}

/// A folder with other files is not taken, and neither is that of an experiment for a run.
#[test]
fn files_of_others_are_not_replaced() {
    let folder = TempDir::new().unwrap();
    for name in ["result.json", "densities.svg"] {
        std::fs::write(folder.path().join(name), "mine").unwrap();
        for experiment in ["gaussians8", "bimodal"] {
            let message =
                refused(nae_train().args(["reproduce", experiment, "--scale", "smoke", "--out"]).arg(folder.path()));
            assert!(
                message.contains(&format!("{name}: it would be replaced")) && !folder.path().join("lock").exists(),
                "{message}"
            );
        }
        assert_eq!(std::fs::read_to_string(folder.path().join(name)).unwrap(), "mine");
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    // Other files are no results.
    std::fs::write(folder.path().join("log"), "").unwrap();
    assert!(reproduce(folder.path(), &["--seeds", "1"]).status.success());
}

/// Its weights would be those of the new settings, beside the figures of the old ones. The table is printed with --quiet, too.
#[test]
fn a_finished_model_of_other_settings_is_not_replaced() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let settings = folder.path().join("settings.toml");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/nae-lab/experiments/mnist-holdout.toml");
    let text = std::fs::read_to_string(own).unwrap();
    std::fs::write(&settings, &text).unwrap();
    let extra = ["--settings", settings.to_str().unwrap(), "--cells", "digit-1", "--seeds", "1", "--quiet"];
    let run = || detection_command("mnist-holdout", &out, &data, &extra);
    let output = run().output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("digit 1 (held out)"), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("seed 0 (1 of"), "{output:?}");
    let weights = || std::fs::read(out.join("digit-1-0/checkpoint.safetensors")).unwrap();
    let before = weights();
    let changed = text.replacen("\"training.updates\" = 2", "\"training.updates\" = 3", 1);
    assert_ne!(changed, text);
    std::fs::write(&settings, &changed).unwrap();
    let message = refused(&mut run());
    assert!(message.contains("digit-1-0: a finished model of other settings is there; choose another"), "{message}");
    assert!(weights() == before);
    std::fs::write(&settings, &text).unwrap();
    assert_eq!(run().output().unwrap().stdout, output.stdout);
}

#[test]
fn held_out_digits_give_a_table_beside_the_papers_and_go_on_where_they_were() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let extra = ["--cells", "digit-1,digit-9", "--seeds", "2", "--json"];
    let output = detection("mnist-holdout", &out, &data, &[&extra[..], &["--trace-outliers"]].concat());
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10);
    for (digit, row) in rows.iter().enumerate() {
        let run = [1, 9].contains(&digit);
        assert_eq!(row["outliers"], format!("digit {digit} (held out)"));
        assert_eq!(row["seeds"], if run { 2 } else { 0 });
        let (nae, paper) = (&row["nae"], &row["nae"]["paper"][0]);
        let at_least = nae["ours"]["mean"].as_f64().map(|mean| mean >= paper.as_f64().unwrap());
        assert_eq!((at_least.is_some(), nae["at_least_the_papers"].as_bool()), (run, at_least), "{row}");
    }
    assert_eq!(rows[1]["nae"]["paper"], serde_json::json!([0.919, 0.013]));
    assert_eq!(result["averages"], serde_json::json!([]), "eight digits were not run");
    assert!(out.join("digit-9-1/config.toml").exists() && !out.join("digit-9-1/resume.bin").exists());

    let message = refused(nae_train().args(["--method", "knn", "--out"]).arg(out.join("digit-9-1")));
    assert!(message.contains("digit-9-1: a finished run of other data or settings"), "{message}");

    // Traced, the models are runs to study; those below are not traced, and no other models.
    let runs = ["digit-1-0", "digit-9-0"].map(|run| out.join(run));
    let study = nae_train().arg("stopping-study").args(runs).output().unwrap();
    assert!(study.status.success(), "{study:?}");

    // The last model lost, and the line before it cut off: both are trained again, to the same table.
    let cells = std::fs::read_to_string(out.join("cells.jsonl")).unwrap();
    let lines: Vec<&str> = cells.lines().collect();
    let cut = format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..40]);
    std::fs::write(out.join("cells.jsonl"), cut).unwrap();
    let output = detection("mnist-holdout", &out, &data, &extra);
    assert!(output.status.success(), "{output:?}");
    let again: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again["rows"], result["rows"]);

    // A state that is none, and one of a run with other settings.
    let (cells, config) = (out.join("cells.jsonl"), out.join("digit-9-1/config.toml"));
    std::fs::remove_file(cells).unwrap();
    std::fs::write(out.join("digit-1-0/resume.bin"), "no state").unwrap();
    let message = String::from_utf8(detection("mnist-holdout", &out, &data, &extra).stderr).unwrap();
    assert!(message.contains("digit-1-0/resume.bin"), "{message}");
    std::fs::copy(config, out.join("digit-1-0/config.toml")).unwrap();
    let message = String::from_utf8(detection("mnist-holdout", &out, &data, &extra).stderr).unwrap();
    assert!(message.contains("digit-1-0: an interrupted run there has the seed 1, this one has 0"), "{message}");

    let message = String::from_utf8(detection("mnist-holdout", &out, &data, &["--cells", "1"]).stderr).unwrap();
    assert!(message.contains("no cell `1`") && message.contains("digit-0, digit-1"), "{message}");
    let absent = folder.path().join("absent");
    let message = String::from_utf8(detection("mnist-holdout", &absent, &absent, &[]).stderr).unwrap();
    assert!(message.contains("train-images-idx3-ubyte: neither this file"), "{message}");
    assert!(
        message.contains("t10k-labels-idx1-ubyte.gz (SHA-256 f7ae60f9"),
        "which files, with which digests: {message}"
    );
}

/// Each method trains with each digit held out, and has its own columns of the table.
#[test]
fn every_method_has_its_rows_of_table_1() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let columns = [
        ("dae-1", &["dae"][..], &[0.124][..]),
        ("vae-1", &["vae_likelihood", "vae_reconstruction"], &[0.326, 0.391]),
        ("wae-1", &["wae"], &[0.145]),
        ("vqvae-1", &["vqvae"], &[0.272]),
        ("dagmm-1", &["dagmm"], &[0.304]),
        ("ganomaly-1", &["ganomaly"], &[0.676]),
        ("nae-cd-1", &["nae"], &[0.098]),
        ("nae-pcd-1", &["nae"], &[0.114]),
        ("glow-1", &["glow"], &[0.014]),
        ("igebm-1", &["igebm"], &[0.401]),
        ("pixelcnn-1", &["pixelcnn"], &[0.030]),
    ];
    let output = detection("mnist-methods", &out, &data, &["--seeds", "1", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10 * columns.len());
    for row in rows {
        let (_, digit) = row["cell"].as_str().unwrap().rsplit_once('-').unwrap();
        assert_eq!(
            (&row["seeds"], &row["outliers"]),
            (&1.into(), &format!("digit {digit} (held out)").into()),
            "{row}"
        );
    }
    let models = lines(&out.join("cells.jsonl"));
    for (cell, columns, paper) in columns {
        let model = models.iter().find(|model| model["cell"] == cell).unwrap();
        let held_out = &model["auroc"]["rows"][0];
        assert_eq!(held_out["outliers"], "digit 1 (held out)");
        let row = rows.iter().find(|row| row["cell"] == cell).unwrap();
        for (column, paper) in columns.iter().zip(paper) {
            assert_eq!(row[column]["paper"], *paper, "{row}");
            assert_eq!(row[column]["ours"]["mean"], held_out["figures"][column]["auroc"]["value"], "{row}, {model}");
        }
        assert_eq!(row["autoencoder"].is_object(), cell.starts_with("nae"), "{row}");
    }
}

/// With a rate of almost zero nothing is learnt: the table says so, and of which model.
#[test]
fn a_training_that_failed_is_said() {
    let folder = TempDir::new().unwrap();
    let (out, data, file) = (folder.path().join("out"), folder.path().join("data"), folder.path().join("mine.toml"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let text = r#"
title = "No rate"
source = "none"
preset = "mnist-holdout"
[scales.cpu]
work = "seconds"
change = { "architecture.width" = 2, "pretraining.epochs" = 1, "pretraining.learning_rate" = 1e-12, method = "ae", evaluation = { synthetic_images = 100 } }
[[cells]]
name = "slow"
change = { "data.held_out" = 1 }
"#;
    std::fs::write(&file, text).unwrap();
    let mut command = nae_train();
    command.args(["reproduce", "mnist-holdout", "--scale", "cpu", "--seeds", "7,", "--settings"]).arg(&file);
    let output = command.arg("--data").arg(&data).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    let said =
        "\nwarning: slow, seed 7: the autoencoder reconstructs normal test images no better than their mean does";
    assert_eq!(table.matches(said).count(), 1, "{table}");
}

#[test]
fn sets_in_files_are_beside_the_made_ones() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    for name in ["mnist", "fashion-mnist"] {
        crate::made_up_mnist::write(&data.join(name));
    }
    // White on black, as the paper has them, once the two are exchanged.
    std::fs::create_dir_all(data.join("omniglot/images_evaluation.zip")).unwrap();
    for k in 0..3u8 {
        let mut image = b"P5 40 40 255\n".to_vec();
        image.extend((0..1600).map(|at| if at % 40 == 10 + usize::from(k) { 0 } else { 255 }));
        std::fs::write(data.join(format!("omniglot/images_evaluation.zip/{k}.pgm")), image).unwrap();
    }
    let output = detection("mnist-ood", &out, &data, &["--seeds", "1"]);
    assert!(output.status.success(), "{output:?}");
    // Made-up data are not taken for the original ones: said once, and below the table.
    let (table, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    for text in [&table, &said] {
        for warning in [
            "warning: Omniglot: these are not the original data: expected 13180 images, found 3; the files are at https://",
            "data/mnist: these are not the original data of MNIST",
        ] {
            assert_eq!(text.matches(warning).count(), 1, "{text}");
        }
    }
    for name in ["Omniglot", "Fashion-MNIST", "half-digits", "chimeras", "uniform noise", "ConstantGray *"] {
        assert!(table.contains(name), "{name}: {table}");
    }
    assert!(table.contains("\n* selection set: "), "{table}");
    assert!(table.contains("0.995") && !table.contains("not run"), "{table}");

    // Finished models are of these outliers.
    let again = |seeds| detection_command("mnist-ood", &out, &data, &["--cells", "dae", "--seeds", seeds, "--quiet"]);
    assert!(again("1").output().unwrap().status.success());
    // Those that are not there contradict nothing.
    let (labels, elsewhere) = (data.join("fashion-mnist/t10k-labels-idx1-ubyte"), folder.path().join("labels"));
    std::fs::rename(&labels, &elsewhere).unwrap();
    assert!(again("1").output().unwrap().status.success());
    std::fs::rename(&elsewhere, &labels).unwrap();
    std::fs::remove_file(data.join("omniglot/images_evaluation.zip/0.pgm")).unwrap();
    let message = refused(&mut again("2"));
    assert!(message.contains("expected the outliers `Omniglot` that this model was evaluated on"), "{message}");
    std::fs::remove_dir_all(data.join("omniglot")).unwrap();
    let message = refused(&mut again("2"));
    assert!(message.contains("brendenlake/omniglot"), "{message}");
}

/// CIFAR-10 as images, made up, and the set that its experiment selects by.
fn write_cifar10(data: &Path) {
    crate::made_up_mnist::write(&data.join("mnist"));
    for (part, count) in [("train", 200u32), ("test", 30)] {
        for n in 0..count {
            let class = data.join(format!("cifar10-jpeg/{part}/class{}", n % 2));
            std::fs::create_dir_all(&class).unwrap();
            let mut image = b"P6 32 32 255\n".to_vec();
            image.extend((0..3072).map(|at| (at * (n % 7 + 1) / 3 + n) as u8));
            std::fs::write(class.join(format!("{n}.ppm")), image).unwrap();
        }
    }
}

#[test]
fn cells_and_sets_without_data_are_said_and_left_out() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    write_cifar10(&data);
    let output = detection("cifar10-ood", &out, &data, &["--seeds", "1", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("cells without data")
            && said.contains("not run: cifar10, dae, vae, wae, glow, pixelcnn, igebm\n"),
        "{said}"
    );
    assert!(said.contains("not run: Fashion-MNIST, SVHN crops, CelebA"), "{said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 48);
    for row in rows {
        let run = row["cell"] == "cifar10-jpeg"
            && ["ConstantGray", "MNIST, padded", "uniform noise"].contains(&row["outliers"].as_str().unwrap());
        assert_eq!(row["seeds"], i32::from(run), "{row}");
        // What the paper selects by; ConstantGray is a test there.
        assert_eq!(row["selection"], run && row["outliers"] == "MNIST, padded", "{row}");
    }
    // Named, a cell has to have its data.
    let message = String::from_utf8(detection("cifar10-ood", &out, &data, &["--cells", "cifar10"]).stderr).unwrap();
    assert!(message.contains("data_batch_1.bin"), "{message}");
}

#[test]
fn faces_are_divided_as_their_authors_say_and_drawn() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    crate::presets::celeba(&data.join("celeba"));
    let output = detection("celeba64-sample", &out, &data, &["--seeds", "1", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sets: Vec<&str> =
        result["rows"].as_array().unwrap().iter().map(|row| row["outliers"].as_str().unwrap()).collect();
    assert_eq!(sets, ["ConstantGray", "uniform noise"]);
    let picture = nae_infer::image::open(out.join("celeba64-0/samples.png")).unwrap();
    // Three stages of four rows of sixteen, two pixels between images.
    assert_eq!((picture.width(), picture.height()), (16 * 66 - 2, 12 * 66 - 2));
}

#[test]
fn a_run_goes_on_only_where_its_selection_set_is() {
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    write_cifar10(&data);
    let extra = ["--seeds", "1", "--cells", "cifar10-jpeg"];
    let run = out.join("cifar10-jpeg-0");
    let child = spawn(&mut detection_command("cifar10-ood", &out, &data, &extra));
    // A scheduler's signal.
    stopped_by("-TERM", child, &run.join("config.toml"));

    let message = refused(nae_train().arg("--resume").arg(&run).arg("--data").arg(data.join("cifar10-jpeg")));
    assert!(message.contains("MNIST, padded") && message.contains("nae-train reproduce"), "{message}");

    std::fs::rename(data.join("mnist"), data.join("elsewhere")).unwrap();
    let message = refused(&mut detection_command("cifar10-ood", &out, &data, &extra));
    assert!(message.contains("cifar10-jpeg-0") && message.contains("selection set"), "{message}");
    std::fs::rename(data.join("elsewhere"), data.join("mnist")).unwrap();
    // The same set of other images.
    crate::made_up_mnist::write_of(&data.join("mnist"), 200);
    let message = refused(&mut detection_command("cifar10-ood", &out, &data, &extra));
    assert!(message.contains("has the selection set `MNIST, padded` of SHA-256"), "{message}");
    crate::made_up_mnist::write(&data.join("mnist"));
    let output = detection("cifar10-ood", &out, &data, &extra);
    assert!(output.status.success(), "{output:?}");
}

/// Of each column's candidates the one that tells the selection set best is in the table; models of a part are gathered, too.
#[test]
fn a_search_is_decided_by_the_selection_set() {
    let folder = TempDir::new().unwrap();
    let (out, data, file) = (folder.path().join("out"), folder.path().join("data"), folder.path().join("mine.toml"));
    crate::made_up_mnist::write(&data.join("mnist"));
    let printed = nae_train().args(["reproduce", "mnist-methods", "--print"]).output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    std::fs::write(&file, replaced(&text, "[2, 4, 8, 16, 32, 64, 128, 256]", "[2, 16]")).unwrap();
    let settings = file.to_str().unwrap();
    let search = |out: &Path, cells: &str| {
        let extra = ["--search", "--settings", settings, "--cells", cells, "--seeds", "2", "--json"];
        let output = detection("mnist-methods", out, &data, &extra);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let result = search(&out, "nae-cd-1,vae-1");
    let models = lines(&out.join("cells.jsonl"));
    assert_eq!(models.len(), 2 * 2 * 2, "cells, candidates, seeds");
    let mean = |candidate: &str, value: &dyn Fn(&serde_json::Value) -> f64| {
        let values: Vec<f64> = models.iter().filter(|model| model["cell"] == candidate).map(value).collect();
        assert_eq!(values.len(), 2);
        values.iter().sum::<f64>() / 2.0
    };
    for (cell, columns) in [("nae-cd-1", ["autoencoder", "nae"]), ("vae-1", ["vae_reconstruction", "vae_likelihood"])] {
        let row = result["rows"].as_array().unwrap().iter().find(|row| row["cell"] == cell).unwrap();
        assert_eq!(row["seeds"], 2);
        for column in columns {
            let candidates = [2, 16].map(|latent_dim| format!("{cell}+latent_dim={latent_dim}"));
            let [two, sixteen] = candidates
                .each_ref()
                .map(|name| mean(name, &|model| model["selection_auroc"][column].as_f64().unwrap()));
            let best = &candidates[usize::from(sixteen > two)];
            assert_eq!(row[column]["chosen"], **best, "{column}: {two} {sixteen}");
            let auroc = |model: &serde_json::Value| {
                model["auroc"]["rows"][0]["figures"][column]["auroc"]["value"].as_f64().unwrap()
            };
            let (found, expected) = (row[column]["ours"]["mean"].as_f64().unwrap(), mean(best, &auroc));
            assert!((found - expected).abs() < 1e-12, "{column}: {found} {expected}");
        }
    }
    // What the selection set said of the state that was kept, and of the autoencoder before.
    let model = models.iter().find(|model| model["cell"] == "nae-cd-1+latent_dim=16" && model["seed"] == 1).unwrap();
    let looks = lines(&out.join("nae-cd-1+latent_dim=16-1/metrics.jsonl"));
    for (column, update) in [("autoencoder", &serde_json::json!(0)), ("nae", &model["kept_update"])] {
        let look = looks.iter().find(|line| line["kind"] == "look" && line["update"] == *update).unwrap();
        assert_eq!(model["selection_auroc"][column], look["selection_auroc"], "{column}");
    }

    // A cell of which a candidate is missing does not count; from several folders it is whole.
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let partly = search(&one, "nae-cd-1+latent_dim=2");
    let row = partly["rows"].as_array().unwrap().iter().find(|row| row["cell"] == "nae-cd-1").unwrap();
    assert_eq!((&row["seeds"], &row["nae"]["ours"]), (&0.into(), &serde_json::Value::Null));
    search(&other, "nae-cd-1+latent_dim=16");
    let gathered = nae_train().args(["gather", "--json"]).args([&one, &other]).output().unwrap();
    assert!(gathered.status.success(), "{gathered:?}");
    let gathered: serde_json::Value = serde_json::from_slice(&gathered.stdout).unwrap();
    let row = |result: &serde_json::Value| {
        result["rows"].as_array().unwrap().iter().find(|row| row["cell"] == "nae-cd-1").unwrap().clone()
    };
    assert_eq!(row(&gathered), row(&result));
    let table = String::from_utf8(nae_train().arg("gather").args([&one, &other]).output().unwrap().stdout).unwrap();
    assert!(table.contains(" (latent_dim=") && table.contains("In brackets what was chosen"), "{table}");

    // Models of a search and others are not mixed.
    let extra = ["--settings", settings, "--cells", "vae-1"];
    let message = String::from_utf8(detection("mnist-methods", &one, &data, &extra).stderr).unwrap();
    assert!(message.contains("with candidates, and this is without candidates"), "{message}");
    let message =
        String::from_utf8(detection("mnist-ood", &folder.path().join("ood"), &data, &["--search"]).stderr).unwrap();
    assert!(message.contains("no cell has values to search"), "{message}");
}
