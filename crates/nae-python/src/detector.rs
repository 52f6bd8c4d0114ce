//! A model that is ready to score what Python brings.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nae_infer::card::ModelFile;
use nae_infer::input::table::{self, Table};
use nae_infer::input::window::Prepared;
use nae_infer::input::{Named, Pixels, parse, read};
use nae_infer::{BackendChoice, Limits, OpenError};
use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

use crate::guard::{Failure, unlocked};
use crate::images::{Array, Images};
use crate::layout::axes;
use crate::scores::{Gathered, Keep};
use crate::tables::{IN_MEMORY, of_columns, of_matrix};

/// Samples that are prepared and scored at a time.
const BATCH: usize = 256;

/// A model file that is open: `nae_edge.Detector` has what a user sees of it.
#[pyclass(frozen, module = "nae_edge._native")]
pub(crate) struct Detector {
    detector: nae_infer::Detector,
    file: Arc<File>,
}

/// What is kept of the file.
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    card: Vec<(&'static str, String)>,
}

/// How a model is opened.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    threads: Option<usize>,
    backend: Option<String>,
    false_positive_rate: Option<f32>,
    threshold: Option<f32>,
}

impl Options {
    fn open(&self, bytes: Vec<u8>, path: &Path) -> Result<Detector, Failure> {
        let threads = match self.threads {
            None => std::thread::available_parallelism().map_or(1, NonZero::get),
            Some(0) => return Err("threads: expected 1 or more, found 0".to_owned().into()),
            Some(threads) => threads,
        };
        let mut builder = nae_infer::Detector::builder().threads(threads);
        if let Some(name) = &self.backend {
            let choice = BackendChoice::from_name(name);
            builder = builder.backend(choice.ok_or_else(|| format!("there is no backend `{name}`"))?);
        }
        if self.false_positive_rate.is_some() && self.threshold.is_some() {
            return Err("threshold: it takes the place of false_positive_rate; leave one of both out"
                .to_owned()
                .into());
        }
        if let Some(rate) = self.false_positive_rate {
            builder = builder.false_positive_rate(rate);
        }
        if let Some(energy) = self.threshold {
            builder = builder.threshold(energy);
        }
        let file = ModelFile::parse(bytes, &Limits::default())
            .map_err(|error| OpenError::Model { path: path.to_owned(), error: Box::new(error) })?;
        let detector = builder.load(&file, path)?;
        let card = file.card();
        Ok(Detector { detector, file: Arc::new(File { path: path.to_owned(), bytes: file.into_bytes(), card }) })
    }
}

/// Samples that wait to be scored, prepared, and what was found of those before them.
struct Queue<'a> {
    detector: &'a nae_infer::Detector,
    found: Gathered,
    names: Vec<String>,
    waiting: Vec<f32>,
    /// What the next sample that is scored is called in a message: `image 3`.
    noun: &'static str,
    scored: usize,
}

impl<'a> Queue<'a> {
    fn new(detector: &'a nae_infer::Detector, keep: Keep, noun: &'static str) -> Self {
        let (calibrated, judges) = (detector.contract().calibration().is_some(), detector.threshold().is_some());
        Self {
            detector,
            found: Gathered::new(keep, calibrated, judges),
            names: Vec::new(),
            waiting: Vec::new(),
            noun,
            scored: 0,
        }
    }

    fn length(&self) -> usize {
        self.detector.contract().input.len()
    }

    /// What the sample `ahead` of the next is called.
    fn name(&self, names: &[String], ahead: usize) -> String {
        names.get(ahead).cloned().unwrap_or_else(|| format!("{} {}", self.noun, self.scored + ahead))
    }

    fn push(&mut self, name: Option<String>, values: &[f32]) -> Result<(), Failure> {
        self.names.extend(name);
        self.waiting.extend_from_slice(values);
        if self.waiting.len() >= BATCH * self.length() { self.flush() } else { Ok(()) }
    }

