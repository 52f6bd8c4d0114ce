//! The paper's search for each method ("Baseline Implementation"): a cell is trained with each of some values, and the
//! model that best separates the selection set from validation images counts.
//!
//! This file makes the candidates of a cell and selects among them. `settings` reads the values to try;
//! [`summary`](super::summary) shows the selected ones.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::Finished;
use super::settings::{Cell, SettingsError};
use nae_train::config::MethodKind;
use nae_train::config::change::{config, put};

/// The values to try for some methods. If two of these name a method, every value of one is tried with every value of
/// the other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    methods: Vec<MethodKind>,
    /// The values, numbers or words, by key of the configuration, with parts joined by dots.
    values: BTreeMap<String, Vec<Value>>,
}

/// `cell` with every combination of the values in `searches` for its method, the last key varying fastest; only `cell`
/// itself if there are none.
pub(super) fn candidates(cell: Cell, searches: &[Search], origin: &str) -> Result<Vec<Cell>, SettingsError> {
    let method = cell.config.method();
    let of_method = searches.iter().filter(|search| search.methods.contains(&method));
    let mut candidates = vec![cell];
    for (key, values) in of_method.flat_map(|search| &search.values) {
        if values.is_empty() {
            return Err(SettingsError::Candidate { origin: origin.to_owned(), key: key.to_owned() });
        }
        let tried = candidates.iter().flat_map(|cell| values.iter().map(|value| candidate(cell, key, value, origin)));
        candidates = tried.collect::<Result<_, _>>()?;
    }
    Ok(candidates)
}

fn candidate(cell: &Cell, key: &str, value: &Value, origin: &str) -> Result<Cell, SettingsError> {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // It is part of a folder's name.
    if !shown.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(SettingsError::Candidate { origin: origin.to_owned(), key: key.to_owned() });
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    let name = format!("{}+{last}={shown}", cell.name);
    let origin = format!("{origin}, cell {name}");
    // It was read from TOML.
    let mut table = Table::try_from(cell.config.raw()).expect("settings are TOML");
    let put = put(&mut table, key, value.clone());
    put.ok_or_else(|| SettingsError::Key { origin: origin.clone(), key: key.to_owned() })?;
    let config = config(table, &origin)?;
    Ok(Cell { name, config, ..cell.clone() })
}

/// One candidate and its models, by seed.
pub(super) struct Tried<'a> {
    pub(super) cell: &'a Cell,
    pub(super) models: Vec<&'a Finished>,
}

