//! A study of the signal by which to stop training: the loss of each signal on traced runs.
//!
//! A run with `--trace-outliers` contains, for every look at the model, the AUROC of its outlier sets. A [`Signal`]
//! selects one look of the run without these; its loss is the AUROC of the best look minus that of the selected one.
//! The signal with the smallest loss is chosen on half of the runs, and its loss is measured on the other half.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compare::Estimate;
use nae_train::config::Stopping;
use nae_train::eval::SELECTION_SETS;
use nae_train::report::METRICS;
use nae_train::report::{RunFolder, RunFolderError};
use nae_train::train::{Look, Verdict, Watch};

/// A signal by which a look is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The rule in use: the latest look, until the AUROC of ConstantGray falls or negative energies diverge.
    SelectionAuroc,
    /// The last look before negative energies diverge.
    Last,
    /// The first look: the plain autoencoder.
    First,
    /// The smallest earth mover's distance between data and negative samples.
    EarthMoversDistance,
    /// The smallest gap between the mean energies of negative samples and of validation data.
    EnergyGap,
    /// The fewest negative samples below the calibration threshold.
    FewestBelowThreshold,
    /// The most negative samples below the calibration threshold.
    MostBelowThreshold,
    /// The smallest mean energy of validation data.
    ValidationEnergy,
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 8] = [
        Self::SelectionAuroc,
        Self::Last,
        Self::First,
        Self::EarthMoversDistance,
        Self::EnergyGap,
        Self::FewestBelowThreshold,
        Self::MostBelowThreshold,
        Self::ValidationEnergy,
    ];

    /// The title in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::SelectionAuroc => "latest, ConstantGray no worse (in use)",
            Self::Last => "last before divergence",
            Self::First => "plain autoencoder",
            Self::EarthMoversDistance => "least earth mover's distance",
            Self::EnergyGap => "least gap of energies",
            Self::FewestBelowThreshold => "fewest negatives below threshold",
            Self::MostBelowThreshold => "most negatives below threshold",
            Self::ValidationEnergy => "least validation energy",
        }
    }

    /// The cost of a look, where smaller is better; `None` if the look does not have the signal.
    fn cost(self, look: &Look) -> Option<f64> {
        match self {
            Self::SelectionAuroc | Self::Last | Self::First => None,
            Self::EarthMoversDistance => look.earth_movers_distance,
            Self::EnergyGap => look.negative_energy.map(|energy| (energy - look.validation_energy).abs()),
            Self::FewestBelowThreshold => look.negatives_below_threshold,
            Self::MostBelowThreshold => look.negatives_below_threshold.map(|share| -share),
            Self::ValidationEnergy => Some(look.validation_energy),
        }
    }

    /// The index of the selected look, the later one if several are equal. The first if no look has the signal.
    fn pick(self, run: &Traced) -> usize {
        let good = run.before_divergence();
        match self {
            Self::First => 0,
            Self::Last => good.len() - 1,
            Self::SelectionAuroc => run.kept(),
            _ => {
                let costs = good.iter().enumerate().filter_map(|(at, (look, _))| Some((at, self.cost(look)?)));
                let finite = costs.filter(|(_, cost)| cost.is_finite());
                finite.min_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map_or(0, |(at, _)| at)
            }
        }
    }
}

/// A run with its looks, each with the mean AUROC of its outlier sets.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The run folder.
    pub path: PathBuf,
    settings: Stopping,
    /// Contains at least one look.
    looks: Vec<(Look, f64)>,
}

/// Runs that cannot be studied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The folder is not a run folder.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// The measurements cannot be read.
    #[error("{}: {reason}", path.display())]
    Metrics {
        /// The path of the file.
        path: PathBuf,
        /// A description of the error.
        reason: String,
    },
    /// A run is there twice.
    #[error("{}: this run is there twice; name each run once, since one half of the runs tests what the other has chosen", .0.display())]
    Twice(PathBuf),
    /// There are too few runs for two halves.
    #[error("{0} runs: at least two are needed, one to choose by and one to show")]
    TooFew(usize),
}

