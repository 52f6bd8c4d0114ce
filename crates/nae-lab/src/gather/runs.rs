//! Combines the seeds of one run, each in a run folder: `nae-train --seed N`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use nae_train::config::RawConfig;
use nae_train::config::preset::{self, Recorded};
use nae_train::eval::Table;
use nae_train::report::{CONFIG, RESULT};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GatherError, Gathered, difference, is_unfinished, once};
use crate::compare::Estimate;
use crate::experiments::detection::summary::footnote;
use crate::experiments::origin::{self, Origin};

/// The required part of a run's results.
#[derive(Deserialize)]
struct Figures {
    auroc: Table,
    data_sha256: String,
    /// Earlier versions of the program recorded neither the device nor the files of given outliers.
    device: Option<String>,
    given_outliers: Option<Vec<Given>>,
    /// The commit of the program that ended the run.
    commit: Option<String>,
}

/// A set of outliers that the user has given.
#[derive(Clone, Deserialize)]
struct Given {
    outliers: String,
    count: usize,
    sha256: Option<String>,
}

impl Figures {
    /// The given outliers; those of earlier versions without their digests.
    fn given(&self) -> Vec<Given> {
        let of_rows = || {
            let rows = self.auroc.rows.iter().filter(|row| row.given);
            rows.map(|row| Given { outliers: row.outliers.clone(), count: row.count, sha256: None }).collect()
        };
        self.given_outliers.clone().unwrap_or_else(of_rows)
    }
}

/// The first difference between two lists of given outliers, as texts; digests are compared where both are recorded.
fn other_outliers(one: &[Given], other: &[Given]) -> Option<(String, String, String)> {
    let with_digests = one.iter().chain(other).all(|set| set.sha256.is_some());
    let text = |set: Option<&Given>| match set {
        None => "not there".to_owned(),
        Some(Given { outliers, count, sha256: Some(sha256) }) if with_digests => {
            format!("{outliers}, {count} of SHA-256 {sha256}")
        }
        Some(Given { outliers, count, .. }) => format!("{outliers}, {count}"),
    };
    let pairs = (0..one.len().max(other.len())).map(|k| (text(one.get(k)), text(other.get(k))));
    let (one, other) = pairs.into_iter().find(|(one, other)| one != other)?;
    Some(("the set of outliers".to_owned(), one, other))
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
    if let ([first, ..], []) = (&unfinished[..], &ended[..]) {
        return Err(GatherError::Unfinished { first: first.clone(), number: unfinished.len() });
    }
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
        let settings = compared(&recorded.preset).map_err(problem)?;
        Ok(Self { folder: folder.to_owned(), recorded, settings, figures, json })
    }

    fn belongs_with(&self, other: &Self) -> Result<(), GatherError> {
        let named =
            |what: &str, own: &str, other: &str| (own != other).then(|| (what.into(), own.into(), other.into()));
        let apart = named("the program version", &self.recorded.version, &other.recorded.version)
            .or_else(|| difference(&self.settings, &other.settings))
            .or_else(|| named("the data's SHA-256", &self.figures.data_sha256, &other.figures.data_sha256))
            .or_else(|| {
                let devices = self.figures.device.as_deref().zip(other.figures.device.as_deref());
                devices.and_then(|(one, other)| named("the device", one, other))
            })
            .or_else(|| other_outliers(&self.figures.given(), &other.figures.given()));
        match apart {
            None => Ok(()),
            Some((what, one, other_one)) => {
                let folders = [self.folder.clone(), other.folder.clone()];
                Err(GatherError::Apart { folders, what, one, other: other_one })
            }
        }
    }
}

/// The settings that all runs must have in common. The frozen network of features is identified by its digest; its path
/// differs between machines.
fn compared(preset: &RawConfig) -> serde_json::Result<Value> {
    let mut settings = serde_json::to_value(preset)?;
    if let Some(features) = settings.pointer_mut("/data/features").and_then(Value::as_object_mut) {
        features.remove("backbone");
    }
    Ok(settings)
}

