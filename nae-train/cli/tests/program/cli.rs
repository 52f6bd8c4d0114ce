//! The program as a user meets it: one short run and everything around it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::changed::{few_images, preset, preset_like, replaced};
use crate::harness::{auroc_by_pairs, interrupted_at, nae_train, refused, run};
use burn::tensor::Device;
use nae_core::verdict::Verdict;
use nae_data::own::Corrupt;
use nae_infer::{BackendKind, Detector};
use nae_train::export::positive;
use nae_train::methods;
use nae_train::report::{CHECKPOINT, RunFolder};
use nae_train::run::Prepared;
use nae_train::tensors::Batches as _;
use tempfile::TempDir;

/// Seconds, not minutes.
fn short(folder: &Path) -> PathBuf {
    preset(folder, "short.toml", shortened)
}

fn shortened(text: String) -> String {
    let text = replaced(&few_images(&text), "epochs = 600", "epochs = 2");
    let text = replaced(&text, "updates = 1500", "updates = 4");
    replaced(&text, "every = 20", "every = 2") + SMALL
}

/// Of the methods whose networks are their own, and of those that draw many samples an image.
const SMALL: &str = "
[baselines]
vae = { samples = 2 }
igebm = { width = 4, steps = 2 }
glow = { steps = 2, hidden_channels = 4 }
pixelcnn = { blocks = 1, filters = 4 }
";

fn train(folder: &Path, name: &str, preset: &Path, extra: &[&str]) -> Command {
    crate::harness::train(folder, name, "--preset", preset, extra)
}

#[test]
fn a_run_leaves_a_model_a_report_and_a_folder_to_export_from() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let short = short(path);
    let parts = path.join("parts");
    let output = run(train(path, "one", &short, &["--json"]).arg("--export-parts").arg(&parts));
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["auroc"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[0]["outliers"], "digit 1 (held out)");
    assert_eq!(rows[4]["selection"], true);
    let run_folder = path.join("one");
    let auroc = auroc_by_pairs(&run_folder)[0];
    assert!((rows[0]["nae"].as_f64().unwrap() - auroc).abs() < PAIRS, "{auroc}, {}", rows[0]);
    assert!(parts.join("encoder.onnx").exists() && parts.join("decoder.onnx").exists());

    for name in [
        "config.toml",
        "metrics.jsonl",
        "events.out.tfevents.nae",
        "report.md",
        "energies.svg",
        "report.html",
        "checkpoint.safetensors",
        "autoencoder.safetensors",
    ] {
        assert!(run_folder.join(name).exists(), "{name}");
    }
    let metrics = std::fs::read_to_string(run_folder.join("metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().filter(|line| line["kind"] == "step").count(), 2 + 4);
    assert_eq!(lines.iter().filter(|line| line["kind"] == "look").count(), 1 + 2, "one before the first update");

    // The folder gives the same model again, and so does the same seed, on one processor too.
    let model = std::fs::read(path.join("one.onnx")).unwrap();
    let again = path.join("again.onnx");
    assert!(run(nae_train().arg("export").arg(&run_folder).arg("--export").arg(&again)).status.success());
    assert_eq!(std::fs::read(&again).unwrap(), model);
    assert!(run(&mut train(path, "two", &short, &["--quiet"])).status.success());
    assert_eq!(std::fs::read(path.join("two.onnx")).unwrap(), model);
    assert!(run(&mut train(path, "three", &short, &["--quiet", "--seed", "1"])).status.success());
    assert_ne!(std::fs::read(path.join("three.onnx")).unwrap(), model);
    let mut one_processor = Command::new("taskset");
    let command = train(path, "four", &short, &["--quiet"]);
    one_processor.args(["-c", "0"]).arg(command.get_program()).args(command.get_args());
    match one_processor.output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            assert_eq!(std::fs::read(path.join("four.onnx")).unwrap(), model);
        }
        Err(error) => println!("one processor: skipped, taskset does not run: {error}"),
    }

    let nae = path.join("one.nae");
    let output = run(nae_train().arg("deploy").arg(path.join("one.onnx")).arg("-o").arg(&nae));
    assert!(output.status.success(), "{output:?}");
    let [from_onnx, from_nae] = [path.join("one.onnx"), nae].map(|file| Detector::open(file).unwrap());
    assert_eq!(from_nae.threshold(), from_onnx.threshold());
    let images: Vec<f32> = (0..3 * 256).map(|k| (k * k % 97) as f32 / 96.0).collect();
    let energies =
        |detector: &Detector| detector.score_prepared(&images).unwrap().iter().map(|s| s.energy).collect::<Vec<_>>();
    for (of_nae, of_onnx) in energies(&from_nae).iter().zip(energies(&from_onnx)) {
        assert!((of_nae / of_onnx - 1.0).abs() < 1e-5, "{of_nae}, {of_onnx}");
    }
}

