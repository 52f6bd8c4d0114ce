//! The settings of an experiment, with the models to train and the paper's results, read strictly and checked once.
//!
//! An experiment is a preset with changes: first those for every scale, then those of the scale, then those of the
//! cell. A change names a key of the preset, with parts joined by dots, and replaces its whole value. A scale can refer
//! to that of another experiment, whose changes precede its own.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;

use nae_data::DataError;
use nae_onnx::metadata::Transforms;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::search::{self, Search};
use super::summary;
use crate::experiments::Scale;
use nae_train::config::change::{config, parent, put};
use nae_train::config::preset::PRESETS;
use nae_train::config::text::{TextError, read};
use nae_train::config::{Config, MethodKind, RawConfig};
use nae_train::eval::SELECTION_SETS;

/// An experiment that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The name for `nae-train reproduce`.
    pub name: &'static str,
    /// The TOML text of its settings.
    pub text: &'static str,
}

/// All experiments of this kind that are part of the program.
pub const EXPERIMENTS: &[Known] = &[
    Known { name: "mnist-holdout", text: include_str!("../../../experiments/mnist-holdout.toml") },
    Known { name: "mnist-methods", text: include_str!("../../../experiments/mnist-methods.toml") },
    Known { name: "mnist-ood", text: include_str!("../../../experiments/mnist-ood.toml") },
    Known { name: "cifar10-ood", text: include_str!("../../../experiments/cifar10-ood.toml") },
    Known { name: "imagenet32-ood", text: include_str!("../../../experiments/imagenet32-ood.toml") },
    Known { name: "celeba64-sample", text: include_str!("../../../experiments/celeba64-sample.toml") },
    Known { name: "mnist-pretraining", text: include_str!("../../../experiments/mnist-pretraining.toml") },
    Known { name: "mnist-sampling", text: include_str!("../../../experiments/mnist-sampling.toml") },
    Known { name: "mnist-latent-dim", text: include_str!("../../../experiments/mnist-latent-dim.toml") },
    Known { name: "mnist-mpdr", text: include_str!("../../../experiments/mnist-mpdr.toml") },
];

/// Invalid settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The text is not a settings file, or a value is invalid.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A change names a key that the preset does not have.
    #[error("{origin}: `{key}` is no key of the preset, or no number to multiply")]
    Key {
        /// The file and the cell.
        origin: String,
        /// The key.
        key: String,
    },
    /// A number cannot be multiplied by a factor.
    #[error("{origin}: times, `{key}`: expected a factor of at least 0 with a product below 2^53; found {factor}")]
    Factor {
        /// The file and the cell.
        origin: String,
        /// The key.
        key: String,
        /// The factor.
        factor: f64,
    },
    /// The list of values to try is empty, or a value has no valid name.
    #[error(
        "{origin}: search, `{key}`: expected numbers, or words of letters, digits, `-`, `_` and `.`, one at least; found \
         none, or something else"
    )]
    Candidate {
        /// The file.
        origin: String,
        /// The key.
        key: String,
    },
    /// There are no values to try.
    #[error("{0}: no cell has values to search; add `[[search]]` to the settings, as in mnist-methods")]
    NoSearch(String),
    /// A scale does not contain the work of a model.
    #[error(
        "{origin}: scale `{scale}` has neither `work`, what a model takes at it, nor `like`, an experiment to take it from"
    )]
    NoWork {
        /// The file.
        origin: String,
        /// The scale.
        scale: &'static str,
    },
    /// Two cells have the same name, or a name cannot be that of a folder.
    #[error(
        "{origin}: the name `{name}` of a cell: expected lower-case letters, digits, `-`, `_` and `.`, a letter or digit first, \
         and another for each cell"
    )]
    CellName {
        /// The file.
        origin: String,
        /// The name.
        name: String,
    },
    /// A name is unknown.
    #[error("{origin}: there is no {what} `{name}`; known: {known}")]
    Unknown {
        /// The file.
        origin: String,
        /// The kind of the name.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
}

impl SettingsError {
    pub(super) fn unknown<'a>(
        origin: &str,
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let known = known.collect::<Vec<_>>().join(", ");
        Self::Unknown { origin: origin.to_owned(), what, name: name.to_owned(), known }
    }
}

