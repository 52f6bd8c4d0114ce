//! The built program, for tests that meet it as a user does.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

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

pub(crate) fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Ctrl-C once `file` is there; returns what the program said.
pub(crate) fn interrupted_at(child: Child, file: &Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !file.exists() {
        assert!(Instant::now() < deadline, "no {} after two minutes", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(run(Command::new("kill").arg("-INT").arg(child.id().to_string())).status.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
