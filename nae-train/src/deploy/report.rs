//! Measures the loss from quantization, on the same data before and after.

use nae_core::calibration::{Calibration, count_for_rate};
use nae_graph::quantize::evaluate::energies;
use nae_graph::quantize::{QuantizeError, Quantized};
use nae_graph::{Graph, GraphError};
use serde::Serialize;

use super::data::Data;
use crate::energy::mean;
use crate::eval::metrics::auroc;
use crate::eval::scoring::share_above;

/// A larger fall of AUROC is examined layer by layer.
pub const TOLERATED: f64 = 0.005;

/// A figure before and after quantization.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair<T> {
    /// The figure of the f32 model.
    pub f32: T,
    /// The figure of the 8-bit model.
    pub int8: T,
}

/// The figures of one set of outliers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The name of the set.
    pub outliers: String,
    /// The number of images in the set.
    pub count: usize,
    /// The AUROC against the normal test images.
    pub auroc: Pair<Option<f64>>,
}

/// The loss due to one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The number of the layer, counted from 0 in the f32 model, where activations are separate layers.
    pub layer: usize,
    /// The kind of the layer.
    pub kind: &'static str,
    /// The set of outliers that it was measured on.
    pub outliers: String,
    /// The AUROC on that set with this layer in f32 and all others in 8 bits.
    pub auroc_without: Option<f64>,
}

/// The measured effects of quantization.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// A description of the data.
    pub data: String,
    /// Whether the ranges of channels were equalized.
    pub equalized: bool,
    /// The number of tensors whose scales came with the model.
    pub own_scales: usize,
    /// The layers that stay f32: number, kind, reason.
    pub float_layers: Vec<(usize, &'static str, &'static str)>,
    /// The mean energy of the normal test images; `None` without any.
    pub energy: Pair<Option<f64>>,
    /// The target false-positive rate of the thresholds.
    pub target_false_positive_rate: f32,
    /// The threshold from each model's own calibration energies.
    pub threshold: Pair<Option<f32>>,
    /// If there are too few normal images for a threshold, the number that would do; of a user's images, together with
    /// those for the test.
    pub images_needed: Option<usize>,
    /// The share of the normal test images above the threshold.
    pub false_positive_rate: Pair<Option<f64>>,
    /// The figures of the outlier sets.
    pub rows: Vec<Row>,
    /// The layer with the largest loss; `None` unless an AUROC falls by more than [`TOLERATED`].
    pub costliest: Option<Cost>,
}

/// Measures both models, calibrates the 8-bit model with its own energies, and reports the effects of quantization.
/// `rate` is the target false-positive rate.
///
/// # Errors
/// [`QuantizeError`] if a model cannot be written or run.
pub fn calibrate(before: &Graph, quantized: &mut Quantized, data: &Data, rate: f32) -> Result<Report, QuantizeError> {
    let both = |images: &[Vec<f32>]| -> Result<Pair<Vec<f32>>, QuantizeError> {
        Ok(Pair { f32: energies(before, images)?, int8: energies(&quantized.graph, images)? })
    };
    let calibration = both(&data.calibration)?;
    let test = both(&data.test)?;
    let mut rows = Vec::new();
    for (name, images) in &data.outliers {
        let outlier = both(images)?;
        rows.push(Row {
            outliers: name.clone(),
            count: images.len(),
            auroc: Pair { f32: auroc(&test.f32, &outlier.f32), int8: auroc(&test.int8, &outlier.int8) },
        });
    }
    let costliest = costliest(quantized, data, &rows)?;
    let own = |energies: &[f32]| Calibration::from_energies(&mut energies.to_vec());
    let threshold = |energies: &[f32]| own(energies).and_then(|c| c.threshold(rate)).ok();
    let thresholds = Pair { f32: threshold(&calibration.f32), int8: threshold(&calibration.int8) };
    let above = |energies: &[f32], threshold: Option<f32>| share_above(energies, threshold?);
    if let Ok(own) = own(&calibration.int8) {
        let contract = quantized.graph.contract.clone();
        quantized.graph.contract = match contract.clone().with_calibration(own.clone(), rate) {
            Ok(calibrated) => calibrated,
            Err(_) => contract.with_p_values(own),
        };
    }
    Ok(Report {
        data: data.description.clone(),
        equalized: quantized.equalized,
        own_scales: quantized.own_scales(),
        float_layers: quantized.float_layers.iter().map(|l| (l.node.0, l.node.1, l.reason)).collect(),
        energy: Pair { f32: mean_energy(&test.f32), int8: mean_energy(&test.int8) },
        target_false_positive_rate: rate,
        threshold: thresholds,
        images_needed: images_needed(data, rate),
        false_positive_rate: Pair { f32: above(&test.f32, thresholds.f32), int8: above(&test.int8, thresholds.int8) },
        rows,
        costliest,
    })
}

