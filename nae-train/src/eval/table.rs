//! The final table of every run: one row for each outlier set, one column for each model and decision function.

use std::collections::BTreeMap;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment};
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::evaluation::Evaluation;
use super::interval::{Interval, bootstrap, of_aupr, of_auroc, of_rate};
use super::metrics::{area_under_roc, aupr, false_positive_rate_at_95, thresholds};
use crate::config::Config;
use crate::energy::mean;
use crate::methods::reference::NearestNeighbours;
use crate::methods::{Decision, Model};
use nae_data::{Fill, squares};
use nae_data::{ImageSet, Source, Split, outliers};

/// A set of outliers.
#[derive(Clone, Debug)]
pub struct OutlierSet {
    /// The name of the set, as printed.
    pub name: String,
    /// The images.
    pub images: ImageSet,
    /// The kind of the set.
    pub kind: OutlierKind,
    /// Whether it is the selection set, which training may use.
    pub selection: bool,
    /// The SHA-256 of its files, in hexadecimal, if they are a user's.
    pub sha256: Option<String>,
}

/// The names of the sets of kind [`ConstantGray`](OutlierKind::ConstantGray): whole images, or squares in tiled images.
pub const SELECTION_SETS: [&str; 2] = ["ConstantGray", "squares of one grey"];

/// The kind of an outlier set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlierKind {
    /// Given by the user.
    Given,
    /// The class kept out of training.
    HeldOut,
    /// Normal images with one half set to 0.
    Halves,
    /// Images combined from two normal images each.
    Chimeras,
    /// Rows of a table in which each cell is from another row.
    Shuffled,
    /// Normal images with a foreign square.
    Squares,
    /// Uniform noise.
    Noise,
    /// Images of a single grey level each: the default selection set.
    ConstantGray,
}

/// The outlier sets for the evaluation of a run on `split`: the held-out class, if any, and synthetic sets. There are
/// no chimeras if all images are of one class; tables have shuffled rows; tiled images have foreign squares.
pub(crate) fn outlier_sets(split: &Split, config: &Config, rng: &mut impl Rng) -> Vec<OutlierSet> {
    let (shape, source) = (split.test.shape(), config.source());
    let [constant_gray, _] = SELECTION_SETS;
    let mut sets = Vec::new();
    // A fit to the data looks at no outliers.
    let looks = split.selection.is_none() && !config.method().is_fitted();
    let mut add = |kind, name: &str, images| {
        let selection = kind == OutlierKind::ConstantGray && looks;
        sets.push(OutlierSet { name: name.to_owned(), images, kind, selection, sha256: None });
    };
    if let Some(class) = config.held_out() {
        add(OutlierKind::HeldOut, &format!("{} {class} (held out)", source.class()), split.held_out.clone());
    }
    if split.test.are_tiles() {
        // Tiled images have one score each, so the synthetic outliers are defects within an image.
        let side = shape.height.min(shape.width) / 2;
        sets.extend(defects(&split.test, side, looks, rng));
        return sets;
    }
    add(OutlierKind::Halves, &format!("half-{}", source.class_plural()), outliers::halves(&split.test));
    let chimeras = outliers::chimeras(&split.test, source.chimera_gap());
    if !chimeras.is_empty() {
        add(OutlierKind::Chimeras, "chimeras", chimeras);
    }
    if matches!(source, Source::Table(_)) {
        add(OutlierKind::Shuffled, &format!("shuffled {}", source.samples()), outliers::shuffled(&split.test, rng));
    }
    add(OutlierKind::Noise, "uniform noise", outliers::noise(shape, config.synthetic_images(), rng));
    add(OutlierKind::ConstantGray, constant_gray, outliers::constant_gray(shape, config.synthetic_images(), rng));
    sets
}

