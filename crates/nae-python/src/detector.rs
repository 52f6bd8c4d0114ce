//! A model that scores samples from Python.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nae_infer::card::{Card, ModelFile};
use nae_infer::input::table::{self, Table};
use nae_infer::input::window::Prepared;
use nae_infer::input::{Named, Pixels, parse, read};
use nae_infer::{BackendChoice, BackendKind, Limits, OpenError, ScoreError, Scored};
use nae_onnx::ending::ModelFormat;
use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

use crate::guard::{Failure, unlocked};
use crate::images::{Array, Images};
use crate::layout::{axes, known};
use crate::scores::{Gathered, Keep};
use crate::tables::{IN_MEMORY, of_columns, of_matrix};
use crate::threads;
use crate::watch::Signals;

/// The number of samples that are prepared and scored at a time.
const BATCH: usize = 256;

/// The members of a list that cannot be scored, by position, and the reasons.
type Problems = BTreeMap<usize, String>;

/// All members of a list in order: the `usable` ones, and the reasons for the others.
fn in_order<T>(usable: Vec<T>, mut problems: Problems) -> Vec<Result<T, String>> {
    let count = usable.len() + problems.len();
    let mut usable = usable.into_iter();
    let member = |at| problems.remove(&at).map(Err).or_else(|| usable.next().map(Ok));
    (0..count).filter_map(member).collect()
}

/// Refuses a pipe or a device, as training does: it may never end, and Ctrl-C would not be looked for while it is read. What
/// is not there, and folders, are left to the reader of files.
fn check_is_file(path: &Path) -> Result<(), Failure> {
    match path.metadata() {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            Err(Failure::Value(format!("{}: expected a file; found a device or a pipe", path.display())))
        }
        _ => Ok(()),
    }
}

/// An open model file; `nae_edge.Detector` is its interface for users.
#[pyclass(frozen, module = "nae_edge._native")]
pub(crate) struct Detector {
    detector: nae_infer::Detector,
    file: Arc<File>,
}

/// The file's content and path.
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    card: Card,
}

/// The options for opening a model.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    threads: Option<i64>,
    backend: Option<String>,
    false_positive_rate: Option<f32>,
    threshold: Option<f32>,
}

impl Options {
    fn open(&self, bytes: Vec<u8>, path: &Path) -> Result<Detector, Failure> {
        let threads = match threads::checked(self.threads)? {
            Some(threads) => threads,
            None => std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
        };
        let mut builder = nae_infer::Detector::builder().threads(threads.get());
        if let Some(name) = &self.backend {
            let unknown = || {
                let known = BackendKind::ALL.into_iter().filter(|kind| kind.is_built_in());
                let known: Vec<&str> = known.map(BackendKind::name).collect();
                format!("backend: expected {} or auto, found {name:?}", known.join(", "))
            };
            builder = builder.backend(BackendChoice::from_name(name).ok_or_else(unknown)?);
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

/// The prepared samples that wait to be scored, and the scores so far.
struct Queue<'a> {
    detector: &'a nae_infer::Detector,
    found: Gathered,
    /// The names of the waiting samples; empty if samples have no names.
    names: Vec<String>,
    waiting: Vec<f32>,
    /// The word for a sample without a name in messages: `image` in `image 3`.
    noun: &'static str,
    signals: Signals,
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
            signals: Signals::new(),
        }
    }

    fn length(&self) -> usize {
        self.detector.contract().input.len()
    }

    /// The number of samples so far.
    fn count(&self) -> usize {
        self.found.len() + self.waiting.len() / self.length()
    }

    /// The name of the sample at `position` of the call in messages.
    fn called(&self, name: Option<&String>, position: usize) -> String {
        name.cloned().unwrap_or_else(|| format!("{} {position}", self.noun))
    }

    fn push(&mut self, name: Option<String>, values: &[f32]) -> Result<(), Failure> {
        self.names.extend(name);
        self.waiting.extend_from_slice(values);
        if self.waiting.len() >= BATCH * self.length() { self.flush() } else { Ok(()) }
    }

