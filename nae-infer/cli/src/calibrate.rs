//! `nae-infer calibrate`: sets the threshold of a model of any origin from normal images.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use nae_core::calibration::{Calibration, confident_rate, count_for_confidence, count_for_rate};
use nae_core::energy::Energy;
use nae_core::model::{Preprocessing, ResizeFilter};
use nae_infer::card::{Assumed, ModelFile, probability};
use nae_infer::input::{InputError, parse};
use nae_infer::{Detector, Limits};
use nae_onnx::ending::ModelFormat;
use nae_onnx::metadata::ModelMetadata;
use nae_terminal::progress::Progress;

use crate::arguments::Calibrate;
use crate::inputs::{batch_size, content, files, is_stdin};
use crate::output::{note, printable, report, unless_closed};

/// The probability of the printed interval of false-positive rates.
const INTERVAL: f32 = 0.95;

pub(crate) fn run(arguments: &Calibrate, quiet: bool) -> anyhow::Result<ExitCode> {
    let name = arguments.model.display();
    let (paths, unread_paths) = expand(&arguments.images, quiet);
    ModelFormat::Onnx.check_name(&arguments.output)?;
    // The model may be replaced by the calibrated one, the images not, also those that are given by their folder.
    nae_onnx::file::check_output(&arguments.output, paths.iter().map(PathBuf::as_path))?;
    let limits = Limits::default();
    let bytes = nae_onnx::file::read(&arguments.model, limits.bytes)?;
    let file = ModelFile::parse(bytes, &limits).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
    let mut metadata = metadata(&file, arguments).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
    // The model as it will be written, except for the calibration.
    metadata.contract = metadata.contract.without_calibration();
    let detector = Detector::builder().threads(threads()).read(metadata.attach(file.bytes())?, &arguments.model)?;

    let Found { mut energies, unread, unscored } = score(&detector, &paths, quiet);
    let unread = unread_paths + unread;
    let (count, failed) = (energies.len(), unread + unscored);
    if failed > 0 && (arguments.strict || count == 0) {
        let remedy = if count > 0 { "; leave out --strict to calibrate with these" } else { "" };
        bail!(
            "files or folders that cannot be read: {unread}; images that cannot be scored: {unscored}; images that can: \
             {count}{remedy}"
        );
    }
    let calibration = Calibration::from_energies(&mut energies)?;
    let (target, confidence) = (arguments.false_positive_rate, arguments.confidence);
    let rate =
        confidence.map_or(Ok(target), |confidence| confident_rate(count, target, confidence)).map_err(|error| {
            let needed = confidence.map(|confidence| count_for_confidence(target, confidence));
            let needed = needed.and_then(Result::ok).map(|needed| format!("; {needed} would do")).unwrap_or_default();
            anyhow::anyhow!("{count} images are too few for a false-positive rate of {target}: {error}{needed}")
        })?;
    let interval = calibration.rate_interval(rate, INTERVAL);
    metadata.contract = metadata.contract.with_calibration(calibration, rate).map_err(|error| {
        let needed = count_for_rate(rate).map(|needed| format!("; {needed} would do")).unwrap_or_default();
        anyhow::anyhow!("{count} images are too few for a false-positive rate of {rate}: {error}{needed}")
    })?;
    let (low, high) = interval?;
    let threshold = metadata.contract.threshold().map_or(f32::NAN, |threshold| threshold.energy);
    nae_onnx::file::write(&arguments.output, &metadata.attach(file.bytes())?)?;
    let said = writeln!(
        io::stdout(),
        "{}: threshold {threshold} for a false-positive rate of {target}{}, from {count} normal images; by their number, the \
         rate lies between {} and {} with a probability of {INTERVAL}",
        arguments.output.display(),
        confidence.map(|confidence| format!(" with a confidence of {confidence}")).unwrap_or_default(),
        probability(low),
        probability(high)
    );
    // The model is written, even if nobody reads this output.
    unless_closed(said.map_err(Into::into))?;
    if let Some(warning) = ties(&energies, threshold, low) {
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What to say of energies that are equal to the threshold. The interval, whose lower end is `low`, is that of energies without
/// ties; with ties, fewer of them are above the threshold than its rank says, perhaps none.
fn ties(energies: &[f32], threshold: f32, low: f32) -> Option<String> {
    let (count, tied) = (energies.len(), energies.iter().filter(|&&energy| energy == threshold).count());
    if tied < 2 {
        return None;
    }
    let (found, remedy) = if tied == count {
        let remedy = "check that the model is an autoencoder of such images, and that they are not copies of one";
        (format!("all {count} energies are {threshold}, the threshold"), remedy)
    } else {
        (format!("{tied} of {count} energies are {threshold}, the threshold"), "look for copies among the images")
    };
    let low = probability(low);
    Some(format!("{found}, and only a higher one is an anomaly: the rate may be below {low}, also 0; {remedy}"))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The model's own metadata, or for a model without any, those in the arguments.
fn metadata(file: &ModelFile, arguments: &Calibrate) -> anyhow::Result<ModelMetadata> {
    if let Some(metadata) = file.metadata() {
        if metadata.columns.is_some() {
            bail!(
                "it is a model of tables, which cannot be calibrated: train it with `nae-train --data` on rows that are normal \
                 today, or give `nae-infer score --threshold`"
            );
        }
        if arguments.range.is_some() || arguments.resize.is_some() || arguments.energy.is_some() {
            bail!("it says itself how images are prepared and scored; leave out --range, --resize and --energy");
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
fn expand(images: &[PathBuf], quiet: bool) -> (Vec<PathBuf>, usize) {
    let (mut paths, mut unread) = (Vec::new(), 0);
    for path in images {
        let mut fail = |error: &anyhow::Error| {
            unread += 1;
            report(error);
        };
        match files(path, false, quiet, &mut fail) {
            Ok(files) => paths.extend(files),
            Err(error) => fail(&error),
        }
    }
    // The statistics are those of independent images: a repeated one is none.
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

/// The energies of the images.
struct Found {
    energies: Vec<f32>,
    /// The number of files that could not be read.
    unread: usize,
    /// The number of images that could not be scored.
    unscored: usize,
}

/// Scores the images of the files, and reports those that cannot be read or scored.
fn score(detector: &Detector, paths: &[PathBuf], quiet: bool) -> Found {
    let (mut unread, mut unscored) = (0, 0);
    let progress = Progress::new("scoring", "files", 0, paths.len(), quiet);
    let fail = |name: &str, error: &dyn std::fmt::Display| {
        progress.suspend(|| report(&anyhow::anyhow!("{}: {error}", printable(name))));
    };
    // The names and the prepared values of images that wait to be scored.
    let (mut energies, mut names, mut batch) = (Vec::new(), Vec::new(), Vec::new());
    // An image without an energy does not affect the others.
    let flush = |names: &mut Vec<String>, batch: &mut Vec<f32>, energies: &mut Vec<f32>| {
        let mut failed = 0;
        for (name, scored) in names.drain(..).zip(detector.score_each(batch)) {
            match scored {
                Ok(scored) => energies.push(scored.energy),
                Err(error) => {
                    failed += 1;
                    fail(&name, &error);
                }
            }
        }
        batch.clear();
        failed
    };
    let most = batch_size(detector.contract().input.len());
    for path in paths {
        match content(path).map_err(InputError::from).and_then(|bytes| parse(path, &bytes)) {
            Ok(images) => {
                for image in images {
                    let result = match detector.settings().tiles {
                        // The image's tiles are a batch by themselves.
                        Some(_) => detector.score_pixels(&image.pixels).map(|scored| energies.push(scored.energy)),
                        None => detector
                            .settings()
                            .prepare(&image.pixels)
                            .map(|values| {
                                batch.extend(values);
                                names.push(image.name.clone());
                            })
                            .map_err(Into::into),
                    };
                    if let Err(error) = result {
                        unscored += 1;
                        fail(&image.name, &error);
                    }
                    if names.len() >= most {
                        unscored += flush(&mut names, &mut batch, &mut energies);
                    }
                }
            }
            Err(error) => {
                unread += 1;
                progress.suspend(|| report(&error.into()));
            }
        }
        progress.advance(1);
    }
    unscored += flush(&mut names, &mut batch, &mut energies);
    progress.clear();
    Found { energies, unread, unscored }
}
