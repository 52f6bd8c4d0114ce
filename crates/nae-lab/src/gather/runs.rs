//! Combines the seeds of one run, each in a run folder: `nae-train --seed N`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use nae_train::config::preset::{self, Recorded};
use nae_train::eval::{FOOTNOTE, Table};
use nae_train::report::{CONFIG, RESULT};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GatherError, Gathered, difference, is_unfinished, once};
use crate::compare::Estimate;

/// The required part of a run's results.
#[derive(Deserialize)]
struct Figures {
    auroc: Table,
    data_sha256: String,
}

/// A run that has ended.
struct Run {
    folder: PathBuf,
    recorded: Recorded,
    settings: Value,
    figures: Figures,
    /// All results, as in the file.
    json: Value,
}

/// The table of the runs in `folders`, which differ only in their seeds.
pub(super) fn gather(folders: &[PathBuf]) -> Result<Gathered, GatherError> {
    let (unfinished, ended): (Vec<_>, Vec<_>) = folders.iter().cloned().partition(|folder| is_unfinished(folder));
    let mut all: Vec<(&PathBuf, Run)> = Vec::new();
    for folder in &ended {
        let run = Run::read(folder)?;
        if let Some((_, first)) = all.first() {
            first.belongs_with(&run)?;
        }
        all.push((folder, run));
    }
    let name = |run: &Run| format!("seed {}", run.recorded.seed);
    let mut runs = once(all, name, |a, b| a.figures.auroc == b.figures.auroc)?;
    runs.sort_by_key(|run| run.recorded.seed);
    Ok(Gathered { json: as_json(&runs), text: as_text(&runs), unfinished })
}

impl Run {
    fn read(folder: &Path) -> Result<Self, GatherError> {
        let file = |name: &str| {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).map_err(|cause| {
                let ended = "was the run interrupted, or made by an earlier program?";
                GatherError::File { path: path.clone(), problem: format!("{cause}; {ended}") }
            })?;
            Ok::<_, GatherError>((path, text))
        };
        let (path, text) = file(CONFIG)?;
        let recorded = preset::recorded(&text, &path.display().to_string())
            .map_err(|error| GatherError::File { path, problem: error.to_string() })?;
        let (path, text) = file(RESULT)?;
        let problem = |error: serde_json::Error| GatherError::File { path: path.clone(), problem: error.to_string() };
        let json: Value = serde_json::from_str(&text).map_err(problem)?;
        let figures = Figures::deserialize(&json).map_err(problem)?;
        let settings = serde_json::to_value(&recorded.preset).map_err(problem)?;
        Ok(Self { folder: folder.to_owned(), recorded, settings, figures, json })
    }

    fn belongs_with(&self, other: &Self) -> Result<(), GatherError> {
        let named =
            |what: &str, own: &str, other: &str| (own != other).then(|| (what.into(), own.into(), other.into()));
        let apart = named("the program version", &self.recorded.version, &other.recorded.version)
            .or_else(|| difference(&self.settings, &other.settings))
            .or_else(|| named("the data's SHA-256", &self.figures.data_sha256, &other.figures.data_sha256));
        match apart {
            None => Ok(()),
            Some((what, one, other_one)) => {
                let folders = [self.folder.clone(), other.folder.clone()];
                Err(GatherError::Apart { folders, what, one, other: other_one })
            }
        }
    }
}

/// The means over the runs by outlier set, in the order of the first run's table, and by column.
fn rows(runs: &[Run]) -> Vec<(&str, bool, BTreeMap<&str, Estimate>)> {
    let first = runs.first().map(|run| run.figures.auroc.rows.as_slice()).unwrap_or_default();
    let rows = first.iter().map(|row| {
        let all = || runs.iter().filter_map(|run| run.figures.auroc.rows.iter().find(|r| r.outliers == row.outliers));
        let mean = |column: &String| {
            let values: Vec<f64> = all().filter_map(|row| row.auroc.get(column).copied().flatten()).collect();
            Estimate::of(&values)
        };
        let columns = row.auroc.keys().map(|column| (column.as_str(), mean(column))).collect();
        (row.outliers.as_str(), row.selection, columns)
    });
    rows.collect()
}

fn as_json(runs: &[Run]) -> Value {
    let rows: Vec<Value> = rows(runs)
        .into_iter()
        .map(|(outliers, selection, auroc)| json!({"outliers": outliers, "selection": selection, "auroc": auroc}))
        .collect();
    json!({
        "version": runs.first().map(|run| &run.recorded.version),
        "settings": runs.first().map(|run| &run.settings),
        "seeds": runs.iter().map(|run| run.recorded.seed).collect::<Vec<_>>(),
        "rows": rows,
        "runs": runs.iter().map(|run| &run.json).collect::<Vec<_>>(),
    })
}

fn as_text(runs: &[Run]) -> String {
    let rows = rows(runs);
    let columns: Vec<&str> = rows.first().map(|(_, _, auroc)| auroc.keys().copied().collect()).unwrap_or_default();
    let mut table = comfy_table::Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(std::iter::once("outliers".to_owned()).chain(columns.iter().map(|name| name.replace('_', " "))));
    for (outliers, selection, auroc) in &rows {
        let mark = if *selection { " *" } else { "" };
        let cells = columns.iter().map(|column| auroc.get(column).map_or_else(|| "–".to_owned(), Estimate::to_string));
        table.add_row(std::iter::once(format!("{outliers}{mark}")).chain(cells));
    }
    let seeds: Vec<String> = runs.iter().map(|run| run.recorded.seed.to_string()).collect();
    let name = runs.first().map(|run| run.recorded.preset.name.clone()).unwrap_or_default();
    format!("{name}: AUROC, mean ± standard error over seeds {}\n{table}\n{FOOTNOTE}", seeds.join(", "))
}
