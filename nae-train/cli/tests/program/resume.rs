//! A run that was broken off ends as if it had not been.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::changed::{few_images, replaced};
use crate::eval::stripes;
use crate::harness::{interrupted_at, nae_train, refused, run, spawn};
use burn::tensor::Device;
use nae_data::own::Corrupt;
use nae_train::config::MethodKind;
use nae_train::config::{Autoregressive, Flow};
use nae_train::config::{Config, RawConfig, preset};
use nae_train::engine::Engine;
use nae_train::eval::decided;
use nae_train::export;
use nae_train::run::Prepared;
use nae_train::train::{Ending, Observer, Outcome, Phase, Silent, Snapshot};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Breaks a run off after some updates, of whatever part, and has what it goes on from as bytes.
pub(crate) struct Break<'a> {
    pub(crate) after: usize,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) stored: Option<Vec<u8>>,
}

impl Observer for Break<'_> {
    fn wants_snapshot(&mut self, last: bool) -> bool {
        if self.after == 0 {
            assert!(last);
            return true;
        }
        self.after -= 1;
        if self.after == 0 {
            self.stop.store(true, Ordering::Relaxed);
        }
        false
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.stored = Some(bytes(snapshot));
    }
}

fn bytes(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(snapshot, &mut bytes).unwrap();
    bytes
}

/// The exported model, or where there is none what it decides of normal images.
fn model(prepared: &Prepared, outcome: &Outcome) -> Vec<u8> {
    let device = Device::flex();
    if prepared.config.method().why_not_exported().is_some() {
        let decision = outcome.model.decisions()[0];
        let energies = decided(&*outcome.model, decision, &prepared.split.test.some_units(32), Engine::Burn, &device);
        return energies.into_iter().flat_map(f32::to_le_bytes).collect();
    }
    let metadata = prepared.calibrate(&*outcome.model, &device).unwrap();
    export::model(&*outcome.model, &prepared.config, None, &metadata).unwrap()
}

/// The settings of a few updates: of NAE training with every kind of negative samples that keeps something between
/// updates, and of every other method.
pub(crate) fn short_runs() -> Vec<RawConfig> {
    let short = |name: &str, change: &dyn Fn(&str) -> String| {
        let text = preset::PRESETS.iter().find(|p| p.name == name).unwrap().text;
        preset::parse(&change(text), name).unwrap().raw().clone()
    };
    let digits = |text: &str| {
        let text = replaced(&few_images(text), "epochs = 600", "epochs = 2");
        replaced(&replaced(&text, "updates = 1500", "updates = 6"), "every = 20", "every = 4")
    };
    let omi = |text: &str| digits(&replaced(&text.replace("steps = 10", "steps = 2"), "steps = 50", "steps = 2"));
    let persistent = |text: &str| {
        let text = replaced(text, "{ perturbed_data = { max_scale = 0.3 } }", "{ persistent = { restart = 0.05 } }");
        let text = replaced(&text, "latent_chain = { steps = 5, step_size = 0.2, noise = 0.05 }\n", "");
        replaced(&digits(&text), "temperature = 1.0", "temperature = 0.5")
            .replace("average = 0.98", "average = 0.98\ntemperature_learning_rate = 1e-3\nencoder_learning_rate = 1e-4")
    };
    let mut fixed = short("digits-omi", &omi);
    fixed.training.fixed_manifold = true;
    let mut several = fixed.clone();
    let own = *several.architecture.latent_dim_mut();
    several.baselines.mpdr.manifolds = vec![8, own];
    let nae = [short("digits", &digits), short("digits-omi", &omi), short("digits", &persistent)];
    let mut configs = vec![fixed, several];
    configs.extend(nae);
    for method in [
        MethodKind::Ae,
        MethodKind::Dae,
        MethodKind::Vae,
        MethodKind::Wae,
        MethodKind::Vqvae,
        MethodKind::Dagmm,
        MethodKind::Ganomaly,
        MethodKind::Igebm,
        MethodKind::Mpdr,
        MethodKind::Glow,
        MethodKind::Pixelcnn,
    ] {
        let mut config = short("digits", &digits);
        config.method = method;
        config.baselines.vae.samples = 2;
        config.baselines.pixelcnn = Autoregressive { blocks: 1, filters: 4 };
        (config.baselines.igebm.width, config.baselines.igebm.steps) = (4, 2);
        config.baselines.mpdr.manifolds = vec![8, 16];
        config.baselines.glow = Flow { steps: 2, hidden_channels: 4 };
        configs.push(config);
    }
    configs
}

