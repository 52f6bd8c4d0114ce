//! The built program, for tests that meet it as a user does.

use std::path::Path;
use std::process::{Command, Output};

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
