//! A run of the trainer in Python: the same as `nae-train` with the same arguments, with the result in memory.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use nae_data::own::{Asked, Corrupt};
use nae_onnx::metadata::{Fit, Missing, RowWindow, Tiles, Transforms};
use nae_train::config::preset::PRESETS;
use nae_train::config::{Config, MethodKind, change, preset};
use nae_train::device::DeviceChoice;
use nae_train::engine::EngineChoice;
use nae_train::interrupted::InterruptedRun;
use nae_train::own::{self, Length, OwnError, OwnForm, OwnMethod, Planned, Wishes};
use nae_train::report::progress::Bars;
use nae_train::report::{AUTOENCODER, CONFIG, Facts, Finished, RESUME, Resume, RunFolder};
use nae_train::run::{Prepared, RunError};
use nae_train::train::{Both, Ending};
use nae_train::{export, plan};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::guard::{Failure, unlocked};
use crate::threads;
use crate::watch::{End, Watch};

/// The arguments of `nae_edge.train`, which checks only their types.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Request {
    data: Option<PathBuf>,
    preset: Option<String>,
    method: Option<String>,
    /// `None` for that of the preset, if it is the config.toml of a run, else 0.
    seed: Option<u64>,
    time_budget: Option<f64>,
    pretraining_updates: Option<usize>,
    updates: Option<usize>,
    outliers: Option<PathBuf>,
    strict: bool,
    form: Option<String>,
    fit: String,
    tile: Option<usize>,
    stride: Option<usize>,
    top_k: Option<usize>,
    features: Option<PathBuf>,
    feature_outputs: Vec<String>,
    missing: String,
    window: Option<usize>,
    window_stride: Option<usize>,
    held_out: Option<u8>,
    /// Values that replace those of the preset, as JSON.
    changes: Option<String>,
    confidence: Option<f64>,
    threads: Option<i64>,
    folder: PathBuf,
    /// Whether to continue an interrupted run in the folder.
    resume: bool,
    /// The seconds between two saved states.
    checkpoint_every: f64,
    /// Whether to evaluate the model and write a report.
    report: bool,
    /// Whether to show progress bars on standard error, if that is a terminal.
    bars: bool,
}

/// A run that starts or continues.
struct Begun {
    planned: Planned,
    resume: Option<Resume>,
}

/// The results of a run, to be returned to Python.
struct Trained {
    model: Vec<u8>,
    json: Option<String>,
    warnings: Vec<String>,
    choices: Vec<String>,
    config: String,
    interrupted: Option<usize>,
    keyboard: bool,
}

impl Request {
    fn corrupt(&self) -> Corrupt {
        if self.strict { Corrupt::Refuse } else { Corrupt::Skip }
    }

    /// The method that replaces the preset's, or that for data without a preset.
    fn method(&self) -> Result<Option<MethodKind>, Failure> {
        let known = |name: &str| {
            MethodKind::from_name(name).ok_or_else(|| {
                let names = MethodKind::ALL.map(MethodKind::name).join(", ");
                format!("method: expected one of {names}, found {name:?}")
            })
        };
        Ok(self.method.as_deref().map(known).transpose()?)
    }

    /// Refuses arguments that would be ignored.
    fn check_pairs(&self) -> Result<(), Failure> {
        let own = [
            ("form", self.form.is_some()),
            ("fit", self.fit != Fit::Stretch.name()),
            ("tile", self.tile.is_some()),
            ("stride", self.stride.is_some()),
            ("top_k", self.top_k.is_some()),
            ("features", self.features.is_some()),
            ("feature_outputs", !self.feature_outputs.is_empty()),
            ("missing", self.missing != Missing::Refuse.name()),
            ("window", self.window.is_some()),
            ("window_stride", self.window_stride.is_some()),
        ];
        if self.preset.is_some() || self.data.is_none() {
            if let Some((name, _)) = own.into_iter().find(|(_, is_given)| *is_given) {
                return Err(format!(
                    "{name}: for data of your own; a preset has its own settings, which `changes` changes"
                )
                .into());
            }
            return Ok(());
        }
        let pairs = [
            ("stride", self.stride.is_some(), "tile", self.tile.is_some()),
            ("window_stride", self.window_stride.is_some(), "window", self.window.is_some()),
            ("feature_outputs", !self.feature_outputs.is_empty(), "features", self.features.is_some()),
        ];
        match pairs.into_iter().find(|&(_, is_given, _, has_other)| is_given && !has_other) {
            Some((name, _, other, _)) => Err(format!("{name}: expected with {other}; found alone").into()),
            None => Ok(()),
        }
    }

