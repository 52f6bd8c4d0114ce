//! `nae-train --data` without a preset: settings for images of one's own, chosen and said.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_train::config::Config;
use nae_train::data::Source;
use nae_train::data::own::{self, OwnImages};
use nae_train::engine::EngineChoice;
use nae_train::plan;
use nae_train::run::Prepared;
use nae_train::train::speed;

use super::args::{MethodArg, TrainArgs};
use super::train::Job;

/// Where no `--time-budget` is given.
const TIME: Duration = Duration::from_secs(600);

/// Reads the images at `path` and plans a run on them, to end in time.
pub(super) fn plan(args: &TrainArgs, path: &Path, device: &Device, started: Instant) -> anyhow::Result<Job> {
    if args.method.is_some_and(|method| method != MethodArg::Nae) {
        bail!(
            "--method: images of your own train an NAE, and the table has the plain autoencoder it starts from; for \
               another method, give the run's config.toml as --preset"
        );
    }
    if let Some(outliers) = &args.outliers {
        apart(path, outliers)?;
    }
    let (images, collection) = own::choose(path, args.corrupt()).context("--data")?;
    let mut draft = plan::draft(&images, collection.images.len())?;
    if args.held_out.is_some() {
        let mut raw = draft.raw().clone();
        raw.data.held_out = args.held_out;
        draft = Config::new(raw).context("--held-out")?;
    }
    let engine = EngineChoice::from(args.engine).engine(draft.architecture())?;
    let (classes, count) = (collection.classes.len(), collection.images.len());
    let mut prepared = Prepared::of(draft, args.seed, collection.into());

    let speed = speed::measure(&prepared.config, &prepared.split, engine, device);
    let time = args.time_budget.unwrap_or(TIME);
    let train = prepared.split.train.len();
    let config = plan::schedule(&prepared.config, train, &speed, time.saturating_sub(started.elapsed()))?;
    let mut choices = describe(&images, count, classes, &prepared, &config);
    let schedule = plan::describe(&config, train, &speed);
    choices.push(format!("{schedule}, for {} in all", humantime::format_duration(time)));
    prepared.config = config;
    Ok(Job { prepared, engine, choices })
}

fn describe(images: &OwnImages, count: usize, classes: usize, prepared: &Prepared, config: &Config) -> Vec<String> {
    let OwnImages { title, channels, side } = images;
    let (split, source): (_, &Source) = (&prepared.split, config.source());
    let folders = if classes > 1 { format!(" in {classes} folders") } else { String::new() };
    let colour = if *channels == 1 { "grey" } else { "RGB" };
    let spec = config.architecture();
    vec![
        format!(
            "{title}: {count} images{folders}, {colour}, brought to {side}x{side} pixels ({})",
            source.resize_filter().name()
        ),
        format!("network: {}, {} parameters", spec.name(), spec.parameters()),
        format!(
            "{} images to train on, {} for validation, {} for calibration, {} for the test",
            split.train.len(),
            split.validation.len(),
            split.calibration.len(),
            split.test.len()
        ),
        format!(
            "threshold for a false-positive rate of {}, what {} calibration images allow",
            config.false_positive_rate(),
            split.calibration.len()
        ),
    ]
}

/// Refuses outliers that would be trained on.
fn apart(data: &Path, outliers: &Path) -> anyhow::Result<()> {
    // What is not there is said when it is read.
    if let (Ok(data), Ok(outliers)) = (data.canonicalize(), outliers.canonicalize())
        && outliers.starts_with(&data)
    {
        bail!("--outliers: {} lies in {}, and would be trained on; keep it apart", outliers.display(), data.display());
    }
    Ok(())
}

/// What was chosen, and what is odd about the data, before the run starts.
pub(super) fn say(choices: &[String], warnings: &[String]) {
    for sentence in choices {
        eprintln!("{sentence}");
    }
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}