/// The means over the runs by outlier set, in the order of the first run's table, and by column.
fn rows(runs: &[Run]) -> Vec<(&str, bool, BTreeMap<&str, Estimate>)> {
    let first = runs.first().map(|run| run.figures.auroc.rows.as_slice()).unwrap_or_default();
    let rows = first.iter().map(|row| {
        let all = || runs.iter().filter_map(|run| run.figures.auroc.rows.iter().find(|r| r.outliers == row.outliers));
        let mean = |column: &String| {
            // JSON has null for NaN, which a mean of the others would hide.
            let values = all().filter_map(|row| row.auroc.get(column)).map(|value| value.unwrap_or(f64::NAN));
            Estimate::of(&values.collect::<Vec<f64>>())
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
    let origins: Vec<Origin> =
        runs.iter().map(|run| Origin { commit: run.figures.commit.clone(), engine: None }).collect();
    let note = origin::note(origins.iter());
    let footnote = footnote(rows.iter().any(|(_, selection, _)| *selection));
    format!("{name}: AUROC, mean ± standard error over seeds {}\n{table}{footnote}{note}", seeds.join(", "))
}

#[cfg(test)]
mod tests {
    use nae_train::config::FeatureSettings;

    use super::*;

    fn figures(result: &Value) -> Figures {
        Figures::deserialize(result).expect("figures")
    }

    fn result(given: &Value) -> Value {
        let rows = json!([{ "outliers": "bad (given)", "count": 30, "selection": false, "given": true }]);
        json!({ "auroc": { "normal_count": 0, "rows": rows }, "data_sha256": "abc", "given_outliers": given })
    }

    #[test]
    fn runs_on_other_outliers_are_told_apart() {
        let of =
            |sha256: &str| figures(&result(&json!([{ "outliers": "bad (given)", "count": 30, "sha256": sha256 }])));
        let other = |one: &Figures, other: &Figures| other_outliers(&one.given(), &other.given());
        assert!(other(&of("a"), &of("a")).is_none());
        let (what, one, two) = other(&of("a"), &of("b")).expect("other rows");
        assert_eq!(
            (what.as_str(), one.as_str(), two.as_str()),
            ("the set of outliers", "bad (given), 30 of SHA-256 a", "bad (given), 30 of SHA-256 b")
        );
        let none = figures(&result(&json!([])));
        for (one, two) in [(&of("a"), &none), (&none, &of("a"))] {
            let (_, one, two) = other(one, two).expect("a set that only one of them has");
            assert!([one, two].contains(&"not there".to_owned()));
        }
        // Results of earlier versions have names and counts only.
        let older = figures(&result(&Value::Null));
        assert!(other(&older, &of("a")).is_none() && older.device.is_none());
        assert!(other(&older, &none).is_some());
    }

    fn run(seed: u64, json: Value) -> Run {
        let preset = nae_train::config::preset::load("digits").expect("valid").raw().clone();
        let recorded = Recorded { seed, version: "1".to_owned(), commit: None, data_sha256: None, preset };
        Run { folder: PathBuf::from("run"), recorded, settings: Value::Null, figures: figures(&json), json }
    }

    #[test]
    fn a_frozen_network_may_have_another_path_and_no_other_digest() {
        let of = |backbone: &str, sha256: &str| {
            let mut run = run(0, json!({ "auroc": { "normal_count": 0, "rows": [] }, "data_sha256": "abc" }));
            let mut preset = run.recorded.preset.clone();
            preset.data.features = Some(FeatureSettings {
                backbone: backbone.into(),
                sha256: sha256.to_owned(),
                outputs: vec!["map".to_owned()],
                components: 4,
                data_sha256: None,
                top_k: 1,
            });
            run.settings = compared(&preset).expect("settings are JSON");
            run
        };
        assert!(of("/here/net.onnx", "abc").belongs_with(&of("/there/net.onnx", "abc")).is_ok());
        let said = of("net.onnx", "abc").belongs_with(&of("net.onnx", "def")).expect_err("another network").to_string();
        assert!(said.contains("data.features.sha256"), "{said}");
    }

    #[test]
    fn a_mean_is_no_number_if_one_of_its_seeds_is_none_and_commits_are_named() {
        let of = |seed, auroc: Value, commit: &str| {
            let row = json!({ "outliers": "noise", "count": 30, "selection": false, "nae": auroc });
            let auroc = json!({ "normal_count": 0, "rows": [row] });
            run(seed, json!({ "auroc": auroc, "data_sha256": "abc", "commit": commit }))
        };
        let text = as_text(&[of(0, json!(0.9), "abc"), of(1, json!(0.7), "abc")]);
        assert!(text.contains("0.800 ± 0.100") && !text.contains("commits"), "{text}");
        let text = as_text(&[of(0, json!(0.9), "abc"), of(1, Value::Null, "def")]);
        assert!(!text.contains("0.9") && text.contains("–"), "{text}");
        assert!(text.ends_with("of several commits: abc (1), def (1)."), "{text}");
    }

    #[test]
    fn runs_on_other_devices_or_outliers_do_not_belong_together() {
        let of = |device: Value, sha256: &str| {
            let mut json = result(&json!([{ "outliers": "bad (given)", "count": 30, "sha256": sha256 }]));
            json["device"] = device;
            run(0, json)
        };
        let apart = |one: Run, other: Run| one.belongs_with(&other).err().map(|error| error.to_string());
        assert_eq!(apart(of("cpu".into(), "a"), of("cpu".into(), "a")), None);
        assert_eq!(apart(of("cpu".into(), "a"), of(Value::Null, "a")), None, "of an earlier version");
        let message = apart(of("cpu".into(), "a"), of("cuda".into(), "a")).expect("other devices");
        assert!(message.contains("the device is cpu in the first and cuda in the second"), "{message}");
        assert!(apart(of("cpu".into(), "a"), of("cpu".into(), "b")).is_some_and(|text| text.contains("SHA-256 a")));
    }
}
