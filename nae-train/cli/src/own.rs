//! `nae-train --data` without a preset: settings for a user's own data, chosen and said.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use nae_data::ImageSet;
use nae_data::Loaded;
use nae_data::is_tables;
use nae_data::own::{self, Asked, Collection, OwnImages};
use nae_data::own_table::{self, OwnTable, Rows};
use nae_features::Backbone;
use nae_onnx::metadata::{Reading, RowWindow, Tiles};
use nae_train::config::{Config, FeatureSettings};
use nae_train::engine::EngineChoice;
use nae_train::features;
use nae_train::plan;
use nae_train::run::Prepared;
use nae_train::train::speed;

use crate::args::{MethodArg, TrainArgs};
use crate::job::Job;

/// Where no `--time-budget` is given.
const TIME: Duration = Duration::from_secs(600);
/// Numbers of a place after whitening, where the frozen network gives as many.
const COMPONENTS: usize = 64;
/// Places whose energies make an image's score, where no `--top-k` is given.
const PLACES: usize = 5;

/// Reads the data at `path` and plans a run on them, to end in time.
pub(crate) fn plan(
    args: &TrainArgs,
    path: &Path,
    engines: EngineChoice,
    device: &Device,
    started: Instant,
) -> anyhow::Result<Job> {
    if args.method.is_some_and(|method| method != MethodArg::Nae) {
        bail!(
            "--method: data of your own train an NAE, and the table has the plain autoencoder it starts from; for \
               another method, give the run's config.toml as --preset"
        );
    }
    if let Some(outliers) = &args.outliers {
        apart(path, outliers)?;
    }
    if args.top_k.is_some() && args.tile.is_none() && args.features.is_none() {
        bail!("--top-k: an image that is not divided has one energy; give --tile or --features with it");
    }
    let (mut draft, loaded, found) = if is_tables(path) {
        if args.tile.is_some() || args.features.is_some() {
            let (option, what) = if args.tile.is_some() { ("--tile", "tiles") } else { ("--features", "features") };
            bail!("{option}: {} is a table; {what} are of images", path.display());
        }
        let (table, rows) = own_table::choose(path, args.missing.into(), args.window()).context("--data")?;
        let found = describe_rows(&table, &rows);
        (plan::draft_table(&table, rows.samples.len())?, Loaded::from(rows), found)
    } else {
        if args.window.is_some() {
            bail!("--window: {} is no table, .csv or .tsv; windows are of its rows", path.display());
        }
        let backbone = args.features.as_ref().map(|file| features::read(file, &args.feature_outputs));
        let backbone = backbone.transpose().context("--features")?;
        let shape = backbone.as_ref().map(|backbone| (backbone.input().channels, backbone.input().height));
        let asked = Asked { shape, ..args.asked() };
        if let Some((side, Tiles { stride, .. })) = asked.tiles
            && stride > side
        {
            bail!("--stride: {stride} pixels from one tile of {side} to the next would leave some out");
        }
        let (images, collection) = own::choose_with(path, &asked, args.corrupt()).context("--data")?;
        let found = describe_images(&images, &collection);
        let count = collection.images.decisions();
        let draft = match backbone.zip(args.features.as_ref()) {
            Some((backbone, file)) => {
                let settings = feature_settings(args, file, &backbone)?;
                plan::draft_features(&images, settings, asked.transforms, count)?
            }
            None => plan::draft(&images, asked.transforms, count)?,
        };
        (draft, Loaded::from(collection), found)
    };
    if args.held_out.is_some() {
        let mut raw = draft.raw().clone();
        raw.data.held_out = args.held_out;
        draft = Config::new(raw).context("--held-out")?;
    }
    let engine = engines.engine(draft.architecture())?;
    let mut prepared = Prepared::of(draft, args.seed, loaded)?;
    if let Some(confidence) = args.confidence {
        let calibration = prepared.split.calibration.decisions();
        prepared.config = plan::with_confidence(&prepared.config, calibration, confidence).context("--confidence")?;
    }

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

/// What is recorded of the frozen network in `file`: where it is, from any folder, and which it is.
fn feature_settings(args: &TrainArgs, file: &Path, backbone: &Backbone) -> anyhow::Result<FeatureSettings> {
    Ok(FeatureSettings {
        backbone: file.canonicalize().with_context(|| file.display().to_string())?,
        sha256: backbone.sha256().to_owned(),
        outputs: backbone.outputs(),
        components: COMPONENTS.min(backbone.features()),
        data_sha256: None,
        top_k: args.top_k.map_or(PLACES, usize::from),
    })
}

fn describe_images(images: &OwnImages, found: &Collection) -> String {
    let OwnImages { channels, side, .. } = images;
    let (count, classes) = (found.images.units().len(), found.classes.len());
    let folders = if classes > 1 { format!(" in {classes} folders") } else { String::new() };
    let colour = if *channels == 1 { "grey" } else { "RGB" };
    let how = match images.tiles {
        None => format!("brought to {side}x{side} pixels ({})", own::RESIZE.name()),
        Some(Tiles { stride, top_k }) => format!(
            "cut into {} tiles of {side}x{side} pixels, {stride} apart; an image's score is {}",
            found.images.len(),
            if top_k == 1 { "the largest energy".to_owned() } else { format!("the mean of the {top_k} largest") }
        ),
    };
    format!("{count} images{folders}, {colour}, {how}")
}

fn describe_rows(table: &OwnTable, rows: &Rows) -> String {
    let windows = table.window.map(|RowWindow { rows: size, stride }| {
        format!("; {} windows of {size}, {stride} from one to the next", rows.samples.len())
    });
    let count = |of: fn(&Reading) -> bool| table.columns.iter().filter(|column| of(&column.reading)).count();
    let numbers = count(Reading::is_number);
    let values = count(|reading| matches!(reading, Reading::Is(_)));
    let gaps = count(|reading| matches!(reading, Reading::Absent));
    let also = [(values, "inputs for the values of categories"), (gaps, "for gaps")].into_iter();
    let also: String = also.filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}")).collect();
    format!(
        "{} rows, {numbers} columns of numbers, scaled by their quartiles{also}{}",
        rows.rows,
        windows.unwrap_or_default()
    )
}