impl Traced {
    /// Reads the run in the folder `path`. `sets` are the outlier sets that count; if empty, all but ConstantGray.
    ///
    /// # Errors
    /// [`StudyError`], also if the run was not traced or has none of the sets.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, StudyError> {
        let (config, _) = RunFolder::read(path)?;
        let file = path.join(METRICS);
        let failed = |reason: String| StudyError::Metrics { path: file.clone(), reason };
        let text = std::fs::read_to_string(&file).map_err(|error| failed(error.to_string()))?;
        let looks = looks(&text, sets);
        if looks.is_empty() {
            let of = if sets.is_empty() { "any set".to_owned() } else { sets.join(", ") };
            return Err(failed(format!(
                "no look with the AUROC of {of}; was the run made with --trace-outliers, and did it come to its first look?"
            )));
        }
        Ok(Self { path: path.to_owned(), settings: config.stopping(), looks })
    }

    /// The looks before negative energies diverged; at least the first.
    fn before_divergence(&self) -> &[(Look, f64)] {
        let diverged = self.looks.iter().position(|(look, _)| look.has_diverged(&self.settings));
        let end = diverged.unwrap_or(self.looks.len());
        &self.looks[..end.max(1)]
    }

    /// The index of the look that the rule in use keeps.
    fn kept(&self) -> usize {
        let mut watch = Watch::new(self.settings, self.looks[0].0, 0);
        for (at, (look, _)) in self.looks.iter().enumerate().skip(1) {
            if watch.judge(*look, &at) == Verdict::Diverged {
                break;
            }
        }
        *watch.model()
    }

    /// The loss of `signal`: the best look's AUROC minus that of the selected one.
    pub fn lost(&self, signal: Signal) -> f64 {
        let best = self.looks.iter().map(|(_, auroc)| *auroc).fold(f64::NEG_INFINITY, f64::max);
        best - self.looks[signal.pick(self)].1
    }
}

/// The traced looks in a `metrics.jsonl`. Lines that cannot be read are skipped.
fn looks(text: &str, sets: &[String]) -> Vec<(Look, f64)> {
    let mut seen: BTreeMap<usize, (Option<Look>, Option<f64>)> = BTreeMap::new();
    for line in text.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let Some(update) = value["update"].as_u64() else { continue };
        let entry = seen.entry(update as usize).or_default();
        match value["kind"].as_str() {
            Some("look") => entry.0 = look(value),
            Some("outliers") => entry.1 = mean(&value["auroc"], sets),
            _ => {}
        }
    }
    seen.into_values().filter_map(|(look, auroc)| Some((look?, auroc?))).collect()
}

/// A look as it was measured. An energy that is not finite is written as null, and after an update means that the run has diverged.
fn look(mut value: Value) -> Option<Look> {
    let energies = ["positive_energy", "negative_energy", "validation_energy"];
    let diverged = value["update"] != 0 && energies.iter().any(|key| value.get(*key).is_some_and(Value::is_null));
    if diverged {
        energies.iter().for_each(|key| value[*key] = 0.0.into());
    }
    let look = Look::deserialize(&value).ok()?;
    Some(if diverged { Look { validation_energy: f64::NAN, ..look } } else { look })
}

/// The mean over the sets that count; `None` if one has no AUROC, or if there are none.
fn mean(auroc: &Value, sets: &[String]) -> Option<f64> {
    // A set that training uses for selection cannot test its stopping.
    let counts =
        |name: &str| if sets.is_empty() { !SELECTION_SETS.contains(&name) } else { sets.iter().any(|set| set == name) };
    let all_there = sets.iter().all(|set| auroc.get(set).is_some());
    let values: Option<Vec<f64>> =
        auroc.as_object()?.iter().filter(|(name, _)| counts(name)).map(|(_, value)| value.as_f64()).collect();
    values
        .filter(|values| all_there && !values.is_empty())
        .map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

/// The losses of a signal on some runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// The mean over the runs.
    pub mean: f64,
    /// The largest loss of a run.
    pub largest: f64,
}

