//! Combines the cells and seeds of one experiment from several folders.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use nae_train::engine::EngineChoice;

use super::{GatherError, Gathered, difference, inner, is_unfinished, once};
use crate::Seeds;
use crate::experiments::detection::{self, DetectionSettings};
use crate::experiments::gaussians8::{self, DensitySettings};
use crate::experiments::record::{RECORD, Record};

/// The table of the experiment to which all of `folders` belong.
pub(super) fn gather(folders: &[PathBuf]) -> Result<Gathered, GatherError> {
    let mut records = Vec::new();
    for folder in folders {
        if let Some(record) = Record::read(folder)? {
            records.push((folder, record));
        }
    }
    let Some(((first_folder, first), others)) = records.split_first() else {
        return Err(GatherError::Nothing(folders.first().cloned().unwrap_or_default()));
    };
    for (folder, record) in others {
        let settings = || {
            let (key, one, other) = difference(&first.recorded, &record.recorded)?;
            Some((if key.is_empty() { "settings".to_owned() } else { key }, one, other))
        };
        let apart = first.difference(record).map(|(what, one, other)| (what.to_owned(), one, other)).or_else(settings);
        if let Some((what, one, other)) = apart {
            let folders = [first_folder.to_path_buf(), folder.to_path_buf()];
            return Err(GatherError::Apart { folders, what, one, other });
        }
    }
    let origin = first_folder.join(RECORD).display().to_string();
    if first.experiment == gaussians8::NAME {
        return densities(folders, first, &origin);
    }
    detection(folders, first, &origin)
}

fn detection(folders: &[PathBuf], record: &Record, origin: &str) -> Result<Gathered, GatherError> {
    let settings = DetectionSettings::parse(&record.settings, origin, record.scale, record.search)?;
    let mut experiment = detection::Experiment {
        name: record.experiment.clone(),
        settings,
        scale: record.scale,
        // A placeholder until the seeds are known.
        seeds: one_seed(),
        only: Vec::new(),
        engine: EngineChoice::Auto,
        device: record.device,
        data: PathBuf::new(),
        checkpoint_every: Duration::MAX,
        trace_outliers: false,
    };
    // The set by which states were selected there, even if its data are not available here.
    let selection = record.recorded.get("selection").and_then(|name| name.as_str()).map(str::to_owned);
    let mut all = Vec::new();
    for folder in folders {
        for model in experiment.finished_by(selection.as_deref(), folder)? {
            all.push((folder, model));
        }
    }
    // Equal except for the time.
    let same = |a: &detection::Finished, b: &detection::Finished| {
        detection::Finished { processor_seconds: b.processor_seconds, ..a.clone() } == *b
    };
    let name = |model: &detection::Finished| format!("{}, seed {}", model.cell, model.seed);
    let finished = once(all, name, same)?;
    experiment.seeds = seeds(finished.iter().map(|model| model.seed));
    let rows = detection::summary::rows(&experiment, &finished);
    Ok(Gathered {
        json: detection::summary::json(&experiment, selection.as_deref(), &rows, &finished),
        text: detection::summary::terminal(&experiment, &rows),
        unfinished: unfinished(folders)?,
    })
}

fn densities(folders: &[PathBuf], record: &Record, origin: &str) -> Result<Gathered, GatherError> {
    let settings = DensitySettings::parse(&record.settings, origin).map_err(gaussians8::SettingsError::from)?;
    let of = |seeds| gaussians8::Experiment::new(settings.clone(), record.scale, seeds);
    let experiment = of(one_seed())?;
    let mut all = Vec::new();
    for folder in folders {
        all.extend(experiment.finished(folder)?.into_iter().map(|model| (folder, model)));
    }
    let name = |model: &gaussians8::Finished| model.cell.to_string();
    let finished = once(all, name, |a, b| a == b)?;
    let experiment = of(seeds(finished.iter().map(|model| model.cell.seed)))?;
    let rows = gaussians8::summary::rows(&experiment, &finished);
    Ok(Gathered {
        json: gaussians8::summary::json(&experiment, &rows),
        text: gaussians8::summary::terminal(&experiment, &rows),
        unfinished: unfinished(folders)?,
    })
}

/// All of `found`, in order; if nothing is finished yet, the table is empty, whatever the seeds are.
fn seeds(found: impl Iterator<Item = u64>) -> Seeds {
    let found: BTreeSet<u64> = found.collect();
    Seeds::list(found.into_iter().collect()).unwrap_or_else(|_| one_seed())
}

fn one_seed() -> Seeds {
    Seeds::first(1).expect("one is a number of seeds")
}

/// The runs in the folders of an experiment that have not ended.
fn unfinished(folders: &[PathBuf]) -> Result<Vec<PathBuf>, GatherError> {
    let mut found = Vec::new();
    for folder in folders {
        found.extend(inner(folder)?.into_iter().filter(|run: &PathBuf| is_unfinished(run)));
    }
    Ok(found)
}