/// Every method broken off in all parts of the run and within epochs.
#[test]
fn every_method_goes_on_to_the_same_model() {
    let device = Device::flex();
    for raw in short_runs() {
        let prepared = Prepared::new(Config::new(raw).unwrap(), 0, None, Corrupt::Refuse).unwrap();
        let never = AtomicBool::new(false);
        let whole = prepared.train(Engine::Cpu, &device, &mut Silent, &never, None).unwrap();
        let expected = model(&prepared, &whole);
        // Of three updates an epoch: within the second epoch, at the end of pre-training or the baseline, between two looks,
        // at one. It stops after the update that follows.
        let nae = prepared.config.method() == MethodKind::Nae;
        assert!(nae || whole.ending == Ending::Finished, "{}", prepared.config.method().name());
        for &after in if nae { &[3, 5, 7, 9][..] } else { &[3, 5] } {
            let stop = AtomicBool::new(false);
            let mut broken = Break { after, stop: &stop, stored: None };
            prepared.train(Engine::Cpu, &device, &mut broken, &stop, None).unwrap();
            let stored = broken.stored.unwrap();
            let resume: Snapshot = ciborium::from_reader(stored.as_slice()).unwrap();
            let outcome = prepared.train(Engine::Cpu, &device, &mut Silent, &never, Some(resume)).unwrap();
            let name = format!("{} by {}, after {after}", prepared.config.name(), prepared.config.method().name());
            assert_eq!(outcome.ending, whole.ending, "{name}");
            assert_eq!(outcome.kept_update, whole.kept_update, "{name}");
            assert!(model(&prepared, &outcome) == expected, "{name}");
        }
    }
}

/// Stops a run between its phases, where no update follows that could store a state.
struct Between<'a> {
    stop: &'a AtomicBool,
    stored: Option<Vec<u8>>,
}

impl Observer for Between<'_> {
    fn wants_snapshot(&mut self, last: bool) -> bool {
        last
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.stored = Some(bytes(snapshot));
    }

    fn end(&mut self, phase: Phase) {
        assert_eq!(phase, Phase::Pretraining);
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_run_that_is_stopped_right_after_pre_training_goes_on_from_its_end() {
    let (device, never, stop) = (Device::flex(), AtomicBool::new(false), AtomicBool::new(false));
    let raw = short_runs().swap_remove(2);
    let prepared = Prepared::new(Config::new(raw).unwrap(), 0, None, Corrupt::Refuse).unwrap();
    let whole = prepared.train(Engine::Cpu, &device, &mut Silent, &never, None).unwrap();
    let mut between = Between { stop: &stop, stored: None };
    let broken = prepared.train(Engine::Cpu, &device, &mut between, &stop, None).unwrap();
    assert_eq!(broken.ending, Ending::Interrupted { update: 0 });
    let stored = between.stored.expect("a state of the last update of pre-training");
    let resume: Snapshot = ciborium::from_reader(stored.as_slice()).unwrap();
    let outcome = prepared.train(Engine::Cpu, &device, &mut Silent, &never, Some(resume)).unwrap();
    assert!(model(&prepared, &outcome) == model(&prepared, &whole));
}

/// Some seconds of updates and looks.
fn preset_of_seconds(folder: &Path) -> std::path::PathBuf {
    crate::changed::preset(folder, "seconds.toml", |text| {
        let text = replaced(&text, "epochs = 600", "epochs = 10");
        let text = replaced(&text, "updates = 1500\nbatch_size = 128", "updates = 1500\nbatch_size = 32");
        replaced(&replaced(&text, "updates = 1500", "updates = 80"), "every = 20", "every = 5")
    })
}

fn start(folder: &Path, name: &str, preset: &Path) -> Command {
    crate::harness::train(folder, name, "--preset", preset, &["--quiet", "--checkpoint-every", "0s"])
}

fn resume(folder: &Path, name: &str) -> Command {
    let mut command = nae_train();
    command.arg("--resume").arg(folder.join(name)).args(["--quiet", "--checkpoint-every", "0s", "--export"]);
    command.arg(folder.join(format!("{name}.onnx")));
    command
}

/// What was measured, without the times.
fn metrics(run: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let parse = |line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        for time in ["seconds", "processor_seconds"] {
            value.as_object_mut().unwrap().remove(time).unwrap();
        }
        value
    };
    text.lines().map(parse).collect()
}

