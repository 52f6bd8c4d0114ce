//! The texts on a finished run: for the terminal, its report, and JSON. The figures come from `conclusion`.

use serde_json::json;

use crate::commit;
use crate::config::MethodKind;
use crate::eval::table::escaped;
use crate::eval::{OutlierSet, Table};
use crate::run::Prepared;
use crate::train::{Ending, Outcome};

/// The probability of the interval of [`Expected`].
pub(crate) const INTERVAL: f32 = 0.95;

/// The expected share of new normal images above a threshold.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// The number of calibration images.
    pub(crate) count: usize,
    /// The number of them that are independent: all, or for a time series the number of stretches.
    pub(crate) independent: usize,
    /// The share on average over the draw of calibration images.
    pub(crate) rate: f32,
    /// The interval that contains the share with a probability of [`INTERVAL`], for any distribution of energies; for a
    /// time series, in the worst case of equal windows in a stretch.
    pub(crate) interval: (f32, f32),
}

/// The texts on a finished run.
pub struct Summary<'a> {
    pub(crate) outcome: &'a Outcome,
    pub(crate) table: &'a Table,
    pub(crate) prepared: &'a Prepared,
    pub(crate) choices: &'a [String],
    pub(crate) warnings: &'a [String],
    /// The threshold: energies above it are anomalies.
    pub(crate) threshold: Option<f32>,
    /// The share of new normal images above the threshold that is expected from the calibration.
    pub(crate) expected: Option<Expected>,
    /// The measured share of the normal test images above the threshold.
    pub(crate) measured: Option<f64>,
    /// The time that the whole run has taken.
    pub(crate) seconds: f64,
}

impl Summary<'_> {
    fn ending(&self) -> String {
        let kept = self.outcome.kept_update;
        match self.prepared.config.method() {
            MethodKind::Nae => {}
            method if method.is_fitted() => return "fitted by one pass over the data".to_owned(),
            _ => return format!("state of epoch {kept} kept"),
        }
        match self.outcome.ending {
            Ending::Diverged { update } => {
                format!(
                    "training diverged at update {update}: the energies of negative samples grew too large; state of update \
                     {kept} kept"
                )
            }
            _ => format!("state of update {kept} kept"),
        }
    }

    fn calibration(&self) -> String {
        let (Some(threshold), Some(expected), Some(measured)) = (self.threshold, self.expected, self.measured) else {
            return "not calibrated".to_owned();
        };
        let config = &self.prepared.config;
        let (target, samples) = (config.false_positive_rate(), config.source().samples());
        let (low, high) = expected.interval;
        let planned = match config.confidence() {
            Some(confidence) => format!(
                "at most {target} with a probability of {confidence}, which makes it {:.3} on average",
                expected.rate
            ),
            None => format!("{target} on average"),
        };
        // With a bound, the upper limit of the interval, which is of another probability, would look like a second one.
        let between = match config.confidence() {
            Some(_) => String::new(),
            None => format!(", the true rate is between {low:.3} and {high:.3} with a probability of {INTERVAL}"),
        };
        let stretches = if expected.independent < expected.count {
            format!(" of {} stretches, whose windows are alike", expected.independent)
        } else {
            String::new()
        };
        format!(
            "threshold: an energy of {threshold}. Planned false-positive rate: {planned}. {calibrated} on {count} \
             {samples}{stretches}{between}. Measured on test {samples}: {measured:.3}",
            calibrated = if between.is_empty() { "Calibrated" } else { "After the calibration" },
            count = expected.count,
        )
    }

    /// The note on outliers that the user has given.
    fn given(&self) -> String {
        if self.prepared.outliers.is_empty() {
            return String::new();
        }
        "Outliers that were given are in this table only: never used in training, stopping or calibration.\n\n"
            .to_owned()
    }

    /// The bound on negative energies, if it is computed from the data.
    fn bound(&self) -> Option<String> {
        let (bound, weight) = (self.prepared.config.training().negative_bound?, self.outcome.negative_weight?);
        Some(format!(
            "negative samples are pushed up to an energy of {:.5} and no further (γ = {weight:.3}), {bound} times that of \
             validation images after pre-training",
            1.0 / (2.0 * weight)
        ))
    }

    /// The table and a few lines, for a terminal.
    pub fn terminal(&self) -> String {
        let warnings: String = self.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
        let (table, ending, calibration) = (self.table.terminal(), self.ending(), self.calibration());
        format!("{table}\n{ending}\n{calibration}\n{warnings}{:.0} s in all", self.seconds)
    }

    /// The title of a report.
    pub fn title(&self) -> String {
        let config = &self.prepared.config;
        format!("{} · seed {}", config.source().own_title().unwrap_or(config.name()), self.prepared.seed)
    }

    /// The facts in a report besides the figures, one sentence each.
    pub fn facts(&self) -> Vec<String> {
        let network = self.prepared.config.architecture();
        let mut facts = vec![
            self.ending(),
            self.calibration(),
            format!("network: {}, {} parameters", network.name(), network.parameters()),
        ];
        facts.extend(self.bound());
        facts.push(format!("{:.0} s in all", self.seconds));
        facts
    }

    /// The whole report as Markdown, which refers to its figure `energies.svg`.
    pub fn markdown(&self) -> String {
        let facts: String = self.facts().iter().map(|fact| format!("- {fact}\n")).collect();
        format!(
            "# {}\n\n{}{}\n{}![Energies](energies.svg)\n\n{facts}{}",
            escaped(&self.title()),
            list("Warnings", self.warnings),
            self.table.markdown(),
            self.given(),
            if self.choices.is_empty() { String::new() } else { format!("\n{}", list("Chosen", self.choices)) },
        )
    }

    /// The figures, for programs.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": commit::get(),
            "preset": self.prepared.config.name(),
            "data_sha256": self.prepared.data_sha256,
            "method": self.prepared.config.method(),
            "temperature": self.outcome.model.temperature(),
            "seed": self.prepared.seed,
            "held_out": self.prepared.config.held_out(),
            "warnings": self.warnings,
            "choices": self.choices,
            "auroc": self.table,
            "given_outliers": self.prepared.outliers.iter().map(given_set).collect::<Vec<_>>(),
            "kept_update": self.outcome.kept_update,
            "diverged": matches!(self.outcome.ending, Ending::Diverged { .. }),
            "threshold": self.threshold,
            "false_positive_rate": {
                "target": self.prepared.config.false_positive_rate(),
                "confidence": self.prepared.config.confidence(),
                "expected": self.expected.map(|expected| expected.rate),
                "interval": self.expected.map(|expected| expected.interval),
                "calibration_count": self.expected.map(|expected| expected.count),
                "independent_count": self.expected.map(|expected| expected.independent),
                "measured": self.measured,
            },
            "seconds": self.seconds,
        })
    }
}

/// Identifies a set of outliers that the user has given.
fn given_set(set: &OutlierSet) -> serde_json::Value {
    json!({ "outliers": set.name, "count": set.images.decisions(), "sha256": set.sha256 })
}

/// A section of the report; empty if there are no sentences.
fn list(title: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let lines: String = sentences.iter().map(|sentence| format!("- {}\n", escaped(sentence))).collect();
    format!("## {title}\n\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_are_escaped() {
        let text = list("Warnings", &["the folder \"<b>*\" is trained on".to_owned()]);
        assert_eq!(text, "## Warnings\n\n- the folder \"&lt;b>\\*\" is trained on\n\n");
        assert_eq!(list("Warnings", &[]), "");
    }
}