/// An experiment, checked for one scale.
#[derive(Clone, Debug)]
pub struct DetectionSettings {
    /// The title.
    pub title: String,
    /// The place in the paper.
    pub source: String,
    /// The time or work for one model at this scale.
    pub work: String,
    /// The sets of outliers in files.
    pub sets: Vec<FileSet>,
    /// The set that training may use for selection; ConstantGray if none is named, or its files are missing.
    pub selection: Option<String>,
    /// The models to train.
    pub cells: Vec<Cell>,
    /// Whether the cells are candidates of a search.
    pub search: bool,
    /// The number of new images that are drawn of each NAE, as a picture.
    pub samples: Option<NonZero<u16>>,
    /// The text of the file.
    pub text: String,
    /// The file, or the experiment that comes with the program.
    pub origin: String,
}

/// The settings that determine the result: two experiments with equal ones can share their models.
#[derive(Debug, Serialize)]
pub struct Recorded<'a> {
    sets: &'a [FileSet],
    #[serde(skip_serializing_if = "Option::is_none")]
    selection: Option<&'a str>,
    cells: BTreeMap<&'a str, &'a RawConfig>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pretrained: BTreeMap<&'a str, &'a str>,
}

/// One model to be trained, over seeds.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name, in lower case and valid for a folder.
    pub name: String,
    /// The cell of which it is a candidate in a search; otherwise its own name.
    pub group: String,
    /// The configuration of the training.
    pub config: Config,
    /// The cell whose model of seed 0 is the pre-trained network; if `None`, the cell has its own pre-training.
    pub pretrained: Option<String>,
    /// The paper's values, by outlier set and column of the run's table; a set without values is also shown.
    pub paper: BTreeMap<String, BTreeMap<String, Published>>,
}

/// An AUROC of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A value.
    Value(f64),
    /// A mean and its standard error.
    Estimate([f64; 2]),
}

impl Published {
    /// The value or mean.
    pub fn mean(self) -> f64 {
        match self {
            Self::Value(mean) | Self::Estimate([mean, _]) => mean,
        }
    }
}

/// Outliers from files in the folder of all data sets, converted to the shape of the experiment's images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// The name in tables.
    pub name: String,
    /// The location of the files.
    pub files: Files,
    /// Whether models are evaluated without the set if its files are missing.
    #[serde(default)]
    pub optional: bool,
    /// The transforms of every image; the default is resizing.
    #[serde(default)]
    pub transforms: Transforms,
    /// Where the files are published, with their digests, as a sentence; for images, since those of IDX files are known. Like the
    /// next, it does not change the result, so that a record does not have it.
    #[serde(default, skip_serializing)]
    pub published: Option<String>,
    /// The number of images of the original set.
    #[serde(default, skip_serializing)]
    pub images: Option<usize>,
}

impl FileSet {
    /// The same error, followed by where the files are published.
    pub(super) fn with_remedy(&self, error: DataError) -> DataError {
        match &self.published {
            Some(published) => error.with_remedy(&format!("the files of {} are at {published}", self.name)),
            None => error,
        }
    }

    /// A warning if the original set has another number of images than `found`.
    pub(super) fn differs(&self, found: usize) -> Option<String> {
        let expected = self.images.filter(|&expected| expected != found)?;
        let published =
            self.published.as_ref().map_or_else(String::new, |published| format!("; the files are at {published}"));
        Some(format!("these are not the original data: expected {expected} images, found {found}{published}"))
    }
}

/// The location of outliers in the folder of all data sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// A folder or archive of images.
    Images(PathBuf),
    /// The path and the beginning of the names of two IDX files, such as `fashion-mnist/t10k`.
    Idx(PathBuf),
}

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    title: String,
    source: String,
    preset: String,
    #[serde(default)]
    sets: Vec<FileSet>,
    selection: Option<String>,
    samples: Option<NonZero<u16>>,
    /// The changes for every scale.
    #[serde(default)]
    change: Table,
    scales: BTreeMap<Scale, RawScale>,
    #[serde(default)]
    search: Vec<Search>,
    cells: Vec<RawCell>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScale {
    /// The experiment whose settings at this scale are applied first.
    like: Option<String>,
    /// If `None`, that of the experiment in `like`.
    work: Option<String>,
    #[serde(default)]
    change: Table,
}