    /// The seed of a new run: the given one, or that of the run whose config.toml is the preset, else 0.
    fn seed(&self) -> u64 {
        let recorded = |name: &str| {
            let is_file = PRESETS.iter().all(|preset| preset.name != name);
            // What is wrong with the file is said where its settings are read.
            let text = if is_file { std::fs::read_to_string(name).ok() } else { None };
            preset::recorded_run(&text?, name).ok().map(|(_, seed)| seed)
        };
        self.seed.or_else(|| recorded(self.preset.as_deref()?)).unwrap_or(0)
    }

    fn wishes(&self) -> Result<Wishes, Failure> {
        let method = OwnMethod::of(self.method()?.unwrap_or_default()).ok_or_else(|| {
            "method: expected nae, mahalanobis or knn for data of your own; for another method, give the config.toml of a run on \
             these data as preset"
                .to_owned()
        })?;
        let tile = within("tile", self.tile, 12..=82)?;
        let stride = within("stride", self.stride, 1..=usize::from(u16::MAX))?;
        let top_k = within("top_k", self.top_k, 1..=usize::from(u16::MAX))?;
        let window = within("window", self.window, 2..=usize::from(u16::MAX))?;
        let window_stride = within("window_stride", self.window_stride, 1..=usize::from(u16::MAX))?;
        if let Some(confidence) = self.confidence
            && !(confidence > 0.0 && confidence <= 0.9999)
        {
            let found = format!("confidence: expected a number above 0 and at most 0.9999, found {confidence}");
            return Err(found.into());
        }
        let fit = Fit::from_name(&self.fit);
        let fit = fit.ok_or_else(|| format!("fit: expected stretch, crop or pad, found {:?}", self.fit))?;
        let missing = Missing::from_name(&self.missing);
        let missing = missing.ok_or_else(|| format!("missing: expected refuse or fill, found {:?}", self.missing))?;
        let tiles = tile.map(|side| (side, Tiles { stride: stride.unwrap_or(side / 2), top_k: top_k.unwrap_or(1) }));
        Ok(Wishes {
            method,
            seed: self.seed(),
            length: self.length()?,
            corrupt: self.corrupt(),
            images: Asked { tiles, shape: None, transforms: Transforms { fit, ..Transforms::default() } },
            top_k,
            features: self.features.clone().map(|file| (file, self.feature_outputs.clone())),
            missing,
            window: window.map(|rows| RowWindow { rows, stride: window_stride.unwrap_or((rows / 4).max(1)) }),
            outliers: self.outliers.clone(),
            held_out: self.held_out,
            confidence: self.confidence,
            form: self.form.as_deref().map(form).transpose()?,
        })
    }

    fn length(&self) -> Result<Length, Failure> {
        let none = |name: &str| format!("{name}: expected 1 or more, found 0").into();
        match (self.time_budget, self.pretraining_updates.zip(self.updates)) {
            (None, None) => Ok(Length::default()),
            (None, Some((0, _))) => Err(none("pretraining_updates")),
            (None, Some((_, 0))) => Err(none("updates")),
            (None, Some((pretraining, training))) => Ok(Length::Updates { pretraining, training }),
            (Some(_), Some(_)) => {
                Err("time_budget: the updates are given already; leave one of both out".to_owned().into())
            }
            (Some(0.0), None) => Err("time_budget: expected more than 0 seconds, found 0".to_owned().into()),
            (Some(time), None) => Ok(Length::Time(seconds("time_budget", time)?)),
        }
    }