    /// Scores the waiting samples.
    fn flush(&mut self) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.waiting);
        self.batch(&waiting)?;
        // Its memory is reused.
        self.waiting = waiting;
        self.waiting.clear();
        Ok(())
    }

    fn batch(&mut self, values: &[f32]) -> Result<(), Failure> {
        self.signals.check()?;
        let detector = self.detector;
        let mut names = std::mem::take(&mut self.names).into_iter();
        for scored in detector.score_each(values) {
            self.scored(names.next(), scored)?;
        }
        Ok(())
    }

    fn scored(&mut self, name: Option<String>, scored: Result<Scored, ScoreError>) -> Result<(), Failure> {
        match scored {
            Ok(scored) => {
                self.found.push(name, scored);
                Ok(())
            }
            Err(error) => {
                let called = self.called(name.as_ref(), self.found.len());
                self.found.push_error(name, Failure::from(error).about(&called))
            }
        }
    }

    /// Records a sample that cannot be scored. Waiting samples are scored first, to keep the order.
    fn error(&mut self, name: Option<String>, failure: Failure) -> Result<(), Failure> {
        self.flush()?;
        self.found.push_error(name, failure)
    }

    /// Calls `each` with every member of a list, and records those that are no samples; `named` if samples have names.
    fn members<T>(
        &mut self,
        members: Vec<Result<T, String>>,
        named: bool,
        mut each: impl FnMut(&mut Self, T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        members.into_iter().try_for_each(|member| match member {
            Ok(member) => each(self, member),
            Err(problem) => {
                let called = self.called(None, self.count());
                self.error(named.then(|| called.clone()), Failure::Value(problem).about(&called))
            }
        })
    }

    /// Adds an image to the waiting ones, or scores it at once if it is cut into tiles.
    fn image(&mut self, name: Option<String>, pixels: &Pixels) -> Result<(), Failure> {
        self.signals.check()?;
        let detector = self.detector;
        if detector.settings().tiles.is_some() {
            return self.scored(name, detector.score_pixels(pixels));
        }
        match detector.settings().prepare(pixels) {
            Ok(prepared) => self.push(name, &prepared),
            Err(error) => {
                let called = self.called(name.as_ref(), self.count());
                self.error(name, Failure::of(&called, &error))
            }
        }
    }

    fn images(&mut self, images: &Images<'_>) -> Result<(), Failure> {
        if let Some(input) = images.as_input(self.detector.settings()) {
            self.flush()?;
            return input.chunks(BATCH * self.length()).try_for_each(|batch| self.batch(batch));
        }
        (0..images.axes.count).filter_map(|index| images.pixels(index)).try_for_each(|pixels| self.image(None, &pixels))
    }

    /// Adds the rows or windows of a table, with names if `named`.
    fn table(&mut self, table: &Table, named: bool) -> Result<(), Failure> {
        let settings = self.detector.settings();
        let Some(columns) = &settings.columns else {
            let problem = "the model is one of images, not of a table";
            return Err(Failure::Value(format!("{}: {problem}", table.path().display())));
        };
        let file = table.path().display();
        // Rows of a file are named by their lines, rows in memory by their positions.
        let line = |line: u64| if named { format!("{file}:{line}") } else { format!("row {}", line - 1) };
        if let Some(window) = settings.window {
            for Prepared { first, last, values } in table.windows(columns, window)? {
                let name = if named { format!("{file}:{first}-{last}") } else { format!("{}-{}", first - 1, last - 1) };
                match values {
                    Ok(values) => self.push(Some(name), &values)?,
                    Err((at, error)) => self.error(Some(name), Failure::of(&line(at), &error))?,
                }
            }
            return Ok(());
        }
        let positions = table.positions(columns)?;
        for row in table.rows() {
            let name = named.then(|| line(row.line));
            match row.prepare(&positions, columns) {
                Ok(values) => self.push(name, &values)?,
                Err(error) => self.error(name, Failure::of(&line(row.line), &error))?,
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Gathered, Failure> {
        self.flush()?;
        // Without a scored sample, the model says which results it would have had, and of which shape.
        if self.found.needs_shapes() && self.detector.settings().tiles.is_none() {
            let like = self.detector.score_prepared(&vec![0.0; self.length()])?.pop();
            self.found.shape_like(like.as_ref());
        }
        Ok(self.found)
    }
}

impl Detector {
    /// Refuses images if the model is one of tables: the input of a row would pass for a grey image of one column.
    fn check_images(&self) -> Result<(), Failure> {
        if self.takes_tables() {
            let problem = "expected a table, as the model is one of tables, found images; give an array [rows, columns], a \
                           DataFrame, an Arrow table, or the path of a .csv or .tsv file";
            return Err(Failure::Value(problem.to_owned()));
        }
        Ok(())
    }

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
        unlocked(py, || {
            check_is_file(&path)?;
            options.open(nae_onnx::file::read(&path, Limits::default().bytes)?, &path)
        })
    }

    /// Opens a file in memory; `path` is used in messages.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: Vec<u8>, path: PathBuf, options: Options) -> PyResult<Self> {
        unlocked(py, || options.open(bytes, &path))
    }

    /// Scores arrays of images; if `several`, each array is one image, and `problems` are the members of the list between
    /// them that are none.
    #[pyo3(signature = (arrays, several, layout, keep, problems=Problems::new()))]
    fn score_images<'py>(
        &self,
        py: Python<'py>,
        arrays: Vec<Bound<'py, PyAny>>,
        several: bool,
        layout: Option<&str>,
        keep: Keep,
        problems: Problems,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.check_images()?;
        layout.map(known).transpose().map_err(PyValueError::new_err)?;
        let arrays: Vec<Array<'py>> = arrays.iter().map(Array::of).collect::<PyResult<_>>()?;
        let network = Some(self.detector.contract().input);
        let images = in_order(arrays.iter().collect(), problems).into_iter().map(|array| {
            let array = match array {
                Ok(array) => array,
                Err(problem) => return Ok(Err(problem)),
            };
            match axes(array.shape(), layout, network, several) {
                Ok(axes) => Ok(Ok(Images { values: array.values()?, axes })),
                // In a list, one member cannot be read, and the others can.
                Err(problem) if several => Ok(Err(problem)),
                Err(problem) => Err(PyValueError::new_err(problem)),
            }
        });
        let images: Vec<Result<Images<'_>, String>> = images.collect::<PyResult<_>>()?;
        let found = unlocked(py, || {
            let mut queue = self.queue(keep, "image");
            queue.members(images, false, |queue, images| queue.images(&images))?;
            queue.finish()
        })?;
        found.into_python(py)
    }

    /// Scores files of images, or of tables for a model of tables. A file of a table is not a sample, but its rows are: one
    /// that cannot be read ends the call. `problems` are the members of the list between the paths that are none.
    #[pyo3(signature = (paths, keep, problems=Problems::new()))]
    fn score_files<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        keep: Keep,
        problems: Problems,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = unlocked(py, || {
            let mut queue = self.queue(keep, "image");
            queue.members(in_order(paths, problems), true, |queue, path| {
                if self.takes_tables() {
                    check_is_file(&path)?;
                    return queue.table(&table::read(&path)?, true);
                }
                match check_is_file(&path).and_then(|()| Ok(read(&path)?)) {
                    Ok(images) => {
                        images.into_iter().try_for_each(|Named { name, pixels }| queue.image(Some(name), &pixels))
                    }
                    Err(failure) => queue.error(Some(path.display().to_string()), failure),
                }
            })?;
            queue.finish()
        })?;
        found.into_python(py)
    }

    /// Scores encoded images, each the content of a file. `problems` are the members of the list between them that are none.
    #[pyo3(signature = (contents, keep, problems=Problems::new()))]
    fn score_encoded<'py>(
        &self,
        py: Python<'py>,
        contents: Vec<PyBackedBytes>,
        keep: Keep,
        problems: Problems,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.check_images()?;
        let found = unlocked(py, || {
            let mut queue = self.queue(keep, "image");
            let contents = in_order(contents, problems).into_iter().enumerate();
            let numbered = contents.map(|(index, content)| content.map(|content| (index, content))).collect();
            queue.members(numbered, false, |queue, (index, content)| {
                match parse(Path::new(&format!("image {index}")), &content) {
                    Ok(images) => images.iter().try_for_each(|Named { pixels, .. }| queue.image(None, pixels)),
                    Err(error) => queue.error(None, error.into()),
                }
            })?;
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
        keep: Keep,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.score_table(py, &of_matrix(names, &matrix)?, keep)
    }

    /// Scores the rows of columns, each an array of float64 or a list of texts.
    fn score_columns<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        columns: Vec<Bound<'py, PyAny>>,
        keep: Keep,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.score_table(py, &of_columns(names, &columns)?, keep)
    }

    /// The same model with the threshold for a false-positive rate in (0, 1).
    fn with_false_positive_rate(&self, py: Python<'_>, rate: f32) -> PyResult<Self> {
        unlocked(py, || {
            let path = || self.file.path.clone();
            let calibration = self.detector.contract().calibration().cloned();
            let calibration = calibration.ok_or_else(|| OpenError::NoCalibration { path: path() })?;
            let count = calibration.count();
            let detector = self.detector.recalibrated(calibration, rate);
            let detector =
                detector.map_err(|error| OpenError::FalsePositiveRate { path: path(), rate, count, error })?;
            Ok(Self { detector, file: Arc::clone(&self.file) })
        })
    }

    #[getter]
    fn threshold(&self) -> Option<f32> {
        self.detector.threshold()
    }

    /// As it was given: 0.01, and not 0.009999999776482582, the nearest value of 32 bits.
    #[getter]
    fn false_positive_rate(&self) -> Option<f64> {
        let rate = self.detector.false_positive_rate()?;
        Some(rate.to_string().parse().unwrap_or(f64::from(rate)))
    }

    /// The card that `nae-infer inspect --json` prints.
    #[getter]
    fn metadata(&self) -> PyResult<String> {
        serde_json::to_string(&self.file.card).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The channels, rows and columns of the network's input.
    #[getter]
    fn input_shape(&self) -> (usize, usize, usize) {
        let shape = self.detector.contract().input;
        (shape.channels, shape.height, shape.width)
    }

    /// Whether the model is one of tables.
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

    /// Writes the file's bytes to `path`, whose old content stays if that fails.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        unlocked(py, || {
            ModelFormat::of(&self.file.bytes).check_name(&path).map_err(|error| Failure::new(&error))?;
            Ok(nae_onnx::file::write(&path, &self.file.bytes)?)
        })
    }

    /// The file's bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.file.bytes)
    }
}
