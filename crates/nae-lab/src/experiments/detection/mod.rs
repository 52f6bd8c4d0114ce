//! Experiments of outlier detection: models trained with one setting changed, and the AUROC of outlier sets for each,
//! compared with the paper's.
//!
//! `settings` reads the file with the models to train and the paper's results. This file trains the models, each in a
//! separate run folder, and stores finished ones: an interrupted experiment continues where it stopped, even within a
//! model. `data` reads the outliers, and checks that finished models had the same data, `interrupted` that an
//! interrupted one goes on as it was begun. `search` selects models by the
//! selection set, `samples` draws a model's new images, [`summary`] makes the table; [`record`](super::record) describes
//! the experiment of a folder.

mod data;
mod interrupted;
mod samples;
mod search;
mod settings;
pub mod summary;

pub use settings::{Cell, DetectionSettings, EXPERIMENTS, Published, SettingsError};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::Seeds;
use crate::experiments::Scale;
use crate::experiments::origin::Origin;
use crate::experiments::record::{Record, RecordError};
use data::Outliers;
use nae_data::own::Corrupt;
use nae_data::{DataError, Source};
use nae_onnx::file::{self, FileError};
use nae_train::config::Config;
use nae_train::device::DeviceChoice;
use nae_train::engine::{EngineChoice, Unsupported};
use nae_train::eval::{Column, OutlierKind, OutlierSet, Table};
use nae_train::report::journal::{self, Journal};
use nae_train::report::{
    AUTOENCODER, CHECKPOINT, CONFIG, Facts, RESUME, RunFolder, RunFolderError, no_better_than_the_mean,
};
use nae_train::run::{Prepared, RunError};
use nae_train::train::{Both, Ending, Observer, selection_auroc};
use samples::SAMPLES;
use settings::Recorded;

/// The file with one finished model per line.
pub const CELLS: &str = "cells.jsonl";

/// An experiment at one scale, over seeds.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name of the experiment.
    pub name: String,
    /// The models to train.
    pub settings: DetectionSettings,
    /// The scale.
    pub scale: Scale,
    /// The seeds.
    pub seeds: Seeds,
    /// The names of the cells to train; all if empty.
    pub only: Vec<String>,
    /// The engine that computes gradients.
    pub engine: EngineChoice,
    /// The device, which must be that of the argument of [`run`](Self::run).
    pub device: DeviceChoice,
    /// The folder of all data sets.
    pub data: PathBuf,
    /// The time between two saved states of a model's training.
    pub checkpoint_every: Duration,
    /// Whether every look at a model is evaluated on outliers, for studies.
    pub trace_outliers: bool,
}

/// A model to train.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The cell of the experiment.
    pub cell: &'a Cell,
    /// The seed.
    pub seed: u64,
}

/// A finished model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The name of its cell.
    pub cell: String,
    /// Its seed.
    pub seed: u64,
    /// The SHA-256 of its data, in hexadecimal; earlier versions of the program did not record it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sha256: Option<String>,
    /// The SHA-256 of the outliers in files, by set; earlier versions of the program did not record it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outliers_sha256: BTreeMap<String, String>,
    /// Warnings about its data and outliers, and about a training that failed, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The AUROC of every outlier set, before and after NAE training.
    pub auroc: Table,
    /// In a search, the AUROC of the selection set against validation images, by column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selection_auroc: BTreeMap<String, f64>,
    /// The update of the kept state.
    pub kept_update: usize,
    /// Whether the negative energies diverged.
    pub diverged: bool,
    /// The processor time of its training, in seconds.
    pub processor_seconds: f64,
    /// What made it.
    #[serde(flatten)]
    pub origin: Origin,
}

impl Finished {
    /// The SHA-256 of its data, recorded with its results in the folder `path` or in its run folder; `None` if an earlier
    /// version of the program recorded neither.
    ///
    /// # Errors
    /// [`RunFolderError`] if the run folder's configuration cannot be read.
    pub(crate) fn data_sha256(&self, path: &Path) -> Result<Option<String>, RunFolderError> {
        if self.data_sha256.is_some() {
            return Ok(self.data_sha256.clone());
        }
        let folder = run_folder(path, &self.cell, self.seed);
        if folder.join(CONFIG).exists() { RunFolder::data_sha256(&folder) } else { Ok(None) }
    }
}