impl Loss {
    fn of(signal: Signal, runs: &[&Traced]) -> Self {
        let lost: Vec<f64> = runs.iter().map(|run| run.lost(signal)).collect();
        Self { mean: lost.iter().sum::<f64>() / lost.len() as f64, largest: lost.iter().copied().fold(0.0, f64::max) }
    }
}

/// A signal and its losses on both halves of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The signal.
    pub signal: Signal,
    /// The losses on the runs by which the signal was chosen.
    pub chosen_on: Loss,
    /// The losses on the other runs.
    pub shown_on: Loss,
    /// The loss in addition to that of the rule in use, over all runs.
    pub more_than_in_use: Estimate,
    /// Whether it has the smallest loss on the first half; if several are equal, the first in [`Signal::ALL`].
    pub chosen: bool,
}

/// The table. Sorted by the names of their folders, every second run from the first on is used to choose the signal.
///
/// # Errors
/// [`StudyError::Twice`] if a run is there twice, [`StudyError::TooFew`] if there are fewer than two runs.
pub fn study(mut runs: Vec<Traced>) -> Result<Vec<Row>, StudyError> {
    runs.sort_by(|a, b| a.path.cmp(&b.path));
    // One folder may have several paths.
    let mut seen = BTreeSet::new();
    if let Some(run) = runs.iter().find(|run| !seen.insert(run.path.canonicalize().unwrap_or(run.path.clone()))) {
        return Err(StudyError::Twice(run.path.clone()));
    }
    if runs.len() < 2 {
        return Err(StudyError::TooFew(runs.len()));
    }
    let half = |odd: usize| runs.iter().skip(odd).step_by(2).collect::<Vec<_>>();
    let (first, second) = (half(0), half(1));
    let more =
        |signal| -> Vec<f64> { runs.iter().map(|run| run.lost(signal) - run.lost(Signal::SelectionAuroc)).collect() };
    let mut rows: Vec<Row> = Signal::ALL
        .into_iter()
        .map(|signal| Row {
            signal,
            chosen_on: Loss::of(signal, &first),
            shown_on: Loss::of(signal, &second),
            more_than_in_use: Estimate::of(&more(signal)),
            chosen: false,
        })
        .collect();
    // If several are equal, `min_by` returns the first.
    if let Some(best) = rows.iter_mut().min_by(|a, b| a.chosen_on.mean.total_cmp(&b.chosen_on.mean)) {
        best.chosen = true;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nae_train::config::preset;

    /// A run folder whose looks have these values: update, earth mover's distance, selection AUROC, negative energy
    /// (with a positive energy of 1), AUROC.
    fn run(folder: &Path, name: &str, looks: &[(usize, f64, f64, f64, f64)]) -> PathBuf {
        let path = folder.join(name);
        std::fs::create_dir(&path).expect("makes");
        let preset = preset::load("digits").expect("known").raw().clone();
        let recorded = preset::Recorded { seed: 0, version: String::new(), commit: None, data_sha256: None, preset };
        std::fs::write(path.join("config.toml"), toml::to_string(&recorded).expect("serializes")).expect("writes");
        let mut text = "{\"kind\":\"step\",\"step\":1}\nno JSON\n".to_owned();
        for &(update, distance, selection, negative, auroc) in looks {
            let energies = if update == 0 { (None, None) } else { (Some(1.0), Some(negative)) };
            let look = json!({
                "kind": "look", "seconds": 1.0, "update": update, "validation_energy": 1.0, "selection_auroc": selection, "selection_low": selection - 0.01,
                "positive_energy": energies.0, "negative_energy": energies.1,
                "earth_movers_distance": if update == 0 { None } else { Some(distance) },
                "negatives_below_threshold": if update == 0 { None } else { Some(0.5) },
            });
            let traced = json!({
                "kind": "outliers", "seconds": 1.0, "update": update,
                "auroc": { "half": auroc - 0.1, "whole": auroc + 0.1, "ConstantGray": 0.0 },
            });
            text += &format!("{look}\n{traced}\n");
        }
        std::fs::write(path.join(METRICS), text).expect("writes");
        path
    }

    /// Such an energy is null in the file.
    #[test]
    fn a_look_with_an_energy_that_is_not_finite_has_diverged() {
        let folder = tempfile::tempdir().expect("a folder");
        let looks = [(0, 0.0, 0.9, 0.0, 0.5), (10, 1.0, 0.9, 1.5, 0.8), (20, 1.0, 0.9, f64::INFINITY, 0.1)];
        let traced = Traced::read(&run(folder.path(), "a", &looks), &[]).expect("traced");
        assert_eq!((traced.looks.len(), traced.before_divergence().len()), (3, 2));
        assert!(traced.lost(Signal::Last).abs() < 1e-9);
    }

    #[test]
    fn the_signal_that_loses_least_on_one_half_is_shown_on_the_other() {
        let folder = tempfile::tempdir().expect("a folder");
        // The best look has the smallest distance; the last one has diverged.
        let good =
            [(0, 0.0, 0.9, 0.0, 0.5), (10, 1.0, 0.9, 1.5, 0.8), (20, 2.0, 0.9, 1.6, 0.7), (30, 0.1, 0.9, 99.0, 0.1)];
        let other = [(0, 0.0, 0.9, 0.0, 0.5), (10, 2.0, 0.9, 1.5, 0.75), (20, 1.0, 0.8, 1.6, 0.7)];
        let paths = [run(folder.path(), "a", &good), run(folder.path(), "b", &other)];
        let read = |sets: &[String]| -> Vec<Traced> {
            paths.iter().map(|path| Traced::read(path, sets).expect("traced")).collect()
        };
        let rows = study(read(&[])).expect("two");
        let row = |signal| *rows.iter().find(|row| row.signal == signal).expect("all are there");
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        let distance = row(Signal::EarthMoversDistance);
        assert!(distance.chosen && rows.iter().filter(|row| row.chosen).count() == 1);
        near(distance.chosen_on.mean, 0.0);
        near(distance.shown_on.mean, 0.05);
        near(row(Signal::First).chosen_on.mean, 0.3);
        near(row(Signal::Last).chosen_on.mean, 0.1);
        // The rule in use keeps the look at 20 in the first run, and the one at 10 in the second.
        near(row(Signal::SelectionAuroc).chosen_on.mean, 0.1);
        near(row(Signal::SelectionAuroc).shown_on.mean, 0.0);
        near(row(Signal::EnergyGap).shown_on.largest, 0.0);
        // 0.1 less in the first run, 0.05 more in the second.
        near(distance.more_than_in_use.mean, -0.025);
        near(distance.more_than_in_use.standard_error, 0.075);

        near(study(read(&["whole".to_owned()])).expect("two")[1].chosen_on.mean, 0.1);
        let said = Traced::read(&paths[0], &["absent".to_owned()]).expect_err("no such set").to_string();
        assert!(said.contains("metrics.jsonl") && said.contains("absent"), "{said}");
        assert!(Traced::read(&paths[0], &["whole".to_owned(), "absent".to_owned()]).is_err(), "one of two");
        let mut again = read(&[]);
        again.push(Traced { path: paths[1].join("../b"), ..again[1].clone() });
        assert!(matches!(study(again), Err(StudyError::Twice(_))));
        std::fs::write(paths[0].join(METRICS), "").expect("writes");
        let said = Traced::read(&paths[0], &[]).expect_err("not traced").to_string();
        assert!(said.contains("--trace-outliers"), "{said}");
        assert!(Traced::read(folder.path(), &[]).is_err());
        assert!(matches!(study(Vec::new()), Err(StudyError::TooFew(0))));
    }
}
