//! Line charts as SVG: measurements during a run, and ROC curves.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

use crate::eval::evaluation::{Evaluation, ScoredSet};
use crate::eval::metrics;

/// The size of one panel, in pixels.
const PANEL: (u32, u32) = (430, 300);
const COLORS: [RGBColor; 6] = [
    RGBColor(38, 110, 180),
    RGBColor(214, 84, 32),
    RGBColor(60, 140, 70),
    RGBColor(130, 80, 160),
    RGBColor(120, 120, 120),
    RGBColor(180, 140, 20),
];
/// The largest number of points of a line; more would not be visible.
const POINTS: usize = 400;
/// The largest number of labels of an axis.
const LABELS: usize = 5;

/// A chart of lines.
pub struct Lines {
    /// The title above the chart.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: &'static str,
    /// The names of the lines, and their points in order.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
    /// Whether both axes range from 0 to 1; otherwise they fit the points.
    pub unit: bool,
}

/// The charts, and what they show, of the updates of NAE training, of the epochs of pre-training or of a baseline, and of looks.
const OF_UPDATES: [(&str, &[&str]); 1] = [("energies", &["positive_energy", "negative_energy"])];
const OF_EPOCHS: [(&str, &[&str]); 4] = [
    ("loss", &["energy"]),
    ("bits", &["bits_per_dimension"]),
    ("generator", &["absolute_error", "features", "latents"]),
    ("epochs", &["positive_energy", "negative_energy"]),
];
const OF_LOOKS: [(&str, &[&str]); 3] = [
    ("looks", &["selection_auroc", "negatives_below_threshold"]),
    ("validation_energy", &["validation_energy"]),
    ("earth_movers_distance", &["earth_movers_distance"]),
];

