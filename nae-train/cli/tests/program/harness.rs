//! The built program, for tests that meet it as a user does.

use std::cmp::Ordering;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use burn::tensor::Device;
use nae_data::ImageSet;
use nae_data::own::Corrupt;
use nae_train::methods;
use nae_train::report::{CHECKPOINT, RunFolder};
use nae_train::run::Prepared;
use nae_train::tensors::Batches as _;

pub(crate) fn nae_train() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nae-train"));
    // Data that happen to be on the machine change nothing.
    command.env_remove("NAE_DATA");
    command
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Runs it, expects failure, and returns what it said.
pub(crate) fn refused(command: &mut Command) -> String {
    let output = run(command);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A run with `option`, `--preset` or `--data`, and its path; folder and model are called `name`.
pub(crate) fn train(folder: &Path, name: &str, option: &str, path: &Path, extra: &[&str]) -> Command {
    let mut command = nae_train();
    command.arg(option).arg(path).arg("--out").arg(folder.join(name)).args(extra);
    command.arg("--export").arg(folder.join(format!("{name}.onnx")));
    command
}

/// Trains `two` in `folder` by what the run `one` recorded, on the same data, and expects the same model.
pub(crate) fn assert_made_again(folder: &Path, data: &Path) {
    let config = folder.join("one/config.toml");
    let again = ["--quiet", "--preset", config.to_str().unwrap()];
    assert!(run(&mut train(folder, "two", "--data", data, &again)).status.success());
    let model = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(model("two.onnx") == model("one.onnx"));
}

/// AUROC of the held-out class against the normal test images, a value for each way in which the model decides that the run
/// in `folder` left: images are decided by burn's networks, and every pair is counted.
pub(crate) fn auroc_by_pairs(folder: &Path) -> Vec<f64> {
    let device = Device::flex();
    let (config, seed) = RunFolder::read(folder).unwrap();
    let model = methods::load(&config, &folder.join(CHECKPOINT), &device).unwrap();
    let split = Prepared::new(config, seed, None, Corrupt::Refuse).unwrap().split;
    let of = |decision| {
        let scores = |set: &ImageSet| -> Vec<f32> {
            let all: Vec<usize> = (0..set.len()).collect();
            model.decide(decision, set.batch(&all, &device)).into_data().iter::<f32>().collect()
        };
        let (normal, outliers) = (scores(&split.test), scores(&split.held_out));
        let pairs = outliers.iter().flat_map(|outlier| normal.iter().map(move |normal| (outlier, normal)));
        let above = pairs.map(|(outlier, normal)| match outlier.partial_cmp(normal) {
            Some(Ordering::Greater) => 1.0,
            Some(Ordering::Equal) => 0.5,
            _ => 0.0,
        });
        above.sum::<f64>() / (normal.len() * outliers.len()) as f64
    };
    model.decisions().iter().map(|&decision| of(decision)).collect()
}

pub(crate) fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until `file` is there.
pub(crate) fn appears(file: &Path) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !file.exists() {
        assert!(Instant::now() < deadline, "no {} after two minutes", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ctrl-C once `file` is there; returns what the program said.
pub(crate) fn interrupted_at(child: Child, file: &Path) -> String {
    stopped_by("-INT", child, file)
}

/// The same by another signal.
pub(crate) fn stopped_by(signal: &str, child: Child, file: &Path) -> String {
    appears(file);
    assert!(run(Command::new("kill").arg(signal).arg(child.id().to_string())).status.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
