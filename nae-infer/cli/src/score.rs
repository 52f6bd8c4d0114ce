//! `nae-infer score`: scores images, and prints a table or JSON.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};
use nae_infer::card::probability;
use nae_infer::input::path_name;
use nae_infer::{Detector, Scored};
use nae_terminal::interrupt;
use nae_terminal::progress::Progress;
use serde::Serialize;

use crate::arguments::{Score, UsageError, runtime};
use crate::inputs::{batch_size, files};
use crate::output::{about, note, printable, report, unless_closed};
use crate::samples::{self, Found, Sample};

/// The number of rows that are printed at a time: few enough for early results.
const ROWS: usize = 64;
/// The time after which a progress bar is shown, and after which even a few waiting images are scored and
/// printed.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum width in characters of the column of names that is reserved for later paths.
const WIDEST: usize = 120;
/// The exit status if anomalies were found and `--fail-on-anomaly` was given.
const ANOMALY: u8 = 3;

pub(crate) fn run(arguments: &Score, quiet: bool) -> anyhow::Result<ExitCode> {
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok()).map_or(1, |n| n.get());
    let (backend, providers) = runtime(arguments.backend.as_deref(), &arguments.execution_provider)?;
    let mut builder = Detector::builder().threads(threads).backend(backend).execution_providers(providers);
    if let Some(rate) = arguments.false_positive_rate {
        builder = builder.false_positive_rate(rate);
    }
    if let Some(energy) = arguments.threshold {
        builder = builder.threshold(energy);
    }
    let detector = builder.open(&arguments.model)?;
    anyhow::ensure!(
        !arguments.fail_on_anomaly || detector.threshold().is_some(),
        "{} has no threshold for --fail-on-anomaly: give one by --threshold, or `nae-infer calibrate`",
        arguments.model.display()
    );
    if detector.settings().columns.is_some() && arguments.heat_map.is_some() {
        let problem = format!("--heat-map is of images; {} is a model of tables", arguments.model.display());
        return Err(UsageError(problem).into());
    }
    let places = detector.settings().features.as_ref().map(|features| features.rows * features.columns);
    if places == Some(1) && arguments.heat_map.is_some() {
        let problem = format!("--heat-map: {} gives one value for a whole image", arguments.model.display());
        return Err(UsageError(problem).into());
    }
    let mut stop = Arc::default();
    if let Some(folder) = &arguments.heat_map {
        // They would be taken for images the next time.
        if let Some(input) = arguments.images.iter().find(|input| input.is_dir() && lies_in(folder, input)) {
            let problem = format!(
                "--heat-map: {} lies in {}, whose images are scored; give a folder beside it",
                folder.display(),
                input.display()
            );
            return Err(UsageError(problem).into());
        }
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        // No picture stays incomplete, and none is without its row.
        let stopping = || note("stopping after this image (Ctrl-C again to stop at once)");
        stop = interrupt::catch(stopping).context("Ctrl-C cannot be caught")?;
    }
    let mut run = Run {
        stop,
        detector: &detector,
        output: if arguments.json { Output::Json } else { Output::Table(Rows::default()) },
        heat_map: arguments.heat_map.as_deref(),
        names: Vec::new(),
        batch: Vec::new(),
        since: None,
        failed: false,
        anomalies: arguments.fail_on_anomaly.then_some(0),
        scored: 0,
        started: Instant::now(),
        progress: None,
        quiet,
    };
    let result = run.all(&arguments.images);
    if let Some(progress) = &run.progress {
        progress.clear();
    }
    match result {
        Err(error) if error.is::<Stopped>() => {
            unless_closed(run.print_rows()).map(|()| ExitCode::from(interrupt::STATUS))
        }
        result => unless_closed(result).map(|()| run.code()),
    }
}

/// Whether `path`, which need not exist, is `folder` or lies in it.
fn lies_in(path: &Path, folder: &Path) -> bool {
    let (Ok(path), Ok(folder)) = (std::path::absolute(path), folder.canonicalize()) else { return false };
    path.ancestors().filter_map(|part| part.canonicalize().ok()).any(|part| part == folder)
}

/// Ctrl-C or SIGTERM, between two images.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by Ctrl-C or SIGTERM")
    }
}

impl std::error::Error for Stopped {}

enum Output {
    Json,
    Table(Rows),
}

/// The rows of a table that wait to be printed together, with common column widths.
#[derive(Default)]
struct Rows {
    waiting: Vec<[String; 4]>,
    /// The minimum widths: those of printed rows, and of later ones as far as they are known.
    widths: [u16; 4],
    /// Whether the header was printed.
    has_names: bool,
}

