//! The paper's experiments in Python: the functions of `nae-train reproduce` and `nae-train gather`, with figures as
//! JSON and the table as text. The cells of an experiment can be listed first, to distribute them over machines.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use nae_data::DATA_FOLDER;
use nae_lab::Seeds;
use nae_lab::experiments::Scale;
use nae_lab::experiments::detection::{self, DetectionError, DetectionSettings, EXPERIMENTS};
use nae_lab::experiments::gaussians8::{self, DensitySettings, ExperimentError};
use nae_train::device::DeviceChoice;
use nae_train::engine::EngineChoice;
use nae_train::report::progress::Bars;
use nae_train::train::Both;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

use crate::guard::{Failure, unlocked};
use crate::threads;
use crate::training::seconds;
use crate::watch::{End, Watch};

/// The arguments of `nae_edge.reproduce`, which checks only their types.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Request {
    experiment: String,
    scale: String,
    cells: Vec<String>,
    seeds: Vec<u64>,
    folder: PathBuf,
    data: Option<PathBuf>,
    settings: Option<PathBuf>,
    search: bool,
    trace_outliers: bool,
    threads: Option<i64>,
    bars: bool,
    /// The seconds between two saved states of a model.
    checkpoint_every: f64,
}

/// An experiment of either kind.
enum Experiment {
    Detection(Box<detection::Experiment>),
    Densities(Box<gaussians8::Experiment>),
}

/// The result, or whether Ctrl-C or the callback ended the experiment early.
enum Found {
    Whole { json: String, text: String },
    Interrupted,
    Ended,
}

impl Request {
    fn experiment(&self) -> Result<Experiment, Failure> {
        let scale = scale(&self.scale)?;
        let seeds = Seeds::list(self.seeds.clone()).map_err(|error| Failure::of("seeds", &error))?;
        let known = EXPERIMENTS.iter().find(|known| known.name == self.experiment);
        let paper = match known {
            Some(known) => known.text,
            None if self.experiment == gaussians8::NAME => gaussians8::PAPER,
            None => {
                let names: Vec<&str> = EXPERIMENTS.iter().map(|known| known.name).chain([gaussians8::NAME]).collect();
                let problem = format!("experiment: expected one of {}, found {:?}", names.join(", "), self.experiment);
                return Err(problem.into());
            }
        };
        let (text, origin) = match &self.settings {
            None => (paper.to_owned(), self.experiment.clone()),
            Some(path) => {
                let read = std::fs::read_to_string(path);
                let text = read.map_err(|error| Failure::File(error.kind(), format!("{}: {error}", path.display())))?;
                (text, path.display().to_string())
            }
        };
        if known.is_none() {
            if !self.cells.is_empty() {
                return Err(format!("cells: {} has none; share out its seeds", gaussians8::NAME).into());
            }
            if self.search {
                return Err(format!("search: {} has nothing to search", gaussians8::NAME).into());
            }
            let settings = DensitySettings::parse(&text, &origin).map_err(|error| Failure::new(&error))?;
            let experiment = gaussians8::Experiment::new(settings, scale, seeds);
            return Ok(Experiment::Densities(Box::new(experiment.map_err(|error| Failure::new(&error))?)));
        }
        let data = self.data.clone().or_else(|| std::env::var_os(DATA_FOLDER).map(PathBuf::from)).ok_or_else(|| {
            format!("data: expected the folder that has the data sets, here or as {DATA_FOLDER}; found neither")
        })?;
        Ok(Experiment::Detection(Box::new(detection::Experiment {
            name: self.experiment.clone(),
            settings: DetectionSettings::parse(&text, &origin, scale, self.search)
                .map_err(|error| Failure::new(&error))?,
            scale,
            seeds,
            only: self.cells.clone(),
            engine: EngineChoice::Auto,
            device: DeviceChoice::Cpu,
            data,
            checkpoint_every: seconds("checkpoint_every", self.checkpoint_every)?,
            trace_outliers: self.trace_outliers,
        })))
    }

