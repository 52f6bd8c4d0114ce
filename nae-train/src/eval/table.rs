//! The table every run ends with: the plain autoencoder before NAE training beside the NAE after.

use burn::tensor::Device;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment};
use rand::Rng;
use serde::Serialize;

use super::metrics::auroc;
use super::scoring::{energies, mean};
use crate::arch::Autoencoder;
use crate::data::{ImageSet, Split, outliers};

/// Synthetic images in each drawn outlier set.
const SYNTHETIC_IMAGES: usize = 300;

/// A set of outliers.
#[derive(Clone, Debug)]
pub struct OutlierSet {
    /// Its name, as printed.
    pub name: String,
    /// The images.
    pub images: ImageSet,
    /// Whether training was allowed to look at such images.
    pub selection: bool,
}

/// The outlier sets a run on `split` is evaluated against.
pub fn outlier_sets(split: &Split, held_out: u8, rng: &mut impl Rng) -> Vec<OutlierSet> {
    let shape = split.test.shape();
    let set = |name: &str, images, selection| OutlierSet { name: name.to_owned(), images, selection };
    vec![
        set(&format!("digit {held_out} (held out)"), split.held_out.clone(), false),
        set("half-digits", outliers::halves(&split.test), false),
        set("chimeras", outliers::chimeras(&split.test), false),
        set("uniform noise", outliers::noise(shape, SYNTHETIC_IMAGES, rng), false),
        set("ConstantGray", outliers::constant_gray(shape, SYNTHETIC_IMAGES, rng), true),
    ]
}

/// AUROC of one outlier set under both models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The set.
    pub outliers: String,
    /// Its number of images.
    pub count: usize,
    /// Whether training was allowed to look at such images.
    pub selection: bool,
    /// AUROC of the plain autoencoder; `None` where the set is empty or an energy is NaN.
    pub autoencoder: Option<f64>,
    /// AUROC of the NAE.
    pub nae: Option<f64>,
}

/// All rows, and what they are measured against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Normal test images.
    pub normal_count: usize,
    /// Mean energy of the normal test images under the plain autoencoder.
    pub autoencoder_energy: f64,
    /// The same under the NAE.
    pub nae_energy: f64,
    /// One row an outlier set.
    pub rows: Vec<Row>,
}

impl Table {
    /// Scores `sets` with both models against the normal images `test`.
    pub fn measure(
        test: &ImageSet,
        sets: &[OutlierSet],
        autoencoder: &Autoencoder,
        nae: &Autoencoder,
        device: &Device,
    ) -> Self {
        let normal = [autoencoder, nae].map(|model| energies(model, test, device));
        let rows = sets
            .iter()
            .map(|set| Row {
                outliers: set.name.clone(),
                count: set.images.len(),
                selection: set.selection,
                autoencoder: auroc(&normal[0], &energies(autoencoder, &set.images, device)),
                nae: auroc(&normal[1], &energies(nae, &set.images, device)),
            })
            .collect();
        Self { normal_count: test.len(), autoencoder_energy: mean(&normal[0]), nae_energy: mean(&normal[1]), rows }
    }

    /// The cells, header first.
    fn cells(&self) -> Vec<[String; 4]> {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
        let header = ["outliers", "images", "autoencoder", "NAE"].map(str::to_owned);
        let rows = self.rows.iter().map(|row| {
            let mark = if row.selection { " *" } else { "" };
            [format!("{}{mark}", row.outliers), row.count.to_string(), number(row.autoencoder), number(row.nae)]
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
        format!("AUROC against {} normal test images\n{table}\n{FOOTNOTE}", self.normal_count)
    }

    /// The table for a Markdown document.
    pub fn markdown(&self) -> String {
        let mut text = format!("AUROC against {} normal test images:\n\n", self.normal_count);
        for (index, row) in self.cells().into_iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | ").replace('*', "\\*"));
            if index == 0 {
                text += "|---|---:|---:|---:|\n";
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
            autoencoder: Some(0.5321),
            nae: None,
        };
        let table = Table {
            normal_count: 7,
            autoencoder_energy: 0.1,
            nae_energy: 0.2,
            rows: vec![row("noise", false), row("ConstantGray", true)],
        };
        for text in [table.terminal(), table.markdown()] {
            assert!(text.contains("0.532") && text.contains('–') && text.contains("7 normal"), "{text}");
        }
        assert!(table.markdown().contains("| ConstantGray \\* | 3 | 0.532 | – |"), "{}", table.markdown());
    }
}
