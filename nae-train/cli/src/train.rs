//! `nae-train` without a command: one complete run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_train::config::MethodKind;
use nae_train::config::preset::PRESETS;
use nae_train::config::{Config, preset};
use nae_train::engine::EngineChoice;
use nae_train::interrupted::InterruptedRun;
use nae_train::report::progress::Bars;
use nae_train::report::{AUTOENCODER, Facts, Finished, RunFolder};
use nae_train::run::Prepared;
use nae_train::train::Both;
use nae_train::train::Ending;

use crate::args::TrainArgs;
use crate::job::Job;
use crate::{Done, export, own};

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<Done> {
    let started = Instant::now();
    export::check(&args.export)?;
    if let (Some(data), Some(outliers)) = (&args.data, &args.outliers) {
        nae_train::own::apart(data, outliers)?;
    }
    let interrupted = args.resume.as_ref().map(|folder| InterruptedRun::read(folder)).transpose()?;
    let recorded = interrupted.as_ref().map(|run| run.resume.facts.device);
    let (device, engines) = args.compute.open(recorded, args.quiet)?;
    let Job { mut prepared, engine, choices, resume } = match (interrupted, &args.preset, &args.data) {
        (Some(run), ..) => resumed(args, run)?,
        (None, None, Some(path)) => own::plan(args, path, engines, &device, started)?,
        (None, preset, _) => from_preset(args, preset.as_deref().unwrap_or(PRESETS[0].name), engines)?,
    };
    export::check_method(&args.export, prepared.config.method())?;
    prepared.config.sampler().precision.check(&device)?;
    if let Some(path) = &args.outliers {
        prepared.add_outliers(path, args.corrupt()).context("--outliers")?;
    }
    if !args.quiet {
        own::say(&choices, &prepared.warnings);
    }
    let (mut folder, snapshot) = match (resume, &args.resume) {
        (Some(resume), Some(path)) => (RunFolder::reopen(path, &resume, args.checkpoint_every)?, Some(resume.snapshot)),
        _ => {
            let path = args.out.clone().unwrap_or_else(|| default_folder(&prepared.config, args.seed));
            let data_sha256 = prepared.data_sha256.clone();
            let (device, choices) = (args.compute.device, choices.clone());
            let facts = Facts { data_sha256, engine, device, choices, selection: None };
            (RunFolder::create(&path, &prepared.config, args.seed, facts, args.checkpoint_every)?, None)
        }
    };
    let stop = stop_on_interrupt()?;

    if args.trace_outliers {
        folder.trace(prepared.trace(engine, &device));
    }
    let mut watchers = Both::new(Bars::new(args.quiet), folder);
    let outcome = prepared.train(engine, &device, &mut watchers, &stop, snapshot)?;
    let mut folder = watchers.second;
    if let Some(autoencoder) = &outcome.autoencoder {
        folder.save(autoencoder, AUTOENCODER);
    }
    if let Some(failure) = folder.failure() {
        bail!("the run folder is incomplete: {failure}");
    }
    if let Ending::Interrupted { update } = outcome.ending {
        say_interrupted(args, &prepared, update, folder.path());
        return Ok(Done::Interrupted);
    }
    conclude(args, &Finished { prepared, outcome, engine, choices, started }, &mut folder, &device)?;
    Ok(Done::Whole)
}

fn say_interrupted(args: &TrainArgs, prepared: &Prepared, update: usize, folder: &Path) {
    let option =
        |name: &str, path: Option<&Path>| path.map(|path| format!(" {name} {}", quoted(path))).unwrap_or_default();
    let path = quoted(folder);
    let data = option("--data", args.data.as_deref());
    let outliers = option("--outliers", args.outliers.as_deref());
    let export = option("--export", Some(args.export.export.as_deref().unwrap_or(Path::new("model.onnx"))));
    let parts = option("--export-parts", args.export.export_parts.as_deref());
    let traced = if args.trace_outliers { " --trace-outliers" } else { "" };
    let strict = if args.strict { " --strict" } else { "" };
    let done = match prepared.config.method() {
        MethodKind::Nae if update == 0 => "during pre-training".to_owned(),
        MethodKind::Nae => format!("after {update} updates of NAE training"),
        _ => format!("after {update} epochs"),
    };
    eprintln!(
        "interrupted {done}; what was best so far is in {}.\n\
         Go on with it: nae-train --resume {path}{data}{outliers}{strict}{traced}{export}{parts}\n\
         Export it: nae-train export {path}{data}{export}{parts}",
        folder.display(),
    );
}

/// A path quoted as an argument for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    // Only a zero byte cannot be quoted, and no path contains one.
    shlex::try_quote(&text).map(Into::into).unwrap_or(text)
}

/// Calibrates, evaluates, exports and reports.
fn conclude(args: &TrainArgs, run: &Finished, folder: &mut RunFolder, device: &Device) -> anyhow::Result<()> {
    let conclusion = run.conclude(device)?;
    export::write(&args.export, &*run.outcome.model, &run.prepared, &conclusion.metadata)?;
    conclusion.report(run, device, folder)?;
    folder.finish()?;
    let summary = conclusion.summary(run);
    if args.json {
        println!("{}", conclusion.result(run, folder));
    } else if !args.quiet {
        println!("{}", summary.terminal());
        println!("run folder: {}", folder.path().display());
        if let Some(file) = &args.export.export {
            println!("model: {}", file.display());
        }
    }
    Ok(())
}

fn default_folder(config: &Config, seed: u64) -> PathBuf {
    let method = match config.method() {
        MethodKind::Nae => String::new(),
        other => format!("-{}", other.name()),
    };
    let name = config.source().own_title().unwrap_or(config.name());
    PathBuf::from(format!("runs/{name}{method}-{seed}"))
}

fn from_preset(args: &TrainArgs, preset: &str, engines: EngineChoice) -> anyhow::Result<Job> {
    let mut raw = preset::load(preset)?.raw().clone();
    raw.data.held_out = args.held_out.or(raw.data.held_out);
    raw.method = args.method.map_or(raw.method, MethodKind::from);
    raw.calibration.confidence = args.confidence.or(raw.calibration.confidence);
    if let Some(features) = &mut raw.data.features {
        // The preset may be from an earlier run; the new run may use other data.
        features.data_sha256 = None;
    }
    let config = Config::new(raw).context("--held-out, --method or --confidence")?;
    let engine = engines.engine(config.architecture())?;
    let prepared = Prepared::new(config, args.seed, args.data.as_deref(), args.corrupt())?;
    prepared.check_counts()?;
    Ok(Job { prepared, engine, choices: Vec::new(), resume: None })
}

/// Prepares the continuation of a run.
fn resumed(args: &TrainArgs, run: InterruptedRun) -> anyhow::Result<Job> {
    let (prepared, resume) = run.prepare(args.data.as_deref(), args.outliers.as_deref(), args.corrupt())?;
    if !args.quiet {
        eprintln!("going on after {}", resume.snapshot);
    }
    Ok(Job { prepared, engine: resume.facts.engine, choices: resume.facts.choices.clone(), resume: Some(resume) })
}

/// The first Ctrl-C asks the run to stop at the next update; the second ends the program.
pub(crate) fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(crate::INTERRUPTED));
        }
        eprintln!("\nstopping after this update (Ctrl-C again to stop at once)");
    })
    .context("Ctrl-C cannot be caught")?;
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_is_one_argument() {
        assert_eq!(quoted(Path::new("runs/mine-0")), "runs/mine-0");
        assert_eq!(quoted(Path::new("my data/it's")), "\"my data/it's\"");
    }
}