/// A scale, combined with the settings that it takes from other experiments.
struct ResolvedScale {
    work: String,
    /// The changes, to be applied in order.
    changes: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCell {
    name: String,
    /// The cell whose model of seed 0 is the pre-trained network.
    pretrained: Option<String>,
    #[serde(default)]
    change: Table,
    /// Keys of the preset that this cell removes.
    #[serde(default)]
    remove: Vec<String>,
    /// Numbers to be multiplied, rounded if they were integers.
    #[serde(default)]
    times: BTreeMap<String, f64>,
    #[serde(default)]
    paper: Table,
}

impl DetectionSettings {
    /// Parses `text` from `origin`, and checks every cell at `scale`. In a `search`, candidates replace each cell for
    /// whose method there are values to try, except for cells that share a pre-trained network.
    ///
    /// # Errors
    /// [`SettingsError`], with the origin, the cell, the key, what was expected and what was found.
    pub fn parse(text: &str, origin: &str, scale: Scale, search: bool) -> Result<Self, SettingsError> {
        let raw: Raw = read(text, origin)?;
        let presets = || PRESETS.iter().map(|preset| preset.name);
        let preset = PRESETS.iter().find(|preset| preset.name == raw.preset);
        let preset = preset.ok_or_else(|| SettingsError::unknown(origin, "preset", &raw.preset, presets()))?;
        let base: Table = read(preset.text, preset.name)?;
        let ResolvedScale { work, changes } = raw.scale(scale, origin)?;
        check_names(&raw.cells, origin)?;
        let cells: Vec<Cell> =
            raw.cells.iter().map(|cell| cell.checked(&base, &changes, origin)).collect::<Result<_, _>>()?;
        check_pretrained(&cells, origin)?;
        check_sets(&cells, &raw.sets, origin)?;
        let cells = if search { candidates(cells, &raw.search, origin)? } else { cells };
        if search && cells.iter().all(|cell| cell.group == cell.name) {
            return Err(SettingsError::NoSearch(origin.to_owned()));
        }
        let Raw { title, source, sets, selection, samples, .. } = raw;
        if let Some(name) = selection.as_ref().filter(|name| sets.iter().all(|set| set.name != **name)) {
            let known = sets.iter().map(|set| set.name.as_str());
            return Err(SettingsError::unknown(origin, "set of outliers", name, known));
        }
        let (text, origin) = (text.to_owned(), origin.to_owned());
        Ok(Self { title, source, work, sets, selection, cells, search, samples, text, origin })
    }

    /// Whether other cells start from the model of the cell `name`. They use that of seed 0, whatever their own seed.
    pub(super) fn is_start(&self, name: &str) -> bool {
        self.cells.iter().any(|other| other.pretrained.as_deref() == Some(name))
    }

    /// The settings that determine the result, without the paper's values and the texts of the file. `selection` is the
    /// set by which states are selected.
    pub fn recorded<'a>(&'a self, selection: Option<&'a str>) -> Recorded<'a> {
        self.recorded_of(selection, |_| true)
    }

    /// The same for one cell and the cell from which it starts, so that a new cell, or a change of another, does not
    /// invalidate finished models.
    pub fn recorded_cell<'a>(&'a self, selection: Option<&'a str>, name: &str) -> Recorded<'a> {
        let start = self.cells.iter().find(|cell| cell.name == name).and_then(|cell| cell.pretrained.as_deref());
        self.recorded_of(selection, |cell| cell.name == name || Some(cell.name.as_str()) == start)
    }