    /// Scores what waits.
    fn flush(&mut self) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.waiting);
        self.batch(&waiting)?;
        // Its memory is used again.
        self.waiting = waiting;
        self.waiting.clear();
        Ok(())
    }

    fn batch(&mut self, values: &[f32]) -> Result<(), Failure> {
        let names = std::mem::take(&mut self.names);
        let mut scored = Vec::with_capacity(values.len() / self.length());
        for (ahead, one) in self.detector.score_each(values).enumerate() {
            scored.push(one.map_err(|error| Failure::of(&self.name(&names, ahead), &error))?);
        }
        self.scored += scored.len();
        self.found.extend(names, scored);
        Ok(())
    }

    /// Takes an image: it waits, or is scored by its tiles.
    fn image(&mut self, name: Option<String>, pixels: &Pixels) -> Result<(), Failure> {
        let waiting = self.waiting.len() / self.length();
        let called = |queue: &Self| name.clone().unwrap_or_else(|| queue.name(&[], waiting));
        if self.detector.settings().tiles.is_some() {
            let scored = self.detector.score_pixels(pixels).map_err(|error| Failure::of(&called(self), &error))?;
            self.scored += 1;
            self.found.extend(name, vec![scored]);
            return Ok(());
        }
        let prepared = self.detector.settings().prepare(pixels);
        let prepared = prepared.map_err(|error| Failure::of(&called(self), &error))?;
        self.push(name, &prepared)
    }

    fn images(&mut self, images: &Images<'_>) -> Result<(), Failure> {
        if let Some(input) = images.as_input(self.detector.settings()) {
            self.flush()?;
            return input.chunks(BATCH * self.length()).try_for_each(|batch| self.batch(batch));
        }
        (0..images.axes.count).filter_map(|index| images.pixels(index)).try_for_each(|pixels| self.image(None, &pixels))
    }

    /// Takes the rows of a table, or its windows, each with its name where `named`.
    fn table(&mut self, table: &Table, named: bool) -> Result<(), Failure> {
        let settings = self.detector.settings();
        let Some(columns) = &settings.columns else {
            let problem = "the model is one of images, not of a table";
            return Err(Failure::Value(format!("{}: {problem}", table.path().display())));
        };
        let file = table.path().display();
        // Rows of a file are called by their lines, rows in memory by their positions.
        let line = |line: u64| if named { format!("{file}:{line}") } else { format!("row {}", line - 1) };
        if let Some(window) = settings.window {
            for Prepared { first, last, values } in table.windows(columns, window)? {
                let values = values.map_err(|(at, error)| Failure::of(&line(at), &error))?;
                let name = if named { format!("{file}:{first}-{last}") } else { format!("{}-{}", first - 1, last - 1) };
                self.push(Some(name), &values)?;
            }
            return Ok(());
        }
        let positions = table.positions(columns)?;
        for row in table.rows() {
            let values = row.prepare(&positions, columns).map_err(|error| Failure::of(&line(row.line), &error))?;
            self.push(named.then(|| line(row.line)), &values)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Gathered, Failure> {
        self.flush()?;
        Ok(self.found)
    }
}

impl Detector {
    fn queue(&self, keep: Keep, noun: &'static str) -> Queue<'_> {
        Queue::new(&self.detector, keep, noun)
    }

    fn score_table<'py>(&self, py: Python<'py>, table: &Table, keep: Keep) -> PyResult<Bound<'py, PyDict>> {
        let found = unlocked(py, || {
            let mut queue = self.queue(keep, "row");
            queue.table(table, table.path() != Path::new(IN_MEMORY))?;
            queue.finish()
        })?;
        found.into_python(py)
    }
}