/// Returns one set for each filling: `images` with a foreign square of `side` pixels in each. The set of grey squares
/// is the selection set if `gray_selects`.
pub(crate) fn defects(images: &ImageSet, side: usize, gray_selects: bool, rng: &mut impl Rng) -> Vec<OutlierSet> {
    let [_, gray] = SELECTION_SETS;
    let kinds = [
        (OutlierKind::Squares, "squares from other images", Fill::Another, false),
        (OutlierKind::Squares, "squares of noise", Fill::Noise, false),
        (OutlierKind::ConstantGray, gray, Fill::Gray, gray_selects),
    ];
    let set = |(kind, name, fill, selection): (OutlierKind, &str, Fill, bool)| OutlierSet {
        name: name.to_owned(),
        images: squares(images, side, fill, rng),
        kind,
        selection,
        sha256: None,
    };
    kinds.into_iter().map(set).collect()
}

/// A model with one of its decision functions.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    /// The key of the column in JSON.
    pub key: &'static str,
    /// The title of the column in a table.
    pub title: &'static str,
    /// The model.
    pub model: &'a dyn Model,
    /// The decision function.
    pub decision: Decision,
}

/// The key of the column of nearest neighbours.
pub(crate) const NEIGHBOURS_COLUMN: &str = "nearest_neighbours";

/// The column of nearest neighbours.
pub(crate) fn neighbours_column(neighbours: &NearestNeighbours) -> Column<'_> {
    Column { key: NEIGHBOURS_COLUMN, title: "kNN", model: neighbours, decision: Decision::Reconstruction }
}

/// The figures of one outlier set in all columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name of the set.
    pub outliers: String,
    /// The number of images in the set.
    pub count: usize,
    /// Whether training was allowed to use such images.
    pub selection: bool,
    /// Whether the set was given by the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,
    /// All figures by the column's key, without columns that could not be measured.
    #[serde(default)]
    pub figures: BTreeMap<String, DetectionFigures>,
    /// The AUROC by the column's key; `None` if the set is empty or a score is NaN.
    #[serde(flatten)]
    pub auroc: BTreeMap<String, Option<f64>>,
}

impl Row {
    /// The name of the set, with the mark of the selection set.
    fn marked(&self) -> String {
        let mark = if self.selection { " *" } else { "" };
        format!("{}{mark}", self.outliers)
    }
}

/// The detection figures of one column for one outlier set. The 95% confidence intervals cover the choice of test images
/// but not the seed of the training; windows of a time series have none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectionFigures {
    /// The AUROC: [`auroc`](super::metrics::auroc).
    pub auroc: Figure,
    /// The area under the precision–recall curve: [`aupr`].
    pub aupr: Figure,
    /// The false-positive rate at 95% detected outliers: [`false_positive_rate_at_95`].
    pub fpr95: Figure,
}

/// A value and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The measured value.
    pub value: f64,
    /// The confidence interval; `None` for windows of a time series, which are not independent.
    #[serde(flatten)]
    pub interval: Option<Interval>,
}

impl DetectionFigures {
    /// Measures all figures, with intervals if the samples are `independent`; `None` if one of the sets is empty or a
    /// score is NaN.
    pub fn measure(normal: &[f32], outlier: &[f32], independent: bool) -> Option<Self> {
        let thresholds = thresholds(normal, outlier)?;
        let area = area_under_roc(&thresholds)?;
        let (precision, rate) = (aupr(&thresholds)?, false_positive_rate_at_95(&thresholds)?);
        let intervals = if independent {
            // Any seed is suitable; a fixed one gives the same figures for the same model.
            let [of_precision, of_false_alarms] = bootstrap([aupr, false_positive_rate_at_95], normal, outlier, 0)?;
            let precision = of_aupr(precision, of_precision, area, normal.len(), outlier.len());
            [Some(precision), Some(of_rate(rate, of_false_alarms, normal.len()))]
        } else {
            [None; 2]
        };
        Some(Self {
            auroc: Figure { value: area, interval: independent.then(|| of_auroc(area, normal.len(), outlier.len())) },
            aupr: Figure { value: precision, interval: intervals[0] },
            fpr95: Figure { value: rate, interval: intervals[1] },
        })
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3}", self.value)?;
        self.interval.map_or(Ok(()), |interval| write!(f, " [{:.3}, {:.3}]", interval.low, interval.high))
    }
}

