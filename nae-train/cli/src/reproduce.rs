//! `nae-train reproduce`: an experiment of the paper, with a table of its results and the paper's values,
//! or a picture.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use burn::tensor::Device;
use nae_lab::experiments::Scale;
use nae_lab::experiments::detection::{self, DetectionError};
use nae_lab::experiments::detection::{DetectionSettings, EXPERIMENTS};
use nae_lab::experiments::gaussians8::{self, ExperimentError};
use nae_lab::experiments::gaussians8::{DensitySettings, PAPER};
use nae_lab::experiments::pictures::NAMES as PICTURES;
use nae_onnx::file;
use nae_terminal::progress::Progress;
use nae_train::device::DeviceChoice;
use nae_train::report::progress::Bars;

use crate::args::{EngineArg, ExperimentArg, ReproduceArgs};
use crate::output::{errln, out, outln};
use crate::train::stop_on_interrupt;
use crate::{Done, pictures};

/// Training of a model takes minutes to days.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &ReproduceArgs) -> anyhow::Result<Done> {
    let name = args.experiment.name();
    if PICTURES.contains(&name.as_str()) {
        return pictures::run(args, &folder(args));
    }
    let known = EXPERIMENTS.iter().find(|known| known.name == name);
    let paper = known.map_or(PAPER, |known| known.text);
    if args.print {
        out!("{paper}")?;
        return Ok(Done::Whole);
    }
    let (text, origin) = match &args.settings {
        None => (paper.to_owned(), args.experiment.name()),
        Some(path) => {
            (std::fs::read_to_string(path).with_context(|| path.display().to_string())?, path.display().to_string())
        }
    };
    match args.experiment {
        ExperimentArg::Gaussians8 => gaussians8(args, &text, &origin),
        _ => detection(args, &text, &origin),
    }
}

/// The folder of the experiment. Models of other settings have one of their own.
fn folder(args: &ReproduceArgs) -> PathBuf {
    if let Some(out) = &args.out {
        return out.clone();
    }
    let settings = args.settings.as_deref().and_then(Path::file_stem).map(|stem| format!("-{}", stem.display()));
    let settings = settings.unwrap_or_default();
    PathBuf::from(format!("runs/{}-{}{settings}", args.experiment.name(), Scale::from(args.scale).name()))
}

fn say_interrupted(path: &Path) -> Done {
    errln!("interrupted; the same command continues with what {} does not have yet", path.display());
    Done::Interrupted
}

fn detection(args: &ReproduceArgs, text: &str, origin: &str) -> anyhow::Result<Done> {
    let scale = Scale::from(args.scale);
    let settings = DetectionSettings::parse(text, origin, scale, args.search)?;
    let data = args.data_folder()?;
    let (device, engine) = args.compute.open(None, args.quiet)?;
    let experiment = detection::Experiment {
        name: args.experiment.name(),
        settings,
        scale,
        seeds: args.seeds.clone().unwrap_or_default(),
        only: args.cells.clone(),
        engine,
        device: args.compute.device,
        data,
        checkpoint_every: CHECKPOINT_EVERY,
        trace_outliers: args.trace_outliers,
    };
    let path = folder(args);
    let stop = stop_on_interrupt()?;

    let (all, mut at) = (experiment.jobs()?.len(), 0);
    if !args.quiet {
        errln!("{}, scale `{}`: {}", experiment.settings.title, scale.name(), experiment.settings.work);
    }
    let unnamed = if experiment.only.is_empty() { experiment.without_data() } else { Vec::new() };
    for (what, names) in [("cells", unnamed), ("sets of outliers", experiment.absent_sets())] {
        if !names.is_empty() {
            let data = experiment.data.display();
            errln!("warning: {what} without data in {data}, and so not run: {}", names.join(", "));
        }
    }
    if let (Some(named), None) = (&experiment.settings.selection, experiment.selection()) {
        errln!("warning: ConstantGray selects in place of {named}");
    }
    let mut warned = BTreeSet::new();
    let begin = |job: &detection::Job<'_>, warnings: &[String]| {
        at += 1;
        if !args.quiet {
            errln!("{}, seed {} ({at} of at most {all})", job.cell.name, job.seed);
        }
        // Once, for models of the same data.
        for warning in warnings.iter().filter(|warning| warned.insert((*warning).clone())) {
            errln!("warning: {warning}");
        }
        Bars::new(args.quiet)
    };
    let finished = match experiment.run(&path, &device, &stop, begin) {
        Ok(finished) => finished,
        Err(DetectionError::Interrupted) => return Ok(say_interrupted(&path)),
        Err(error) => return Err(error.into()),
    };
    let rows = detection::summary::rows(&experiment, &finished);
    let json = detection::summary::json(&experiment, experiment.selection(), &rows, &finished);
    let json = format!("{json:#}\n");
    file::write(path.join("result.json"), json.as_bytes())?;
    if args.json {
        out!("{json}")?;
    } else {
        outln!("{}", detection::summary::terminal(&experiment, &rows, &finished))?;
        if !args.quiet {
            outln!("result.json and a run folder for each model are in {}", path.display())?;
        }
    }
    Ok(Done::Whole)
}

fn gaussians8(args: &ReproduceArgs, text: &str, origin: &str) -> anyhow::Result<Done> {
    let side_by_side = "it trains many small networks side by side on the processor";
    args.refuse_unused(&[
        ("--cells", !args.cells.is_empty(), "it has no cells"),
        ("--search", args.search, "its settings have no values to try"),
        ("--data", args.data.is_some(), "its data are drawn"),
        ("--trace-outliers", args.trace_outliers, "it has no outliers"),
        ("--device", args.compute.device != DeviceChoice::Cpu, side_by_side),
        ("--engine", !matches!(args.compute.engine, EngineArg::Auto), side_by_side),
    ])?;
    let scale = Scale::from(args.scale);
    let seeds = args.seeds.clone().unwrap_or_default();
    let experiment = gaussians8::Experiment::new(DensitySettings::parse(text, origin)?, scale, seeds)?;
    let path = folder(args);
    let stop = stop_on_interrupt()?;
    let device = Device::flex();

    let (jobs, finished) = (experiment.jobs(), experiment.finished(&path)?);
    let done = jobs.iter().filter(|job| finished.iter().any(|done| done.cell == job.cell())).count();
    let progress = Progress::new("training", "models", done, jobs.len(), args.quiet);
    let finished = match experiment.run(&path, &device, &stop, || progress.advance(1)) {
        Ok(finished) => finished,
        Err(ExperimentError::Interrupted) => return Ok(say_interrupted(&path)),
        Err(error) => return Err(error.into()),
    };
    progress.clear();
    let rows = gaussians8::summary::rows(&experiment, &finished);
    let json = format!("{:#}\n", gaussians8::summary::json(&experiment, &rows, &finished));
    file::write(path.join("result.json"), json.as_bytes())?;
    // The table needs no weights: it is printed also where the figure cannot be drawn.
    let drawn = gaussians8::summary::figure(&experiment, &finished, &path, &device);
    if args.json {
        out!("{json}")?;
    } else {
        outln!("{}", gaussians8::summary::terminal(&experiment, &rows, &finished))?;
    }
    let (figure, missing) = drawn?;
    file::write(path.join("densities.svg"), figure.as_bytes())?;
    if !missing.is_empty() && !args.quiet {
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        errln!("densities.svg lacks models whose weights are not in {}: {}", path.display(), missing.join("; "));
    }
    if !args.json && !args.quiet {
        outln!("result.json, densities.svg and weights are in {}", path.display())?;
    }
    Ok(Done::Whole)
}