#[test]
fn both_engines_end_alike() {
    let folder = TempDir::new().unwrap();
    let short = short(folder.path());
    let result = |engine| -> serde_json::Value {
        let output = run(&mut train(folder.path(), engine, &short, &["--json", "--engine", engine]));
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (cpu, burn) = (result("cpu"), result("burn"));
    for key in ["autoencoder_energy", "nae_energy"] {
        let (c, b) = (cpu["auroc"][key].as_f64().unwrap(), burn["auroc"][key].as_f64().unwrap());
        assert!((c - b).abs() < 1e-3 * b, "{key}: {c} {b}");
    }
}

/// Of an AUROC: some forty thousand pairs, of which a few may change sides by rounding.
const PAIRS: f64 = 1e-4;

/// A method's columns of the held-out class are what its model in `folder` decides.
fn assert_row(method: &str, columns: &[&str], row: &serde_json::Value, folder: &Path) {
    let expected = auroc_by_pairs(folder);
    assert_eq!(expected.len(), columns.len(), "{method}");
    for (column, expected) in columns.iter().zip(expected) {
        let found = row[column].as_f64().unwrap();
        assert!((found - expected).abs() < PAIRS, "{method}, {column}: {found}, by pairs {expected}");
    }
}

/// The file `model` of the run in `folder` has the energies and verdicts that burn's networks have, by every backend of this
/// build.
fn assert_exported_decides(method: &str, folder: &Path, model: &Path) {
    let device = Device::flex();
    let (config, seed) = RunFolder::read(folder).unwrap();
    let own = methods::load(&config, &folder.join(CHECKPOINT), &device).unwrap();
    let prepared = Prepared::new(config, seed, None, Corrupt::Refuse).unwrap();
    let threshold = prepared.calibrate(&*own, &device).unwrap().contract.threshold().unwrap().energy;
    let images = [&prepared.split.test, &prepared.split.held_out];
    for backend in [BackendKind::Simd, BackendKind::Tract].into_iter().filter(|kind| kind.is_built_in()) {
        let detector = Detector::builder().backend(backend).open(model).unwrap();
        for set in images {
            let all: Vec<usize> = (0..set.len()).collect();
            let energies = own.decide(own.decisions()[0], set.batch(&all, &device)).into_data();
            let values: Vec<f32> = all.iter().flat_map(|&index| set.image(index)).copied().collect();
            for (energy, scored) in energies.iter::<f32>().zip(detector.score_prepared(&values).unwrap()) {
                let expected = if matches!(method, "igebm" | "mpdr") { positive(energy) } else { energy };
                let found = scored.energy;
                assert!((found - expected).abs() <= 1e-4 * expected, "{method} by {backend:?}: {found}, {expected}");
                if (energy - threshold).abs() > 1e-4 * threshold.abs() {
                    assert_eq!(scored.verdict, Some(Verdict::of(energy, threshold)), "{method} by {backend:?}");
                }
            }
        }
    }
}

/// The other methods share data, loop, run folder, table and export; each is reproducible, and its folder gives the
/// same model again.
#[test]
fn every_method_trains_and_exports() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let short = short(path);
    for (method, columns) in [
        ("ae", &["autoencoder"][..]),
        ("dae", &["dae"]),
        ("vae", &["vae_reconstruction", "vae_likelihood"]),
        ("wae", &["wae"]),
        ("mahalanobis", &["mahalanobis"]),
        ("knn", &["nearest_neighbours"]),
        ("vqvae", &["vqvae"]),
        ("dagmm", &["dagmm"]),
        ("ganomaly", &["ganomaly"]),
        ("igebm", &["igebm"]),
        ("mpdr", &["mpdr"]),
        ("glow", &["glow"]),
        ("pixelcnn", &["pixelcnn"]),
    ] {
        let without_export = matches!(method, "dagmm" | "glow" | "pixelcnn");
        if without_export {
            let message = refused(&mut train(path, method, &short, &["--method", method]));
            assert!(message.contains(&format!("a model trained by `{method}` is not exported")), "{message}");
            assert!(!path.join(method).exists(), "refused before anything is trained");
            let run_twice = [method.to_owned(), format!("{method}-2")].map(|name| {
                let mut command = nae_train();
                command.arg("--preset").arg(&short).args(["--json", "--method", method, "--out"]).arg(path.join(name));
                let output = run(&mut command);
                assert!(output.status.success(), "{output:?}");
                let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(result["method"], method);
                result["auroc"].clone()
            });
            assert_eq!(run_twice[0], run_twice[1], "{method}");
            assert_row(method, columns, &run_twice[0]["rows"][0], &path.join(method));
            let evaluated = run(nae_train().arg("eval").arg(path.join(method)).arg("--json"));
            assert!(evaluated.status.success(), "{evaluated:?}");
            continue;
        }
        let output = run(&mut train(path, method, &short, &["--json", "--method", method]));
        assert!(output.status.success(), "{output:?}");
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["method"], method);
        assert_row(method, columns, &result["auroc"]["rows"][0], &path.join(method));
        assert_exported_decides(method, &path.join(method), &path.join(format!("{method}.onnx")));
        let model = std::fs::read(path.join(format!("{method}.onnx"))).unwrap();
        let again = path.join("again.onnx");
        assert!(run(nae_train().arg("export").arg(path.join(method)).arg("--export").arg(&again)).status.success());
        assert_eq!(std::fs::read(&again).unwrap(), model, "{method}");
        let twice = format!("{method}-2");
        assert!(run(&mut train(path, &twice, &short, &["--quiet", "--method", method])).status.success());
        assert_eq!(std::fs::read(path.join(format!("{twice}.onnx"))).unwrap(), model, "{method}");
    }
    // A latent of several codes, whose places a file has to make and join again.
    let codes = path.join("codes.toml");
    let text = std::fs::read_to_string(&short).unwrap();
    std::fs::write(&codes, replaced(&text, "[baselines]", "[baselines]\nvqvae = { codes = 16, parts = 4 }")).unwrap();
    assert!(run(&mut train(path, "codes", &codes, &["--quiet", "--method", "vqvae"])).status.success());
    assert_exported_decides("vqvae", &path.join("codes"), &path.join("codes.onnx"));
    let picture = path.join("codes.png");
    assert!(run(nae_train().arg("reconstruct").arg(path.join("codes")).arg("-o").arg(&picture)).status.success());
    let message = refused(nae_train().arg("reconstruct").arg(path.join("ganomaly")).arg("-o").arg(&picture));
    assert!(message.contains("GANomaly scores by no reconstruction"), "{message}");

    // It is a warning of reconstructions, also of GANomaly's, which decides by something else.
    for method in ["ae", "glow", "ganomaly"] {
        let report = std::fs::read_to_string(path.join(method).join("report.md")).unwrap();
        assert_eq!(report.contains("no better than their mean does"), method != "glow", "{method}");
    }
    let message = refused(&mut train(path, "no", &short, &["--method", "ganomaly", "--export-parts", "no"]));
    assert!(
        message.contains("--export-parts: encoder and decoder alone are not what a model of `ganomaly`"),
        "{message}"
    );
    // A checkpoint of one method is not taken for another's.
    let config = path.join("vae/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, replaced(&text, "method = \"vae\"", "method = \"nae\"")).unwrap();
    let message = refused(nae_train().arg("export").arg(path.join("vae")).arg("--export").arg(path.join("no.onnx")));
    assert!(message.contains("checkpoint.safetensors: the checkpoint cannot be read: it is not of"), "{message}");
    assert!(message.contains(" weights missing, 0 of another shape"), "{message}");
}