/// The settings and the seed of the run in `folder`, if it was trained to its end.
fn finished_run(folder: &Path) -> Option<(Config, u64)> {
    let ended = folder.join(CHECKPOINT).exists() && !folder.join(RESUME).exists();
    ended.then(|| RunFolder::read(folder).ok()).flatten()
}

/// The folder of a model in the experiment's folder `path`.
pub(crate) fn run_folder(path: &Path, cell: &str, seed: u64) -> PathBuf {
    path.join(format!("{cell}-{seed}"))
}

/// An experiment that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectionError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No engine supports the network.
    #[error(transparent)]
    Engine(#[from] Unsupported),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run folder or [`CELLS`] cannot be read or written.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// The folder belongs to another experiment.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Outliers cannot be read.
    #[error("outliers: {0}")]
    Outliers(DataError),
    /// The interrupted run in a model's folder was begun with another seed, or other settings, data, selection set or engine.
    #[error(
        "{}: an interrupted run there has {recorded}, this one has {found}; go on with those, remove the folder, or choose another \
         for the experiment with --out", folder.display()
    )]
    OtherRun {
        /// The folder of the run.
        folder: PathBuf,
        /// What differs, as the interrupted run has it.
        recorded: String,
        /// The same of this run.
        found: String,
    },
    /// The folder of a model that is to be trained has a finished one of other settings.
    #[error(
        "{}: a finished model of other settings is there; choose another folder for the experiment with --out, or remove this one",
        folder.display()
    )]
    OtherModel {
        /// The folder of the model.
        folder: PathBuf,
    },
    /// The cell from which another starts is not trained.
    #[error(
        "{}: the cell {cell} starts from the network of the cell {start}, which is not trained to its end there with these \
         settings; train both, with --cells {start},{cell}", path.display()
    )]
    Start {
        /// The path of the folder.
        path: PathBuf,
        /// The cell.
        cell: String,
        /// The cell from which it starts.
        start: String,
    },
    /// A finished or interrupted model has other data.
    #[error(
        "{}: expected the data of this model, of SHA-256 {recorded}; found {found}: a table would join results of different data; give \
         the same data, remove the folder, or choose another for the experiment with --out", folder.display()
    )]
    OtherData {
        /// The folder of the model's run.
        folder: PathBuf,
        /// The SHA-256 of its data.
        recorded: String,
        /// The SHA-256 of the data that were given.
        found: String,
    },
    /// A finished model was evaluated on other outliers.
    #[error(
        "{}: expected the outliers `{set}` that this model was evaluated on, of SHA-256 {recorded}; found {found}: a table would \
         join results of different outliers; give the same files, or choose another folder with --out", folder.display()
    )]
    OtherOutliers {
        /// The folder of the model's run.
        folder: PathBuf,
        /// The set of outliers.
        set: String,
        /// The SHA-256 of its outliers.
        recorded: String,
        /// The SHA-256 of the files that were given.
        found: String,
    },
    /// A picture cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The run folder is incomplete.
    #[error("the run folder is incomplete: {0}")]
    Incomplete(String),
    /// The experiment was stopped on request.
    #[error("interrupted")]
    Interrupted,
}

impl From<DataError> for DetectionError {
    fn from(error: DataError) -> Self {
        Self::Outliers(error)
    }
}

