//! The table every run ends with: one row an outlier set, one column a model and its decision function.

use std::collections::BTreeMap;

use burn::tensor::Device;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment};
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::metrics::auroc;
use super::scoring::{mean, scores};
use crate::config::Config;
use crate::data::{ImageSet, Source, Split, outliers};
use crate::methods::{Decision, Model};

/// Synthetic images in each drawn outlier set.
const SYNTHETIC_IMAGES: usize = 300;

/// A set of outliers.
#[derive(Clone, Debug)]
pub struct OutlierSet {
    /// Its name, as printed.
    pub name: String,
    /// The images.
    pub images: ImageSet,
    /// What they are.
    pub kind: OutlierKind,
}

/// Where outliers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlierKind {
    /// Given by whoever trains.
    Given,
    /// The class kept out of training.
    HeldOut,
    /// Halves of normal images.
    Halves,
    /// Two normal images each.
    Chimeras,
    /// Rows of a table, each cell from another row.
    Shuffled,
    /// Uniform noise.
    Noise,
    /// Of one grey each: the selection set, the only one that training may look at.
    ConstantGray,
}

/// The outlier sets a run on `split` is evaluated against: the class kept out of training, if any; synthetic ones.
/// There are no chimeras of images of one class; tables have shuffled rows.
pub fn outlier_sets(split: &Split, config: &Config, rng: &mut impl Rng) -> Vec<OutlierSet> {
    let (shape, source) = (split.test.shape(), config.source());
    let mut sets = Vec::new();
    let mut add = |kind, name: &str, images| sets.push(OutlierSet { name: name.to_owned(), images, kind });
    if let Some(class) = config.held_out() {
        add(OutlierKind::HeldOut, &format!("{} {class} (held out)", source.class()), split.held_out.clone());
    }
    add(OutlierKind::Halves, &format!("half-{}", source.class_plural()), outliers::halves(&split.test));
    let chimeras = outliers::chimeras(&split.test, source.chimera_gap());
    if !chimeras.is_empty() {
        add(OutlierKind::Chimeras, "chimeras", chimeras);
    }
    if matches!(source, Source::Table(_)) {
        add(OutlierKind::Shuffled, "shuffled rows", outliers::shuffled(&split.test, rng));
    }
    add(OutlierKind::Noise, "uniform noise", outliers::noise(shape, SYNTHETIC_IMAGES, rng));
    add(OutlierKind::ConstantGray, "ConstantGray", outliers::constant_gray(shape, SYNTHETIC_IMAGES, rng));
    sets
}

/// A model, judged by one of its decision functions.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    /// Its key in JSON.
    pub key: &'static str,
    /// Its title in a table.
    pub title: &'static str,
    /// The model.
    pub model: &'a dyn Model,
    /// How it is judged.
    pub decision: Decision,
}

/// One outlier set under all columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The set.
    pub outliers: String,
    /// Its number of images.
    pub count: usize,
    /// Whether training was allowed to look at such images.
    pub selection: bool,
    /// Whether they were given by whoever trains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,
    /// AUROC by the column's key; `None` where the set is empty or a score is NaN.
    #[serde(flatten)]
    pub auroc: BTreeMap<String, Option<f64>>,
}

/// All rows, and what they are measured against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Key and title of each column, in order; not in JSON.
    #[serde(skip)]
    pub columns: Vec<(&'static str, &'static str)>,
    /// What the samples are called, several of them; not in JSON.
    #[serde(skip)]
    pub samples: &'static str,
    /// Normal test images.
    pub normal_count: usize,
    /// Mean score of the normal test images, by the column's key followed by `_energy`.
    #[serde(flatten)]
    pub normal_energy: BTreeMap<String, f64>,
    /// One row an outlier set.
    pub rows: Vec<Row>,
}

impl Table {
    /// Scores `sets` in every column against the normal images `test`, which are called `samples`.
    pub fn measure(
        samples: &'static str,
        test: &ImageSet,
        sets: &[OutlierSet],
        columns: &[Column<'_>],
        device: &Device,
    ) -> Self {
        let score = |column: &Column<'_>, images: &ImageSet| scores(column.model, column.decision, images, device);
        let normal: Vec<Vec<f32>> = columns.iter().map(|column| score(column, test)).collect();
        let rows = sets
            .iter()
            .map(|set| Row {
                outliers: set.name.clone(),
                count: set.images.len(),
                selection: set.kind == OutlierKind::ConstantGray,
                given: set.kind == OutlierKind::Given,
                auroc: columns
                    .iter()
                    .zip(&normal)
                    .map(|(column, normal)| (column.key.to_owned(), auroc(normal, &score(column, &set.images))))
                    .collect(),
            })
            .collect();
        let named = columns.iter().zip(&normal).map(|(c, normal)| (format!("{}_energy", c.key), mean(normal)));
        Self {
            columns: columns.iter().map(|column| (column.key, column.title)).collect(),
            samples,
            normal_count: test.len(),
            normal_energy: named.collect(),
            rows,
        }
    }

    /// The cells, header first.
    fn cells(&self) -> Vec<Vec<String>> {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
        let titles = self.columns.iter().map(|(_, title)| (*title).to_owned());
        let header = ["outliers", self.samples].map(str::to_owned).into_iter().chain(titles).collect();
        let rows = self.rows.iter().map(|row| {
            let mark = if row.selection { " *" } else { "" };
            let start = [format!("{}{mark}", row.outliers), row.count.to_string()];
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
        format!("AUROC against {} normal test {}\n{table}\n{FOOTNOTE}", self.normal_count, self.samples)
    }

    /// The table for a Markdown document.
    pub fn markdown(&self) -> String {
        let mut text = format!("AUROC against {} normal test {}:\n\n", self.normal_count, self.samples);
        for (index, row) in self.cells().into_iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | ").replace('*', "\\*"));
            if index == 0 {
                text += &format!("|---|---:|{}\n", "---:|".repeat(self.columns.len()));
            }
        }
        format!("{text}\n{}\n", FOOTNOTE.replace('*', "\\*"))
    }
}

const FOOTNOTE: &str = "* selection set: training may look at it, and at no other outlier";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_every_figure() {
        let row = |outliers: &str, selection| Row {
            outliers: outliers.to_owned(),
            count: 3,
            selection,
            given: false,
            auroc: [("autoencoder".to_owned(), Some(0.5321)), ("nae".to_owned(), None)].into(),
        };
        let table = Table {
            columns: vec![("autoencoder", "autoencoder"), ("nae", "NAE")],
            samples: "images",
            normal_count: 7,
            normal_energy: [("autoencoder_energy".to_owned(), 0.1), ("nae_energy".to_owned(), 0.2)].into(),
            rows: vec![row("noise", false), row("ConstantGray", true)],
        };
        let json = serde_json::to_value(&table).expect("serialises");
        assert_eq!(json["nae_energy"], 0.2);
        assert_eq!(json["rows"][0]["autoencoder"], 0.5321);
        for text in [table.terminal(), table.markdown()] {
            assert!(text.contains("0.532") && text.contains('–') && text.contains("7 normal"), "{text}");
        }
        assert!(table.markdown().contains("| ConstantGray \\* | 3 | 0.532 | – |"), "{}", table.markdown());
    }
}
