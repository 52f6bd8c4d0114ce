//! The paper's illustrations as a user makes them, at the scale of seconds.

use std::path::Path;

use nae_infer::image;
use tempfile::TempDir;

use crate::harness::{nae_train, refused};

fn reproduce(name: &str, out: &Path, data: Option<&Path>) -> serde_json::Value {
    let mut command = nae_train();
    command.args(["reproduce", name, "--scale", "smoke", "--json", "--quiet", "--out"]).arg(out);
    if let Some(data) = data {
        command.arg("--data").arg(data);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = std::fs::read_to_string(out.join("result.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&file).unwrap(), result);
    assert_eq!((&result["experiment"], &result["work"]), (&name.into(), &"seconds".into()));
    result["figures"].clone()
}

/// The same of MNIST's stand-in; pictures are in the folder.
fn of_made_up_mnist(name: &str) -> (TempDir, serde_json::Value) {
    let (data, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    crate::made_up_mnist::write(&data.path().join("mnist"));
    let figures = reproduce(name, out.path(), Some(data.path()));
    (out, figures)
}

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn on_manifold_starts_have_lower_energies_than_data_in_a_fresh_model() {
    let (out, figures) = of_made_up_mnist("random-init");
    let energy = |name: &str| number(&figures["mean_energy"][name]);
    assert!(energy("on_manifold") < energy("contrastive_divergence"), "{figures}");
    assert!(energy("on_manifold") < energy("data"), "{figures}");
    // The network makes of every latent what it makes of its reconstruction; the noise of the last chain costs a little.
    assert!(
        energy("decoded_noise") < 1e-3 * energy("data") && energy("on_manifold") < 1e-3 * energy("data"),
        "{figures}"
    );
    assert!(energy("on_manifold_sample") < 0.1 * energy("contrastive_divergence"), "{figures}");
    assert!(energy("contrastive_divergence") < 0.95 * energy("data"), "the chain goes downhill: {figures}");
    // Five rows of ten images, enlarged twice.
    let picture = image::open(out.path().join("samples.png")).unwrap();
    assert_eq!((picture.width(), picture.height()), (10 * 58 - 2, 5 * 58 - 2));
}

#[test]
fn training_leaves_samples_and_reconstructions() {
    let (out, figures) = of_made_up_mnist("along-training");
    let looks = figures["looks"].as_array().unwrap();
    assert_eq!(looks[0]["update"], 0);
    assert!(looks.len() >= 2 && looks.iter().all(|look| number(&look["sample_energy"]) > 0.0), "{figures}");
    assert_eq!(figures["auroc"]["rows"][0]["outliers"], "digit 9 (held out)");
    let samples = image::open(out.path().join("samples.png")).unwrap();
    let shown = figures["shown_updates"].as_array().unwrap().len() as u32;
    assert_eq!((samples.width(), samples.height()), (10 * 58 - 2, shown * 58 - 2));
    let reconstructions = image::open(out.path().join("reconstructions.png")).unwrap();
    // Of the made-up test images, six are of the digit held out.
    assert_eq!((reconstructions.width(), reconstructions.height()), (6 * 58 - 2, 6 * 58 - 2));
}

#[test]
fn reconstruction_errors_have_a_row_for_each_latent_dimension() {
    let (out, figures) = of_made_up_mnist("reconstruction-error");
    let rows = figures["rows"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| row["latent_dim"].as_u64().unwrap()).collect::<Vec<_>>(),
        [2, 4, 8, 16, 32, 64, 128, 256]
    );
    for row in rows {
        let [low, mean, high] = [0, 1, 2].map(|at| number(&row["held_out"][at]));
        assert!(low <= high && mean > 0.0, "{row}");
    }
    assert!(std::fs::read_to_string(out.path().join("errors.svg")).unwrap().contains("AUROC, 9 against the rest"));
}

#[test]
fn two_clusters_are_drawn_under_both_models() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let figures = reproduce("bimodal", &out, None);
    for model in ["autoencoder", "nae"] {
        assert!((0.0..=1.0).contains(&number(&figures["models"][model]["auroc"])), "{figures}");
    }
    let picture = std::fs::read_to_string(out.join("clusters.svg")).unwrap();
    assert!(picture.contains("NAE, decoder as it was") && picture.contains("<polyline"), "{picture}");

    let said = refused(nae_train().args(["reproduce", "bimodal", "--cells", "x"]));
    assert!(said.contains("neither cells nor"), "{said}");
    let said = refused(nae_train().args(["reproduce", "random-init", "--scale", "smoke", "--quiet"]));
    assert!(said.contains("--data"), "{said}");
}
