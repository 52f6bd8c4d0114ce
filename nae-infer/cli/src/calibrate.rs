//! `nae-infer calibrate`: sets the threshold of a model of any origin from normal images, rows or windows.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use nae_core::calibration::{Calibration, confident_rate, count_for_confidence, count_for_rate};
use nae_core::energy::Energy;
use nae_core::model::{Preprocessing, ResizeFilter};
use nae_infer::card::{Assumed, ModelFile, probability};
use nae_infer::{Detector, Limits, Scored};
use nae_onnx::ending::ModelFormat;
use nae_onnx::metadata::ModelMetadata;
use nae_terminal::progress::Progress;

use crate::arguments::{Calibrate, UsageError};
use crate::inputs::{batch_size, files, is_stdin};
use crate::output::{about, note, report, unless_closed};
use crate::samples::{self, Found, Sample};

/// The rate of a model that has none.
const FALSE_POSITIVE_RATE: f32 = 0.01;

/// The probability of the printed interval of false-positive rates.
const INTERVAL: f32 = 0.95;

pub(crate) fn run(arguments: &Calibrate, quiet: bool) -> anyhow::Result<ExitCode> {
    let name = arguments.model.display();
    ModelFormat::Onnx.check_name(&arguments.output)?;
    let limits = Limits::default();
    let bytes = nae_onnx::file::read(&arguments.model, limits.bytes)?;
    let file = ModelFile::parse(bytes, &limits).map_err(|e| anyhow!("{name}: {e}"))?;
    let mut metadata = metadata(&file, arguments).map_err(|e| anyhow!("{name}: {e}"))?;
    let own_rate = metadata.contract.threshold().map(|threshold| threshold.false_positive_rate);
    // The model as it will be written, except for the calibration.
    metadata.contract = metadata.contract.without_calibration();
    let detector = Detector::builder().threads(threads()).read(metadata.attach(file.bytes())?, &arguments.model)?;
    let kind = Kind::of(&detector);
    if kind == Kind::Windows && arguments.confidence.is_some() {
        let problem = "--confidence is for independent samples, and the windows of a time series are not independent; ask for \
                       a smaller --false-positive-rate instead";
        return Err(UsageError(problem.into()).into());
    }

    let (paths, unread_paths) = expand(&arguments.inputs, kind, quiet);
    // The model may be replaced by the calibrated one, the other files not, also those that are given by their folder.
    nae_onnx::file::check_output(&arguments.output, paths.iter().map(PathBuf::as_path))?;
    let Energies { mut energies, unread, unscored } = score(&detector, &paths, quiet);
    let unread = unread_paths + unread;
    let (count, failed) = (energies.len(), unread + unscored);
    if failed > 0 && (arguments.strict || count == 0) {
        let remedy = if count > 0 { "; leave out --strict to calibrate with these" } else { "" };
        bail!(
            "files or folders that cannot be read: {unread}; {kind} that cannot be scored: {unscored}; {kind} that can: \
             {count}{remedy}"
        );
    }
    let calibration = Calibration::from_energies(&mut energies)?;
    let target = arguments.false_positive_rate.or(own_rate).unwrap_or(FALSE_POSITIVE_RATE);
    let confidence = arguments.confidence;
    let rate =
        confidence.map_or(Ok(target), |confidence| confident_rate(count, target, confidence)).map_err(|error| {
            let needed = confidence.map(|confidence| count_for_confidence(target, confidence));
            let needed = needed.and_then(Result::ok).map(|needed| format!("; {needed} would do")).unwrap_or_default();
            anyhow!("{count} {kind} are too few for a false-positive rate of {target}: {error}{needed}")
        })?;
    let interval = calibration.rate_interval(rate, INTERVAL);
    metadata.contract = metadata.contract.with_calibration(calibration, rate).map_err(|error| {
        let needed = count_for_rate(rate).map(|needed| format!("; {needed} would do")).unwrap_or_default();
        let needed = format!("{needed}, or --false-positive-rate {}", lowest_rate(count));
        anyhow!("{count} {kind} are too few for a false-positive rate of {rate}: {error}{needed}")
    })?;
    let (low, high) = interval?;
    let threshold = metadata.contract.threshold().map_or(f32::NAN, |threshold| threshold.energy);
    nae_onnx::file::write(&arguments.output, &metadata.attach(file.bytes())?)?;
    let certainty = match kind {
        Kind::Images | Kind::Rows => format!(
            "by their number, the rate lies between {} and {} with a probability of {INTERVAL}",
            probability(low),
            probability(high)
        ),
        Kind::Windows => "they are not independent, so that the rate is less certain than by their number".to_owned(),
    };
    let said = writeln!(
        io::stdout(),
        "{}: threshold {threshold} for a false-positive rate of {target}{}, from {count} normal {kind}; {certainty}",
        arguments.output.display(),
        confidence.map(|confidence| format!(" with a confidence of {confidence}")).unwrap_or_default(),
    );
    // The model is written, even if nobody reads this output.
    unless_closed(said.map_err(Into::into))?;
    if let Some(warning) = ties(&energies, kind, threshold, low) {
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The lowest rate that `count` energies are enough for, 1/(count + 1), rounded up to four decimals.
fn lowest_rate(count: usize) -> f64 {
    (1e4 / (count as f64 + 1.0)).ceil() / 1e4
}

/// What to say of energies that are equal to the threshold. The interval, whose lower end is `low`, is that of energies without
/// ties; with ties, fewer of them are above the threshold than its rank says, perhaps none.
fn ties(energies: &[f32], kind: Kind, threshold: f32, low: f32) -> Option<String> {
    let (count, tied) = (energies.len(), energies.iter().filter(|&&energy| energy == threshold).count());
    if tied < 2 {
        return None;
    }
    let (found, remedy) = if tied == count {
        let remedy =
            format!("check that the model is an autoencoder of such {kind}, and that they are not copies of one");
        (format!("all {count} energies are {threshold}, the threshold"), remedy)
    } else {
        (
            format!("{tied} of {count} energies are {threshold}, the threshold"),
            format!("look for copies among the {kind}"),
        )
    };
    let low = probability(low);
    Some(format!("{found}, and only a higher one is an anomaly: the rate may be below {low}, also 0; {remedy}"))
}

/// What a model scores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Images,
    Rows,
    Windows,
}

impl Kind {
    fn of(detector: &Detector) -> Self {
        match (&detector.settings().columns, detector.settings().window) {
            (None, _) => Self::Images,
            (Some(_), None) => Self::Rows,
            (Some(_), Some(_)) => Self::Windows,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Images => "images",
            Self::Rows => "rows",
            Self::Windows => "windows",
        })
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The model's own metadata, or for a model without any, those in the arguments.
fn metadata(file: &ModelFile, arguments: &Calibrate) -> anyhow::Result<ModelMetadata> {
    if let Some(metadata) = file.metadata() {
        if arguments.range.is_some() || arguments.resize.is_some() || arguments.energy.is_some() {
            bail!("it says itself how its inputs are prepared and scored; leave out --range, --resize and --energy");
        }
        return Ok(metadata.clone());
    }
    let (low, high) = arguments.range.unwrap_or((0.0, 1.0));
    let filter = arguments.resize.as_deref().and_then(ResizeFilter::from_name).unwrap_or(ResizeFilter::Bilinear);
    let energy = arguments.energy.as_deref().and_then(Energy::from_name).unwrap_or(Energy::SquaredL2);
    let preprocessing = Preprocessing::new(low, high, filter)?;
    if energy == Energy::Ssim && !preprocessing.is_unit() {
        bail!("--energy ssim is for images from 0 to 1, not for --range {low},{high}; choose squared-l2 or l1");
    }
    let assumed = Assumed { energy, preprocessing };
    // Without metadata, only a .nae file says how its images are prepared.
    if file.settings().is_some() {
        bail!(
            "a .nae file cannot be calibrated: calibrate the ONNX model, and make the .nae file of it with `nae-train deploy`"
        );
    }
    file.assume(assumed).context("it is not an ONNX model that takes images [N, C, H, W] of 1 or 3 channels")
}

/// The files of the paths, each once, and the number of paths and parts of folders that cannot be read, which are reported.
fn expand(inputs: &[PathBuf], kind: Kind, quiet: bool) -> (Vec<PathBuf>, usize) {
    let (mut paths, mut unread) = (Vec::new(), 0);
    for path in inputs {
        let mut fail = |error: &anyhow::Error| {
            unread += 1;
            report(error);
        };
        match files(path, kind != Kind::Images, quiet, &mut fail) {
            Ok(files) => paths.extend(files),
            Err(error) => fail(&error),
        }
    }
    // The statistics are those of independent samples: a repeated one is none.
    let given = paths.len();
    let mut known = HashSet::new();
    // Standard input is no file of this name, and what cannot be found is reported by its reader.
    paths.retain(|path| is_stdin(path) || fs::canonicalize(path).map_or(true, |path| known.insert(path)));
    let repeated = match given - paths.len() {
        0 => return (paths, unread),
        1 => "1 repetition is".to_owned(),
        more => format!("{more} repetitions are"),
    };
    if !quiet {
        note(&format!("files given more than once are counted once: {repeated} left out"));
    }
    (paths, unread)
}

/// The energies of all samples.
struct Energies {
    energies: Vec<f32>,
    /// The number of files that could not be read.
    unread: usize,
    /// The number of samples that could not be scored.
    unscored: usize,
}

impl Energies {
    /// Counts a sample, and reports one without an energy by `fail`.
    fn add(&mut self, scored: anyhow::Result<Scored>, fail: &impl Fn(&anyhow::Error)) {
        match scored {
            Ok(scored) => self.energies.push(scored.energy),
            Err(error) => {
                self.unscored += 1;
                fail(&error);
            }
        }
    }
}

/// Scores the samples of the files, and reports what cannot be read or scored.
fn score(detector: &Detector, paths: &[PathBuf], quiet: bool) -> Energies {
    let progress = Progress::new("scoring", "files", 0, paths.len(), quiet);
    let fail = |error: &anyhow::Error| progress.suspend(|| report(error));
    let mut found = Energies { energies: Vec::new(), unread: 0, unscored: 0 };
    // The names and the prepared values of samples that wait to be scored.
    let (mut names, mut batch) = (Vec::new(), Vec::new());
    // A sample without an energy does not affect the others.
    let flush = |names: &mut Vec<String>, batch: &mut Vec<f32>, found: &mut Energies| {
        for (name, scored) in names.drain(..).zip(detector.score_each(batch)) {
            found.add(scored.map_err(|error| about(&name, &error)), &fail);
        }
        batch.clear();
    };
    let most = batch_size(detector.contract().input.len());
    for path in paths {
        let Ok::<_, Infallible>(()) = samples::read(detector, path, &mut |sample| {
            match sample {
                Found::Sample(name, Sample::Values(values)) => {
                    batch.extend(values);
                    names.push(name);
                }
                Found::Sample(name, Sample::Tiled(pixels)) => {
                    found.add(detector.score_pixels(&pixels).map_err(|error| about(&name, &error)), &fail);
                }
                Found::Unusable(error) => found.add(Err(error), &fail),
                Found::Unread(error) => {
                    found.unread += 1;
                    fail(&error);
                }
                Found::Note(text) if !quiet => progress.suspend(|| note(&text)),
                Found::Note(_) => {}
            }
            if names.len() >= most {
                flush(&mut names, &mut batch, &mut found);
            }
            Ok(())
        });
        progress.advance(1);
    }
    flush(&mut names, &mut batch, &mut found);
    progress.clear();
    found
}
