//! The paper's illustrations as a user makes them, at the scale of seconds.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use nae_data::own::Corrupt;
use nae_infer::image;
use nae_lab::experiments::Scale;
use nae_lab::experiments::detection::{DetectionSettings, EXPERIMENTS};
use nae_lab::experiments::pictures::mnist_without_nine;
use nae_train::engine::Engine;
use nae_train::eval::auroc;
use nae_train::methods::{Decision, Model as _};
use nae_train::run::Prepared;
use nae_train::tensors::Batches as _;
use tempfile::TempDir;

use crate::changed::replaced;
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
    assert_eq!(result["experiment"], name);
    assert!(result["work"].as_str().unwrap().starts_with("seconds"), "{result}");
    result["figures"].clone()
}

/// The same of MNIST's stand-in; its data are in the folder `mnist` of the one that is returned, and pictures beside it.
fn of_made_up_mnist(name: &str) -> (TempDir, serde_json::Value) {
    let folder = TempDir::new().unwrap();
    crate::made_up_mnist::write(&folder.path().join("mnist"));
    let figures = reproduce(name, folder.path(), Some(folder.path()));
    (folder, figures)
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
    assert!(looks.len() >= 2, "{figures}");
    for look in looks {
        // What the latent chain ends at lies on the decoder's manifold, and what the visible one makes of it is noisier.
        let [manifold, sample] = ["on_manifold_energy", "sample_energy"].map(|key| number(&look[key]));
        assert!(0.0 < manifold && manifold < sample && sample < number(&look["validation_energy"]), "{look}");
    }
    assert_eq!(figures["auroc"]["rows"][0]["outliers"], "digit 9 (held out)");
    let samples = image::open(out.path().join("samples.png")).unwrap();
    let shown = figures["shown_updates"].as_array().unwrap().len() as u32;
    assert_eq!((samples.width(), samples.height()), (10 * 58 - 2, shown * 58 - 2));
    let reconstructions = image::open(out.path().join("reconstructions.png")).unwrap();
    // Of the made-up test images, six are of the digit held out. They are in the fourth row, above what the models make of
    // them, and the first six of ten of the others, evenly from all, in the first.
    assert_eq!((reconstructions.width(), reconstructions.height()), (6 * 58 - 2, 6 * 58 - 2));
    let config = mnist_without_nine(Scale::Smoke).unwrap();
    let split = Prepared::new(config, 0, Some(&out.path().join("mnist")), Corrupt::Refuse).unwrap().split;
    let shown = reconstructions.to_luma8();
    for (row, set) in [(0, &split.test), (3, &split.held_out)] {
        let chosen = set.len().min(10);
        for column in 0..6 {
            let image = set.image(column * set.len() / chosen);
            let (left, top) = (column as u32 * 58, row * 58);
            let is_shown = image.iter().enumerate().all(|(at, &value)| {
                let (x, y) = (at as u32 % 28, at as u32 / 28);
                shown.get_pixel(left + 2 * x, top + 2 * y).0[0] == (value * 255.0).round() as u8
            });
            assert!(is_shown, "row {row}, column {column}");
        }
    }
}

#[test]
fn reconstruction_errors_have_a_row_for_each_latent_dimension() {
    let (out, figures) = of_made_up_mnist("reconstruction-error");
    let rows = figures["rows"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| row["latent_dim"].as_u64().unwrap()).collect::<Vec<_>>(),
        [2, 4, 8, 16, 32, 64, 128, 256]
    );
    // Of each its tenth from below, its mean, and its tenth from above; of the smallest, trained again.
    let text = EXPERIMENTS.iter().find(|known| known.name == "mnist-latent-dim").unwrap().text;
    let settings = DetectionSettings::parse(text, "mnist-latent-dim", Scale::Smoke, false).unwrap();
    let mut configs = settings.cells.into_iter().map(|cell| cell.config);
    let config = configs.find(|config| config.architecture().latent_dim() == 2).unwrap();
    let prepared = Prepared::new(config, 0, Some(&out.path().join("mnist")), Corrupt::Refuse).unwrap();
    let device = Device::flex();
    let model = prepared.train_autoencoder(&prepared.config, Engine::Cpu, &device, &AtomicBool::new(false)).unwrap();
    let energies = [&prepared.split.test, &prepared.split.held_out].map(|set| {
        let all: Vec<usize> = (0..set.len()).collect();
        let energies = model.decide(Decision::Reconstruction, set.batch(&all, &device)).into_data();
        let mut energies: Vec<f32> = energies.iter::<f32>().collect();
        energies.sort_by(f32::total_cmp);
        energies
    });
    for (key, energies) in ["normal", "held_out"].iter().zip(&energies) {
        let at = |share: f64| f64::from(energies[(share * (energies.len() - 1) as f64).round() as usize]);
        let mean = energies.iter().map(|&energy| f64::from(energy)).sum::<f64>() / energies.len() as f64;
        for (k, expected) in [at(0.1), mean, at(0.9)].into_iter().enumerate() {
            assert!((number(&rows[0][key][k]) / expected - 1.0).abs() < 1e-4, "{key}: {expected}, {}", rows[0]);
        }
    }
    assert_eq!(rows[0]["auroc"], serde_json::json!(auroc(&energies[0], &energies[1])));
    assert!(std::fs::read_to_string(out.path().join("errors.svg")).unwrap().contains("AUROC, 9 against the rest"));
}