fn same(folder: &Path, one: &str, other: &str) {
    let model = |name: &str| std::fs::read(folder.join(format!("{name}.onnx"))).unwrap();
    assert!(model(one) == model(other), "the models of {one} and {other} differ");
    assert_eq!(metrics(&folder.join(one)), metrics(&folder.join(other)));
}

/// A state in the first version of its form, which had the facts of a run beside the rest.
fn version_1(state: &[u8]) -> Vec<u8> {
    use ciborium::Value;

    let (mark, body) = (&state[..8], &state[40..]);
    assert_eq!(mark, b"NAE-RUN2");
    let entries = ciborium::from_reader::<Value, _>(body).unwrap().into_map().unwrap();
    let (facts, mut flat): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key.as_text() == Some("facts"));
    flat.extend(facts.into_iter().flat_map(|(_, facts)| facts.into_map().unwrap()));
    let mut body = Vec::new();
    ciborium::into_writer(&Value::Map(flat), &mut body).unwrap();
    [&b"NAE-RUN1"[..], &Sha256::digest(&body)[..], &body].concat()
}

#[test]
fn after_ctrl_c_a_run_goes_on() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let preset = preset_of_seconds(path);
    assert!(run(&mut start(path, "whole", &preset)).status.success());
    let message = refused(&mut resume(path, "whole"));
    assert!(message.contains("resume.bin") && message.contains("nae-train export"), "{message}");

    let outliers = stripes(path, "strange images", true);
    let child = spawn(start(path, "broken", &preset).arg("--outliers").arg(&outliers));
    let state = path.join("broken/resume.bin");
    let said = interrupted_at(child, &state);
    assert!(said.contains("nae-train --resume") && said.contains("nae-train export"), "{said}");
    // Starting over there would lose it.
    let message = refused(&mut start(path, "broken", &preset));
    assert!(message.contains("--resume") && message.contains("--out"), "{message}");
    // The outliers that the run was started with are kept.
    let hint = format!("broken.onnx --outliers '{}'", outliers.display());
    assert!(message.contains(&hint), "{message}");
    let message = refused(start(path, "broken", &preset).arg("--outliers").arg(&outliers));
    assert!(message.contains(&format!("--outliers '{}'", outliers.display())), "{message}");

    let good = std::fs::read(&state).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    for (bytes, said) in [(&bad[..], "checksum"), (&good[..good.len() / 2], "checksum"), (&good[..5], "too short")] {
        std::fs::write(&state, bytes).unwrap();
        let message = refused(&mut resume(path, "broken"));
        assert!(message.contains("resume.bin") && message.contains(said), "{message}");
    }
    std::fs::write(&state, &good).unwrap();
    // What was measured by then is to be gone on with, not to be filled up with zeros.
    let events = path.join("broken/events.out.tfevents.nae");
    let measured = std::fs::read(&events).unwrap();
    std::fs::write(&events, &measured[..10]).unwrap();
    let message = refused(&mut resume(path, "broken"));
    assert!(message.contains("events.out.tfevents.nae") && message.contains("has 10 now"), "{message}");
    std::fs::write(&events, &measured).unwrap();
    // The rest of the run would be of other settings.
    let config = path.join("broken/config.toml");
    let settings = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, replaced(&settings, "updates = 80", "updates = 90")).unwrap();
    let message = refused(&mut resume(path, "broken"));
    assert!(message.contains("config.toml") && message.contains("--preset"), "{message}");
    std::fs::write(&config, settings).unwrap();
    // The same, broken off by an earlier program.
    std::fs::create_dir(path.join("earlier")).unwrap();
    for file in std::fs::read_dir(path.join("broken")).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), path.join("earlier").join(file.file_name())).unwrap();
    }
    std::fs::write(path.join("earlier/resume.bin"), version_1(&good)).unwrap();
    for name in ["broken", "earlier"] {
        let output = run(&mut resume(path, name));
        assert!(output.status.success(), "{output:?}");
        same(path, "whole", name);
        let warning = "strange images, which is not given now";
        let text = std::fs::read_to_string(path.join(name).join("result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(result["warnings"].to_string().contains(warning), "{result}");
        // Time counts on where the run was broken off. (The time of the program itself says nothing here: it includes the
        // reading of the data, which may take longer than what was trained before.)
        let text = std::fs::read_to_string(path.join(name).join("metrics.jsonl")).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        for time in ["seconds", "processor_seconds"] {
            assert!(lines.clone().map(|line| line[time].as_f64().unwrap()).is_sorted(), "{text}");
        }
        assert!(result["seconds"].as_f64() > lines.next_back().unwrap()["seconds"].as_f64(), "{result}, {text}");
    }
    assert!(!state.exists());
}

/// Killed fifty times at random moments, a run never loses its state, and ends as if nothing had been. Slow.
#[test]
fn killed_at_any_moment_a_run_goes_on() {
    if std::env::var_os("NAE_SLOW_TESTS").is_none() {
        println!("skipped: set NAE_SLOW_TESTS=1 to kill a run fifty times");
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let preset = preset_of_seconds(path);
    assert!(run(&mut start(path, "whole", &preset)).status.success());

    let mut noise = nae_train::sample::NoiseSource::new(0, 0);
    let (mut kills, mut runs, mut begun) = (0, 0, false);
    while kills < 50 {
        let name = format!("run-{runs}");
        let command = if begun { resume(path, &name) } else { start(path, &name, &preset) };
        let mut child = spawn(&mut { command });
        // Up to the time in which such a process reads the data, goes on, stores a number of states and more.
        let wait = Duration::from_secs_f32(1.5 * noise.uniform_values(1)[0]);
        std::thread::sleep(wait);
        let ended = child.try_wait().unwrap();
        if ended.is_none() {
            child.kill().unwrap();
            kills += 1;
        }
        let output = child.wait_with_output().unwrap();
        let state = path.join(&name).join("resume.bin").exists();
        if let Some(status) = ended {
            assert!(status.success(), "after {kills} kills: {output:?}");
            same(path, "whole", &name);
            (begun, runs) = (false, runs + 1);
        } else {
            // Once there is a state, it stays until the run has ended.
            assert!(state || !begun || path.join(format!("{name}.onnx")).exists(), "after {kills} kills");
            begun = state;
            if !state && path.join(&name).exists() {
                std::fs::remove_dir_all(path.join(&name)).unwrap();
            }
        }
    }
    let name = format!("run-{runs}");
    let output = run(&mut if begun { resume(path, &name) } else { start(path, &name, &preset) });
    assert!(output.status.success(), "after {kills} kills: {output:?}");
    same(path, "whole", &name);
    println!("{kills} kills, {} runs that ended whole", runs + 1);
}

/// Weights that are no numbers any more are no model: the run ends there, and says what to change.
#[test]
fn a_run_that_runs_away_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let preset = crate::changed::preset(folder.path(), "fast.toml", |text| {
        replaced(&text, "batch_size = 128\nlearning_rate = 1e-3\n\n#", "batch_size = 128\nlearning_rate = 1e30\n\n#")
    });
    for method in ["nae", "ae", "vae"] {
        let output = start(folder.path(), method, &preset).args(["--method", method]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("diverged in epoch 1:") && said.contains("pretraining.learning_rate"),
            "{method}: {said}"
        );
    }
}
