//! Standard output and standard error that cannot be written.

use std::fs::{self, File};
use std::process::Command;

use tempfile::TempDir;

use crate::changed::{few_images, preset, replaced};
use crate::harness::{nae_train, refused, run};

/// A file that is always full.
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

fn quick(folder: &TempDir, name: &str, extra: &[&str]) -> Command {
    let quick = preset(folder.path(), "quick.toml", |text| {
        let text = replaced(&few_images(&text), "epochs = 600", "epochs = 1");
        let text = replaced(&text, "updates = 1500", "updates = 2");
        replaced(&text, "every = 20", "every = 2")
    });
    crate::harness::train(folder.path(), name, "--preset", &quick, extra)
}

#[test]
fn a_full_disk_is_an_error_of_the_command() {
    let message = refused(nae_train().args(["presets", "digits"]).stdout(full()));
    assert!(message.starts_with("error: cannot write to standard output: "), "{message}");
    // The model was written before.
    let folder = TempDir::new().unwrap();
    let message = refused(quick(&folder, "one", &[]).stdout(full()));
    assert!(message.contains("error: cannot write to standard output: "), "{message}");
    assert!(fs::metadata(folder.path().join("one.onnx")).unwrap().len() > 0);
}

#[test]
fn what_cannot_be_shown_stops_nothing() {
    let folder = TempDir::new().unwrap();
    assert!(run(quick(&folder, "one", &[]).stderr(full())).status.success());
    assert!(run(quick(&folder, "two", &["--quiet"]).stderr(full())).status.success());
    let gone = || std::io::pipe().unwrap().1;
    for command in [nae_train().args(["presets", "digits"]), &mut quick(&folder, "three", &[])] {
        let output = run(command.stdout(gone()));
        assert!(output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("panic"), "{output:?}");
    }
    assert!(folder.path().join("three.onnx").exists());
}
