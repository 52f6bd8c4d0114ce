//! Presets that come with the program, changed for a test.

use std::path::{Path, PathBuf};

use crate::harness::{nae_train, run};

/// The default preset with a change, as the file `name`.
pub(crate) fn preset(folder: &Path, name: &str, change: impl Fn(String) -> String) -> PathBuf {
    preset_like("digits", folder, name, change)
}

pub(crate) fn preset_like(base: &str, folder: &Path, name: &str, change: impl Fn(String) -> String) -> PathBuf {
    let output = run(nae_train().args(["presets", base]));
    let path = folder.join(name);
    std::fs::write(&path, change(String::from_utf8(output.stdout).unwrap())).unwrap();
    path
}

/// Trains on 162 images, three batches an epoch, and is measured on few: most are for looks, which cost least.
pub(crate) fn few_images(text: &str) -> String {
    let split = "{ validation = 0.1, calibration = 0.1, test = 0.2 }";
    let text = replaced(text, split, "{ validation = 0.65, calibration = 0.1, test = 0.15 }");
    text.replace("batch_size = 128", "batch_size = 64") + "\n[evaluation]\nsynthetic_images = 100\n"
}

pub(crate) fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in the preset");
    text.replacen(from, to, 1)
}
