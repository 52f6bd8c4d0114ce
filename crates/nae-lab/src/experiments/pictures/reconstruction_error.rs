//! Reconstruction error against D_z (paper, figure "Detecting hold-out digit 9 from the rest of MNIST"): with a large
//! latent space, plain autoencoders reconstruct the digit that they were not trained on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Made, PicturesError, cells};
use crate::experiments::Scale;
use crate::experiments::origin::Origin;
use nae_train::config::Config;
use nae_train::energy::mean;
use nae_train::engine::{Engine, EngineChoice};
use nae_train::eval::Scorer;
use nae_train::eval::auroc;
use nae_train::methods::Decision;
use nae_train::report::journal::{self, Journal};
use nae_train::report::page::curves::{Lines, draw};
use nae_train::run::{Prepared, RunError};

/// The percentiles at the ends of the paper's error bars, as fractions.
const PERCENTILES: [f64; 2] = [0.1, 0.9];

/// The file with one measured autoencoder per line.
const ROWS: &str = "rows.jsonl";

/// Trains an autoencoder for each D_z of the experiment `mnist-latent-dim`, on the data that `prepare` loads; `begin` is
/// called for each. Measured autoencoders are stored in the folder `path`, which must exist, and are not trained again
/// with the same settings, data, engine, device and program.
///
/// # Errors
/// [`PicturesError`]; [`PicturesError::Interrupted`] soon after `stop` is set.
pub fn reconstruction_error(
    scale: Scale,
    prepare: impl Fn(Config) -> Result<Prepared, RunError>,
    path: &Path,
    engine: EngineChoice,
    device: &Device,
    stop: &AtomicBool,
    mut begin: impl FnMut(usize),
) -> Result<Made, PicturesError> {
    let path = path.join(ROWS);
    let mut rows = Vec::new();
    for config in cells("mnist-latent-dim", scale)? {
        begin(config.architecture().latent_dim());
        let engine = engine.engine(config.architecture())?;
        let prepared = prepare(config)?;
        let digest = digest(&prepared, engine, device)?;
        let measured = match journal::read(&path, &digest)?.pop() {
            Some(row) => row,
            None => {
                let row = measure(&prepared, engine, device, stop)?;
                Journal::open(&path, digest)?.append(&row)?;
                row
            }
        };
        rows.push(measured);
    }
    rows.sort_by_key(|row| row.dim);
    let line = |name: &str, of: &dyn Fn(&Row) -> Option<f64>| {
        let points = rows.iter().map(|row| ((row.dim as f64).log2(), of(row).unwrap_or(f64::NAN)));
        (name.to_owned(), points.collect())
    };
    let charts = [
        Lines {
            title: "Reconstruction error, mean and 10th and 90th percentiles".to_owned(),
            x: "log2 of D_z",
            series: vec![
                line("normal", &|row| row.normal.mean),
                line("9, held out", &|row| row.outlier.mean),
                line("normal, 10%", &|row| row.normal.low),
                line("9, 10%", &|row| row.outlier.low),
                line("normal, 90%", &|row| row.normal.high),
                line("9, 90%", &|row| row.outlier.high),
            ],
            unit: false,
        },
        Lines {
            title: "AUROC, 9 against the rest".to_owned(),
            x: "log2 of D_z",
            series: vec![line("autoencoder", &|row| row.auroc)],
            unit: false,
        },
    ];
    let picture = draw(&charts, 2).map_err(PicturesError::Draw)?;
    let figures = rows.iter().map(|row| {
        json!({
            "latent_dim": row.dim, "auroc": row.auroc, "commit": row.origin.commit, "engine": row.origin.engine,
            "normal": [row.normal.low, row.normal.mean, row.normal.high],
            "held_out": [row.outlier.low, row.outlier.mean, row.outlier.high],
        })
    });
    Ok(Made {
        figures: json!({ "spread": "10th percentile, mean, 90th percentile", "rows": figures.collect::<Vec<_>>() }),
        pictures: vec![("errors.svg", picture.into_bytes())],
    })
}

/// Identifies what determines a row.
fn digest(prepared: &Prepared, engine: Engine, device: &Device) -> Result<String, PicturesError> {
    let config = toml::to_string(prepared.config.raw())?;
    let on = format!("{} {engine:?} {device:?}", prepared.seed);
    Ok(journal::digest([config.as_str(), &prepared.data_sha256, &on, env!("CARGO_PKG_VERSION")]))
}

/// Trains an autoencoder and measures its reconstruction errors.
fn measure(prepared: &Prepared, engine: Engine, device: &Device, stop: &AtomicBool) -> Result<Row, PicturesError> {
    let model = prepared.train_autoencoder(&prepared.config, engine, device, stop)?;
    if stop.load(Ordering::Relaxed) {
        return Err(PicturesError::Interrupted);
    }
    let (test, held_out) = (&prepared.split.test, &prepared.split.held_out);
    let scorer = Scorer::new(&model, Decision::Reconstruction, test.shape(), engine, device);
    let (normal, outlier) = (scorer.scores(test), scorer.scores(held_out));
    Ok(Row {
        dim: prepared.config.architecture().latent_dim(),
        auroc: auroc(&normal, &outlier),
        normal: Spread::of(normal),
        outlier: Spread::of(outlier),
        origin: Origin::here(Some(engine)),
    })
}

/// The errors of one autoencoder.
#[derive(Serialize, Deserialize)]
struct Row {
    dim: usize,
    auroc: Option<f64>,
    normal: Spread,
    outlier: Spread,
    #[serde(flatten)]
    origin: Origin,
}

/// `None` for errors that are not finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Spread {
    low: Option<f64>,
    mean: Option<f64>,
    high: Option<f64>,
}

impl Spread {
    fn of(mut energies: Vec<f32>) -> Self {
        energies.sort_by(f32::total_cmp);
        let at = |share: f64| {
            let last = energies.len().saturating_sub(1) as f64;
            energies.get((share * last).round() as usize).map(|&e| f64::from(e))
        };
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let mean = (!energies.is_empty()).then(|| mean(&energies));
        Self { low: finite(at(PERCENTILES[0])), mean: finite(mean), high: finite(at(PERCENTILES[1])) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_its_percentiles() {
        let spread = Spread::of((0..=100).rev().map(|v| v as f32).collect());
        assert_eq!((spread.low, spread.mean, spread.high), (Some(10.0), Some(50.0), Some(90.0)));
        assert_eq!(Spread::of(Vec::new()), Spread { low: None, mean: None, high: None });
        // As it is stored and read again.
        let diverged = Spread::of(vec![1.0, f32::INFINITY, f32::NAN]);
        assert_eq!(diverged, Spread { low: Some(1.0), mean: None, high: None });
        let text = serde_json::to_string(&diverged).expect("JSON");
        assert_eq!(serde_json::from_str::<Spread>(&text).expect("reads"), diverged);
    }
}