/// The candidate in `tried` whose models best separate the selection set from validation images by the column `key`, on
/// average over their seeds; the first if several are equal. `None` unless all have models of the same seeds.
pub(super) fn chosen<'a, 'b>(tried: &'b [Tried<'a>], key: &str) -> Option<&'b Tried<'a>> {
    let (first, others) = tried.split_first()?;
    if others.is_empty() {
        return Some(first);
    }
    let seeds = |tried: &Tried<'_>| tried.models.iter().map(|model| model.seed).collect::<Vec<_>>();
    if first.models.is_empty() || others.iter().any(|other| seeds(other) != seeds(first)) {
        return None;
    }
    let score = |tried: &Tried<'_>| {
        let of = |model: &&Finished| model.selection_auroc.get(key).copied().unwrap_or(f64::NEG_INFINITY);
        tried.models.iter().map(of).sum::<f64>()
    };
    Some(others.iter().fold(first, |best, other| if score(other) > score(best) { other } else { best }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Scale;
    use crate::experiments::detection::{DetectionSettings, EXPERIMENTS};

    fn methods() -> &'static str {
        EXPERIMENTS.iter().find(|known| known.name == "mnist-methods").expect("comes with the program").text
    }

    fn searched(text: &str) -> Result<DetectionSettings, SettingsError> {
        DetectionSettings::parse(text, "mine.toml", Scale::Cpu, true)
    }

    #[test]
    fn every_value_is_tried_with_every_other() {
        let settings = searched(methods()).expect("valid");
        let of = |group: &str| settings.cells.iter().filter(|cell| cell.group == group).collect::<Vec<_>>();
        let wae = of("wae-1");
        assert_eq!(wae.len(), 8 * 3);
        for (cell, (latent_dim, mmd)) in wae.iter().zip(
            [2, 4, 8, 16, 32, 64, 128, 256].into_iter().flat_map(|dim| [0.001, 0.01, 0.1].map(|mmd: f32| (dim, mmd))),
        ) {
            assert_eq!(cell.name, format!("wae-1+latent_dim={latent_dim}+mmd={mmd}"));
            assert_eq!(cell.config.architecture().latent_dim(), latent_dim);
            assert_eq!(cell.config.raw().baselines.wae.mmd, mmd);
            assert_eq!(cell.config.held_out(), Some(1));
        }
        assert_eq!((of("dae-9").len(), of("nae-cd-9").len()), (8, 8));
        let glow = of("glow-9");
        assert_eq!((glow.len(), glow[0].name.as_str()), (1, "glow-9"), "nothing is searched for it");
        // Except for the candidates, everything is as without a search.
        let plain = DetectionSettings::parse(methods(), "mine.toml", Scale::Cpu, false).expect("valid");
        let mut groups: Vec<&str> = settings.cells.iter().map(|cell| cell.group.as_str()).collect();
        groups.dedup();
        assert_eq!(groups, plain.cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>());
        let dae = of("dae-9")[4];
        assert_eq!(dae.name, "dae-9+latent_dim=32");
        let same = plain.cells.iter().find(|cell| cell.name == "dae-9").expect("there");
        assert_eq!((dae.config.raw(), &dae.paper), (same.config.raw(), &same.paper), "32 is the preset's");
    }

    #[test]
    fn a_search_that_cannot_be_made_is_refused() {
        let message = |text: &str| searched(text).expect_err("refused").to_string();
        let none = methods().replace("[[search]]", "[[searches]]");
        assert!(message(&none).contains("searches"), "{}", message(&none));
        let ood = EXPERIMENTS.iter().find(|known| known.name == "mnist-ood").expect("there").text;
        assert!(message(ood).contains("mine.toml: no cell has values to search"), "{}", message(ood));
        for (from, to, said) in [
            ("[2, 4,", "[[2], 4,", "search, `architecture.latent_dim`: expected numbers, or words"),
            ("[2, 4, 8, 16, 32, 64, 128, 256]", "[]", "search, `architecture.latent_dim`: expected numbers, or words"),
            ("[2, 4,", "[\"../2\", 4,", "search, `architecture.latent_dim`: expected numbers, or words"),
            ("[2, 4,", "[0, 4,", "cell nae-0+latent_dim=0"),
            ("\"architecture.latent_dim\" =", "\"architecture.latent.dim\" =", "`architecture.latent.dim` is no key"),
            ("\"vqvae\", \"dagmm\"", "\"vqvea\"", "vqvea"),
        ] {
            let text = methods().replacen(from, to, 1);
            assert_ne!(text, methods(), "{from}");
            let of_nae = [
                ("name = \"dae-0\"", "name = \"nae-0\""),
                ("method = \"dae\"", "method = \"nae\""),
                ("{ dae =", "{ nae ="),
            ];
            let text = of_nae.iter().fold(text, |text, (from, to)| text.replace(from, to));
            let message = message(&text);
            assert!(message.contains("mine.toml") && message.contains(said), "{message}");
        }
    }

    #[test]
    fn the_selection_set_chooses_for_each_column_and_the_first_of_equals_is_taken() {
        let settings = searched(methods()).expect("valid");
        let cells: Vec<&Cell> = settings.cells.iter().filter(|cell| cell.group == "vae-1").take(3).collect();
        let model = |cell: &Cell, seed, selection: [f64; 2]| Finished {
            cell: cell.name.clone(),
            seed,
            data_sha256: None,
            outliers_sha256: Default::default(),
            warnings: Vec::new(),
            auroc: serde_json::from_value(serde_json::json!({ "normal_count": 0, "rows": [] })).expect("a table"),
            selection_auroc: ["vae_reconstruction", "vae_likelihood"]
                .map(str::to_owned)
                .into_iter()
                .zip(selection)
                .collect(),
            kept_update: 0,
            diverged: false,
            processor_seconds: 0.0,
            origin: Default::default(),
        };
        // The mean over seeds decides, not the best seed.
        let models = [
            [model(cells[0], 0, [0.9, 0.2]), model(cells[0], 1, [0.1, 0.3])],
            [model(cells[1], 0, [0.6, 0.4]), model(cells[1], 1, [0.6, 0.1])],
            [model(cells[2], 0, [0.5, 0.25]), model(cells[2], 1, [0.7, 0.25])],
        ];
        let tried: Vec<Tried<'_>> =
            cells.iter().zip(&models).map(|(cell, models)| Tried { cell, models: models.iter().collect() }).collect();
        let name = |tried: &[Tried<'_>], key| chosen(tried, key).map(|chosen| chosen.cell.name.clone());
        assert_eq!(name(&tried, "vae_reconstruction").as_deref(), Some("vae-1+latent_dim=4"));
        assert_eq!(name(&tried, "vae_likelihood").as_deref(), Some("vae-1+latent_dim=2"), "of equals the first");
        // `None` until all have run.
        let mut partly = tried;
        partly[2].models.pop();
        assert_eq!(name(&partly, "vae_reconstruction"), None);
        assert_eq!(name(&partly[..1], "vae_reconstruction").as_deref(), Some("vae-1+latent_dim=2"), "alone");
    }
}