/// Why figures of windows have no intervals.
const NO_INTERVALS: &str = "No confidence intervals: windows of a time series are like their neighbours, and intervals that count them as independent are too narrow";

/// All rows, with the normal data they are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The key and title of each column, in order; not in JSON.
    #[serde(skip)]
    pub columns: Vec<(&'static str, &'static str)>,
    /// The word for the samples, in the plural; not in JSON.
    #[serde(skip)]
    pub samples: &'static str,
    /// The number of normal test images.
    pub normal_count: usize,
    /// The reason why the figures have no confidence intervals, if they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_intervals: Option<String>,
    /// The mean score of the normal test images, by the column's key followed by `_energy`; `None` if it is not finite, which
    /// JSON cannot represent.
    #[serde(flatten)]
    pub normal_energy: BTreeMap<String, Option<f64>>,
    /// One row for each outlier set.
    pub rows: Vec<Row>,
}

impl Table {
    /// Compares every outlier set of `evaluation` with its normal images.
    pub fn of(evaluation: &Evaluation) -> Self {
        let Evaluation { columns, samples, are_windows, normal, outliers } = evaluation;
        let rows = outliers.iter().map(|set| {
            let measured = columns.iter().zip(normal).zip(&set.scores);
            let figures: Vec<(String, Option<DetectionFigures>)> = measured
                .map(|(((key, _), normal), own)| {
                    ((*key).to_owned(), DetectionFigures::measure(normal, own, !are_windows))
                })
                .collect();
            let auroc =
                |(key, figures): &(String, Option<DetectionFigures>)| (key.clone(), figures.map(|f| f.auroc.value));
            Row {
                outliers: set.name.clone(),
                count: set.scores.first().map_or(0, Vec::len),
                selection: set.selection,
                given: set.kind == OutlierKind::Given,
                auroc: figures.iter().map(auroc).collect(),
                figures: figures.into_iter().filter_map(|(key, figures)| Some((key, figures?))).collect(),
            }
        });
        let finite = |normal: &[f32]| Some(mean(normal)).filter(|mean| mean.is_finite());
        let named = columns.iter().zip(normal).map(|((key, _), normal)| (format!("{key}_energy"), finite(normal)));
        Self {
            columns: columns.clone(),
            samples,
            normal_count: normal.first().map_or(0, Vec::len),
            no_intervals: are_windows.then(|| NO_INTERVALS.to_owned()),
            normal_energy: named.collect(),
            rows: rows.collect(),
        }
    }

    /// The cells, starting with the header.
    fn cells(&self) -> Vec<Vec<String>> {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
        let titles = self.columns.iter().map(|(_, title)| (*title).to_owned());
        let header = ["outliers", self.samples].map(str::to_owned).into_iter().chain(titles).collect();
        let rows = self.rows.iter().map(|row| {
            let start = [row.marked(), row.count.to_string()];
            let figures = self.columns.iter().map(|(key, _)| number(row.auroc.get(*key).copied().flatten()));
            start.into_iter().chain(figures).collect()
        });
        std::iter::once(header).chain(rows).collect()
    }

    /// The table for a terminal.
    pub fn terminal(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        for (index, row) in self.cells().into_iter().enumerate() {
            let cells = row.into_iter().enumerate().map(|(column, text)| {
                let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
                Cell::new(text).set_alignment(alignment)
            });
            if index == 0 {
                table.set_header(cells);
            } else {
                table.add_row(cells);
            }
        }
        let footnote = self.footnote().map_or_else(String::new, |note| format!("\n{note}"));
        format!("AUROC against {} normal test {}\n{table}{footnote}", self.normal_count, self.samples)
    }