    /// The plan of a preset, or one that fits the data.
    fn planned(&self, device: &Device, started: Instant) -> Result<Planned, Failure> {
        self.check_pairs()?;
        let choice = EngineChoice::Auto.on(device).map_err(|error| Failure::new(&error))?;
        if let (Some(data), Some(outliers)) = (&self.data, &self.outliers) {
            own::apart(data, outliers).map_err(refused)?;
        }
        if let (None, Some(data)) = (&self.preset, &self.data) {
            if self.changes.is_some() {
                return Err("changes: they are of a preset; give preset with them".to_owned().into());
            }
            return own::plan(&self.wishes()?, data, choice, device, started).map_err(refused);
        }
        if self.time_budget.is_some() {
            return Err("time_budget: for data of your own; a preset has its schedule".to_owned().into());
        }
        let name = self.preset.as_deref().unwrap_or(PRESETS[0].name);
        let mut raw = match &self.changes {
            None => preset::load(name).map_err(|error| Failure::new(&error))?,
            Some(changes) => change::changed(name, table(changes)?).map_err(|error| Failure::of("changes", &error))?,
        }
        .raw()
        .clone();
        raw.method = self.method()?.unwrap_or(raw.method);
        raw.data.held_out = self.held_out.or(raw.data.held_out);
        raw.calibration.confidence = self.confidence.or(raw.calibration.confidence);
        if let Some(features) = &mut raw.data.features {
            // The preset may be from an earlier run; the new run may use other data.
            features.data_sha256 = None;
        }
        let config = Config::new(raw).map_err(|error| Failure::new(&error))?;
        // Fails before the training if the model cannot be returned.
        export::check(&config).map_err(|error| Failure::new(&error))?;
        let engine = choice.engine(config.architecture()).map_err(|error| Failure::new(&error))?;
        let mut prepared = Prepared::new(config, self.seed(), self.data.as_deref(), self.corrupt())?;
        prepared.check_counts()?;
        if let Length::Updates { pretraining, training } = self.length()? {
            let train = prepared.split.train.len();
            prepared.config = plan::with_updates(&prepared.config, train, pretraining, training)
                .map_err(|error| Failure::new(&error))?;
        }
        self.add_outliers(&mut prepared)?;
        Ok(Planned { prepared, engine, choices: Vec::new() })
    }

    /// Reads the given outliers; a plan for a user's data does this by itself.
    fn add_outliers(&self, prepared: &mut Prepared) -> Result<(), Failure> {
        let Some(outliers) = &self.outliers else { return Ok(()) };
        prepared.add_outliers(outliers, self.corrupt()).map_err(|error| Failure::of("--outliers", &error))
    }

    /// The interrupted run to be continued, or a new one.
    fn begun(&self, device: &Device, started: Instant) -> Result<Begun, Failure> {
        if !self.resume || !self.folder.join(RESUME).exists() {
            return Ok(Begun { planned: self.planned(device, started)?, resume: None });
        }
        let run = InterruptedRun::read(&self.folder).map_err(|error| Failure::new(&error))?;
        if let Some(seed) = self.seed.filter(|&seed| seed != run.seed) {
            let (folder, found) = (self.folder.display(), run.seed);
            return Err(format!("{folder}: the interrupted run there has seed {found}, not {seed}").into());
        }
        let prepared = run.prepare(self.data.as_deref(), self.outliers.as_deref(), self.corrupt());
        let (mut prepared, resume) = prepared.map_err(|error| Failure::new(&error))?;
        self.add_outliers(&mut prepared)?;
        let planned = Planned { prepared, engine: resume.facts.engine, choices: resume.facts.choices.clone() };
        Ok(Begun { planned, resume: Some(resume) })
    }

    fn run(&self, callback: Option<Py<PyAny>>) -> Result<Trained, Failure> {
        let started = Instant::now();
        let opened = DeviceChoice::Cpu.open().map_err(|error| Failure::new(&error))?;
        let device = opened.device;
        let Begun { planned, resume } = self.begun(&device, started)?;
        let Planned { prepared, engine, choices } = planned;
        let every = seconds("checkpoint_every", self.checkpoint_every)?;
        let folder = match &resume {
            Some(resume) => RunFolder::reopen(&self.folder, resume, every),
            None => {
                let (data_sha256, choices) = (prepared.data_sha256.clone(), choices.clone());
                RunFolder::refuse_other(&self.folder, &prepared.config, prepared.seed, &data_sha256)
                    .map_err(|error| Failure::of("folder", &error))?;
                let outliers = self.outliers.as_ref().map(|path| path.display().to_string());
                let facts = Facts {
                    data_sha256,
                    engine,
                    device: DeviceChoice::Cpu,
                    choices,
                    selection: None,
                    outliers,
                    outliers_sha256: None,
                };
                RunFolder::create(&self.folder, &prepared.config, prepared.seed, facts, every)
            }
        };
        let folder = folder.map_err(|error| Failure::new(&error))?;
        let earlier = resume.as_ref().map(|resume| resume.taken).unwrap_or_default();
        let snapshot = resume.map(|resume| resume.snapshot);
        let end = End::default();
        let watchers = Both::new(Watch::new(callback, &end), Bars::new(!self.bars));
        let mut watchers = Both::new(watchers, folder);
        let outcome = prepared.train(engine, &device, &mut watchers, &end.stop, snapshot)?;
        let mut folder = watchers.second;
        if let Some(error) = end.raised() {
            return Err(Failure::Raised(error));
        }
        if let Some(autoencoder) = &outcome.autoencoder {
            folder.save(autoencoder, AUTOENCODER);
        }
        let incomplete = folder.complete(&*outcome.model);
        let interrupted = match outcome.ending {
            Ending::Interrupted { update } => Some(update),
            _ => None,
        };
        let run = Finished { prepared, outcome, engine, choices, started, earlier };
        let mut trained = self.conclude(run, &device, &mut folder)?;
        // A run that was interrupted, or of which something is not in its folder, can be continued.
        if interrupted.is_none() && incomplete.is_none() {
            folder.finish().map_err(|error| Failure::new(&error))?;
        }
        // The model is in memory: that is no reason to throw it away.
        let said = incomplete.map(|failure| format!("not everything could be written to the run folder: {failure}"));
        trained.warnings.extend(said);
        let keyboard = end.interrupted.load(Ordering::Relaxed);
        Ok(Trained { interrupted, keyboard, config: folder.text(CONFIG), ..trained })
    }