impl Rows {
    /// Reserves space for the paths, so that rows before and after the longest one are aligned.
    fn expect(&mut self, paths: &[PathBuf]) {
        let width = |path: &PathBuf| printable(&path_name(path)).chars().count();
        let longest = paths.iter().map(width).max().unwrap_or(0);
        self.widths[0] = longest.min(WIDEST) as u16;
    }

    /// The waiting rows as text, with the header if they are the first.
    fn take(&mut self) -> Option<String> {
        if self.waiting.is_empty() {
            return None;
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if !std::mem::replace(&mut self.has_names, true) {
            table.set_header(["input", "energy", "p-value", "verdict"]);
        }
        table.add_rows(self.waiting.drain(..));
        for (at, (column, &width)) in table.column_iter_mut().zip(&self.widths).enumerate() {
            if at == 1 || at == 2 {
                column.set_cell_alignment(CellAlignment::Right);
            }
            // The padding on both sides counts.
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width.saturating_add(2))));
        }
        for (width, here) in self.widths.iter_mut().zip(table.column_max_content_widths()) {
            *width = here.max(*width);
        }
        Some(table.trim_fmt())
    }
}

struct Run<'a> {
    /// Set by Ctrl-C and SIGTERM, if pictures are written.
    stop: Arc<AtomicBool>,
    detector: &'a Detector,
    output: Output,
    heat_map: Option<&'a Path>,
    /// The names of images that wait to be scored; the next field: their prepared values.
    names: Vec<String>,
    batch: Vec<f32>,
    /// When the first of the waiting images and rows was added.
    since: Option<Instant>,
    failed: bool,
    /// The number of anomalies, if they are to be a failure.
    anomalies: Option<usize>,
    scored: usize,
    started: Instant,
    progress: Option<Progress>,
    quiet: bool,
}

/// A line of JSON. The numbers are finite, since a non-finite energy is an error.
#[derive(Serialize)]
struct Line<'a> {
    input: &'a str,
    energy: f32,
    p_value: Option<f32>,
    verdict: Option<String>,
}