    /// Every figure, for a terminal.
    pub fn figures_terminal(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["outliers", self.samples, "AUROC", "AUPR", "FPR@95"]);
        for row in &self.rows {
            for figures in self.columns.iter().map(|(key, _)| row.figures.get(*key)) {
                let shown =
                    |of: fn(&DetectionFigures) -> Figure| figures.map_or_else(|| "–".to_owned(), |f| of(f).to_string());
                let [auroc, aupr, fpr95] = [shown(|f| f.auroc), shown(|f| f.aupr), shown(|f| f.fpr95)];
                table.add_row([row.marked(), row.count.to_string(), auroc, aupr, fpr95]);
            }
        }
        let against = format!("Against {} normal {}", self.normal_count, self.samples);
        let footnote = self.footnote().map_or_else(String::new, |note| format!("\n{note}"));
        match &self.no_intervals {
            None => format!("{against}, with 95% confidence intervals\n{table}{footnote}"),
            Some(reason) => format!("{against}\n{table}{footnote}\n{reason}"),
        }
    }

    /// The table for a Markdown document.
    pub fn markdown(&self) -> String {
        let mut text = format!("AUROC against {} normal test {}:\n\n", self.normal_count, self.samples);
        for (index, row) in self.cells().into_iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
            text += &format!("| {} |\n", cells.join(" | "));
            if index == 0 {
                text += &format!("|---|---:|{}\n", "---:|".repeat(self.columns.len()));
            }
        }
        let footnote = self.footnote().map_or_else(String::new, |note| format!("{}\n\n", escaped(note)));
        format!("{text}\n{footnote}{}", self.figures())
    }

    /// The meaning of the selection set's mark, if a row has it.
    pub fn footnote(&self) -> Option<&'static str> {
        self.rows.iter().any(|row| row.selection).then_some(FOOTNOTE)
    }

    /// Every figure, for a Markdown document.
    fn figures(&self) -> String {
        let intervals = match &self.no_intervals {
            None => format!("With 95% confidence intervals, of the test {} drawn", self.samples),
            Some(reason) => reason.clone(),
        };
        let mut text = format!(
            "{intervals}. AUPR: outliers are the positives; FPR@95: normal {} above a threshold that catches 95% of the \
             outliers:\n\n| outliers | model | AUROC | AUPR | FPR@95 |\n|---|---|---:|---:|---:|\n",
            self.samples
        );
        for row in &self.rows {
            for (key, title) in &self.columns {
                if let Some(DetectionFigures { auroc, aupr, fpr95 }) = row.figures.get(*key) {
                    text += &format!("| {} | {title} | {auroc} | {aupr} | {fpr95} |\n", escaped(&row.outliers));
                }
            }
        }
        text
    }
}

/// Escapes text for Markdown, also in a table's cell, since names of files and folders may contain any characters.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|").replace('*', "\\*").replace('`', "\\`")
}