/// An autoencoder that was measured is not trained again, unless the data are others.
#[test]
fn reconstruction_errors_go_on_where_they_were() {
    let (out, whole) = of_made_up_mnist("reconstruction-error");
    let again = || reproduce("reconstruction-error", out.path(), Some(out.path()));
    let path = out.path().join("rows.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 8);
    // The last is missing, and the first tells whether it is read.
    let mut first: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    first["auroc"] = 0.125.into();
    std::fs::write(&path, format!("{first}\n{}\n", lines[1..7].join("\n"))).unwrap();
    let found = again();
    assert_eq!((&found["rows"][0]["latent_dim"], &found["rows"][0]["auroc"]), (&2.into(), &0.125.into()));
    let others = |figures: &serde_json::Value| figures["rows"].as_array().unwrap()[1..].to_vec();
    assert_eq!(others(&found), others(&whole));

    crate::made_up_mnist::write_of(&out.path().join("mnist"), 128);
    assert_ne!(again()["rows"][0]["auroc"], 0.125, "of other data");
}

#[test]
fn two_clusters_are_drawn_under_both_models() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let said = refused(nae_train().args(["reproduce", "bimodal", "--scale", "smoke", "--seeds", "7,"]));
    assert!(said.contains("show the seed 0; leave --seeds out"), "{said}");
    let figures = reproduce("bimodal", &out, None);
    // After so few updates both give points near the origin: an energy is half the squared distance from there, 29/24 on
    // average in the clusters, 1/12 between them, where nearly all are nearer.
    for model in ["autoencoder", "nae"] {
        let [normal, between, auroc] =
            ["normal_energy", "between_energy", "auroc"].map(|key| number(&figures["models"][model][key]));
        assert!((normal - 29.0 / 24.0).abs() < 0.3 && (between - 1.0 / 12.0).abs() < 0.05 && auroc < 0.05, "{figures}");
    }
    let picture = std::fs::read_to_string(out.join("clusters.svg")).unwrap();
    assert!(picture.contains("NAE, decoder as it was") && picture.contains("<polyline"), "{picture}");

    for (flags, expected) in [
        (&["--cells", "x"][..], "bimodal: it has no cells; leave --cells out"),
        (&["--print"], "bimodal: its settings are part of the program; leave --print out"),
    ] {
        let said = refused(nae_train().args(["reproduce", "bimodal"]).args(flags));
        assert!(said.contains(expected), "{said}");
    }
    let absent = folder.path().join("absent");
    let said =
        refused(nae_train().args(["reproduce", "random-init", "--scale", "smoke", "--quiet", "--out"]).arg(&absent));
    assert!(said.contains("--data") && !absent.exists(), "{said}");
}

/// Results of another scale or experiment are not replaced, neither illustrations nor by them.
#[test]
fn an_illustration_has_a_folder_of_its_own() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    reproduce("bimodal", &out, None);
    let result = || std::fs::read_to_string(out.join("result.json")).unwrap();
    let before = result();
    let again = |name: &str, scale: &str| {
        let mut command = nae_train();
        command.args(["reproduce", name, "--scale", scale, "--out"]).arg(&out);
        if name != "bimodal" {
            command.arg("--data").arg(folder.path());
        }
        command
    };
    for (name, scale, expected) in [
        ("bimodal", "cpu", "its results are of scale smoke, and this is cpu"),
        ("random-init", "smoke", "its results are of experiment bimodal, and this is random-init"),
        ("mnist-holdout", "smoke", "its results are of experiment bimodal, and this is mnist-holdout"),
    ] {
        let said = refused(&mut again(name, scale));
        assert!(said.contains(expected), "{said}");
        assert_eq!(result(), before, "{name}, {scale}");
    }
    // The results of a table, by its record.
    let record = out.join("experiment.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, replaced(&text, "\"bimodal\"", "\"mnist-holdout\"")).unwrap();
    let said = refused(&mut again("bimodal", "smoke"));
    assert!(said.contains("its results are of experiment mnist-holdout, and this is bimodal"), "{said}");
    assert_eq!(result(), before);
}