    fn recorded_of<'a>(&'a self, selection: Option<&'a str>, which: impl Fn(&Cell) -> bool) -> Recorded<'a> {
        let cells = self.cells.iter().filter(|cell| which(cell));
        Recorded {
            sets: &self.sets,
            selection,
            cells: cells.clone().map(|cell| (cell.name.as_str(), cell.config.raw())).collect(),
            pretrained: cells.filter_map(|cell| Some((cell.name.as_str(), cell.pretrained.as_deref()?))).collect(),
        }
    }
}

impl Raw {
    /// The settings of `scale`, combined with those of `like`. No experiment of the program refers to itself, so that
    /// this terminates.
    fn scale(&self, scale: Scale, origin: &str) -> Result<ResolvedScale, SettingsError> {
        let scales = || self.scales.keys().map(|scale| scale.name());
        let at = self.scales.get(&scale);
        let at = at.ok_or_else(|| SettingsError::unknown(origin, "scale", scale.name(), scales()))?;
        let Some(like) = &at.like else {
            let no_work = || SettingsError::NoWork { origin: origin.to_owned(), scale: scale.name() };
            let work = at.work.clone().ok_or_else(no_work)?;
            return Ok(ResolvedScale { work, changes: vec![self.change.clone(), at.change.clone()] });
        };
        let experiments = || EXPERIMENTS.iter().map(|known| known.name);
        let known = EXPERIMENTS.iter().find(|known| known.name == like);
        let known = known.ok_or_else(|| SettingsError::unknown(origin, "experiment", like, experiments()))?;
        let mut resolved = read::<Self>(known.text, known.name)?.scale(scale, known.name)?;
        resolved.work = at.work.clone().unwrap_or(resolved.work);
        resolved.changes.extend([self.change.clone(), at.change.clone()]);
        Ok(resolved)
    }
}

impl RawCell {
    fn checked(&self, base: &Table, changes: &[Table], origin: &str) -> Result<Cell, SettingsError> {
        let origin = format!("{origin}, cell {}", self.name);
        let no_key = |key: &str| SettingsError::Key { origin: origin.clone(), key: key.to_owned() };
        let mut table = base.clone();
        for (key, value) in changes.iter().chain([&self.change]).flatten() {
            put(&mut table, key, value.clone()).ok_or_else(|| no_key(key))?;
        }
        for key in &self.remove {
            let (parent, last) = parent(&mut table, key).ok_or_else(|| no_key(key))?;
            parent.remove(last).ok_or_else(|| no_key(key))?;
        }
        for (key, factor) in &self.times {
            let (parent, last) = parent(&mut table, key).ok_or_else(|| no_key(key))?;
            let product = |number: f64| {
                let product = number * factor;
                let valid = *factor >= 0.0 && product.abs() < 2f64.powi(53);
                let error = || SettingsError::Factor { origin: origin.clone(), key: key.clone(), factor: *factor };
                valid.then_some(product).ok_or_else(error)
            };
            match parent.get_mut(last) {
                Some(Value::Integer(number)) => *number = product(*number as f64)?.round() as i64,
                Some(Value::Float(number)) => *number = product(*number)?,
                _ => return Err(no_key(key)),
            }
        }
        let config = config(table, &origin)?;
        let method = config.method();
        let columns = || summary::columns(method).map(|column| column.key);
        let paper = self.paper.iter().map(|(outliers, values)| {
            let values: BTreeMap<String, Published> = values.clone().try_into().map_err(TextError::form(&origin))?;
            match values.keys().find(|key| columns().all(|column| column != **key)) {
                Some(key) => Err(SettingsError::unknown(&origin, "column of this method", key, columns())),
                None => Ok((outliers.clone(), values)),
            }
        });
        let (name, pretrained) = (self.name.clone(), self.pretrained.clone());
        Ok(Cell { group: name.clone(), name, config, pretrained, paper: paper.collect::<Result<_, _>>()? })
    }
}

/// Replaces `cells` by their candidates, except for those that share a pre-trained network.
fn candidates(cells: Vec<Cell>, searches: &[Search], origin: &str) -> Result<Vec<Cell>, SettingsError> {
    let shared: Vec<String> = cells.iter().filter_map(|cell| cell.pretrained.clone()).collect();
    let alone = |cell: &Cell| cell.pretrained.is_none() && !shared.contains(&cell.name);
    let tried = cells.into_iter().map(|cell| match alone(&cell) {
        true => search::candidates(cell, searches, origin),
        false => Ok(vec![cell]),
    });
    Ok(tried.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Checks that each cell has a name of its own, which is also that of its folder.
fn check_names(cells: &[RawCell], origin: &str) -> Result<(), SettingsError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = |name: &str| name.starts_with(plain) && name.chars().all(|c| plain(c) || "-_.".contains(c));
    for (index, RawCell { name, .. }) in cells.iter().enumerate() {
        if !is_name(name) || cells[..index].iter().any(|other| other.name == *name) {
            return Err(SettingsError::CellName { origin: origin.to_owned(), name: name.clone() });
        }
    }
    Ok(())
}

/// Checks that a pre-trained network is that of an earlier cell, which trains an autoencoder of the same architecture.
fn check_pretrained(cells: &[Cell], origin: &str) -> Result<(), SettingsError> {
    for (index, cell) in cells.iter().enumerate() {
        let Some(name) = &cell.pretrained else { continue };
        let is_start = |start: &&Cell| {
            let fits = start.config.architecture() == cell.config.architecture();
            fits && start.pretrained.is_none() && start.config.method() == MethodKind::Ae
        };
        let known = || cells[..index].iter().filter(is_start).map(|cell| cell.name.as_str());
        if known().all(|other| other != name) {
            let origin = format!("{origin}, cell {}", cell.name);
            let what = "earlier cell that trains an autoencoder of this architecture and is called";
            return Err(SettingsError::unknown(&origin, what, name, known()));
        }
    }
    Ok(())
}

/// Checks that models can have the sets of outliers for which the cells have values of the paper: `sets`, or those that
/// the program makes.
fn check_sets(cells: &[Cell], sets: &[FileSet], origin: &str) -> Result<(), SettingsError> {
    for cell in cells {
        let made = made_sets(&cell.config);
        let known = || sets.iter().map(|set| &set.name).chain(&made).map(String::as_str);
        if let Some(name) = cell.paper.keys().find(|name| known().all(|other| other != name.as_str())) {
            let origin = format!("{origin}, cell {}", cell.name);
            return Err(SettingsError::unknown(&origin, "set of outliers", name, known()));
        }
    }
    Ok(())
}

/// The names of the outlier sets that the program makes for a run of `config`, which has whole images of a data set with
/// a name. Of data of one class there are no chimeras, which is known only once they are read.
fn made_sets(config: &Config) -> Vec<String> {
    let source = config.source();
    let [constant_gray, _] = SELECTION_SETS;
    let held_out = config.held_out().map(|class| format!("{} {class} (held out)", source.class()));
    let made = [format!("half-{}", source.class_plural()), "chimeras".to_owned(), "uniform noise".to_owned()];
    held_out.into_iter().chain(made).chain([constant_gray.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use nae_data::own::Corrupt;
    use nae_train::config::{ManifoldDiffusion, Training};
    use nae_train::run::Prepared;

    use super::*;

    fn known(name: &str, scale: Scale) -> DetectionSettings {
        let known = EXPERIMENTS.iter().find(|known| known.name == name).expect("comes with the program");
        DetectionSettings::parse(known.text, known.name, scale, false).expect("valid")
    }

    #[test]
    fn every_experiment_can_be_made_at_every_scale() {
        for Known { name, .. } in EXPERIMENTS {
            for scale in [Scale::Smoke, Scale::Cpu, Scale::Paper] {
                let settings = known(name, scale);
                assert!(!settings.cells.is_empty() && settings.cells.iter().all(|cell| !cell.paper.is_empty()));
                let synthetic = if scale == Scale::Paper { 4000 } else { 300 };
                let images = settings.cells.iter().map(|cell| cell.config.synthetic_images());
                assert!(scale == Scale::Smoke || images.clone().all(|images| images == synthetic), "{name}");
            }
        }
        let paper = known("mnist-holdout", Scale::Paper);
        assert_eq!(paper.cells[1].config.raw().training.updates, 19000);
        assert_eq!(paper.cells[1].config.held_out(), Some(1));
        assert_eq!(paper.cells[1].paper["digit 1 (held out)"]["nae"], Published::Estimate([0.919, 0.013]));
        let lengths = known("mnist-pretraining", Scale::Paper);
        let epochs: Vec<usize> = lengths.cells.iter().map(|cell| cell.config.pretraining().epochs).collect();
        assert_eq!(epochs, [0, 10, 50, 100, 150, 200]);
        assert_eq!(known("mnist-ood", Scale::Cpu).cells[0].config.held_out(), None);
        for ablation in ["mnist-pretraining", "mnist-sampling", "mnist-latent-dim"] {
            let cells = known(ablation, Scale::Cpu).cells;
            assert!(cells.iter().all(|cell| !cell.config.raw().training.fixed_decoder), "{ablation}: all weights");
        }
    }

    #[test]
    fn a_scale_like_another_experiments_has_its_settings_and_then_its_own() {
        let (holdout, lengths) = (known("mnist-holdout", Scale::Cpu), known("mnist-pretraining", Scale::Cpu));
        let [like, ours] = [&holdout.cells[9], &lengths.cells[3]].map(|cell| cell.config.raw());
        assert_eq!(ours.architecture, like.architecture);
        // After 0 epochs, a fixed decoder would stay random.
        assert!(like.training.fixed_decoder);
        assert_eq!(ours.training, Training { fixed_decoder: false, ..like.training });
        assert_eq!(ours.pretraining.batch_size, like.pretraining.batch_size);
        assert_eq!((like.pretraining.epochs, ours.pretraining.epochs), (20, 40));
        let seconds = |name| known(name, Scale::Smoke).work;
        assert_eq!(seconds("mnist-pretraining"), seconds("mnist-holdout"));
    }

    #[test]
    fn an_experiments_own_changes_come_after_those_of_the_one_its_scale_is_like() {
        let at = |scale| known("mnist-mpdr", scale).cells[0].config.raw().clone();
        for (scale, steps) in [(Scale::Smoke, 2), (Scale::Cpu, 5), (Scale::Paper, 5)] {
            let raw = at(scale);
            // At the scale `cpu`, mnist-holdout has 98 steps.
            assert_eq!((raw.sampler.visible_chain.steps, raw.sampler.visible_chain.step_size), (steps, 10.0));
            assert!(raw.training.fixed_manifold && !raw.training.fixed_decoder, "{scale:?}");
        }
        assert_eq!(at(Scale::Cpu).pretraining.epochs, 20, "as there");
        // 30 epochs of the autoencoder and 60 of the energy, as in the authors' code for MNIST.
        let paper = known("mnist-mpdr", Scale::Paper);
        let cell = |name: &str| paper.cells.iter().find(|cell| cell.name == name).expect("there").config.raw();
        let scalar = cell("scalar-9");
        assert_eq!((scalar.method, scalar.pretraining.epochs), (MethodKind::Mpdr, 90));
        assert_eq!(scalar.baselines.mpdr, ManifoldDiffusion::default());
        assert_eq!(cell("manifolds-9").baselines.mpdr.manifolds, [16, 32, 64]);
    }

    #[test]
    fn what_is_recorded_are_the_settings_and_not_the_words_of_the_file() {
        let recorded = |text: &str| {
            let settings = DetectionSettings::parse(text, "mine.toml", Scale::Cpu, false).expect("valid");
            serde_json::to_string(&settings.recorded(None)).expect("settings are JSON")
        };
        let text = EXPERIMENTS[0].text;
        let said = text.replace("# ", "#  ").replace("0.819", "0.818");
        assert_ne!(said, text);
        assert_eq!(recorded(&said), recorded(text));
        let longer = text.replace("\"training.updates\" = 1000", "\"training.updates\" = 1001");
        assert_ne!(recorded(&longer), recorded(text));
    }

    #[test]
    fn states_are_selected_by_a_set_that_is_there() {
        let cifar = known("cifar10-ood", Scale::Paper);
        assert_eq!(cifar.selection.as_deref(), Some("MNIST, padded"));
        assert_eq!(known("mnist-holdout", Scale::Paper).selection, None);
        let text = EXPERIMENTS.iter().find(|known| known.name == "cifar10-ood").expect("there").text;
        let wrong = text.replace("selection = \"MNIST, padded\"", "selection = \"MNIST\"");
        let message =
            DetectionSettings::parse(&wrong, "mine.toml", Scale::Paper, false).expect_err("no such set").to_string();
        assert!(message.contains("there is no set of outliers `MNIST`; known: Fashion-MNIST"), "{message}");
    }

    #[test]
    fn mistakes_are_named_with_their_cell() {
        let text = EXPERIMENTS[0].text;
        let message = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            DetectionSettings::parse(&text.replacen(from, to, 1), "mine.toml", Scale::Smoke, false)
                .expect_err("wrong")
                .to_string()
        };
        let said = message("\"data.held_out\" = 3", "\"data.held.out\" = 3");
        assert!(said.contains("mine.toml, cell digit-3") && said.contains("data.held.out"), "{said}");
        let said = message("\"data.held_out\" = 3", "\"data.held_out\" = 10");
        assert!(said.contains("cell digit-3") && said.contains("10"), "{said}");
        let said = message("work = \"seconds a model, with a network of two channels\"", "");
        assert!(said.contains("mine.toml: scale `smoke`"), "{said}");
        let said = message("[scales.smoke]", "[scales.smoke]\nlike = \"mnist\"");
        assert!(said.contains("no experiment `mnist`; known: mnist-holdout, mnist-methods, mnist-ood"), "{said}");
        let said = message("mnist-holdout", "mnist-hold");
        assert!(said.contains("mnist-hold") && said.contains("digits-omi"), "{said}");
        for name in ["digit-3", "Digit-2", "a/b", ".."] {
            let said = message("name = \"digit-2\"", &format!("name = {name:?}"));
            assert!(said.contains(&format!("mine.toml: the name `{name}` of a cell: expected lower-case")), "{said}");
        }
        for factor in ["nan", "inf", "-1", "1e300"] {
            let times = format!("name = \"digit-1\"\ntimes = {{ \"pretraining.epochs\" = {factor} }}");
            let said = message("name = \"digit-1\"", &times);
            assert!(
                said.contains("cell digit-1: times, `pretraining.epochs`: expected a factor of at least 0"),
                "{said}"
            );
        }
        let said = message("autoencoder = 0.131, nae", "autoencoder = 0.131, nea");
        assert!(
            said.contains("cell digit-1: there is no column of this method `nea`; known: autoencoder, nae"),
            "{said}"
        );
        let said = message("autoencoder = 0.819", "autoencoder = \"high\"");
        assert!(said.contains("cell digit-0"), "{said}");
        let known = "digit 1 (held out), half-digits, chimeras, uniform noise, ConstantGray";
        for name in ["digit 2 (held out)", "Chimeras"] {
            let said = message("\"digit 1 (held out)\" = {", &format!("{name:?} = {{"));
            let expected = format!("mine.toml, cell digit-1: there is no set of outliers `{name}`; known: {known}");
            assert!(said.contains(&expected), "{said}");
        }
        // Sets in files come first.
        let text = EXPERIMENTS.iter().find(|known| known.name == "mnist-ood").expect("there").text;
        let wrong = text.replacen("\"Omniglot\" = {", "\"Omniglott\" = {", 1);
        let said = DetectionSettings::parse(&wrong, "mine.toml", Scale::Smoke, false).expect_err("wrong").to_string();
        assert!(
            said.contains(
                "cell mnist: there is no set of outliers `Omniglott`; known: Omniglot, Fashion-MNIST, half-digits"
            ),
            "{said}"
        );
    }

    /// What settings may name is what a run has.
    #[test]
    fn the_sets_that_are_known_are_those_of_a_run() {
        let digits = PRESETS.iter().find(|preset| preset.name == "digits").expect("comes with the program");
        let held_out: Table = read(digits.text, digits.name).expect("valid");
        let mut whole = held_out.clone();
        let (data, key) = parent(&mut whole, "data.held_out").expect("a key of the preset");
        data.remove(key).expect("a class");
        for table in [held_out, whole] {
            let config = config(table, digits.name).expect("valid");
            let prepared = Prepared::new(config, 0, None, Corrupt::Refuse).expect("embedded");
            let names: Vec<String> = prepared.outlier_sets().into_iter().map(|set| set.name).collect();
            assert_eq!(made_sets(&prepared.config), names);
        }
    }
}
