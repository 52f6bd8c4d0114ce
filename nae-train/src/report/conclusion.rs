//! The end of a run: calibrates and evaluates its model, and completes its folder. `summary` has the texts.

use std::time::Instant;

use burn::tensor::Device;
use nae_core::calibration::{Calibration, CalibrationError};
use nae_core::contract::Contract;
use nae_data::Source;
use nae_onnx::metadata::ModelMetadata;

use crate::engine::Engine;
use crate::eval::{Evaluation, Table};
use crate::export::ExportError;
use crate::report::clock::Taken;
use crate::report::error::RunFolderError;
use crate::report::figure;
use crate::report::folder::{CONFIG, RunFolder};
use crate::report::metrics::METRICS;
use crate::report::page::curves;
use crate::report::page::{self, Page, gallery};
use crate::report::summary::{Expected, INTERVAL, Summary};
use crate::report::warnings::warnings;
use crate::run::{Prepared, RunError};
use crate::train::Outcome;

/// A run whose training has ended.
pub struct Finished {
    /// The settings and data.
    pub prepared: Prepared,
    /// The result of training.
    pub outcome: Outcome,
    /// The engine that computed gradients.
    pub engine: Engine,
    /// The settings that were chosen for a user's own data, one sentence each.
    pub choices: Vec<String>,
    /// The time when the command started.
    pub started: Instant,
    /// The time that earlier commands spent on the run, if it was interrupted.
    pub earlier: Taken,
}

/// The results of a finished run.
pub struct Conclusion {
    /// The metadata of the model file.
    pub metadata: ModelMetadata,
    /// The energies of normal data and of outliers.
    pub evaluation: Evaluation,
    /// The figures.
    pub table: Table,
    /// Warnings that affect how far the model can be trusted, one sentence each.
    pub warnings: Vec<String>,
    expected: Option<Expected>,
    measured: Option<f64>,
}

/// An error that prevents a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The run folder cannot be written.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// A picture cannot be drawn.
    #[error("{0}")]
    Picture(String),
}

impl Finished {
    /// Calibrates the model, and evaluates it on all outlier sets.
    ///
    /// # Errors
    /// [`RunError::Export`] if the energies give no threshold for the target rate.
    pub fn conclude(&self, device: &Device) -> Result<Conclusion, RunError> {
        let Self { prepared, outcome, engine, .. } = self;
        let metadata = prepared.calibrate(&*outcome.model, device)?;
        let evaluation = prepared.evaluate(&prepared.columns(outcome), *engine, device);
        let measured = prepared.measured_rate(&*outcome.model, &metadata, device);
        let table = Table::of(&evaluation);
        Ok(Conclusion {
            warnings: warnings(prepared, outcome, &table),
            expected: rates(&metadata.contract, prepared.independent())?,
            measured,
            metadata,
            table,
            evaluation,
        })
    }
}

impl Conclusion {
    /// The summary of `run`, to which this conclusion belongs.
    pub fn summary<'a>(&'a self, run: &'a Finished) -> Summary<'a> {
        Summary {
            outcome: &run.outcome,
            table: &self.table,
            prepared: &run.prepared,
            choices: &run.choices,
            warnings: &self.warnings,
            threshold: self.metadata.contract.threshold().map(|threshold| threshold.energy),
            expected: self.expected,
            measured: self.measured,
            seconds: run.earlier.seconds + run.started.elapsed().as_secs_f64(),
        }
    }

    /// The figures of `run` with the device that its folder records, for programs.
    pub fn result(&self, run: &Finished, folder: &RunFolder) -> serde_json::Value {
        let mut result = self.summary(run).json();
        result["device"] = folder.device().to_string().into();
        result
    }

    /// Writes the reports of `run` into its folder.
    ///
    /// # Errors
    /// [`ReportError`] if the folder cannot be written or a picture cannot be drawn.
    pub fn report(&self, run: &Finished, device: &Device, folder: &mut RunFolder) -> Result<(), ReportError> {
        let summary = self.summary(run);
        let figure = figure::energies(&self.evaluation).map_err(picture)?;
        let page = self.page(&summary, &figure, run.engine, device, folder)?;
        let result = format!("{:#}\n", self.result(run, folder));
        Ok(folder.report(&summary.markdown(), &figure, &page, &result)?)
    }

    /// The report for a browser.
    fn page(
        &self,
        summary: &Summary<'_>,
        figure: &str,
        engine: Engine,
        device: &Device,
        folder: &mut RunFolder,
    ) -> Result<String, ReportError> {
        let energies = format!("Energies of normal test {} and of outliers, by model.", self.evaluation.samples);
        let mut pictures = vec![(energies, figure.to_owned())];
        // There is no ROC without outliers, and nothing along the training of a method that is fitted at once.
        for (caption, charts) in [
            ("ROC: outliers caught against false alarms.", curves::rocs(&self.evaluation)),
            ("Along training.", curves::of_metrics(&folder.text(METRICS))),
        ] {
            if !charts.is_empty() {
                pictures.push((caption.to_owned(), curves::draw(&charts, 2).map_err(picture)?));
            }
        }
        let (prepared, model) = (summary.prepared, &*summary.outcome.model);
        let galleries = match prepared.config.source() {
            Source::Table(_) => Vec::new(),
            // Features have no pictures.
            _ if prepared.features().is_some() => Vec::new(),
            _ => [gallery::reconstructions(prepared, model, device), gallery::chains(prepared, model, engine, device)]
                .into_iter()
                .flatten()
                .collect(),
        };
        Ok(page::html(&Page {
            title: &summary.title(),
            facts: &summary.facts(),
            warnings: &self.warnings,
            choices: summary.choices,
            table: &self.table,
            pictures: &pictures,
            galleries: &galleries,
            config: &folder.text(CONFIG),
        }))
    }
}

fn picture(error: impl ToString) -> ReportError {
    ReportError::Picture(error.to_string())
}

/// The share of new normal data that the threshold of `contract` is for, and the interval of that share, if
/// `independent` of the calibration data are independent.
fn rates(contract: &Contract, independent: usize) -> Result<Option<Expected>, RunError> {
    let Some((calibration, threshold)) = contract.calibration().zip(contract.threshold()) else { return Ok(None) };
    let (count, rate) = (calibration.count(), threshold.false_positive_rate);
    let interval =
        if independent < count { of_stretches(independent, rate) } else { calibration.rate_interval(rate, INTERVAL) };
    Ok(Some(Expected { count, independent, rate, interval: interval.map_err(ExportError::from)? }))
}

/// The interval of the share of new windows above a threshold for `rate`, in the worst case that all windows of a
/// stretch are equal: then the largest energies are from as few stretches as possible, and the interval is the widest.
fn of_stretches(stretches: usize, rate: f32) -> Result<(f32, f32), CalibrationError> {
    let mut energies: Vec<f32> = (0..stretches).map(|energy| energy as f32).collect();
    let calibration = Calibration::from_energies(&mut energies)?;
    let least = 1.0 / (stretches as f32 + 1.0);
    let (low, high) = calibration.rate_interval(rate.max(least), INTERVAL)?;
    // Below the least rate that has a threshold, the threshold may also be above all energies.
    Ok(if rate < least { (0.0, high) } else { (low, high) })
}