/// On-manifold initialization with a replay buffer, which the second update draws from; the engines draw the same
/// chains.
#[test]
fn the_papers_chains_run_on_both_engines() {
    let folder = TempDir::new().unwrap();
    let omi = preset_like("digits-omi", folder.path(), "omi.toml", |text| {
        let text = replaced(&shortened(text), "updates = 4", "updates = 2");
        replaced(&text, "batch_size = 64\nlearning_rate = 1e-4", "batch_size = 32\nlearning_rate = 1e-4")
    });
    let negatives = |engine| -> Vec<f64> {
        assert!(run(&mut train(folder.path(), engine, &omi, &["--quiet", "--engine", engine])).status.success());
        let metrics = std::fs::read_to_string(folder.path().join(engine).join("metrics.jsonl")).unwrap();
        let lines = metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["kind"] == "step").filter_map(|line| line["negative_energy"].as_f64()).collect()
    };
    let (cpu, burn) = (negatives("cpu"), negatives("burn"));
    assert_eq!(cpu.len(), 2);
    for (c, b) in cpu.iter().zip(&burn) {
        assert!((c - b).abs() < 1e-2 * b, "{cpu:?} {burn:?}");
    }
}

#[test]
fn data_in_files_is_found_named_and_recorded() {
    let folder = TempDir::new().unwrap();
    let short = preset_like("mnist-holdout", folder.path(), "mnist.toml", |text| {
        let text = replaced(&text, "kind = \"conv28\"", "kind = \"conv28\"\nwidth = 2");
        let text = replaced(&text, "epochs = 100", "epochs = 1");
        let text = replaced(&text, "updates = 19000", "updates = 2");
        let text = replaced(&text, "every = 380", "every = 1");
        let text = replaced(&text, "calibration = 0.02", "calibration = 0.4");
        replaced(&text, "steps = 50", "steps = 2")
    });
    let data = folder.path().join("mnist");
    std::fs::create_dir(&data).unwrap();
    let message = refused(&mut train(folder.path(), "none", &short, &["--quiet"]));
    assert!(message.contains("--data") && message.contains("NAE_DATA"), "{message}");
    let given = ["--json", "--data", data.to_str().unwrap()];
    let message = refused(&mut train(folder.path(), "none", &short, &given));
    assert!(message.contains("train-images-idx3-ubyte"), "{message}");

    crate::made_up_mnist::write(&data);
    let output = run(&mut train(folder.path(), "one", &short, &given));
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["auroc"]["rows"].as_array().unwrap();
    assert_eq!(rows[0]["outliers"], "digit 9 (held out)");
    assert_eq!((&rows[0]["count"], &result["auroc"]["normal_count"]), (&6.into(), &54.into()), "the test files");

    // The folder that holds the sets by their names does as well, and for export too.
    let again = folder.path().join("again.onnx");
    let export = |command: &mut Command| {
        command.arg(folder.path().join("one")).arg("--export").arg(&again);
        let output = run(command);
        assert!(output.status.success(), "{output:?}");
        let exported = std::fs::read(&again).unwrap();
        std::fs::remove_file(&again).unwrap();
        exported
    };
    let model = std::fs::read(folder.path().join("one.onnx")).unwrap();
    assert_eq!(export(nae_train().arg("export").env("NAE_DATA", folder.path())), model);
    assert_eq!(export(nae_train().args(["export", "--data"]).arg(folder.path())), model);
}