impl Run<'_> {
    /// Scores the files of the paths.
    fn all(&mut self, images: &[PathBuf]) -> anyhow::Result<()> {
        let detector = self.detector;
        let mut paths = Vec::new();
        for path in images {
            match files(path, detector.settings().columns.is_some(), self.quiet, &mut |error| self.fail(error)) {
                Ok(files) => paths.extend(files),
                Err(error) => self.fail(&error),
            }
        }
        if let Output::Table(rows) = &mut self.output {
            rows.expect(&paths);
        }
        for (done, path) in paths.iter().enumerate() {
            samples::read(detector, path, &mut |found| self.take(found))?;
            self.progress(done, paths.len());
        }
        self.flush()
    }

    /// # Errors
    /// [`Stopped`] after Ctrl-C.
    fn go_on(&self) -> anyhow::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Stopped.into()) } else { Ok(()) }
    }

    fn fail(&mut self, error: &anyhow::Error) {
        self.failed = true;
        match &self.progress {
            Some(progress) => progress.suspend(|| report(error)),
            None => report(error),
        }
    }

    /// Adds a sample to those that wait to be scored, or scores it at once if it is cut into tiles.
    fn take(&mut self, found: Found) -> anyhow::Result<()> {
        self.go_on()?;
        match found {
            Found::Sample(name, Sample::Values(values)) => {
                self.batch.extend(values);
                self.names.push(name);
            }
            Found::Sample(name, Sample::Tiled(pixels)) => match self.detector.score_pixels(&pixels) {
                Ok(scored) => {
                    self.count(&scored);
                    self.print(&name, &scored)?;
                }
                Err(error) => self.fail(&about(&name, &error)),
            },
            Found::Unusable(error) | Found::Unread(error) => self.fail(&error),
            Found::Note(text) if !self.quiet => match &self.progress {
                Some(progress) => progress.suspend(|| note(&text)),
                None => note(&text),
            },
            Found::Note(_) => {}
        }
        self.flush_if_due()
    }

    /// Scores and prints the waiting items if there are enough, or they have waited long enough.
    fn flush_if_due(&mut self) -> anyhow::Result<()> {
        let rows = if let Output::Table(rows) = &self.output { rows.waiting.len() } else { 0 };
        if self.names.is_empty() && rows == 0 {
            return Ok(());
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_full = rows >= ROWS || self.names.len() >= batch_size(self.detector.contract().input.len());
        if is_full || since.elapsed() > PATIENCE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.since = None;
        self.score()?;
        self.print_rows()
    }

    /// Scores the waiting images.
    fn score(&mut self) -> anyhow::Result<()> {
        let (names, batch) = (std::mem::take(&mut self.names), std::mem::take(&mut self.batch));
        let mut found = Vec::with_capacity(names.len());
        // All are counted before the first is printed, since the reader may stop at any of them.
        for (name, scored) in names.into_iter().zip(self.detector.score_each(&batch)) {
            match scored {
                Ok(scored) => {
                    self.count(&scored);
                    found.push((name, scored));
                }
                Err(error) => self.fail(&about(&name, &error)),
            }
        }
        found.iter().try_for_each(|(name, scored)| self.print(name, scored))
    }

    fn count(&mut self, scored: &Scored) {
        if let Some(anomalies) = &mut self.anomalies {
            *anomalies += usize::from(scored.verdict.is_some_and(|verdict| verdict.is_anomaly()));
        }
    }

    fn print(&mut self, name: &str, scored: &Scored) -> anyhow::Result<()> {
        self.go_on()?;
        let verdict = scored.verdict.map(|v| v.to_string());
        match &mut self.output {
            Output::Json => {
                let line = Line { input: name, energy: scored.energy, p_value: scored.p_value, verdict };
                let line = serde_json::to_string(&line).context("cannot write JSON")?;
                self.write(&line)?;
            }
            Output::Table(rows) => {
                let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
                rows.waiting.push([
                    printable(name),
                    energy(scored.energy),
                    or_dash(scored.p_value.map(probability)),
                    or_dash(verdict),
                ]);
            }
        }
        self.scored += 1;
        if let Some(folder) = self.heat_map {
            let file = folder.join(heat_map_name(self.scored, name));
            let written = heat_map_png(scored).and_then(|png| Ok(nae_onnx::file::write(&file, &png)?));
            if let Err(error) = written {
                self.fail(&error.context(format!("the heat map of {}", printable(name))));
            }
        }
        Ok(())
    }

    fn print_rows(&mut self) -> anyhow::Result<()> {
        let Output::Table(rows) = &mut self.output else { return Ok(()) };
        match rows.take() {
            Some(text) => self.write(&text),
            None => Ok(()),
        }
    }

    /// Prints one or more lines above the progress bar.
    fn write(&self, text: &str) -> anyhow::Result<()> {
        let write = || writeln!(io::stdout(), "{text}");
        Ok(match &self.progress {
            Some(progress) => progress.suspend(write),
            None => write(),
        }?)
    }

    fn progress(&mut self, done: usize, of: usize) {
        if self.progress.is_none() && of > 1 && self.started.elapsed() > PATIENCE {
            self.progress = Some(Progress::new("scoring", "files", done, of, self.quiet));
        }
        if let Some(progress) = &self.progress {
            progress.set_done(done + 1);
        }
    }

    /// The exit status for the results so far.
    fn code(&self) -> ExitCode {
        match self.anomalies {
            // A failed image may or may not have been an anomaly.
            _ if self.failed => ExitCode::FAILURE,
            None | Some(0) => ExitCode::SUCCESS,
            Some(_) => ExitCode::from(ANOMALY),
        }
    }
}

/// An energy for the table, with no more digits than a 32-bit number has: six decimals, or fewer from 10 on; below 0.001
/// four significant digits.
fn energy(value: f32) -> String {
    match value.abs() {
        size if size >= 10.0 => format!("{value:.*}", 6_usize.saturating_sub(size.log10() as usize)),
        size if size > 0.0 && size < 0.001 => format!("{value:.3e}"),
        _ => format!("{value:.6}"),
    }
}

fn heat_map_png(scored: &Scored) -> anyhow::Result<Vec<u8>> {
    let map = scored.error_map_shape;
    let largest = scored.error_map.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let pixels = scored.error_map.iter().map(|e| (e / largest * 255.0).round() as u8).collect();
    let picture = nae_infer::image::GrayImage::from_raw(map.width as u32, map.height as u32, pixels)
        .context("the heat map has another size than the image")?;
    let mut png = Vec::new();
    picture.write_to(&mut io::Cursor::new(&mut png), nae_infer::image::ImageFormat::Png)?;
    Ok(png)
}

/// A file name that identifies the image, without folders and brackets in its name.
fn heat_map_name(number: usize, name: &str) -> String {
    let base = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let safe: String = base.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    format!("{number:04}-{}.png", safe.chars().take(100).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::energy;

    #[test]
    fn energies_have_as_many_digits_as_they_are_known_to() {
        let shown = [0.393_138_f32, 0.001_281, 6.496_508e-7, 16_702.098, 3.0e12, 0.0].map(energy);
        assert_eq!(shown, ["0.393138", "0.001281", "6.497e-7", "16702.10", "3000000053248", "0.000000"]);
    }
}