/// The meaning of the selection set's mark.
pub const FOOTNOTE: &str = "* selection set: training may look at it, and at no other outlier";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::evaluation::ScoredSet;

    /// Finished models of an experiment are read again.
    #[test]
    fn a_mean_that_is_not_finite_can_be_read_again() {
        let evaluation = Evaluation {
            columns: vec![("vae_likelihood", "VAE"), ("ae", "AE")],
            samples: "images",
            are_windows: false,
            normal: vec![vec![0.1, f32::INFINITY], vec![0.5, 0.5]],
            outliers: Vec::new(),
        };
        let table = Table::of(&evaluation);
        assert_eq!(table.normal_energy.values().copied().collect::<Vec<_>>(), [Some(0.5), None]);
        let text = serde_json::to_string(&table).expect("serializes");
        let read: Table = serde_json::from_str(&text).expect("reads");
        assert_eq!(read.normal_energy, table.normal_energy);
    }

    #[test]
    fn both_forms_hold_every_figure() {
        let row = |outliers: &str, selection| Row {
            outliers: outliers.to_owned(),
            count: 3,
            selection,
            given: false,
            figures: [(
                "autoencoder".to_owned(),
                DetectionFigures::measure(&[0.1, 0.2], &[0.3], true).expect("no NaN"),
            )]
            .into(),
            auroc: [("autoencoder".to_owned(), Some(0.5321)), ("nae".to_owned(), None)].into(),
        };
        let table = Table {
            columns: vec![("autoencoder", "autoencoder"), ("nae", "NAE")],
            samples: "images",
            normal_count: 7,
            no_intervals: None,
            normal_energy: [("autoencoder_energy".to_owned(), Some(0.1)), ("nae_energy".to_owned(), Some(0.2))].into(),
            rows: vec![row("noise", false), row("ConstantGray", true)],
        };
        let json = serde_json::to_value(&table).expect("serializes");
        assert_eq!(json["nae_energy"], 0.2);
        assert_eq!(json["rows"][0]["autoencoder"], 0.5321);
        let figures = &json["rows"][0]["figures"]["autoencoder"];
        assert_eq!((&figures["auroc"]["value"], &figures["fpr95"]["value"]), (&1.0.into(), &0.0.into()));
        assert!(figures["auroc"]["low"].as_f64().expect("a number") < 0.9);
        for text in [table.terminal(), table.markdown()] {
            assert!(text.contains("0.532") && text.contains('–') && text.contains("7 normal"), "{text}");
        }
        for text in [table.terminal(), table.figures_terminal()] {
            assert!(
                text.contains("ConstantGray * ") && !text.contains("noise *") && text.ends_with(FOOTNOTE),
                "{text}"
            );
        }
        assert!(table.markdown().contains("| noise | autoencoder | 1.000 ["), "{}", table.markdown());
        assert!(table.markdown().contains("| ConstantGray \\* | 3 | 0.532 | – |"), "{}", table.markdown());

        let table = Table { rows: vec![row("odd|pipe <b>", false)], ..table };
        for line in ["| odd\\|pipe &lt;b> | 3 | 0.532 | – |", "| odd\\|pipe &lt;b> | autoencoder | 1.000 ["] {
            assert!(table.markdown().contains(line), "{}", table.markdown());
        }
        for text in [table.terminal(), table.figures_terminal(), table.markdown()] {
            assert!(!text.contains("selection set"), "no row has the mark: {text}");
        }
    }

    #[test]
    fn windows_have_no_intervals_and_the_reason_is_said() {
        let set = |name: &str| ScoredSet {
            name: name.to_owned(),
            kind: OutlierKind::Given,
            selection: false,
            scores: vec![vec![0.3, 0.4]],
        };
        let evaluation = |are_windows| Evaluation {
            columns: vec![("nae", "NAE")],
            samples: "windows",
            are_windows,
            normal: vec![vec![0.1, 0.35]],
            outliers: vec![set("faults")],
        };
        let table = Table::of(&evaluation(true));
        for text in [table.figures_terminal(), table.markdown()] {
            assert!(text.contains("No confidence intervals: windows") && text.contains("0.750"), "{text}");
            assert!(!text.contains("0.750 [") && !text.contains("95% confidence"), "{text}");
        }
        let json = serde_json::to_value(&table).expect("serializes");
        assert!(json["no_intervals"].as_str().expect("a sentence").contains("windows"), "{json}");
        assert_eq!(json["rows"][0]["figures"]["nae"]["auroc"], serde_json::json!({ "value": 0.75 }));
        let again: Table = serde_json::from_value(json).expect("reads");
        assert_eq!(again.rows, table.rows);

        // Results of before, and of other data, have intervals.
        let table = Table::of(&evaluation(false));
        let json = serde_json::to_value(&table).expect("serializes");
        assert!(json.get("no_intervals").is_none() && json["rows"][0]["figures"]["nae"]["aupr"]["low"].is_number());
        let again: Table = serde_json::from_value(json).expect("reads");
        assert_eq!((again.rows, again.no_intervals), (table.rows, None));
    }
}