/// An energy that the CPU engine does not have is refused by its name where the engine is asked for; a dense network
/// trains with it, and deploys like any other.
#[test]
fn a_dense_network_trains_by_the_cpu_engine() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let dense = |name: &str, energy: &str| {
        preset(path, name, |text| {
            let kind = "kind = \"dense\"\nimage = [1, 16, 16]\nwidths = [32]\noutput = \"sigmoid\"";
            let text = replaced(&shortened(text), "kind = \"small_conv16\"\nwidth = 8", kind);
            replaced(&text, "name = \"digits\"", &format!("name = \"digits\"\n{energy}"))
        })
    };
    let ssim = dense("ssim.toml", "energy = \"ssim\"");
    let message = refused(&mut train(path, "ssim", &ssim, &["--engine", "cpu"]));
    assert!(message.contains("the energy ssim"), "{message}");
    assert!(!path.join("ssim").exists());
    let output = run(&mut train(path, "run", &dense("dense.toml", ""), &["--quiet", "--engine", "cpu"]));
    assert!(output.status.success(), "{output:?}");
    let deployed = path.join("run.nae");
    let output = run(nae_train().arg("deploy").arg(path.join("run.onnx")).arg("-o").arg(&deployed));
    assert!(output.status.success() && deployed.exists(), "{output:?}");

    let other = preset(path, "conv28.toml", |text| replaced(&text, "small_conv16", "conv28"));
    let message = refused(nae_train().arg("--preset").arg(&other));
    assert!(message.contains("architecture.kind") && message.contains("1x28x28"), "{message}");
}

