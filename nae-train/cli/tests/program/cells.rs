//! Every cell of the experiments that other tests do not run as a whole, at the scale of seconds.

use std::path::Path;

use tempfile::TempDir;

use crate::harness::nae_train;

/// Runs all cells of the experiment `name` for one seed, and returns their rows.
fn rows(name: &str, folder: &Path) -> Vec<serde_json::Value> {
    let (out, data) = (folder.join(name), folder.join("data"));
    let mut command = nae_train();
    command
        .args(["reproduce", name, "--scale", "smoke", "--seeds", "1", "--json", "--out"])
        .arg(out)
        .arg("--data")
        .arg(data);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    result["rows"].as_array().unwrap().clone()
}

#[test]
fn every_cell_of_mnist_trains() {
    let folder = TempDir::new().unwrap();
    crate::made_up_mnist::write(&folder.path().join("data/mnist"));
    for name in ["mnist-holdout", "mnist-pretraining", "mnist-sampling", "mnist-latent-dim", "mnist-mpdr"] {
        let rows = rows(name, folder.path());
        assert!(rows.len() >= 6 && rows.iter().all(|row| row["seeds"] == 1), "{name}: {rows:?}");
    }
}

#[test]
fn every_cell_of_photographs_trains() {
    let folder = TempDir::new().unwrap();
    for (name, set, count) in [("cifar10-ood", "cifar10", 7), ("imagenet32-ood", "imagenet32", 6)] {
        crate::presets::write(&folder.path().join("data").join(set), name);
        let rows = rows(name, folder.path());
        let cells = |row: &&serde_json::Value| row["outliers"] == "uniform noise" && row["cell"] != "cifar10-jpeg";
        let rows: Vec<_> = rows.iter().filter(cells).collect();
        assert!(rows.len() == count && rows.iter().all(|row| row["seeds"] == 1), "{name}: {rows:?}");
    }
}
