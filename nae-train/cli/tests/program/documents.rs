//! The paper's values of table 1 as REPRODUCTION.md and models/results/README.md quote them, beside those of the
//! experiments, which the program prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nae_lab::experiments::Scale;
use nae_lab::experiments::detection::{Cell, DetectionSettings, EXPERIMENTS, Published};

/// The paper's values of an experiment's cells for the digit that is held out, by column of the table.
fn published(experiment: &str) -> BTreeMap<String, BTreeMap<String, Published>> {
    let known = EXPERIMENTS.iter().find(|known| known.name == experiment).unwrap();
    let settings = DetectionSettings::parse(known.text, known.name, Scale::Paper, false).unwrap();
    let of_digit = |cell: &Cell| {
        let digit = cell.config.held_out().unwrap();
        (cell.name.clone(), cell.paper[&format!("digit {digit} (held out)")].clone())
    };
    settings.cells.iter().map(of_digit).collect()
}

fn document(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The cells of the rows of all tables in `text`.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The part of `text` from the line that begins with `from` to the next that begins with `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let after = text.find(&format!("\n{from}")).map(|at| &text[at + 1..]).unwrap();
    &after[..after.find(&format!("\n{to}")).unwrap()]
}

#[test]
fn table_1_quotes_the_papers_values() {
    let text = document("REPRODUCTION.md");
    let paper = published("mnist-holdout");
    let mut found = 0;
    for row in rows(between(&text, "## Table 1", "The other rows")) {
        let Ok(digit) = row[0].trim_end_matches(" †").parse::<u8>() else { continue };
        let values = &paper[&format!("digit-{digit}")];
        let quoted = |value: Published| match value {
            Published::Value(value) => format!("{value:.3}"),
            Published::Estimate([mean, error]) => format!("{mean:.3} ± {error:.3}"),
        };
        assert_eq!([row[1], row[3]], [quoted(values["autoencoder"]), quoted(values["nae"])], "digit {digit}");
        found += 1;
    }
    assert_eq!(found, 10);
}

/// The rows of table 1 in REPRODUCTION.md, the cells of the experiment that they are of, and the columns they quote.
const METHODS: [(&str, &[(&str, &str)]); 10] = [
    ("NAE-CD", &[("nae-cd", "nae")]),
    ("NAE-PCD", &[("nae-pcd", "nae")]),
    ("DAE", &[("dae", "dae")]),
    ("VAE(R), VAE(L)", &[("vae", "vae_reconstruction"), ("vae", "vae_likelihood")]),
    ("WAE", &[("wae", "wae")]),
    ("Glow, PixelCNN++", &[("glow", "glow"), ("pixelcnn", "pixelcnn")]),
    ("IGEBM", &[("igebm", "igebm")]),
    ("DAGMM", &[("dagmm", "dagmm")]),
    ("VQ-VAE", &[("vqvae", "vqvae")]),
    ("GANomaly", &[("ganomaly", "ganomaly")]),
];

#[test]
fn the_other_rows_of_table_1_quote_the_papers_values() {
    let text = document("REPRODUCTION.md");
    let paper = published("mnist-methods");
    let table = between(&text, "The other rows", "MPDR,");
    for (name, columns) in METHODS {
        let row = rows(table).find(|row| row[0] == name).unwrap_or_else(|| panic!("no row {name}"));
        for ((method, column), quoted) in columns.iter().zip(row[1].split(", ")) {
            let ten = (0..10).map(|digit| paper[&format!("{method}-{digit}")][*column].mean());
            // The paper rounds the average, and the values that it is made of.
            assert!((ten.sum::<f64>() / 10.0 - format!("0{quoted}").parse::<f64>().unwrap()).abs() < 0.0011, "{name}");
        }
        for digit in ["1", "9"] {
            // "the 9 .745, .545 (.721, .614)": ours, and the paper's in brackets.
            let ours =
                row[2].split(&format!("the {digit} ")).nth(1).unwrap_or_else(|| panic!("{name}: no digit {digit}"));
            let brackets = &ours[ours.find('(').unwrap() + 1..ours.find(')').unwrap()];
            let quoted = brackets.trim_start_matches("paper ").split(", ");
            for ((method, column), quoted) in columns.iter().zip(quoted) {
                let value = paper[&format!("{method}-{digit}")][*column].mean();
                assert_eq!(format!("0{quoted}"), format!("{value:.3}"), "{name}, digit {digit}");
            }
        }
    }
}

#[test]
fn the_tables_of_results_by_the_other_methods_quote_the_papers_values() {
    let named: [(&str, &str, &str); 12] = [
        ("DAE", "dae", "dae"),
        ("VAE, by reconstruction", "vae", "vae_reconstruction"),
        ("VAE, by likelihood", "vae", "vae_likelihood"),
        ("WAE", "wae", "wae"),
        ("VQ-VAE", "vqvae", "vqvae"),
        ("DAGMM", "dagmm", "dagmm"),
        ("NAE by CD", "nae-cd", "nae"),
        ("NAE by PCD", "nae-pcd", "nae"),
        ("Glow", "glow", "glow"),
        ("GANomaly", "ganomaly", "ganomaly"),
        ("IGEBM", "igebm", "igebm"),
        ("PixelCNN++", "pixelcnn", "pixelcnn"),
    ];
    let text = document("models/results/README.md");
    let paper = published("mnist-methods");
    let section = between(&text, "## MNIST, one digit held out, by the other methods", "## ");
    let mut found = 0;
    for row in rows(section).filter(|row| row[1].parse::<u8>().is_ok()) {
        let size = ["Glow", "GANomaly", "IGEBM", "PixelCNN++"].into_iter().find(|name| row[0].starts_with(name));
        let (_, method, column) = named.iter().find(|(name, ..)| *name == size.unwrap_or(row[0])).unwrap();
        let value = paper[&format!("{method}-{}", row[1])][*column].mean();
        assert_eq!(row[2], format!("{value:.3}"), "{}, digit {}", row[0], row[1]);
        found += 1;
    }
    assert_eq!(found, 2 * named.len());
}