/// The advice has to be a command that works.
#[cfg(unix)]
#[test]
fn an_interrupted_run_whose_model_is_not_exported_is_only_continued() {
    let folder = TempDir::new().unwrap();
    let run_folder = folder.path().join("run");
    let mut command = nae_train();
    command
        .args(["--method", "dagmm", "--checkpoint-every", "10ms", "--out"])
        .arg(&run_folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let said = interrupted_at(command.spawn().unwrap(), &run_folder.join("resume.bin"));
    assert!(said.contains("Continue it: nae-train --resume") && !said.contains("xport"), "{said}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_can_be_exported() {
    let folder = TempDir::new().unwrap();
    let long = preset(folder.path(), "long.toml", |text| replaced(&text, "epochs = 600", "epochs = 1"));
    let mut command = train(folder.path(), "run", &long, &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let checkpoint = folder.path().join("run/checkpoint.safetensors");
    let said = interrupted_at(child, &checkpoint);
    assert!(said.contains("nae-train export"), "{said}");
    assert!(!folder.path().join("run.onnx").exists());

    let model = folder.path().join("model.onnx");
    let broken = folder.path().join("run");
    let output = run(nae_train().arg("export").arg(&broken).arg("--export").arg(&model));
    assert!(output.status.success() && model.exists(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("model: {}\n", model.display()));
    // It is an autoencoder that was not trained to its end, and neither the model nor its figures show that.
    let warning = "/run: the run was interrupted after";
    assert!(String::from_utf8(output.stderr).unwrap().contains(warning));
    let output = run(nae_train().arg("eval").arg(&broken));
    assert!(
        output.status.success() && String::from_utf8(output.stderr.clone()).unwrap().contains(warning),
        "{output:?}"
    );
    let message = refused(nae_train().arg("gather").arg(&broken));
    assert!(message.contains("/run: the run has not ended"), "{message}");
}

#[test]
fn a_comparison_that_is_not_written_is_printed_also_if_quiet() {
    let folder = TempDir::new().unwrap();
    let short = short(folder.path());
    let output = run(nae_train()
        .args(["compare", "--seeds", "1", "--held-out", "1", "--latent-dims", "8", "-q", "--preset"])
        .arg(short));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && printed.contains("digit 1") && output.stderr.is_empty(), "{printed}");
}

#[test]
fn bad_input_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let message = refused(nae_train().args(["--preset", "digts"]));
    assert!(message.contains("`digts`") && message.contains("digits-omi"), "{message}");
    let message = refused(nae_train().args(["--preset", "absent.toml"]));
    assert!(message.contains("absent.toml"), "{message}");
    let bad = preset(path, "key.toml", |text| replaced(&text, "temperature", "temprature"));
    let message = refused(nae_train().arg("--preset").arg(&bad));
    assert!(message.contains("key.toml") && message.contains("temprature"), "{message}");
    let bad = preset(path, "nan.toml", |text| replaced(&text, "temperature = 1.0", "temperature = nan"));
    let message = refused(nae_train().arg("--preset").arg(&bad));
    assert!(message.contains("sampler.temperature") && message.contains("NaN"), "{message}");
    let message = refused(nae_train().args(["--held-out", "10"]));
    assert!(message.contains("held-out") && message.contains("10"), "{message}");

    // What takes hours is not done twice, and does not end in a file that cannot be written, or in that of its preset.
    for (option, values) in [("--held-out", "1,9,1"), ("--latent-dims", "8,16,8")] {
        let message = refused(nae_train().args(["compare", option, values]));
        assert!(message.contains(&format!("{option}: ")) && message.contains("is there twice"), "{message}");
    }
    let short = short(path);
    for output in [path, &short, &path.join("absent/result.json")] {
        let message = refused(nae_train().args(["compare", "--preset"]).arg(&short).arg("-o").arg(output));
        assert!(message.contains(output.file_name().unwrap().to_str().unwrap()), "{message}");
    }
    let printed = run(nae_train().arg("presets").arg(&short));
    assert_eq!(printed.stdout, std::fs::read(&short).unwrap());
    for command in ["sample", "reconstruct"] {
        let message = refused(nae_train().arg(command).arg(path).args(["--output", "a.png"]));
        assert!(message.contains("expected the folder of a run, found no config.toml"), "{command}: {message}");
    }

    // Nowhere to put the model: said before training, not after.
    let absent = path.join("absent/model.onnx");
    let message = refused(nae_train().arg("--export").arg(&absent).arg("--out").arg(path.join("run")));
    assert!(message.contains("absent"), "{message}");
    assert!(!path.join("run").exists());

    // A run folder that is none, and a checkpoint of another network.
    let message = refused(nae_train().arg("export").arg(path).args(["--export", "m.onnx"]));
    assert!(message.contains("config.toml"), "{message}");
    assert!(run(&mut train(path, "run", &short, &["--quiet"])).status.success());
    let config = path.join("run/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, replaced(&text, "latent_dim = 32", "latent_dim = 16")).unwrap();
    let target = path.join("other.onnx");
    let message = refused(nae_train().arg("export").arg(path.join("run")).arg("--export").arg(&target));
    assert!(message.contains("checkpoint.safetensors") && !target.exists(), "{message}");
    assert!(message.contains(": 0 weights missing, ") && message.ends_with(" of another shape\n"), "{message}");
}

#[test]
fn damaged_models_are_not_deployed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let short = short(path);
    assert!(run(&mut train(path, "run", &short, &["--quiet"])).status.success());
    let whole = std::fs::read(path.join("run.onnx")).unwrap();
    let (model, target) = (path.join("damaged.onnx"), path.join("damaged.nae"));
    let weight = whole.len() / 2;
    let mut not_a_number = whole.clone();
    not_a_number[weight..weight + 8].fill(0xff);
    for damaged in [&whole[..whole.len() / 2], &whole[..10], &[], b"not a model", &not_a_number] {
        std::fs::write(&model, damaged).unwrap();
        let message = refused(nae_train().arg("deploy").arg(&model).arg("-o").arg(&target));
        assert!(message.contains("damaged.onnx"), "{message}");
        assert!(!target.exists());
    }
    let message = refused(nae_train().args(["deploy", "absent.onnx", "-o"]).arg(&target));
    assert!(message.contains("absent.onnx"), "{message}");
}

#[test]
fn training_is_a_command_too_and_says_what_it_does_where_it_is_asked_to() {
    let folder = TempDir::new().unwrap();
    let short = short(folder.path());
    let mut command = nae_train();
    command.args(["train", "-v", "--out"]).arg(folder.path().join("run")).arg("--preset").arg(&short);
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    // What standard error is, a file or a pipe, has no colours.
    assert!(!said.contains('\u{1b}'), "{said}");
    for (expected, how_often) in [
        ("data divided", 1),
        ("begins phase=Pretraining done=0 total=2", 1),
        ("ends phase=Normalizing done=4", 1),
        ("look update=", 2),
    ] {
        assert_eq!(said.matches(expected).count(), how_often, "{expected}: {said}");
    }
    let quiet = run(train(folder.path(), "quiet", &short, &["-q"]).env("RUST_LOG", ""));
    assert!(quiet.status.success() && quiet.stdout.is_empty() && quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn completions_and_man_pages_know_the_commands() {
    let folder = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(nae_train().args(["completions", shell]));
        assert!(
            output.status.success() && String::from_utf8_lossy(&output.stdout).contains("stopping-study"),
            "{output:?}"
        );
    }
    let pages = folder.path().join("man1");
    assert!(run(nae_train().arg("man").arg(&pages)).status.success());
    let page = std::fs::read_to_string(pages.join("nae-train-compare.1")).unwrap();
    // Options start with "\-\-" in a page's source.
    assert!(page.contains("held\\-out") && page.contains("threads"), "{page}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let said = refused(nae_train().arg("man").arg(&file));
    assert!(said.contains(&format!("cannot write man pages to {}", file.display())), "{said}");
}

/// As they are typed.
#[test]
fn defaults_of_lists_are_shown_with_commas() {
    let output = run(nae_train().args(["compare", "--help"]));
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("[default: 1,9]") && help.contains("[default: 8,16,32,64]"), "{help}");
}
