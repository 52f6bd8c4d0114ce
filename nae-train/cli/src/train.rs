//! `nae-train` without a command: one run, start to finish.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_core::contract::Contract;
use nae_data::Source;
use nae_train::config::MethodKind;
use nae_train::config::preset::PRESETS;
use nae_train::config::{Config, preset};
use nae_train::engine::{Engine, EngineChoice};
use nae_train::eval::Evaluation;
use nae_train::eval::Table;
use nae_train::eval::share_above;
use nae_train::report::METRICS;
use nae_train::report::Resume;
use nae_train::report::figure;
use nae_train::report::page::curves::{self, Lines};
use nae_train::report::page::{self, Page, gallery};
use nae_train::report::progress::Bars;
use nae_train::report::warnings;
use nae_train::report::{AUTOENCODER, CONFIG, Facts, RunFolder};
use nae_train::run::Prepared;
use nae_train::train::Both;
use nae_train::train::{Ending, Outcome};

use crate::args::TrainArgs;
use crate::job::Job;
use crate::summary::{Expected, INTERVAL, Summary};
use crate::{Done, export, own};

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<Done> {
    let started = Instant::now();
    export::check(&args.export)?;
    let broken_off = args.resume.as_ref().map(|folder| BrokenOff::read(folder)).transpose()?;
    let recorded = broken_off.as_ref().map(|run| run.resume.facts.device);
    let (device, engines) = args.compute.open(recorded, args.quiet)?;
    let Job { mut prepared, engine, choices, resume } = match (broken_off, &args.preset, &args.data) {
        (Some(run), ..) => resumed(args, run)?,
        (None, None, Some(path)) => own::plan(args, path, engines, &device, started)?,
        (None, preset, _) => from_preset(args, preset.as_deref().unwrap_or(PRESETS[0].name), engines)?,
    };
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
    let path = folder.display();
    let data = args.data.as_ref().map(|path| format!(" --data {}", path.display())).unwrap_or_default();
    let outliers = args.outliers.as_ref().map(|path| format!(" --outliers {}", path.display())).unwrap_or_default();
    eprintln!(
        "interrupted after {update} {}; what was best so far is in {path}.\n\
         Go on with it: nae-train --resume {path}{data}{outliers} --export model.onnx\n\
         Export it: nae-train export {path}{data} --export model.onnx",
        if prepared.config.method() == MethodKind::Nae { "updates" } else { "epochs" },
    );
}

/// A run whose training has ended.
struct Finished {
    prepared: Prepared,
    outcome: Outcome,
    engine: Engine,
    choices: Vec<String>,
    started: Instant,
}

/// Calibrates, evaluates, exports and reports.
fn conclude(args: &TrainArgs, run: &Finished, folder: &mut RunFolder, device: &Device) -> anyhow::Result<()> {
    let Finished { prepared, outcome, engine, choices, started } = run;
    let metadata = prepared.calibrate(&*outcome.model, device)?;
    let evaluation = prepared.evaluate(&prepared.columns(outcome), *engine, device);
    let table = Table::of(&evaluation);
    let threshold = metadata.contract.threshold().map(|threshold| threshold.energy);
    // After the plain autoencoder, where there is one, come the model's own scores, and first its energies.
    let own = &evaluation.normal[usize::from(outcome.autoencoder.is_some())];
    export::write(&args.export, &*outcome.model, prepared, &metadata)?;
    let summary = Summary {
        outcome,
        table: &table,
        prepared,
        choices,
        warnings: &warnings(prepared, outcome, &table),
        expected: rates(&metadata.contract)?,
        measured: threshold.and_then(|threshold| share_above(own, threshold)),
        started: *started,
    };
    let figure = figure::energies(&evaluation).map_err(anyhow::Error::msg)?;
    let page = page(&summary, threshold, &evaluation, &figure, *engine, device, folder)?;
    folder.report(&summary.markdown(threshold), &figure, &page)?;
    folder.finish()?;
    if args.json {
        println!("{}", summary.json(threshold));
    } else if !args.quiet {
        println!("{}", summary.terminal(threshold));
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
        // Settings of a run that is made anew, on whatever data.
        features.data_sha256 = None;
    }
    let config = Config::new(raw).context("--held-out, --method or --confidence")?;
    let engine = engines.engine(config.architecture())?;
    let prepared = Prepared::new(config, args.seed, args.data.as_deref(), args.corrupt())?;
    Ok(Job { prepared, engine, choices: Vec::new(), resume: None })
}

/// A run that was broken off, as its folder has it.
struct BrokenOff {
    folder: PathBuf,
    config: Config,
    seed: u64,
    resume: Resume,
}

impl BrokenOff {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let (config, seed) = RunFolder::read(folder)?;
        Ok(Self { folder: folder.to_owned(), config, seed, resume: Resume::read(folder)? })
    }
}

/// Goes on with a run.
fn resumed(args: &TrainArgs, run: BrokenOff) -> anyhow::Result<Job> {
    let BrokenOff { folder, config, seed, resume } = run;
    if let Some(selection) = &resume.facts.selection {
        bail!(
            "{}: the run selects by the set \"{selection}\", which only the experiment has; go on with it by the same \
             `nae-train reproduce` that it was begun with",
            folder.display()
        );
    }
    if let (Some(data), Some(outliers)) = (&args.data, &args.outliers) {
        own::apart(data, outliers)?;
    }
    let prepared = Prepared::new(config, seed, args.data.as_deref(), args.corrupt())?;
    if prepared.data_sha256 != resume.facts.data_sha256 {
        bail!(
            "{}: the run was begun on other data: their SHA-256 was {}, and is {} now; give the same --data",
            folder.display(),
            resume.facts.data_sha256,
            prepared.data_sha256
        );
    }
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

/// What share of new normal data the threshold of `contract` is for, and between what shares it is.
fn rates(contract: &Contract) -> anyhow::Result<Option<Expected>> {
    let Some((calibration, threshold)) = contract.calibration().zip(contract.threshold()) else { return Ok(None) };
    let rate = threshold.false_positive_rate;
    Ok(Some(Expected { count: calibration.count(), rate, interval: calibration.rate_interval(rate, INTERVAL)? }))
}

/// The report for a browser.
fn page(
    summary: &Summary<'_>,
    threshold: Option<f32>,
    evaluation: &Evaluation,
    figure: &str,
    engine: Engine,
    device: &Device,
    folder: &mut RunFolder,
) -> anyhow::Result<String> {
    let draw = |charts: &[Lines]| curves::draw(charts, 2).map_err(anyhow::Error::msg);
    let pictures = [
        (
            "Energies of normal test images and of outliers, before NAE training and after.".to_owned(),
            figure.to_owned(),
        ),
        ("ROC: outliers caught against false alarms.".to_owned(), draw(&curves::rocs(evaluation))?),
        ("Along training.".to_owned(), draw(&curves::of_metrics(&folder.text(METRICS)))?),
    ];
    let (prepared, model) = (summary.prepared, &*summary.outcome.model);
    let galleries = match prepared.config.source() {
        Source::Table(_) => Vec::new(),
        // What is reconstructed is no picture.
        _ if prepared.features().is_some() => Vec::new(),
        _ => [gallery::reconstructions(prepared, model, device), gallery::chains(prepared, model, engine, device)]
            .into_iter()
            .flatten()
            .collect(),
    };
    Ok(page::html(&Page {
        title: &summary.title(),
        facts: &summary.facts(threshold),
        warnings: summary.warnings,
        choices: summary.choices,
        table: summary.table,
        pictures: &pictures,
        galleries: &galleries,
        config: &folder.text(CONFIG),
    }))
}