/// How many samples there are, and how many images where they are tiles.
fn count(set: &ImageSet) -> String {
    if set.are_tiles() { format!("{} ({} parts)", set.decisions(), set.len()) } else { set.len().to_string() }
}

fn describe(prepared: &Prepared, config: &Config) -> Vec<String> {
    let (split, spec) = (&prepared.split, config.architecture());
    let features = prepared.features().zip(config.features()).map(|(features, settings)| {
        let shape = features.front().shape();
        format!(
            "features: outputs {} of {}, in {} × {} places, whitened to {} numbers; an image's score is the mean of the {} \
             largest energies",
            settings.outputs.join(", "),
            settings.backbone.display(),
            shape.height,
            shape.width,
            shape.channels,
            features.top_k(),
        )
    });
    let mut said: Vec<String> = features.into_iter().collect();
    said.extend([
        format!("network: {}, {} parameters", spec.name(), spec.parameters()),
        format!(
            "{} to train on, {} for validation, {} for calibration, {} for the test",
            count(&split.train),
            count(&split.validation),
            count(&split.calibration),
            count(&split.test)
        ),
        format!(
            "threshold for a false-positive rate of {}{}, calibrated on {}",
            config.false_positive_rate(),
            config.confidence().map(|confidence| format!(" with a confidence of {confidence}")).unwrap_or_default(),
            split.calibration.decisions()
        ),
    ]);
    said
}

/// Refuses outliers that would be trained on.
pub(crate) fn apart(data: &Path, outliers: &Path) -> anyhow::Result<()> {
    // What is not there is said when it is read.
    if let (Ok(data), Ok(outliers)) = (data.canonicalize(), outliers.canonicalize())
        && outliers.starts_with(&data)
    {
        bail!("--outliers: {} lies in {}, and would be trained on; keep it apart", outliers.display(), data.display());
    }
    Ok(())
}

/// What was chosen, and what is odd about the data, before the run starts.
pub(crate) fn say(choices: &[String], warnings: &[String]) {
    for sentence in choices {
        eprintln!("{sentence}");
    }
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}