    fn run(&self, mut callback: Option<Py<PyAny>>) -> Result<Found, Failure> {
        let opened = DeviceChoice::Cpu.open().map_err(|error| Failure::new(&error))?;
        let (device, end) = (opened.device, End::default());
        match self.experiment()? {
            Experiment::Detection(experiment) => {
                // The models are trained one after the other, with the same callback.
                let begin = |_: &detection::Job<'_>, _: &[String]| {
                    let again = Python::attach(|py| callback.as_ref().map(|callback| callback.clone_ref(py)));
                    Both::new(Watch::new(std::mem::replace(&mut callback, again), &end), Bars::new(!self.bars))
                };
                match experiment.run(&self.folder, &device, &end.stop, begin) {
                    Ok(finished) => {
                        let rows = detection::summary::rows(&experiment, &finished);
                        let json = detection::summary::json(&experiment, experiment.selection(), &rows, &finished);
                        let text = detection::summary::terminal(&experiment, &rows, &finished);
                        Ok(Found::Whole { json: json.to_string(), text })
                    }
                    Err(DetectionError::Interrupted) => match end.raised() {
                        Some(error) => Err(Failure::Raised(error)),
                        None if end.interrupted.load(Ordering::Relaxed) => Ok(Found::Interrupted),
                        None => Ok(Found::Ended),
                    },
                    Err(error) => Err(Failure::new(&error)),
                }
            }
            Experiment::Densities(_) if callback.is_some() => {
                Err(format!("callback: {} has no steps to tell; leave it out", gaussians8::NAME).into())
            }
            Experiment::Densities(experiment) => {
                match end.watching(|| experiment.run(&self.folder, &device, &end.stop, || {})) {
                    Ok(finished) => {
                        let rows = gaussians8::summary::rows(&experiment, &finished);
                        let json = gaussians8::summary::json(&experiment, &rows, &finished).to_string();
                        Ok(Found::Whole { json, text: gaussians8::summary::terminal(&experiment, &rows, &finished) })
                    }
                    Err(ExperimentError::Interrupted) => Ok(Found::Interrupted),
                    Err(error) => Err(Failure::new(&error)),
                }
            }
        }
    }
}

fn scale(name: &str) -> Result<Scale, Failure> {
    let scales = [Scale::Smoke, Scale::Cpu, Scale::Paper];
    let scale = scales.into_iter().find(|scale| scale.name() == name);
    scale.ok_or_else(|| format!("scale: expected smoke, cpu or paper, found {name:?}").into())
}

/// Trains the models that the folder does not contain yet. Returns the figures as JSON and the table. Raises
/// `KeyboardInterrupt` at Ctrl-C; the same call then continues the experiment.
#[pyfunction]
pub(crate) fn reproduce(py: Python<'_>, request: Request, callback: Option<Py<PyAny>>) -> PyResult<(String, String)> {
    let found = unlocked(py, || threads::train_by(request.threads, || request.run(callback)))?;
    match found {
        Found::Whole { json, text } => Ok((json, text)),
        Found::Interrupted => Err(PyKeyboardInterrupt::new_err("the same call continues with what the folder has")),
        Found::Ended => Err(PyRuntimeError::new_err(
            "the callback ended the experiment; the same call continues with what the folder has",
        )),
    }
}

/// The models of an experiment: cell, seed, and the cell whose model of seed 0 it starts from. Empty for `gaussians8`,
/// which can only be distributed by seeds.
#[pyfunction]
pub(crate) fn cells(py: Python<'_>, request: Request) -> PyResult<Vec<(String, u64, Option<String>)>> {
    unlocked(py, || match request.experiment()? {
        Experiment::Densities(_) => Ok(Vec::new()),
        Experiment::Detection(experiment) => {
            let jobs = experiment.jobs().map_err(|error| Failure::new(&error))?;
            Ok(jobs.iter().map(|job| (job.cell.name.clone(), job.seed, job.cell.pretrained.clone())).collect())
        }
    })
}

/// The figures of several folders as JSON, their table, and the runs that have not ended.
#[pyfunction]
pub(crate) fn gather(py: Python<'_>, folders: Vec<PathBuf>) -> PyResult<(String, String, Vec<PathBuf>)> {
    let found = unlocked(py, || nae_lab::gather::gather(&folders).map_err(|error| Failure::new(&error)))?;
    Ok((found.json.to_string(), found.text, found.unfinished))
}