    fn conclude(&self, run: Finished, device: &Device, folder: &mut RunFolder) -> Result<Trained, Failure> {
        let model = |metadata| {
            let (config, features) = (&run.prepared.config, run.prepared.features());
            export::model(&*run.outcome.model, config, features, metadata).map_err(|error| Failure::new(&error))
        };
        let (model, warnings, json) = if self.report {
            let conclusion = run.conclude(device)?;
            conclusion.report(&run, device, folder).map_err(|error| Failure::new(&error))?;
            let json = conclusion.result(&run, folder).to_string();
            (model(&conclusion.metadata)?, conclusion.warnings, Some(json))
        } else {
            let metadata = run.prepared.calibrate(&*run.outcome.model, device)?;
            (model(&metadata)?, run.prepared.warnings.clone(), None)
        };
        let (choices, config) = (run.choices, String::new());
        Ok(Trained { model, json, warnings, choices, config, interrupted: None, keyboard: false })
    }
}

/// Checks an argument, with the same message as clap.
fn within(name: &str, value: Option<usize>, range: RangeInclusive<usize>) -> Result<Option<usize>, Failure> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (low, high) = (range.start(), range.end());
            Err(format!("{name}: expected {low} to {high}, found {value}").into())
        }
        value => Ok(value),
    }
}

pub(crate) fn seconds(name: &str, value: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| format!("{name}: expected seconds, from 0 to 1e19, found {value}").into())
}

fn form(name: &str) -> Result<OwnForm, Failure> {
    match name {
        "whole" => Ok(OwnForm::Whole),
        "tiles" => Ok(OwnForm::Tiles),
        "features" => Ok(OwnForm::Features),
        "best" => Ok(OwnForm::Best),
        _ => Err(format!("form: expected whole, tiles, features or best, found {name:?}").into()),
    }
}

/// Converts the changes of a preset from JSON.
fn table(changes: &str) -> Result<toml::Table, Failure> {
    let changes: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(changes).map_err(|error| Failure::of("changes", &error))?;
    toml::Table::try_from(changes).map_err(|error| Failure::of("changes", &error))
}

fn refused(error: OwnError) -> Failure {
    Failure::new(&error)
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::new(&error)
    }
}

/// Trains by `request`, the arguments of `nae_edge.train`, and writes the run folder. Returns a dictionary.
#[pyfunction]
pub(crate) fn train(py: Python<'_>, request: Request, callback: Option<Py<PyAny>>) -> PyResult<Bound<'_, PyDict>> {
    let mut trained = unlocked(py, || threads::train_by(request.threads, || request.run(callback)))?;
    // Ctrl-C during the evaluation would otherwise be raised on return, and the model would be lost.
    if let Err(error) = py.check_signals() {
        if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return Err(error);
        }
        trained.keyboard = true;
    }
    let result = PyDict::new(py);
    result.set_item("model", PyBytes::new(py, &trained.model))?;
    result.set_item("json", trained.json)?;
    result.set_item("warnings", trained.warnings)?;
    result.set_item("choices", trained.choices)?;
    result.set_item("config", trained.config)?;
    result.set_item("interrupted", trained.interrupted)?;
    result.set_item("keyboard", trained.keyboard)?;
    Ok(result)
}