/// The charts of a `metrics.jsonl`: what pre-training or a baseline measured in each epoch, the energies of NAE training, and the
/// measurements of looks. Lines that cannot be parsed are ignored.
pub fn of_metrics(text: &str) -> Vec<Lines> {
    let mut values: BTreeMap<(&'static str, String), Vec<(f64, f64)>> = BTreeMap::new();
    for line in text.lines() {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { continue };
        let number = |key: &str| line.get(key).and_then(Value::as_f64);
        let (at, shown): (_, &[(&str, &[&str])]) = match (line.get("kind").and_then(Value::as_str), line.get("phase")) {
            (Some("step"), Some(Value::String(phase))) if phase == "normalizing" => ("step", &OF_UPDATES),
            (Some("step"), _) => ("step", &OF_EPOCHS),
            (Some("look"), _) => ("update", &OF_LOOKS),
            _ => continue,
        };
        for (chart, keys) in shown {
            for key in *keys {
                if let (Some(at), Some(value)) = (number(at), number(key)) {
                    values.entry((chart, (*key).to_owned())).or_default().push((at, value));
                }
            }
        }
    }
    let chart = |key: &str, title: &str, x| {
        let of = values.iter().filter(|((chart, _), _)| *chart == key);
        let series: Vec<_> = of.map(|((_, name), points)| (name.replace('_', " "), thinned(points))).collect();
        (!series.is_empty()).then(|| Lines { title: title.to_owned(), x, series, unit: false })
    };
    [
        chart("loss", "Mean energy of the training data", "epoch"),
        chart("bits", "Bits per dimension of the training data", "epoch"),
        chart("generator", "Parts of the generator's loss", "epoch"),
        chart("epochs", "Energies of data and negative samples", "epoch"),
        chart("energies", "Energies in NAE training", "update"),
        chart("validation_energy", "Mean energy of validation data", "update"),
        chart("looks", "Seen at the looks", "update"),
        chart("earth_movers_distance", "Earth mover's distance, data to negative samples", "update"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Averages groups of neighbouring points to reduce their number.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean =
        |points: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    points
        .chunks(points.len().div_ceil(POINTS).max(1))
        .map(|chunk| (mean(chunk, |p| p.0), mean(chunk, |p| p.1)))
        .collect()
}

/// The ROC curves of the most informative outlier sets: one chart for each set, one line for each column.
pub fn rocs(evaluation: &Evaluation) -> Vec<Lines> {
    let chart = |set: &ScoredSet| {
        let titles = evaluation.columns.iter().map(|(_, title)| (*title).to_owned());
        let curves = evaluation.normal.iter().zip(&set.scores).map(|(normal, own)| roc(normal, own));
        Lines { title: set.name.clone(), x: "false-positive rate", series: titles.zip(curves).collect(), unit: true }
    };
    evaluation.telling(4).into_iter().map(chart).collect()
}

/// The [ROC curve](metrics::roc) with a limited number of points; empty if there is no curve.
fn roc(normal: &[f32], outlier: &[f32]) -> Vec<(f64, f64)> {
    let points = metrics::roc(normal, outlier).unwrap_or_default();
    let stride = points.len().div_ceil(POINTS).max(1);
    points.iter().step_by(stride).chain(points.last()).copied().collect()
}

/// Draws `charts` in rows of `columns`.
///
/// # Errors
/// The error of the drawing library, as text.
pub fn draw(charts: &[Lines], columns: usize) -> Result<String, String> {
    let columns = columns.clamp(1, charts.len().max(1));
    let rows = charts.len().div_ceil(columns).max(1);
    let mut svg = String::new();
    let mut all = || -> Result<(), Box<dyn std::error::Error>> {
        let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, lines) in root.split_evenly((rows, columns)).iter().zip(charts) {
            panel(area, lines)?;
        }
        root.present()?;
        Ok(())
    };
    all().map_err(|error| error.to_string())?;
    Ok(svg)
}

/// Formats the labels of an axis from `low` to `high`, all in one notation and with as many decimals as the steps between them
/// need.
fn labels(low: f64, high: f64) -> impl Fn(&f64) -> String {
    let largest = low.abs().max(high.abs());
    // Steps are 1, 2 or 5 times a power of ten, and so long that there are at most `LABELS` labels.
    let step = ((high - low) / (LABELS + 1) as f64).log10().floor();
    let is_plain = (1e-3..1e6).contains(&largest);
    let decimals = if is_plain { (-step).max(0.0) } else { (largest.log10().floor() - step).max(0.0) };
    move |value: &f64| {
        let decimals = decimals as usize;
        // Rounding of the library can make a zero slightly different from it.
        let value = if value.abs() < 1e-9 * largest { 0.0 } else { *value };
        if is_plain { format!("{value:.decimals$}") } else { format!("{value:.decimals$e}") }
    }
}

fn panel(area: &DrawingArea<SVGBackend<'_>, Shift>, lines: &Lines) -> Result<(), Box<dyn std::error::Error>> {
    let finite = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    };
    let all: Vec<(f64, f64)> = lines.series.iter().flat_map(|(_, points)| finite(points)).collect();
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let low = all.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        if low < high { (low, high) } else { (low.min(0.0), low.max(0.0) + 1.0) }
    };
    let (x, y) = if lines.unit || all.is_empty() { ((0.0, 1.0), (0.0, 1.0)) } else { (ends(|p| p.0), ends(|p| p.1)) };
    // Space for the legend.
    let top = if lines.unit { 1.02 } else { y.1 + 0.25 * (y.1 - y.0) };
    let mut chart = ChartBuilder::on(area)
        .caption(&lines.title, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(52)
        .build_cartesian_2d(x.0..x.1, y.0..top)?;
    let number = labels(y.0, top);
    let count = labels(x.0, x.1);
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc(lines.x)
        .x_labels(LABELS)
        .y_labels(LABELS)
        .x_label_formatter(&count)
        .y_label_formatter(&number)
        .label_style(("sans-serif", 12))
        .draw()?;
    for ((name, points), color) in lines.series.iter().zip(COLORS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(finite(points), color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color.stroke_width(2)));
    }
    let position = if lines.unit { SeriesLabelPosition::LowerRight } else { SeriesLabelPosition::UpperRight };
    chart
        .configure_series_labels()
        .position(position)
        .label_font(("sans-serif", 12))
        .background_style(WHITE.mix(0.8))
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_become_charts() {
        let text = r#"{"kind":"step","seconds":1.0,"phase":"pretraining","step":1,"energy":0.5}
{"kind":"step","seconds":2.0,"phase":"pretraining","step":2,"energy":0.25}
{"kind":"step","seconds":3.0,"phase":"normalizing","step":1,"positive_energy":0.1,"negative_energy":0.2}
{"kind":"look","seconds":3.0,"update":1,"validation_energy":0.1,"selection_auroc":0.9,"earth_movers_distance":null}
{"kind":"look","#;
        let charts = of_metrics(text);
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles.len(), 4, "{titles:?}");
        assert_eq!(charts[0].series[0].1, [(1.0, 0.5), (2.0, 0.25)]);
        assert_eq!(charts[1].series.len(), 2);
        let svg = draw(&charts, 2).expect("drawn");
        assert!(svg.contains("negative energy") && svg.contains("selection auroc"), "{svg}");
        assert!(draw(&[], 2).expect("drawn").contains("<svg"));
    }

    /// Of each method that is trained, the report has a curve.
    #[test]
    fn every_baseline_has_a_chart() {
        for figures in [
            r#""bits_per_dimension":6.5"#,
            r#""absolute_error":0.1,"features":0.2,"latents":0.3,"discriminator":0.4"#,
            r#""positive_energy":-0.1,"negative_energy":0.2"#,
        ] {
            let charts = of_metrics(&format!(r#"{{"kind":"step","phase":"training","step":1,{figures}}}"#));
            assert_eq!(charts.len(), 1, "{figures}");
        }
    }

    /// Labels of an axis differ, and have one notation.
    #[test]
    fn labels_have_the_decimals_that_their_steps_need() {
        let text = |low, high, values: &[f64]| values.iter().map(labels(low, high)).collect::<Vec<_>>();
        assert_eq!(text(0.0, 1.02, &[0.0, 0.5, 1.0]), ["0.0", "0.5", "1.0"]);
        let found = text(0.0301, 0.0309, &[0.0302, 0.0304, 0.0306]);
        assert_eq!(found, ["0.0302", "0.0304", "0.0306"]);
        assert_eq!(text(0.0, 0.03, &[0.0, 0.005, 0.01, 0.02]), ["0.000", "0.005", "0.010", "0.020"]);
        assert_eq!(text(0.0, 4e-5, &[0.0, 1e-5, 2e-5]), ["0.0e0", "1.0e-5", "2.0e-5"]);
        assert_eq!(text(1.0, 10_000.0, &[2000.0, 4000.0]), ["2000", "4000"]);
        assert_eq!(text(1.0, 3.0, &[1.0, 1.5, 2.0]), ["1.0", "1.5", "2.0"]);
    }

    /// The area under the curve is the AUROC.
    #[test]
    fn the_area_under_the_curve_is_the_auroc() {
        let (normal, outlier) = ([0.1, 0.2, 0.3, 0.3, 0.9], [0.3, 0.4, 0.15, 1.0]);
        let curve = roc(&normal, &outlier);
        let area: f64 = curve.windows(2).map(|w| (w[1].0 - w[0].0) * f64::midpoint(w[0].1, w[1].1)).sum();
        let expected = crate::eval::metrics::auroc(&normal, &outlier).expect("not empty");
        assert!((area - expected).abs() < 1e-12, "{area} {expected}");
        assert!(roc(&[], &outlier).is_empty());
    }
}
