//! `nae-train reproduce` for the paper's illustrations: makes pictures and their numbers.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use burn::tensor::Device;
use nae_data::own::Corrupt;
use nae_lab::experiments::Scale;
use nae_lab::experiments::pictures::along_training;
use nae_lab::experiments::pictures::bimodal;
use nae_lab::experiments::pictures::random_init;
use nae_lab::experiments::pictures::reconstruction_error;
use nae_lab::experiments::pictures::{Made, PicturesError, claim, mnist_without_nine};
use nae_onnx::file;
use nae_train::commit;
use nae_train::engine::EngineChoice;
use nae_train::report::progress::Bars;
use nae_train::run::Prepared;
use serde_json::json;

use crate::Done;
use crate::args::{ExperimentArg, ReproduceArgs};
use crate::output::{errln, out, outln};
use crate::train::stop_on_interrupt;

/// The seed; pictures show one seed.
const SEED: u64 = 0;

pub(crate) fn run(args: &ReproduceArgs, path: &Path) -> anyhow::Result<Done> {
    let (no_settings, one_seed) =
        ("its settings are part of the program", format!("its pictures show the seed {SEED}"));
    args.refuse_unused(&[
        ("--cells", !args.cells.is_empty(), "it has no cells"),
        ("--search", args.search, no_settings),
        ("--settings", args.settings.is_some(), no_settings),
        ("--print", args.print, no_settings),
        ("--trace-outliers", args.trace_outliers, "it has no table of outliers"),
        ("--seeds", args.seeds.is_some(), &one_seed),
    ])?;
    let mnist = mnist(args)?;
    let (device, engine) = args.compute.open(None, args.quiet)?;
    // Held until the results are written.
    let _lock = claim(&args.experiment.name(), Scale::from(args.scale), args.compute.device, path)?;
    let stop = stop_on_interrupt()?;
    let made = match make(args, mnist.as_deref(), path, engine, &device, &stop) {
        Ok(made) => made,
        Err(error) => {
            if matches!(error.downcast_ref(), Some(PicturesError::Interrupted)) {
                match args.experiment {
                    ExperimentArg::ReconstructionError => errln!(
                        "interrupted; the same command continues with the autoencoders that {} does not have yet",
                        path.display()
                    ),
                    _ => errln!("interrupted; the same command begins again"),
                }
                return Ok(Done::Interrupted);
            }
            return Err(error);
        }
    };
    let result = json!({
        "experiment": args.experiment.name(),
        "scale": Scale::from(args.scale),
        "work": work(args),
        "seed": SEED,
        "device": args.compute.device,
        "version": env!("CARGO_PKG_VERSION"),
        "commit": commit::get(),
        "figures": made.figures,
    });
    let text = serde_json::to_string_pretty(&result)? + "\n";
    file::write(path.join("result.json"), text.as_bytes())?;
    for (name, content) in &made.pictures {
        file::write(path.join(name), content)?;
    }
    if args.json {
        out!("{text}")?;
    } else if !args.quiet {
        let names: Vec<&str> = made.pictures.iter().map(|(name, _)| *name).collect();
        outln!("result.json and {} are in {}", names.join(", "), path.display())?;
    }
    Ok(Done::Whole)
}

/// The time on two cores: measured if it is less than a minute, else computed from the time of an update of Conv28
/// in nae-train/ENGINE.md.
fn work(args: &ReproduceArgs) -> &'static str {
    use ExperimentArg::{AlongTraining, Bimodal, RandomInit, ReconstructionError};
    match (Scale::from(args.scale), args.experiment) {
        (Scale::Smoke, RandomInit | Bimodal) => "seconds",
        (Scale::Smoke, ReconstructionError) => "seconds a model, eight of them",
        (Scale::Smoke, _) => "seconds a model",
        (_, RandomInit | Bimodal) => "less than a minute",
        (Scale::Cpu, AlongTraining) => "about half an hour",
        (Scale::Cpu, ReconstructionError) => "eleven processor minutes an autoencoder, eight of them",
        (Scale::Paper, AlongTraining | ReconstructionError) => "the paper's schedule: days",
        _ => "minutes",
    }
}

/// The folder of MNIST; `None` for the illustration that draws its data.
fn mnist(args: &ReproduceArgs) -> anyhow::Result<Option<PathBuf>> {
    if matches!(args.experiment, ExperimentArg::Bimodal) {
        if args.data.is_some() {
            bail!("bimodal draws its data: leave --data out");
        }
        return Ok(None);
    }
    Ok(Some(args.data_folder()?.join("mnist")))
}

/// Makes the illustration in the folder `path`; `mnist` is what [`mnist`] found.
fn make(
    args: &ReproduceArgs,
    mnist: Option<&Path>,
    path: &Path,
    engine: EngineChoice,
    device: &Device,
    stop: &AtomicBool,
) -> anyhow::Result<Made> {
    let scale = Scale::from(args.scale);
    if !args.quiet {
        errln!("{}, scale `{}`: {}", args.experiment.name(), scale.name(), work(args));
    }
    let Some(mnist) = mnist else { return Ok(bimodal(scale, SEED, device, stop)?) };
    let prepare = |config| Prepared::new(config, SEED, Some(mnist), Corrupt::Skip);
    let prepared = || -> anyhow::Result<Prepared> { Ok(prepare(mnist_without_nine(scale)?)?) };
    Ok(match args.experiment {
        ExperimentArg::RandomInit => random_init(&prepared()?, engine, device)?,
        ExperimentArg::AlongTraining => along_training(&prepared()?, engine, device, stop, Bars::new(args.quiet))?,
        _ => reconstruction_error(scale, prepare, path, engine, device, stop, |dim| {
            if !args.quiet {
                errln!("D_z = {dim}");
            }
        })?,
    })
}