impl Experiment {
    /// All models to train, grouped by seed: of the cells in [`only`](Self::only), or of all cells with data.
    ///
    /// # Errors
    /// [`DetectionError::Settings`] if a name in [`only`](Self::only) is not that of a cell.
    pub fn jobs(&self) -> Result<Vec<Job<'_>>, DetectionError> {
        let cells = &self.settings.cells;
        let is = |cell: &Cell, name: &String| cell.name == *name || cell.group == *name;
        if let Some(name) = self.only.iter().find(|name| !cells.iter().any(|cell| is(cell, name))) {
            let mut known: Vec<&str> = cells.iter().map(|cell| cell.group.as_str()).collect();
            known.dedup();
            let origin = format!("--cells, with {}", self.settings.origin);
            return Err(SettingsError::unknown(&origin, "cell", name, known.into_iter()).into());
        }
        let chosen = |cell: &&Cell| match self.only.is_empty() {
            true => !self.without_data().contains(&cell.name.as_str()),
            false => self.only.iter().any(|name| is(cell, name)),
        };
        let is_start = |cell: &Cell| self.settings.is_start(&cell.name);
        let jobs = self.seeds.iter().enumerate().flat_map(|(index, seed)| {
            let cells = cells.iter().filter(chosen).filter(move |cell| index == 0 || !is_start(cell));
            cells.map(move |cell| Job { cell, seed: if is_start(cell) { 0 } else { seed } })
        });
        Ok(jobs.collect())
    }

    /// The finished models in the folder `path`, trained and evaluated as in this experiment at this scale.
    ///
    /// # Errors
    /// [`DetectionError::Folder`].
    pub fn finished(&self, path: &Path) -> Result<Vec<Finished>, DetectionError> {
        let mut finished: Vec<Finished> = Vec::new();
        for model in self.finished_by(self.selection(), path)? {
            // A model counts once, also if two processes of a program without a lock trained it.
            if !finished.iter().any(|other| (&other.cell, other.seed) == (&model.cell, model.seed)) {
                finished.push(model);
            }
        }
        Ok(finished)
    }

    /// The same for models whose states were selected by the set `selection`, even if its files are not available.
    pub(crate) fn finished_by(&self, selection: Option<&str>, path: &Path) -> Result<Vec<Finished>, DetectionError> {
        let path = path.join(CELLS);
        // Earlier versions of the program had one digest for all cells.
        let mut digests = vec![self.digest(&self.settings.recorded(selection))];
        for cell in &self.settings.cells {
            let digest = self.cell_digest(selection, cell);
            // A cell, with that from which it starts, may be all there are.
            if !digests.contains(&digest) {
                digests.push(digest);
            }
        }
        let finished: Result<Vec<Vec<Finished>>, _> =
            digests.iter().map(|digest| journal::read(&path, digest)).collect();
        Ok(finished?.concat())
    }

    /// The cells whose data are not in the folder of all data sets, if that has the data of others. If it has none,
    /// this is empty, and the first training reports the error.
    pub fn without_data(&self) -> Vec<&str> {
        let cells = &self.settings.cells;
        let absent = |cell: &&Cell| {
            let folder = cell.config.source().folder_name();
            folder.is_some_and(|name| !self.data.join(name).exists())
        };
        let without: Vec<&str> = cells.iter().filter(absent).map(|cell| cell.name.as_str()).collect();
        if without.len() == cells.len() { Vec::new() } else { without }
    }

    /// The set of outliers that training may use for selection; `None` for ConstantGray.
    pub fn selection(&self) -> Option<&str> {
        let named = self.settings.selection.as_deref()?;
        self.settings.sets.iter().find(|set| set.name == named && !self.is_absent(set)).map(|set| set.name.as_str())
    }

    /// The record for the folder of this experiment.
    pub fn record(&self) -> Record {
        // Keys are strings and numbers are finite, so that JSON can represent them.
        let recorded = serde_json::to_value(self.recorded()).expect("settings are JSON");
        let record = Record::new(&self.name, self.scale, self.device, &self.settings.text, recorded);
        Record { search: self.settings.search, ..record }
    }

    /// The settings that determine the result, except for the scale and the device.
    pub fn recorded(&self) -> Recorded<'_> {
        self.settings.recorded(self.selection())
    }

    /// The digest by which the entries of the cell `name` are found in [`CELLS`].
    #[cfg(test)]
    pub(crate) fn digest_of(&self, name: &str) -> Option<String> {
        let cell = self.settings.cells.iter().find(|cell| cell.name == name)?;
        Some(self.cell_digest(self.selection(), cell))
    }

    fn cell_digest(&self, selection: Option<&str>, cell: &Cell) -> String {
        self.digest(&self.settings.recorded_cell(selection, &cell.name))
    }

    fn digest(&self, recorded: &Recorded<'_>) -> String {
        let on = if self.device == DeviceChoice::Cpu { String::new() } else { format!(" on {}", self.device) };
        // Keys are strings and numbers are finite, so that JSON can represent them.
        let recorded = serde_json::to_string(recorded).expect("settings are JSON");
        journal::digest([recorded.as_str(), &format!("{}{on}", self.scale.name())])
    }

    /// Trains the models that the folder `path` does not contain yet, one after the other; `begin` is called for each, with the
    /// warnings about its data and outliers, and returns its observer. Returns all finished models.
    ///
    /// # Errors
    /// [`DetectionError`]; finished models stay in the folder, and so does the state of an unfinished one.
    pub fn run<O: Observer>(
        &self,
        path: &Path,
        device: &Device,
        stop: &AtomicBool,
        mut begin: impl FnMut(&Job<'_>, &[String]) -> O,
    ) -> Result<Vec<Finished>, DetectionError> {
        let _lock = self.record().claim(path)?;
        let mut finished = self.finished(path)?;
        let jobs = self.jobs()?;
        self.check(&jobs, &finished, path)?;
        for job in jobs {
            let folder = run_folder(path, &job.cell.name, job.seed);
            if finished.iter().any(|done| done.cell == job.cell.name && done.seed == job.seed) {
                // The program may have been killed after the model was written down.
                RunFolder::remove_state(&folder)?;
                continue;
            }
            if let Some(start) = &job.cell.pretrained
                && !self.is_trained(start, path)
            {
                let (cell, start) = (job.cell.name.clone(), start.clone());
                return Err(DetectionError::Start { path: path.to_owned(), cell, start });
            }
            // Its weights would be lost, and its figures would stay.
            if finished_run(&folder).is_some_and(|(config, _)| config.raw() != job.cell.config.raw()) {
                return Err(DetectionError::OtherModel { folder });
            }
            let (done, folder) = self.train(&job, &folder, &finished, device, stop, &mut begin)?;
            Journal::open(&path.join(CELLS), self.cell_digest(self.selection(), job.cell))?.append(&done)?;
            // Only now: if interrupted before, the run continues from its last state and is evaluated again.
            folder.finish()?;
            finished.push(done);
        }
        // The order of the models does not depend on interruptions.
        let cells: Vec<&str> = self.settings.cells.iter().map(|cell| cell.name.as_str()).collect();
        finished.sort_by_key(|model| (cells.iter().position(|name| *name == model.cell), model.seed));
        Ok(finished)
    }

    /// Whether the folder `path` has the network of the cell `name`, seed 0, trained to its end with this experiment's settings.
    fn is_trained(&self, name: &str, path: &Path) -> bool {
        let Some((config, seed)) = finished_run(&run_folder(path, name, 0)) else { return false };
        let is_of = |cell: &Cell| cell.name == name && cell.config.raw() == config.raw();
        seed == 0 && self.settings.cells.iter().any(is_of)
    }

    /// The data set of the cell `name`.
    pub(crate) fn source(&self, name: &str) -> Option<&Source> {
        self.settings.cells.iter().find(|cell| cell.name == name).map(|cell| cell.config.source())
    }

    fn train<O: Observer>(
        &self,
        job: &Job<'_>,
        folder: &Path,
        finished: &[Finished],
        device: &Device,
        stop: &AtomicBool,
        begin: &mut impl FnMut(&Job<'_>, &[String]) -> O,
    ) -> Result<(Finished, RunFolder), DetectionError> {
        let config = job.cell.config.clone();
        let engine = self.engine.engine(config.architecture())?;
        config.sampler().precision.check(device).map_err(Unsupported::from)?;
        let data = config.source().folder_name().map(|name| self.data.join(name));
        let mut prepared = Prepared::new(config, job.seed, data.as_deref(), Corrupt::Skip)?;
        let mut outliers_sha256 = BTreeMap::new();
        for set in &self.settings.sets {
            if !self.is_absent(set) {
                let Outliers { images, sha256, warnings } = self.outliers(set, &prepared.config)?;
                let selection = self.selection() == Some(&set.name);
                let (name, kind) = (set.name.clone(), OutlierKind::Given);
                prepared.add_set(OutlierSet { name, images, kind, selection, sha256: None });
                prepared.warnings.extend(warnings.into_iter().map(|warning| format!("{}: {warning}", set.name)));
                outliers_sha256.insert(set.name.clone(), sha256);
            }
        }
        // They may have been changed since the models before this one were trained.
        self.check_joins(job.cell, &prepared.data_sha256, &outliers_sha256, finished, folder)?;
        let watch = begin(job, &prepared.warnings);
        let facts = Facts {
            data_sha256: prepared.data_sha256.clone(),
            engine,
            device: self.device,
            choices: Vec::new(),
            selection: prepared.selection().map(str::to_owned),
            outliers: None,
            outliers_sha256: Some(outliers_sha256.clone()),
        };
        let (mut run_folder, snapshot) = if folder.join(RESUME).exists() {
            let resume = interrupted::resume(folder, &prepared.config, job.seed, &facts)?;
            (RunFolder::reopen(folder, &resume, self.checkpoint_every)?, Some(resume.snapshot))
        } else {
            let begun = RunFolder::create(folder, &prepared.config, job.seed, facts, self.checkpoint_every)?;
            let start = job.cell.pretrained.as_ref().map(|cell| {
                let weights = folder.with_file_name(format!("{cell}-0")).join(CHECKPOINT);
                prepared.pretrained(&weights, device)
            });
            (begun, start.transpose()?)
        };
        if self.trace_outliers {
            run_folder.trace(prepared.trace(engine, device));
        }
        let mut both = Both::new(run_folder, watch);
        let outcome = prepared.train(engine, device, &mut both, stop, snapshot)?;
        if let Some(autoencoder) = &outcome.autoencoder {
            both.first.save(autoencoder, AUTOENCODER);
        }
        let processor_seconds = both.first.taken().processor_seconds;
        if let Some(failure) = both.first.complete(&*outcome.model) {
            return Err(DetectionError::Incomplete(failure));
        }
        if let Ending::Interrupted { .. } = outcome.ending {
            return Err(DetectionError::Interrupted);
        }
        let count = self.settings.samples.map_or(0, |count| usize::from(count.get()));
        if count > 0
            && let Some(picture) = samples::picture(&prepared, &*outcome.model, count, engine, device)
        {
            file::write(folder.join(SAMPLES), &picture)?;
        }
        let columns = prepared.columns(&outcome);
        let of_selection = |column: &Column<'_>| {
            let (split, seed) = (&prepared.split, prepared.seed);
            let auroc = selection_auroc(column.model, column.decision, split, seed, engine, device);
            // JSON cannot represent non-finite numbers; a model with such scores is selected last.
            auroc.is_finite().then(|| (column.key.to_owned(), auroc))
        };
        let auroc = Table::of(&prepared.evaluate(&columns, engine, device));
        let mut warnings = prepared.warnings.clone();
        // No model learns within seconds, or without pre-training.
        if self.scale != Scale::Smoke
            && prepared.config.pretraining().epochs > 0
            && let Some(warning) = no_better_than_the_mean(&prepared, &outcome, &auroc)
        {
            warnings.push(format!("{}, seed {}: {warning}", job.cell.name, job.seed));
        }
        let searched = if self.settings.search { columns.as_slice() } else { &[] };
        let finished = Finished {
            cell: job.cell.name.clone(),
            seed: job.seed,
            data_sha256: Some(prepared.data_sha256.clone()),
            outliers_sha256,
            warnings,
            auroc,
            selection_auroc: searched.iter().filter_map(of_selection).collect(),
            kept_update: outcome.kept_update,
            diverged: matches!(outcome.ending, Ending::Diverged { .. }),
            processor_seconds,
            origin: Origin::here(Some(engine)),
        };
        Ok((finished, both.first))
    }
}