fn mean_energy(energies: &[f32]) -> Option<f64> {
    (!energies.is_empty()).then(|| mean(energies))
}

fn images_needed(data: &Data, rate: f32) -> Option<usize> {
    let needed = count_for_rate(rate).ok().filter(|&needed| data.calibration.len() < needed)?;
    Some(if data.every_fourth { needed + (needed - 1) / 3 } else { needed })
}

/// The fall of a row's AUROC.
fn fall(row: &Row) -> f64 {
    row.auroc.f32.zip(row.auroc.int8).map_or(0.0, |(before, after)| before - after)
}

/// The layer that gives the largest improvement in f32 on the set whose AUROC falls most; `None` if none falls by more
/// than [`TOLERATED`].
fn costliest(quantized: &Quantized, data: &Data, rows: &[Row]) -> Result<Option<Cost>, QuantizeError> {
    let worst = (0..rows.len()).max_by(|&a, &b| fall(&rows[a]).total_cmp(&fall(&rows[b])));
    let Some(worst) = worst.filter(|&row| fall(&rows[row]) > TOLERATED) else { return Ok(None) };
    let (name, images) = &data.outliers[worst];
    let mut best: Option<Cost> = None;
    for (layer, kind) in quantized.nodes() {
        let graph = quantized.without(layer);
        let area = match (energies(&graph, &data.test), energies(&graph, images)) {
            (Ok(normal), Ok(outlier)) => auroc(&normal, &outlier),
            // If only this layer is f32, the model may exceed the writer's limits.
            (Err(QuantizeError::Write(GraphError::TooLarge)), _)
            | (_, Err(QuantizeError::Write(GraphError::TooLarge))) => {
                continue;
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        if best.as_ref().is_none_or(|best| area > best.auroc_without) {
            best = Some(Cost { layer, kind, outliers: name.clone(), auroc_without: area });
        }
    }
    Ok(best)
}

impl Report {
    /// The report for a terminal.
    pub fn terminal(&self) -> String {
        let figure = |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |v| format!("{v:.digits$}"));
        let mut text = format!("{}\n", self.data);
        if self.equalized {
            text += "channels evened out between layers\n";
        }
        if self.own_scales > 0 {
            text += &format!("scales of {} tensors are those that the model came with\n", self.own_scales);
        }
        for (layer, kind, reason) in &self.float_layers {
            text += &format!("layer {layer} ({kind}) stays f32: {reason}\n");
        }
        if self.float_layers.is_empty() {
            text += "every layer is 8-bit\n";
        }
        let mut line = |name: &str, before: String, after: String| {
            text += &format!("{name:<44} {before:>10} {after:>10}\n");
        };
        line("", "f32".to_owned(), "int8".to_owned());
        let threshold = |t: Option<f32>| figure(t.map(f64::from), 6);
        line("mean energy of normal test data", figure(self.energy.f32, 6), figure(self.energy.int8, 6));
        let name = format!("threshold for a false-positive rate of {}", self.target_false_positive_rate);
        line(&name, threshold(self.threshold.f32), threshold(self.threshold.int8));
        let rate = self.false_positive_rate;
        line("false-positive rate on normal test data", figure(rate.f32, 4), figure(rate.int8, 4));
        for row in &self.rows {
            let name = format!("AUROC, {} ({})", row.outliers, row.count);
            line(&name, figure(row.auroc.f32, 4), figure(row.auroc.int8, 4));
        }
        if self.energy.f32.is_none() {
            text += "warning: no normal data to measure on: give at least four samples\n";
        }
        if let Some(cost) = &self.costliest {
            text += &format!(
                "warning: AUROC falls by more than {TOLERATED}. Most of it is layer {} ({}): with it in f32, AUROC on \
                 {} is {}\n",
                cost.layer,
                cost.kind,
                cost.outliers,
                figure(cost.auroc_without, 4)
            );
        }
        text
    }
}
