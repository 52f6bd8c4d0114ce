//! `nae-train --data` without a preset: settings for data of one's own, chosen and said.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_infer::input::table::is_table;
use nae_train::config::Config;
use nae_train::data::own::{self, Collection, OwnImages};
use nae_train::data::own_table;
use nae_train::data::source::Loaded;
use nae_train::engine::EngineChoice;
use nae_train::plan;
use nae_train::run::Prepared;
use nae_train::train::speed;

use super::args::{MethodArg, TrainArgs};
use super::train::Job;

/// Where no `--time-budget` is given.
const TIME: Duration = Duration::from_secs(600);

/// Reads the data at `path` and plans a run on them, to end in time.
pub(super) fn plan(args: &TrainArgs, path: &Path, device: &Device, started: Instant) -> anyhow::Result<Job> {
    if args.method.is_some_and(|method| method != MethodArg::Nae) {
        bail!(
            "--method: data of your own train an NAE, and the table has the plain autoencoder it starts from; for \
               another method, give the run's config.toml as --preset"
        );
    }
    if let Some(outliers) = &args.outliers {
        apart(path, outliers)?;
    }
    let (mut draft, loaded, found) = if is_table(path) {
        let (table, rows) = own_table::choose(path, args.missing.into()).context("--data")?;
        let found = format!("{} rows, {} columns of numbers, standardised", rows.samples.len(), table.columns.len());
        (plan::draft_table(&table, rows.samples.len())?, Loaded::from(rows), found)
    } else {
        let (images, collection) = own::choose(path, args.corrupt()).context("--data")?;
        let found = describe_images(&images, &collection);
        (plan::draft(&images, collection.images.len())?, Loaded::from(collection), found)
    };
    if args.held_out.is_some() {
        let mut raw = draft.raw().clone();
        raw.data.held_out = args.held_out;
        draft = Config::new(raw).context("--held-out")?;
    }
    let engine = EngineChoice::from(args.engine).engine(draft.architecture())?;
    let mut prepared = Prepared::of(draft, args.seed, loaded);

    let speed = speed::measure(&prepared.config, &prepared.split, engine, device);
    let time = args.time_budget.unwrap_or(TIME);
    let train = prepared.split.train.len();
    let config = plan::schedule(&prepared.config, train, &speed, time.saturating_sub(started.elapsed()))?;
    let mut choices = vec![format!("{}: {found}", config.source().title())];
    choices.extend(describe(&prepared, &config));
    let schedule = plan::describe(&config, train, &speed);
    choices.push(format!("{schedule}, for {} in all", humantime::format_duration(time)));
    prepared.config = config;
    Ok(Job { prepared, engine, choices, resume: None })
}

fn describe_images(images: &OwnImages, found: &Collection) -> String {
    let OwnImages { channels, side, .. } = images;
    let (count, classes) = (found.images.len(), found.classes.len());
    let folders = if classes > 1 { format!(" in {classes} folders") } else { String::new() };
    let colour = if *channels == 1 { "grey" } else { "RGB" };
    format!("{count} images{folders}, {colour}, brought to {side}x{side} pixels ({})", own::RESIZE.name())
}

fn describe(prepared: &Prepared, config: &Config) -> Vec<String> {
    let (split, spec) = (&prepared.split, config.architecture());
    vec![
        format!("network: {}, {} parameters", spec.name(), spec.parameters()),
        format!(
            "{} to train on, {} for validation, {} for calibration, {} for the test",
            split.train.len(),
            split.validation.len(),
            split.calibration.len(),
            split.test.len()
        ),
        format!(
            "threshold for a false-positive rate of {}, calibrated on {}",
            config.false_positive_rate(),
            split.calibration.len()
        ),
    ]
}

/// Refuses outliers that would be trained on.
pub(super) fn apart(data: &Path, outliers: &Path) -> anyhow::Result<()> {
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
