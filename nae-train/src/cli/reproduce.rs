//! `nae-train reproduce`: an experiment of the paper, with a table and a picture.

use std::path::PathBuf;

use anyhow::Context as _;
use burn::tensor::Device;
use nae_onnx::file;
use nae_train::experiments::gaussians8::settings::{PAPER, Scale, Settings};
use nae_train::experiments::gaussians8::{Experiment, ExperimentError, summary};
use serde_json::json;

use super::args::{ExperimentArg, ReproduceArgs};
use super::train::stop_on_interrupt;
use super::{Done, progress};

pub(super) fn run(args: &ReproduceArgs) -> anyhow::Result<Done> {
    match args.experiment {
        ExperimentArg::Gaussians8 => gaussians8(args),
    }
}

fn gaussians8(args: &ReproduceArgs) -> anyhow::Result<Done> {
    if args.print {
        print!("{PAPER}");
        return Ok(Done::Whole);
    }
    let settings = match &args.settings {
        None => Settings::parse(PAPER, "gaussians8.toml")?,
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            Settings::parse(&text, &path.display().to_string())?
        }
    };
    let scale = Scale::from(args.scale);
    let experiment = Experiment::new(settings, scale, args.seeds.into())?;
    let path = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/gaussians8-{}", scale.name())));
    let stop = stop_on_interrupt()?;
    let device = Device::flex();

    let bar = progress::bar("training", "models", experiment.jobs().len(), args.quiet);
    bar.inc(experiment.finished(&path)?.len() as u64);
    let finished = match experiment.run(&path, &device, &stop, || bar.inc(1)) {
        Ok(finished) => finished,
        Err(ExperimentError::Interrupted) => {
            eprintln!("interrupted; the same command goes on with what {} does not have yet", path.display());
            return Ok(Done::Interrupted);
        }
        Err(error) => return Err(error.into()),
    };
    bar.finish_and_clear();
    let rows = summary::rows(&experiment, &finished);
    let json = json!({
        "experiment": "gaussians8",
        "scale": scale,
        "seeds": args.seeds,
        "version": env!("CARGO_PKG_VERSION"),
        "settings": experiment.settings().text(),
        "rows": rows,
    });
    let json = serde_json::to_string_pretty(&json)? + "\n";
    file::write(path.join("result.json"), json.as_bytes())?;
    file::write(path.join("densities.svg"), summary::figure(&experiment, &finished, &path, &device)?.as_bytes())?;
    if args.json {
        print!("{json}");
    } else if !args.quiet {
        println!("{}", summary::terminal(&experiment, &rows));
        println!("result.json, densities.svg and weights are in {}", path.display());
    }
    Ok(Done::Whole)
}