#[pymethods]
impl Detector {
    /// Opens the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, options: Options) -> PyResult<Self> {
        unlocked(py, || options.open(nae_onnx::file::read(&path, Limits::default().bytes)?, &path))
    }

    /// Opens a file in memory; `path` is for messages.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: Vec<u8>, path: PathBuf, options: Options) -> PyResult<Self> {
        unlocked(py, || options.open(bytes, &path))
    }

    /// Scores arrays of images; where they are `several`, each is one image.
    fn score_images<'py>(
        &self,
        py: Python<'py>,
        arrays: Vec<Bound<'py, PyAny>>,
        several: bool,
        layout: Option<&str>,
        latents: bool,
        heat_maps: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let arrays: Vec<Array<'py>> = arrays.iter().map(Array::of).collect::<PyResult<_>>()?;
        let network = Some(self.detector.contract().input);
        let images = arrays.iter().map(|array| {
            let axes = axes(array.shape(), layout, network, several).map_err(PyValueError::new_err)?;
            Ok(Images { values: array.values()?, axes })
        });
        let images: Vec<Images<'_>> = images.collect::<PyResult<_>>()?;
        let found = unlocked(py, || {
            let mut queue = self.queue(Keep { latents, heat_maps }, "image");
            images.iter().try_for_each(|images| queue.images(images))?;
            queue.finish()
        })?;
        found.into_python(py)
    }

    /// Scores files of images; of a model of a table, tables.
    fn score_files<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        latents: bool,
        heat_maps: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = unlocked(py, || {
            let mut queue = self.queue(Keep { latents, heat_maps }, "image");
            for path in &paths {
                if self.takes_tables() {
                    queue.table(&table::read(path)?, true)?;
                    continue;
                }
                for Named { name, pixels } in read(path)? {
                    queue.image(Some(name), &pixels)?;
                }
            }
            queue.finish()
        })?;
        found.into_python(py)
    }

    /// Scores images that are the contents of files.
    fn score_encoded<'py>(
        &self,
        py: Python<'py>,
        contents: Vec<PyBackedBytes>,
        latents: bool,
        heat_maps: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = unlocked(py, || {
            let mut queue = self.queue(Keep { latents, heat_maps }, "image");
            for (index, content) in contents.iter().enumerate() {
                for Named { pixels, .. } in parse(Path::new(&format!("image {index}")), content)? {
                    queue.image(None, &pixels)?;
                }
            }
            queue.finish()
        })?;
        found.into_python(py)
    }

    /// Scores the rows of a matrix, whose columns may have names.
    fn score_matrix<'py>(
        &self,
        py: Python<'py>,
        matrix: PyReadonlyArray2<'py, f64>,
        names: Option<Vec<String>>,
        latents: bool,
        heat_maps: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.score_table(py, &of_matrix(names, &matrix)?, Keep { latents, heat_maps })
    }

    /// Scores the rows of columns, each an array of float64 or a list of texts.
    fn score_columns<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        columns: Vec<Bound<'py, PyAny>>,
        latents: bool,
        heat_maps: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.score_table(py, &of_columns(names, &columns)?, Keep { latents, heat_maps })
    }

    /// The same with the threshold for a rate in (0, 1).
    fn with_false_positive_rate(&self, py: Python<'_>, rate: f32) -> PyResult<Self> {
        unlocked(py, || {
            let path = || self.file.path.clone();
            let calibration = self.detector.contract().calibration().cloned();
            let calibration = calibration.ok_or_else(|| OpenError::NoCalibration { path: path() })?;
            let detector = self.detector.recalibrated(calibration, rate);
            let detector = detector.map_err(|error| OpenError::FalsePositiveRate { path: path(), rate, error })?;
            Ok(Self { detector, file: Arc::clone(&self.file) })
        })
    }

    #[getter]
    fn threshold(&self) -> Option<f32> {
        self.detector.threshold()
    }

    #[getter]
    fn false_positive_rate(&self) -> Option<f32> {
        self.detector.false_positive_rate()
    }

    /// The card that `nae-infer inspect` prints.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let card = PyDict::new(py);
        self.file.card.iter().try_for_each(|(name, value)| card.set_item(name, value))?;
        Ok(card)
    }

    /// Channels, rows and columns of the network's input.
    #[getter]
    fn input_shape(&self) -> (usize, usize, usize) {
        let shape = self.detector.contract().input;
        (shape.channels, shape.height, shape.width)
    }

    /// Whether the model is one of a table.
    #[getter]
    fn takes_tables(&self) -> bool {
        self.detector.settings().columns.is_some()
    }

    #[getter]
    fn backend(&self) -> &'static str {
        self.detector.backend().name()
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.file.path.clone()
    }

    /// The file's bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.file.bytes)
    }
}
